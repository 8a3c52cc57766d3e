//! Starts from a given state instead of a fresh boot: blocks that are free, on per-CPU lists, and
//! in use.
//!
//! Trace replay starts here, because a captured machine has been running for a while. A fresh
//! machine has all its large blocks and unmixed types, so the captured machine's problems would not
//! occur. [`ZoneState`] has the known state of a zone. Everything else is in use as single pages
//! that are never freed; these keep free blocks from merging.
//!
//! | of a zone | comes from |
//! |---|---|
//! | span, marks, list sizes, how many frames are managed | boot; they are not touched |
//! | *which* frames are managed | the state: those that it names; the rest of the number from the top down |
//! | types of pageblocks | the state, for those it names; the others keep theirs |
//! | free blocks, per-CPU lists, blocks in use | the state |
//! | high-atomic reserve | counted anew from the types |
//! | free count | follows from the blocks; differences are folded, so it is exact |
//!
//! The whole state is checked before anything changes, so that it is never half applied. After the
//! check nothing can fail. The steps: take everything off the lists, as single pages in use; types;
//! blocks in use; per-CPU lists; free blocks last, because merges read their neighbours, which must
//! be final by then.
//!
//! To: [`super::buddy`], [`super::pcp`] (the lists filled here).
//!
//! Synchronisation: set-up only. Takes the per-CPU locks, then the zone lock, like a drain. Between
//! its steps frames are in no valid place, so no other task may use the zone meanwhile.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use super::PageAllocator;
use crate::host::{CpuId, Cx, Host, Lock};
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn};
use crate::zone::Zone;

/// A block that starts at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// First frame.
    pub pfn: Pfn,
    /// Size.
    pub order: Order,
}

/// The known state of a zone at the start. Blocks are aligned, lie in the zone and do not overlap.
#[derive(Clone, Debug, Default)]
pub struct ZoneState {
    /// Types of the pageblocks that hold these frames; the others keep theirs.
    pub pageblocks: Vec<(Pfn, MigrateType)>,
    /// Free blocks with the type of their list; of each list, the block handed out first comes
    /// first. Buddies among them merge, as always.
    pub free: Vec<(Block, MigrateType)>,
    /// Blocks on CPUs' lists; of each list, the block handed out first comes first.
    pub per_cpu: Vec<(CpuId, Block, MigrateType)>,
    /// Blocks in use that will be freed at this size.
    pub used: Vec<Block>,
}

/// Why a zone cannot be in such a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreError {
    /// The block in question.
    pub block: Block,
    /// The error.
    pub reason: &'static str,
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {:#x} of order {}: {}", self.block.pfn.0, self.block.order.0, self.reason)
    }
}

impl core::error::Error for RestoreError {}

impl<H: Host> PageAllocator<H> {
    /// Puts a zone into a state. `managed`, watermarks and list sizes stay as they are; which
    /// frames are managed may change: a frame that the state names is, and the lowest of the
    /// others give theirs up for it.
    ///
    /// # Errors
    /// If blocks are not aligned, leave the zone (pageblocks too), overlap, are more than the zone
    /// manages, or name lists that the policy does not have. The zone is unchanged then.
    pub fn restore(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        state: &ZoneState,
    ) -> Result<(), RestoreError> {
        self.check_state(zone, state)?;
        self.empty_zone(cx, zone);
        let mut named = vec![false; zone.spanned() as usize];
        let mut name = |block: Block| {
            let first = (block.pfn.0 - zone.start.0) as usize;
            named[first..first + block.order.pages() as usize].fill(true);
        };
        state.free.iter().for_each(|&(block, _)| name(block));
        state.per_cpu.iter().for_each(|&(_, block, _)| name(block));
        state.used.iter().for_each(|&block| name(block));
        self.choose_managed(zone, &named);
        for &(pfn, migratetype) in &state.pageblocks {
            zone.set_pageblock_type(pfn, migratetype);
        }
        self.recount_highatomic(zone);
        for &block in &state.used {
            self.mark_used(block);
        }
        for &(cpu, block, migratetype) in &state.per_cpu {
            self.place_on_cpu(cx, zone, cpu, block, grouped(zone, migratetype));
        }
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        for &(block, migratetype) in &state.free {
            self.clear_block(block);
            buddy.free_block(block.pfn, block.order, grouped(zone, migratetype), true);
        }
        drop(area);
        for cpu in self.cpus() {
            zone.stats.fold(cpu);
        }
        Ok(())
    }

