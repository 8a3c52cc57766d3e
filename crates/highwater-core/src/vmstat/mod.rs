//! Counters: zone and node statistics with per-CPU differences, and events.
//!
//! [`StatSet`] is a counter array with per-CPU differences and drift
//! (rules/zone-counters#differences); [`EventSet`] holds the plain per-CPU event counts. Names are
//! those of `/proc/vmstat`.

mod counters;
mod events;
mod items;

pub use counters::StatSet;
pub use events::EventSet;
pub use items::{NodeStat, NumaStat, VmEvent, ZoneStat, names, since};
