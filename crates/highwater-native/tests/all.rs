//! All tests of the native host in one program, except those under loom: they link once and run in
//! parallel.
//!
//! ```text
//! cargo test -p highwater-native --test all             # all of them
//! cargo test -p highwater-native --test all unmap::     # those of unmap.rs
//! cargo test -p highwater-native --features bench --test all bench::
//! HIGHWATER_STRESS_SECONDS=60 cargo test --release -p highwater-native --test all
//! ```

#![cfg(not(loom))]

#[cfg(feature = "bench")]
mod bench;
mod conformance;
mod huge;
mod lru;
mod moving;
mod page_cache;
mod stress;
mod unmap;

use std::time::Duration;

/// Time for which threads hammer in each case: `HIGHWATER_STRESS_SECONDS`, or half a second. The
/// gate (`.ci/full`) takes longer.
fn case_time() -> Duration {
    let seconds = std::env::var("HIGHWATER_STRESS_SECONDS").ok();
    Duration::from_secs_f64(seconds.map_or(0.5, |text| text.parse().expect("a number of seconds")))
}