    /// Splits a block in use into blocks in use of a smaller order, each to be freed by itself
    /// (`split_page`).
    ///
    /// In a trace, a block that was allocated in one piece may be freed in pieces, because some
    /// users in Linux split their blocks.
    ///
    /// # Errors
    /// If the frame does not start a block in use of at least that order.
    #[doc(alias = "split_page")]
    pub fn split_used(&self, cx: &Cx<'_, H>, pfn: Pfn, to: Order) -> Result<(), super::FreeError> {
        let page = self.map.get(pfn).ok_or(super::FreeError::NoSuchFrame)?;
        self.settle_put_down(cx, pfn);
        if !page.has(BlockFlags::USED) || page.refcount() == 0 || page.order() < to {
            return Err(super::FreeError::NotAllocated);
        }
        let (order, migratetype) = (page.order(), page.migratetype());
        self.forget_head(pfn);
        // The head keeps its users.
        page.set(BlockFlags::USED, to, migratetype);
        for piece in (0..order.pages()).step_by(to.pages() as usize).skip(1) {
            let page = self.map.page(pfn.add(piece as u32));
            page.set(BlockFlags::USED, to, migratetype);
            page.set_refcount(1);
        }
        Ok(())
    }

    /// May the zone be in this state? Overlaps are found by marking frames, since blocks come in no
    /// order.
    fn check_state(&self, zone: &Zone<H>, state: &ZoneState) -> Result<(), RestoreError> {
        let mut taken = vec![false; zone.spanned() as usize];
        let mut pages = 0;
        let mut check = |block: Block| {
            let fail = |reason| Err(RestoreError { block, reason });
            if block.order > Order::MAX || !block.pfn.is_aligned(block.order) {
                return fail("not aligned to its size");
            }
            let last = u64::from(block.pfn.0) + block.order.pages() - 1;
            if !zone.spans(block.pfn) || last >= u64::from(zone.end.0) {
                return fail("reaches out of the zone");
            }
            let first = (block.pfn.0 - zone.start.0) as usize;
            let frames = &mut taken[first..first + block.order.pages() as usize];
            if frames.contains(&true) {
                return fail("overlaps another block");
            }
            frames.fill(true);
            pages += block.order.pages();
            if pages > zone.managed() {
                return fail("more pages than the zone manages");
            }
            Ok(())
        };
        if let Some(&(pfn, _)) = state.pageblocks.iter().find(|(pfn, _)| !zone.spans(*pfn)) {
            let block = Block { pfn, order: Order(PAGEBLOCK_ORDER) };
            return Err(RestoreError { block, reason: "a pageblock of another zone" });
        }
        for &(block, _) in &state.free {
            check(block)?;
        }
        for &(cpu, block, migratetype) in &state.per_cpu {
            check(block)?;
            if cpu.idx() >= self.nr_cpus() {
                return Err(RestoreError { block, reason: "on a list of a CPU that is not there" });
            }
            if !self.pcp_shape.holds(block.order) || !migratetype.is_mergeable() {
                return Err(RestoreError { block, reason: "no per-CPU list holds such blocks" });
            }
        }
        state.used.iter().try_for_each(|&block| check(block))
    }

