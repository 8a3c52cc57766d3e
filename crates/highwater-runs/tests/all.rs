//! Tests of workloads that run on a simulated or native kernel, in one program. It links the kernel
//! that the library compiled; unit tests would compile all of it again.
//!
//! ```text
//! cargo test -p highwater-runs --test all               # all of them
//! cargo test -p highwater-runs --test all stutterp::    # those of stutterp.rs
//! ```

mod highalloc;
mod ledger;
mod pagealloc;
mod registry;
mod start;
mod stutter;
mod stutterp;
mod unmap;
