//! An allocation after a zone gave a block: it counts the NUMA event, wakes daemons, and prepares the
//! page.
//!
//! | step | function | why here |
//! |---|---|---|
//! | NUMA counts | [`PageAllocator::count_numa`] | the zone is known only now |
//! | daemons | [`PageAllocator::report_boost`] | what was noted under the zone lock, where none is woken |
//! | the page | [`PageAllocator::prepare_page`] | nothing of its former life stays |
//!
//! Synchronisation: none; the block belongs to the caller, and the counts are the CPU's.
//!
//! From: [`super::fast`], [`super::hot`], [`super::slow`] · to: [`Relief`].

use super::{AllocFlags, Gfp, PageAllocator, Relief};
use crate::config::BoostWake;
use crate::host::{CpuId, Cx, Host};
use crate::page::{BlockFlags, MigrateType, Order, Pfn};
use crate::vmstat::NumaStat;
use crate::zone::zonelist::ZoneRef;
use crate::zone::{Zone, ZoneFlags};

impl<H: Host> PageAllocator<H> {
    /// Counts an allocation as NUMA hit, miss, foreign, local or other
    /// (rules/zone-counters#numa-events).
    ///
    /// A miss where the page came from is foreign where it was wanted: both nodes show it.
    #[doc(alias = "zone_statistics")]
    pub(super) fn count_numa(&self, cpu: CpuId, zone: &Zone<H>, preferred: ZoneRef) {
        let mine = &zone.cpus[cpu.idx()];
        if zone.node == preferred.node {
            mine.count_hit();
        } else {
            mine.count(NumaStat::NumaMiss);
            self.zone_at(preferred).cpus[cpu.idx()].count(NumaStat::NumaForeign);
            mine.count(mine.origin());
        }
    }

    /// The first allocation after a boost wakes kswapd. The first one after a zone's last large
    /// block was split wakes kcompactd. Both are noted under the zone lock, where nothing is woken.
    #[inline(always)]
    pub(super) fn report_boost<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        zone: &Zone<H>,
        flags: impl FnOnce() -> AllocFlags,
    ) {
        if zone.has(ZoneFlags::BOOSTED_WATERMARK | ZoneFlags::BROKEN_UP) {
            self.tell_daemons(cx, relief, zone, flags());
        }
    }

    #[cold]
    fn tell_daemons<R: Relief<H>>(
        &self,
        cx: &Cx<'_, H>,
        relief: &R,
        zone: &Zone<H>,
        flags: AllocFlags,
    ) {
        let may_wake = self.policy.watermark.boost_wake == BoostWake::Any
            || flags.contains(AllocFlags::KSWAPD);
        if may_wake && zone.clear_flag(ZoneFlags::BOOSTED_WATERMARK) {
            relief.wake_kswapd(self, cx, zone.node, Gfp::empty(), Order::ZERO, zone.zone);
        }
        if zone.clear_flag(ZoneFlags::BROKEN_UP) {
            relief.prompt_kcompactd(self, cx, zone.node);
        }
    }

    /// Makes a block ready for its user (rules/allocation#prepare).
    #[doc(alias = "prep_new_page")]
    #[inline(always)]
    pub(super) fn prepare_page(
        &self,
        cx: &Cx<'_, H>,
        pfn: Pfn,
        order: Order,
        gfp: Gfp,
        migratetype: MigrateType,
        flags: AllocFlags,
    ) {
        let page = self.map.page(pfn);
        // The word is replaced: nothing of the page's former life stays. A page from the reserves says
        // so: network receive drops packets that lie on one unless they help to free memory.
        let mut word = BlockFlags::USED;
        if gfp.contains(Gfp::COMP) && order > Order::ZERO {
            word |= BlockFlags::HEAD;
        }
        if flags.contains(AllocFlags::NO_WATERMARKS) {
            word |= BlockFlags::PFMEMALLOC;
        }
        let state = page.block().with(word, order, migratetype);
        page.set_block(state);
        page.reset_usage();
        page.set_refcount(1);
        self.remember_head(pfn, order, state);
        if gfp.contains(Gfp::ZERO) {
            cx.host.frame_zero(pfn, order);
        }
    }
}