    /// Takes everything off the zone's lists; all frames are then single pages in use.
    fn empty_zone(&self, cx: &Cx<'_, H>, zone: &Zone<H>) {
        for cpu in self.cpus() {
            let mut pcp = zone.cpus[cpu.idx()].pcp.lock(cx.cpu());
            self.free_deferred(cx, zone, &mut pcp);
            for (index, list) in pcp.lists.iter_mut().enumerate() {
                while let Some(pfn) = list.pop_head() {
                    let order = self.pcp_shape.order(index);
                    self.mark_single(pfn, order.pages());
                }
            }
            while let Some((pfn, order)) = pcp.owned.pop(&self.map) {
                self.mark_single(pfn, order.pages());
            }
            pcp.count = 0;
            pcp.forget_use();
        }
        zone.disown_all();
        let mut area = zone.free.lock(cx.cpu());
        let mut buddy = self.buddy(cx, zone, &mut area);
        for order in 0..=Order::MAX.0 {
            for migratetype in MigrateType::ALL {
                let order = Order(order);
                while let Some(pfn) = buddy.area.lists[order.idx()][migratetype.idx()].head() {
                    buddy.unlink(pfn);
                    self.mark_single(pfn, order.pages());
                    zone.add_free(cx.cpu(), -(order.pages() as i64));
                }
            }
        }
        drop(area);
        for pfn in (zone.start.0..zone.end.0).map(Pfn) {
            self.forget_head(pfn);
            let page = self.map.page(pfn);
            if page.has(BlockFlags::USED) {
                self.mark_single(pfn, page.order().pages());
            }
        }
    }

    /// Makes exactly `managed` frames managed: the named ones, then others from the top down.
    ///
    /// Boot took the last frames of the span for the managed ones; a captured machine shows better.
    /// Their number must stay, since the marks were computed from it.
    fn choose_managed(&self, zone: &Zone<H>, named: &[bool]) {
        let nr_named = named.iter().filter(|&&n| n).count() as u64;
        let mut others = zone.managed() - nr_named;
        for (at, &is_named) in named.iter().enumerate().rev() {
            let pfn = zone.start.add(at as u32);
            let managed = is_named || others > 0;
            others -= u64::from(managed && !is_named);
            if managed {
                self.map.give(pfn, 1);
                self.mark_single(pfn, 1);
            } else {
                self.map.withhold(pfn);
            }
        }
    }

    /// Recounts the high-atomic reserve from the pageblocks' types.
    fn recount_highatomic(&self, zone: &Zone<H>) {
        if self.highatomic_on_demand() {
            let is_reserved = |pfn: &Pfn| zone.pageblock_type(*pfn) == MigrateType::HighAtomic;
            let blocks = zone.pageblock_samples().filter(is_reserved).count() as u64;
            zone.set_reserved_highatomic(blocks * PAGEBLOCK_PAGES);
        }
    }

    /// Marks frames as in use, each with a reference that is never dropped.
    fn mark_single(&self, first: Pfn, pages: u64) {
        for at in 0..pages as u32 {
            let page = self.map.page(first.add(at));
            page.set(BlockFlags::USED, Order::ZERO, MigrateType::Unmovable);
            page.set_refcount(1);
        }
    }

    fn clear_block(&self, block: Block) {
        for at in 0..block.order.pages() as u32 {
            let page = self.map.page(block.pfn.add(at));
            page.clear();
            page.set_refcount(0);
        }
    }

    fn mark_used(&self, block: Block) {
        self.clear_block(block);
        let page = self.map.page(block.pfn);
        page.set(BlockFlags::USED, block.order, MigrateType::Unmovable);
        page.set_refcount(1);
    }

    /// At the tail: a state names the block that is handed out first first.
    fn place_on_cpu(
        &self,
        cx: &Cx<'_, H>,
        zone: &Zone<H>,
        cpu: CpuId,
        block: Block,
        migratetype: MigrateType,
    ) {
        self.clear_block(block);
        self.map.page(block.pfn).set(BlockFlags::PCP, block.order, migratetype);
        let mut pcp = zone.cpus[cpu.idx()].pcp.lock(cx.cpu());
        let index = self.pcp_shape.index(block.order, migratetype);
        pcp.lists[index].push_tail(block.pfn);
        pcp.count += block.order.pages() as u32;
    }
}

