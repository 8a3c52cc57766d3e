//! Files that describe machines and policies, and how the program reads what people write.
//!
//! | module | holds |
//! |---|---|
//! | [`schema`] | parts of JSON Schemas that several formats share |
//! | [`input`] | catalogues of definitions, places in files, errors of one line, sizes, nearest names |
//! | [`machine_file`] | machines: shape, caches, costs, disks |
//! | [`policy_file`] | policies: a base and the switches that differ |
//!
//! The folders `experiments`, `machines`, `policies` and `workloads` are part of this crate:
//! [`input::catalogue`] has their texts.

// Lowest first: a module uses only those before it (tested by `crates/highwater/tests/house/floors.rs`). Blank lines
// keep rustfmt from sorting them.
pub mod schema;

pub mod input;

pub mod machine_file;

pub mod policy_file;

pub use input::InputError;
