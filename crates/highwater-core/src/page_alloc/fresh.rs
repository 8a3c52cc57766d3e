//! Fresh blocks on the free lists: how boot adds them, and how they are taken off
//! ([`crate::zone::FreshRun`]).
//!
//! For all other code a fresh block is an ordinary block. It is at the same place as if boot had
//! freed it by [`Buddy::free_block`], it is counted, and is found by frame
//! ([`crate::page::PageMap::block`]). The test at the end compares this with lists on which every
//! block is linked.

use super::buddy::Buddy;
use crate::host::{Cost, Probe};
use crate::page::map::CHUNK;
use crate::page::{MigrateType, Order, Pfn};
use crate::zone::FreshRun;

impl<P: Probe> Buddy<'_, P> {
    /// Frees untouched memory from a frame on, with the effect of freeing blocks of the largest
    /// order one by one to the list's tail. Only the first block is touched. Returns the number of
    /// freed frames; 0 if blocks must be freed one by one.
    pub(super) fn release_fresh(&mut self, first: Pfn, end: Pfn) -> u32 {
        let migratetype = self.zone.pageblock_type(first);
        if self.area.fresh.is_some() || migratetype == MigrateType::Isolate {
            return 0;
        }
        let is_alike = |pfn: &Pfn| {
            end.0 - pfn.0 >= CHUNK
                && self.map.is_untouched(*pfn)
                && self.zone.pageblock_type(*pfn) == migratetype
        };
        let chunks = (first.0..end.0).step_by(CHUNK as usize).map(Pfn);
        let mut nr = 0;
        for pfn in chunks.take_while(is_alike) {
            self.map.set_fresh(pfn, migratetype);
            nr += 1;
        }
        if nr == 0 {
            return 0;
        }
        self.probe.charge(Cost::BuddyFree, nr);
        self.zone.add_free(self.probe.cpu(), i64::from(nr * CHUNK));
        self.zone.note_freed();
        self.map.write_out(first);
        self.area.lists[Order::MAX.idx()][migratetype.idx()].push_tail(self.map, first);
        self.zone.note_list(Order::MAX, migratetype, false, nr as i32);
        let end = first.add(nr * CHUNK);
        self.area.fresh = Some(FreshRun { first, end, nr_left: nr - 1, migratetype });
        nr * CHUNK
    }

    /// Takes a fresh block out of the middle of the run.
    #[cold]
    pub(super) fn unlink_fresh(&mut self, pfn: Pfn) {
        debug_assert!(self.map.is_fresh(pfn), "{pfn:?} is on no list");
        let migratetype = self.map.block(pfn).migratetype();
        self.map.write_out(pfn);
        self.map.page(pfn).clear();
        if let Some(run) = &mut self.area.fresh {
            debug_assert_eq!(run.migratetype, migratetype);
            run.nr_left -= 1;
        }
        // The first one is still there.
        self.zone.note_list(Order::MAX, migratetype, false, -1);
    }

    /// The first block of the run is about to leave: links the next one in its place.
    #[cold]
    pub(super) fn hand_on_run(&mut self, run: FreshRun) {
        if run.nr_left == 0 {
            self.area.fresh = None;
            return;
        }
        let Some(next) = self.map.next_fresh(run.first.0 + CHUNK..run.end.0) else {
            debug_assert!(false, "{} fresh blocks are nowhere", run.nr_left);
            self.area.fresh = None;
            return;
        };
        self.map.write_out(next);
        let list = &mut self.area.lists[Order::MAX.idx()][run.migratetype.idx()];
        list.insert_after(self.map, run.first, next);
        self.area.fresh = Some(FreshRun { first: next, nr_left: run.nr_left - 1, ..run });
    }
}