/// Without grouping by mobility there is one type.
fn grouped<H: Host>(zone: &Zone<H>, migratetype: MigrateType) -> MigrateType {
    if zone.grouping { migratetype } else { MigrateType::Unmovable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Machine, preset};
    use crate::host::Solo;
    use crate::page_alloc::boot;
    use crate::page_alloc::{Gfp, NoRelief};
    use crate::zone::{NodeId, ZoneType};

    fn block(pfn: u32, order: u8) -> Block {
        Block { pfn: Pfn(pfn), order: Order(order) }
    }

    #[test]
    fn a_state_is_restored_as_described() {
        let host = Solo::default();
        let machine = Machine::from_sizes("m", &[(1 << 30, vec![0, 1])]).unwrap();
        let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let cx = Cx::new(&host, CpuId(1));
        let zone = memory.zone(NodeId(0), ZoneType::Dma32).unwrap();
        let managed = zone.managed();
        let free = (0..50).map(|i| (block(100_352 + i * 2048, 10), MigrateType::Unmovable));
        let state = ZoneState {
            pageblocks: vec![(Pfn(8192), MigrateType::Unmovable)],
            free: free.collect(),
            // Frame 4100 was the kernel's at boot.
            per_cpu: vec![
                (CpuId(1), block(4100, 2), MigrateType::Unmovable),
                (CpuId(1), block(8192, 2), MigrateType::Unmovable),
            ],
            used: vec![block(8208, 3)],
        };
        memory.restore(&cx, zone, &state).unwrap();
        assert_eq!(zone.nr_free_pages(), 50 * 1024);
        assert_eq!((zone.managed(), memory.pcp_count(zone, CpuId(1), CpuId(1))), (managed, 8));
        let reserved = (zone.start.0..zone.end.0)
            .filter(|&p| memory.map.block(Pfn(p)).is_reserved())
            .count() as u64;
        assert_eq!(zone.spanned() - reserved, managed);
        crate::audit::check(&memory, &cx).unwrap();
        let got = |n: u8| memory.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, Order(n), NodeId(0), None);
        assert_eq!((got(2), got(2)), (Some(Pfn(4100)), Some(Pfn(8192))));
        assert_eq!(got(10), Some(Pfn(100_352)));
        memory.free(&cx, Pfn(8208), Order(3)).unwrap();
        memory.split_used(&cx, Pfn(100_352), Order(0)).unwrap();
        memory.free(&cx, Pfn(100_353), Order(0)).unwrap();
        crate::audit::check(&memory, &cx).unwrap();
    }

    #[test]
    fn impossible_states_are_refused() {
        let host = Solo::default();
        let machine = Machine::from_sizes("m", &[(1 << 30, vec![0])]).unwrap();
        let memory = boot(&host, &machine, &preset("order0-pcp").unwrap()).unwrap();
        let cx = Cx::new(&host, CpuId(0));
        let zone = memory.zone(NodeId(0), ZoneType::Dma32).unwrap();
        let free = zone.nr_free_pages();
        let refused = |state: ZoneState| memory.restore(&cx, zone, &state).unwrap_err().reason;
        let used = |used| ZoneState { used, ..ZoneState::default() };
        assert_eq!(refused(used(vec![block(8193, 1)])), "not aligned to its size");
        assert_eq!(refused(used(vec![block(1, 0)])), "reaches out of the zone");
        assert_eq!(refused(used(vec![block(8192, 2), block(8194, 1)])), "overlaps another block");
        let per_cpu = vec![(CpuId(0), block(8192, 2), MigrateType::Movable)];
        let state = ZoneState { per_cpu, ..ZoneState::default() };
        assert_eq!(refused(state), "no per-CPU list holds such blocks");
        assert_eq!(zone.nr_free_pages(), free);
    }
}
