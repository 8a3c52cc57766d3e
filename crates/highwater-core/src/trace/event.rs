//! The events and their kernel text.

use core::fmt;

use super::VmscanEvent;
use crate::page::{MigrateType, Order, Pfn};
use crate::units::Gfp;

/// A tracepoint, kmem or vmscan. `pfn: None` is the kernel's pfn −1 (no page).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// End of an allocation, successful or not.
    PageAlloc {
        /// First frame, none if the request failed.
        pfn: Option<Pfn>,
        /// Order asked for.
        order: Order,
        /// Request flags.
        gfp: Gfp,
        /// Migratetype asked for.
        migratetype: MigrateType,
    },
    /// A block is freed, before it reaches any list.
    PageFree {
        /// First frame.
        pfn: Pfn,
        /// Order.
        order: Order,
    },
    /// A page of a list free (additionally).
    PageFreeBatched {
        /// The frame.
        pfn: Pfn,
    },
    /// A block leaves the buddy lists, zone lock held.
    PageAllocZoneLocked {
        /// First frame.
        pfn: Pfn,
        /// Order.
        order: Order,
        /// List type.
        migratetype: MigrateType,
        /// The block goes to a per-CPU list.
        percpu_refill: bool,
    },
    /// A block leaves a per-CPU list for the buddy lists.
    PagePcpuDrain {
        /// First frame.
        pfn: Pfn,
        /// Order.
        order: Order,
        /// Type it is freed to.
        migratetype: MigrateType,
    },
    /// A request was served from another type's blocks.
    PageAllocExtfrag {
        /// First frame of the block taken.
        pfn: Pfn,
        /// Order asked for.
        alloc_order: Order,
        /// Order of the block taken.
        fallback_order: Order,
        /// Type asked for.
        alloc_migratetype: MigrateType,
        /// Type the block came from.
        fallback_migratetype: MigrateType,
        /// The pageblock has the requested type now.
        change_ownership: bool,
    },
    /// A tracepoint of reclaim.
    Vmscan(VmscanEvent),
}

impl Event {
    /// The tracepoint's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Event::PageAlloc { .. } => "mm_page_alloc",
            Event::PageFree { .. } => "mm_page_free",
            Event::PageFreeBatched { .. } => "mm_page_free_batched",
            Event::PageAllocZoneLocked { .. } => "mm_page_alloc_zone_locked",
            Event::PagePcpuDrain { .. } => "mm_page_pcpu_drain",
            Event::PageAllocExtfrag { .. } => "mm_page_alloc_extfrag",
            Event::Vmscan(event) => event.name(),
        }
    }

    /// The event as three words, for digests.
    pub fn words(&self) -> [u64; 3] {
        let pack = |tag: u64, a: u8, b: u8, c: u8, d: u8| {
            tag | u64::from(a) << 8 | u64::from(b) << 16 | u64::from(c) << 24 | u64::from(d) << 32
        };
        match *self {
            Event::PageAlloc { pfn, order, gfp, migratetype } => [
                pack(1, order.0, migratetype as u8, 0, 0),
                pfn.map_or(u64::MAX, Pfn::get),
                u64::from(gfp.bits()),
            ],
            Event::PageFree { pfn, order } => [pack(2, order.0, 0, 0, 0), pfn.get(), 0],
            Event::PageFreeBatched { pfn } => [3, pfn.get(), 0],
            Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill } => {
                [pack(4, order.0, migratetype as u8, percpu_refill.into(), 0), pfn.get(), 0]
            }
            Event::PagePcpuDrain { pfn, order, migratetype } => {
                [pack(5, order.0, migratetype as u8, 0, 0), pfn.get(), 0]
            }
            Event::PageAllocExtfrag {
                pfn,
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
            } => [
                pack(
                    6,
                    alloc_order.0,
                    fallback_order.0,
                    alloc_migratetype as u8,
                    fallback_migratetype as u8,
                ),
                pfn.get(),
                u64::from(change_ownership),
            ],
            Event::Vmscan(event) => event.words(),
        }
    }
}

impl fmt::Display for Event {
    /// The kernel's text after the tracepoint name (without the `page=` address, which is not
    /// reproducible).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match *self {
            Event::PageAlloc { pfn, order, gfp, migratetype } => {
                match pfn {
                    Some(pfn) => write!(f, "pfn={:#x} ", pfn.0)?,
                    None => write!(f, "pfn=0xffffffffffffffff ")?,
                }
                write!(f, "order={} migratetype={} gfp_flags={gfp}", order.0, migratetype as u8)
            }
            Event::PageFree { pfn, order } => write!(f, "pfn={:#x} order={}", pfn.0, order.0),
            Event::PageFreeBatched { pfn } => write!(f, "pfn={:#x} order=0", pfn.0),
            Event::PageAllocZoneLocked { pfn, order, migratetype, percpu_refill } => write!(
                f,
                "pfn={:#x} order={} migratetype={} percpu_refill={}",
                pfn.0, order.0, migratetype as u8, percpu_refill as u8
            ),
            Event::PagePcpuDrain { pfn, order, migratetype } => {
                write!(f, "pfn={:#x} order={} migratetype={}", pfn.0, order.0, migratetype as u8)
            }
            Event::PageAllocExtfrag {
                pfn,
                alloc_order,
                fallback_order,
                alloc_migratetype,
                fallback_migratetype,
                change_ownership,
            } => write!(
                f,
                "pfn={:#x} alloc_order={} fallback_order={} pageblock_order=9 \
                 alloc_migratetype={} fallback_migratetype={} fragmenting={} change_ownership={}",
                pfn.0,
                alloc_order.0,
                fallback_order.0,
                alloc_migratetype as u8,
                fallback_migratetype as u8,
                (fallback_order.0 < 9) as u8,
                change_ownership as u8
            ),
            Event::Vmscan(event) => event.fmt(f),
        }
    }
}
