//! Texts of Linux's memory under `/proc` (rules/kmem-traces#proc-texts).
//!
//! [`Zoneinfo`], [`Buddyinfo`], [`PageTypeInfo`] and [`Vmstat`] each have `parse(name, text)` and
//! `read(path)`. They keep the contents of the file in plain structs, in the order of the file,
//! with zones by node number and name. If a newer or older kernel adds lines, they are kept as
//! named numbers where the format has named numbers, and rejected elsewhere. One function reads the
//! line that begins a zone's block or row, `text::zone_line`.
//!
//! | dialect | read as |
//! |---|---|
//! | counters in the zone's lines (before 4.8) or the node's | named numbers of the zone, of the node |
//! | no `managed` (before 3.9) | equal to present, which excludes the page structs; present is raised to the free pages if these are more |
//! | `zone Normal` without `Node N,` | node 0 |
//! | a number without a name (RHEL 8 hides a counter this way) | skipped |
//! | 7 to 32 orders | accepted if each row has the same number |
//! | `$ cat /proc/zoneinfo`, `# remark`, `me@host:~$` | skipped ([`passed_over`]) |
//! | `> ` before lines, as in quoted mails | removed |
//! | several texts in one, as of `cat /proc/buddyinfo /proc/zoneinfo` | split by [`Parts`] |

mod buddyinfo;
mod kernel_zones;
mod pagetypeinfo;
mod parts;
mod text;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::{Buddyinfo, BuddyinfoZone};
pub use kernel_zones::KernelZones;
pub use pagetypeinfo::{BlockCount, PageTypeInfo, PageblockCounts, TypeFreeBlocks};
pub(super) use parts::unnamed;
pub use parts::{Foreign, Part, Parts};
pub use text::passed_over;
pub(super) use text::unquoted;
pub use vmstat::Vmstat;
pub use zoneinfo::{Zoneinfo, ZoneinfoPageset, ZoneinfoZone};

/// Number of block orders in the texts of a default kernel: 0 to 10 (rules/kmem-traces#buddyinfo).
pub const NR_ORDERS: usize = 11;
/// Fewest and most orders of a row: kernels with pages of 64 KiB have 9 or 14, and some boards up
/// to 21.
const NR_ORDERS_MIN: usize = 7;
const NR_ORDERS_MAX: usize = 32;

/// Converts free blocks by order to `N` orders; larger blocks are split into blocks of the largest
/// order. Also returns the number of pages in the split blocks.
pub fn in_orders<const N: usize>(nr_free: &[u64]) -> ([u64; N], u64) {
    let mut blocks = [0; N];
    let mut taken_apart = 0u64;
    for (order, &nr) in nr_free.iter().enumerate() {
        match blocks.get_mut(order) {
            Some(slot) => *slot = nr,
            None => {
                let most = N - 1;
                let pieces = nr.saturating_mul(1 << (order - most).min(63));
                blocks[most] = blocks[most].saturating_add(pieces);
                taken_apart = taken_apart.saturating_add(pieces.saturating_mul(1 << most));
            }
        }
    }
    (blocks, taken_apart)
}

/// Most zones of a machine: five on each of 1024 nodes. Bounds the search for a zone that is given
/// twice.
const ZONES_MAX: usize = 5 * 1024;
/// Most CPUs of a machine.
const CPU_LIMIT: u32 = 8192;
