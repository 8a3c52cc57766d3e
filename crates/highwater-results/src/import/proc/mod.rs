//! The texts that Linux prints under `/proc` about its memory (rules/kmem-traces#proc-texts).
//!
//! [`Zoneinfo`], [`Buddyinfo`], [`PageTypeInfo`] and [`Vmstat`] each have `parse(name, text)` and `read(path)`. They
//! keep what the file says in plain structs, in the order of the file, with zones by node number and name. Lines that
//! a newer or older kernel adds are kept as named numbers where the format has named numbers, and rejected elsewhere.

mod buddyinfo;
mod pagetypeinfo;
mod text;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::{Buddyinfo, BuddyinfoZone};
pub use pagetypeinfo::{BlockCount, PageTypeInfo, PageblockCounts, TypeFreeBlocks};
pub use vmstat::Vmstat;
pub use zoneinfo::{Zoneinfo, ZoneinfoPageset, ZoneinfoZone};

/// Block orders that the texts list: 0 to 10 (rules/kmem-traces#buddyinfo).
pub const NR_ORDERS: usize = 11;

/// Zones that a machine can have: five on each of 1024 nodes. Bounds the search for a zone that is given twice.
const ZONES_MAX: usize = 5 * 1024;
/// CPUs that a machine can have.
const CPU_LIMIT: u32 = 8192;
