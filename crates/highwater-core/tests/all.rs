//! All tests of the core's public interface in one program: what they instantiate is compiled once.
//!
//! ```text
//! cargo test -p highwater-core --test all             # all of them
//! cargo test -p highwater-core --test all vectors::   # the numbers of the rules
//! ```

mod common;
mod embed;
mod models;
mod policy;
mod proc;
mod vectors;
