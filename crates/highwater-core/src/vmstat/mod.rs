//! Counters: zone and node statistics with per-CPU differences, and events.
//!
//! [`StatSet`] is a counter array with per-CPU differences and drift
//! (rules/zone-counters#differences); [`EventSet`] holds the plain per-CPU event counts. Names are
//! those of `/proc/vmstat`.

mod counters;
mod events;
mod groups;
mod items;

pub use counters::StatSet;
pub use events::EventSet;
pub(crate) use groups::{Counters, FLUSH_PERIOD, Over, Reader, Shown, UNLIMITED, USER_LEVELS};
pub use groups::{GroupStat, GroupStats};
pub use items::{NodeStat, NumaStat, VmEvent, ZoneStat, meaning, names, since};

/// The meaning of a counter's number, as this crate keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A total since boot, which only grows.
    Total(Unit),
    /// The amount at a time.
    Level(Unit),
}

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Pages. Huge pages count with all pages that they consist of.
    Pages,
    /// KiB.
    Kibibytes,
    /// How often something happened.
    Events,
    /// Objects of a slab cache.
    Objects,
}