#[cfg(test)]
impl<P: Probe> Buddy<'_, P> {
    /// Links every block of the run and removes the run.
    pub(crate) fn link_run(&mut self) {
        let Some(run) = self.area.fresh.take() else { return };
        let list = &mut self.area.lists[Order::MAX.idx()][run.migratetype.idx()];
        let mut last = run.first;
        while let Some(next) = self.map.next_fresh(last.0 + CHUNK..run.end.0) {
            self.map.write_out(next);
            list.insert_after(self.map, last, next);
            last = next;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::audit;
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Cx, Lock, Solo};
    use crate::page::{BlockFlags, MAX_ORDER};
    use crate::page_alloc::{Gfp, NoRelief, PageAllocator, boot};
    use crate::zone::{FreeArea, NodeId, Zone};

    const CPU: CpuId = CpuId(0);

    /// Blocks of every list, in order, those of the run where they belong.
    fn lists(map: &crate::page::PageMap, area: &FreeArea) -> Vec<Vec<Pfn>> {
        let mut all = Vec::new();
        for order in 0..MAX_ORDER {
            for migratetype in MigrateType::ALL {
                let list = &area.lists[order][migratetype.idx()];
                let mut blocks = Vec::new();
                for pfn in list.iter(map) {
                    blocks.push(pfn);
                    let run = area.fresh.filter(|run| run.first == pfn && order + 1 == MAX_ORDER);
                    let behind = run.map(|run| (pfn.0 + CHUNK..run.end.0).step_by(CHUNK as usize));
                    blocks
                        .extend(behind.into_iter().flatten().map(Pfn).filter(|&p| map.is_fresh(p)));
                }
                assert_eq!(blocks.len() as u32, area.nr_blocks(Order(order as u8), migratetype));
                all.push(blocks);
            }
        }
        all
    }

    /// A machine of 96 MiB, and the blocks allocated from it.
    struct Stage<'h> {
        alloc: PageAllocator<Solo>,
        cx: Cx<'h, Solo>,
        taken: Vec<(Pfn, Order)>,
    }

    impl Stage<'_> {
        fn new(host: &Solo, is_linked: bool) -> Stage<'_> {
            let machine = Machine::from_sizes("m", &[(96 << 20, std::vec![0])]).unwrap();
            let alloc = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
            let cx = Cx::new(host, CPU);
            let stage = Stage { alloc, cx, taken: Vec::new() };
            if is_linked {
                for zone in stage.alloc.populated_zones() {
                    let mut area = zone.free.lock(CPU);
                    stage.alloc.buddy(&stage.cx, zone, &mut area).link_run();
                }
            }
            stage
        }

        fn zone(&self) -> &Zone<Solo> {
            self.alloc.populated_zones().last().unwrap()
        }

        fn act(&mut self, (kind, a, b): (u8, u32, u32)) -> Option<Pfn> {
            let zone = self.zone();
            let frame = Pfn(zone.start.0 + a % (zone.end.0 - zone.start.0));
            match kind {
                0..=3 => {
                    let order = Order([0, 3, 5, 9, 10][a as usize % 5]);
                    let gfp = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_ATOMIC]
                        [b as usize % 3];
                    let got = self.alloc.alloc(&self.cx, &NoRelief, gfp, order, NodeId(0), None);
                    self.taken.extend(got.map(|pfn| (pfn, order)));
                    return got;
                }
                4..=6 => {
                    if !self.taken.is_empty() {
                        let (pfn, order) = self.taken.swap_remove(a as usize % self.taken.len());
                        self.alloc.free(&self.cx, pfn, order).unwrap();
                    }
                }
                7 => {
                    let to = [MigrateType::Unmovable, MigrateType::Reclaimable][b as usize % 2];
                    self.alloc.convert_pageblock(&self.cx, self.zone(), frame, to);
                }
                // A compaction scanner takes the blocks that it meets.
                _ => {
                    let mut area = zone.free.lock(CPU);
                    let mut buddy = self.alloc.buddy(&self.cx, zone, &mut area);
                    let head = (frame.0..zone.end.0)
                        .map(Pfn)
                        .find(|&pfn| self.alloc.map.block(pfn).has(BlockFlags::BUDDY))?;
                    let order = self.alloc.map.block(head).order();
                    if buddy.isolate(head) {
                        drop(area);
                        let frames = (head.0..head.0 + (1 << order.0)).map(Pfn);
                        self.taken.extend(frames.map(|pfn| (pfn, Order::ZERO)));
                    }
                    return Some(head);
                }
            }
            None
        }

        fn lists(&self) -> Vec<Vec<Vec<Pfn>>> {
            let zones = self.alloc.populated_zones();
            zones.map(|zone| lists(&self.alloc.map, &zone.free.lock(CPU))).collect()
        }
    }

    #[test]
    fn boot_touches_a_block_of_each_zone() {
        let host = Solo::default();
        let machine = Machine::from_sizes("m", &[(8 << 30, std::vec![0])]).unwrap();
        let memory = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        // Those at the ends of zones, and the first of each run.
        let nr_chunks = memory.map.touched().count() / CHUNK as usize;
        let outside = (4 - 3) << 8;
        assert!(nr_chunks <= outside + 12, "{nr_chunks} blocks of 4 MiB are touched");
        let report = audit::check(&memory, &Cx::new(&host, CPU)).unwrap();
        assert_eq!(report.free, machine.managed_pages());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_run_is_as_blocks_that_are_linked(
            acts in prop::collection::vec((0..10_u8, any::<u32>(), any::<u32>()), 1..120),
        ) {
            let hosts = [Solo::default(), Solo::default()];
            let mut fresh = Stage::new(&hosts[0], false);
            let mut linked = Stage::new(&hosts[1], true);
            prop_assert_eq!(fresh.lists(), linked.lists());
            for act in acts {
                prop_assert_eq!(fresh.act(act), linked.act(act), "{:?}", act);
                prop_assert_eq!(fresh.lists(), linked.lists(), "{:?}", act);
            }
            let report = audit::check(&fresh.alloc, &fresh.cx).unwrap();
            prop_assert_eq!(report, audit::check(&linked.alloc, &linked.cx).unwrap());
            let pieces = |stage: &Stage<'_>| {
                let pieces = audit::inventory(&stage.alloc, stage.zone());
                pieces.map(|piece| (piece.first, piece.pages, piece.content)).collect::<Vec<_>>()
            };
            prop_assert_eq!(pieces(&fresh), pieces(&linked));
        }
    }
}
