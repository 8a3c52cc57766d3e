//! The scanner of targets: free frames to move pages to (rules/compaction#targets).

use super::positions::is_huge;
use super::run::{BLOCKS_A_TURN, CLUSTER, Run, block_end, block_of};
use crate::config::{CompactMoves, ScanCount, SpareMark};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::migrate::Frames;
use crate::page::{BlockFlags, MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn};
use crate::trace::Event;
use crate::vmstat::VmEvent;
use crate::zone::FreeArea;

const PB: u32 = PAGEBLOCK_PAGES as u32;

/// How far the isolation of a pageblock's free blocks came.
pub(super) struct TakenFree {
    /// The frame to go on with.
    pub at: u32,
    /// Frames taken.
    pub nr: u32,
    /// The zone can spare no more.
    pub is_refused: bool,
}

impl<H: Devices> Kernel<H> {
    /// Fills `targets` with free frames for `wanted` sources, if there are any above the sources.
    #[doc(alias = "compaction_alloc")]
    pub(super) fn isolate_targets(
        &self,
        cx: &Cx<'_, H>,
        run: &mut Run<'_, H>,
        wanted: u32,
        targets: &mut Frames,
    ) {
        if !run.is_plain() {
            self.search_targets(cx, run, wanted, targets);
        }
        if targets.is_empty() {
            self.scan_for_targets(cx, run, wanted, targets);
        }
    }

    /// Scans for free blocks pageblock by pageblock, from the zone's end downwards.
    #[doc(alias = "isolate_freepages")]
    fn scan_for_targets(
        &self,
        cx: &Cx<'_, H>,
        run: &mut Run<'_, H>,
        wanted: u32,
        targets: &mut Frames,
    ) {
        let bound = block_end(run.migrate_pfn);
        let widest = if run.is_plain() { 1 } else { CLUSTER };
        let mut stride = if run.is_async() { widest } else { 1 };
        let mut at = run.free_pfn;
        let mut block = block_of(at);
        while block >= bound {
            if block.is_multiple_of(PB * BLOCKS_A_TURN) && run.gives_way(cx) {
                break;
            }
            let end = (block + PB).min(run.zone.end.0);
            let is_ours = run.owns_block(&self.mem.map, block, end);
            if is_ours && self.is_target(run, block) && !run.skips(block) {
                let taken = self.take_free(cx, run, (at, end), (stride, wanted), targets);
                let is_used_up = taken.at >= end;
                let is_done_with = match run.is_plain() {
                    // The rest is found again next time.
                    true => is_used_up && taken.nr == 0 && run.leaves_marks(),
                    false => is_used_up,
                };
                if is_done_with {
                    run.zone.set_pageblock_skip(Pfn(block), true);
                    run.update_cached_free(block);
                }
                if targets.pages() >= wanted {
                    at = if is_used_up { block - PB } else { taken.at };
                    break;
                }
                if !is_used_up {
                    at = taken.at;
                    break;
                }
                stride = if taken.nr > 0 { 1 } else { (stride * 2).min(widest) };
            }
            let Some(next) = block.checked_sub(PB) else {
                at = 0;
                break;
            };
            (block, at) = (next, next);
        }
        run.free_pfn = at;
    }

    /// Reports whether frames of a pageblock may be used as targets; one that is wholly free may
    /// not. A wholly free pageblock is what compaction is after.
    #[doc(alias = "suitable_migration_target")]
    fn is_target(&self, run: &Run<'_, H>, block: u32) -> bool {
        let word = self.mem.map.block(Pfn(block));
        let is_free = word.has(BlockFlags::BUDDY) && word.order().0 >= PAGEBLOCK_ORDER;
        if is_free {
            return false;
        }
        run.goal.ignore_type || run.zone.pageblock_type(Pfn(block)) == MigrateType::Movable
    }

    /// Takes free blocks of a range of frames, every `stride`-th frame looked at, until there are
    /// enough targets.
    #[doc(alias = "isolate_freepages_block")]
    pub(super) fn take_free(
        &self,
        cx: &Cx<'_, H>,
        run: &mut Run<'_, H>,
        (start, end): (u32, u32),
        (stride, wanted): (u32, u32),
        targets: &mut Frames,
    ) -> TakenFree {
        let mut result = TakenFree { at: start, nr: 0, is_refused: false };
        let (mut scanned, mut jumped) = (0, 0);
        let mut area = None;
        while result.at < end {
            if result.at.is_multiple_of(CLUSTER) {
                area = None;
            }
            scanned += 1;
            let pfn = Pfn(result.at);
            let word = self.mem.map.block(pfn);
            let mut size = 1;
            if word.has(BlockFlags::BUDDY) {
                if area.is_none() {
                    area = self.lock_targets(cx, run);
                }
                let Some(area) = &mut area else {
                    result.is_refused = true;
                    break;
                };
                // Under the lock: it may be gone, or larger.
                let word = self.mem.map.block(pfn);
                if word.has(BlockFlags::BUDDY) {
                    let order = word.order();
                    if self.mem.buddy(cx, run.zone, area).isolate(pfn) {
                        size = order.pages() as u32;
                        scanned += size - 1;
                        result.nr += size;
                        self.add_targets(cx, pfn, order, targets);
                    } else if run.policy.spare == SpareMark::MinEnds {
                        result.is_refused = true;
                        break;
                    }
                }
            } else if is_huge(self.mem.map.page(pfn)) || word.has(BlockFlags::HEAD) {
                size = 1 << word.order().0;
                jumped += size.min(end - result.at) - 1;
            }
            if targets.pages() >= wanted {
                result.at += size;
                break;
            }
            result.at += size - 1 + stride;
        }
        drop(area);
        result.at = result.at.min(end);
        cx.charge(Cost::CompactScan, scanned);
        if run.policy.scan_count == ScanCount::Frames {
            scanned += jumped;
        }
        cx.event(Event::CompactionIsolateFreepages {
            start_pfn: Pfn(start),
            end_pfn: Pfn(result.at),
            nr_scanned: scanned,
            nr_taken: result.nr,
        });
        run.free_scanned += u64::from(scanned);
        result
    }

    /// Locks the zone's free lists; `None` if the lock is contended and the run does not wait for
    /// it.
    fn lock_targets<'z>(
        &self,
        cx: &Cx<'_, H>,
        run: &mut Run<'z, H>,
    ) -> Option<<H::Lock<FreeArea> as Lock<FreeArea>>::Guard<'z>> {
        if run.is_async() && run.contended.is_none() {
            if let Some(area) = run.zone.free.try_lock(cx.cpu()) {
                return Some(area);
            }
            if !run.takes_contended() {
                return None;
            }
        }
        Some(run.zone.free.lock(cx.cpu()))
    }

    /// Adds a free block to the targets: as single frames, of which the highest is used first, or
    /// as it is where larger folios are moved too.
    #[doc(alias = "split_map_pages")]
    pub(super) fn add_targets(&self, cx: &Cx<'_, H>, pfn: Pfn, order: Order, targets: &mut Frames) {
        match self.mem.policy.folio.compact_moves {
            CompactMoves::None => targets.push_singly(&self.mem.map, pfn, order),
            CompactMoves::BelowTarget => targets.push_isolated(&self.mem.map, pfn, order),
        }
        self.mem.events.add(cx.cpu(), VmEvent::CompactIsolated, order.pages());
    }
}
