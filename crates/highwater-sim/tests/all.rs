//! All tests of the simulator in one program: they link once and run in parallel.
//!
//! ```text
//! cargo test -p highwater-sim --test all             # all of them
//! cargo test -p highwater-sim --test all engine::    # those of engine.rs
//! cargo test -p highwater-sim --features testing --test all swarm::
//! ```

mod algorithms;
mod audit;
mod costs;
mod devices;
mod engine;
mod faults;
mod host;
mod kernel;
mod ledger;
mod lock;
mod nodes;
mod page_cache;
mod reclaim;
mod scheduler;
mod sleeping_locks;
mod stuck;
mod survive;
#[cfg(feature = "testing")]
mod swarm;
mod sweeps;
mod throttle;
mod unmap;
mod writeback;
