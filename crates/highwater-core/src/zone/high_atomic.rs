//! Pages of the reserve for high-atomic requests, for watermark tests, which take no lock
//! (rules/buddy#highatomic-reserve, rules/watermarks#exact-test).
//!
//! Two counts change under the zone lock: the pages of reserved pageblocks, and the free ones on the
//! lists of high-atomic blocks. The policy says which of the two is taken off for other requests. A
//! third number is a copy of that one, so that a test reads one number.
//!
//! From: `page_alloc::{buddy, highatomic}` (changes) · `zone::info` (tests).

use super::ZoneInfo;
use crate::page::Order;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The counts.
#[derive(Default)]
pub(super) struct HighatomicPages {
    reserved: AtomicU64,
    free: AtomicU64,
    /// One of these two, which watermark tests take off for others.
    unusable: AtomicU64,
    /// It is the second one.
    free_is_unusable: AtomicBool,
}

impl ZoneInfo {
    /// Pages in high-atomic pageblocks.
    #[inline(always)]
    pub fn nr_reserved_highatomic(&self) -> u64 {
        self.highatomic.reserved.load(Relaxed)
    }

    pub(crate) fn set_reserved_highatomic(&self, pages: u64) {
        self.highatomic.reserved.store(pages, Relaxed);
        self.highatomic_changed();
    }

    /// Free pages on the lists of high-atomic blocks.
    pub fn nr_free_highatomic(&self) -> u64 {
        self.highatomic.free.load(Relaxed)
    }

    /// From now on watermark tests take off the free pages of high-atomic blocks, not their
    /// pageblocks.
    pub(crate) fn take_off_free_highatomic(&self) {
        self.highatomic.free_is_unusable.store(true, Relaxed);
        self.highatomic_changed();
    }

    /// Free pages that only high-atomic requests may have, as watermark tests count them.
    #[doc(alias = "__zone_watermark_unusable_free")]
    #[inline(always)]
    pub(super) fn nr_unusable(&self) -> u64 {
        self.highatomic.unusable.load(Relaxed)
    }

    fn highatomic_changed(&self) {
        let unusable = match self.highatomic.free_is_unusable.load(Relaxed) {
            true => self.nr_free_highatomic(),
            false => self.nr_reserved_highatomic(),
        };
        if unusable != self.nr_unusable() {
            self.highatomic.unusable.store(unusable, Relaxed);
            self.marks_changed();
        }
    }

    /// High-atomic blocks joined their list, or left it (zone lock held).
    #[cold]
    #[inline(never)]
    pub(super) fn note_highatomic(&self, order: Order, blocks: i32) {
        let pages = i64::from(blocks) << order.0;
        let free = self.nr_free_highatomic().wrapping_add_signed(pages);
        self.highatomic.free.store(free, Relaxed);
        self.highatomic_changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MinReserveRule, WatermarkTest};
    use crate::host::CpuId;
    use crate::page::{MigrateType, Pfn};
    use crate::zone::{AllocFlags, NodeId, ZoneType};

    /// Of 100 free pages 64 are on the lists of the reserve, and one of another pageblock is in it.
    #[test]
    fn a_test_takes_off_what_the_rule_says() {
        let (start, end) = (Pfn(4096), Pfn(8192));
        let zone = ZoneInfo::new(NodeId(0), ZoneType::Dma32, start, end, 4096, 1, true);
        zone.add_free(CpuId(0), 100);
        let passes = |flags| {
            let rule = (WatermarkTest::FreeBlock, MinReserveRule::NonBlocking);
            zone.watermark_ok(rule, Order::ZERO, 60, ZoneType::Dma32, flags, zone.nr_free_pages())
        };
        zone.set_reserved_highatomic(1);
        zone.note_list(Order(6), MigrateType::HighAtomic, false, 1);
        assert_eq!((zone.nr_reserved_highatomic(), zone.nr_free_highatomic()), (1, 64));
        assert!(passes(AllocFlags::empty()), "one page is reserved");
        zone.take_off_free_highatomic();
        assert!(!passes(AllocFlags::empty()) && passes(AllocFlags::HIGHATOMIC));
        zone.note_list(Order(6), MigrateType::HighAtomic, true, -1);
        assert!(passes(AllocFlags::empty()));
    }
}
