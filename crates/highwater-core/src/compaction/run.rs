//! One run over one zone (rules/compaction#run).

use super::Suitability;
use super::finish::Finish;
use super::state::ZoneState;
use crate::config::{AsyncContended, AsyncResched, CompactionPolicy, RestartFlush, Scanners};
use crate::host::{Cx, Devices, Phase, Probe};
use crate::kernel::Kernel;
use crate::migrate::{Frames, Mode};
use crate::page::{MigrateType, Order, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, PageList, Pfn};
use crate::page_alloc::{AllocFlags, Capture, Gfp};
use crate::sync::atomic::Ordering::Relaxed;
use crate::trace::Event;
use crate::units::CompactResult;
use crate::vmstat::VmEvent;
use crate::zone::{Zone, ZoneType};

/// Pages that are isolated, and then moved, together (`COMPACT_CLUSTER_MAX`).
pub(super) const CLUSTER: u32 = 32;
/// Blocks after which others may run.
pub(super) const BLOCKS_A_TURN: u32 = 32;

const PB: u32 = PAGEBLOCK_PAGES as u32;

/// First frame of a frame's pageblock.
pub(super) const fn block_of(pfn: u32) -> u32 {
    pfn & !(PB - 1)
}

/// First frame after it; of an aligned frame, the end of the pageblock that it begins.
pub(super) const fn block_end(pfn: u32) -> u32 {
    block_of(pfn) + PB
}

/// A run's goal and its permissions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// The order; none: everything that can be moved.
    pub order: Option<Order>,
    /// Type of the request.
    pub migratetype: MigrateType,
    pub gfp: Gfp,
    pub flags: AllocFlags,
    pub highest: ZoneType,
    pub mode: Mode,
    /// Looks at pageblocks that are to be skipped.
    pub ignore_skip: bool,
    /// Takes frames from pageblocks of any type.
    pub ignore_type: bool,
    /// Goes over the whole zone, wherever others were.
    pub whole_zone: bool,
    /// A request compacts for itself.
    pub direct: bool,
    /// kswapd compacts between two priorities.
    pub by_kswapd: bool,
    /// Nobody asked.
    pub proactive: bool,
}

impl Goal {
    /// For whom `order` pages of a type are wanted, with the rest as for a daemon.
    pub(super) const fn new(order: Option<Order>, mode: Mode, highest: ZoneType) -> Goal {
        Goal {
            order,
            migratetype: MigrateType::Unmovable,
            gfp: Gfp::GFP_KERNEL,
            flags: AllocFlags::empty(),
            highest,
            mode,
            ignore_skip: false,
            ignore_type: false,
            whole_zone: false,
            direct: false,
            by_kswapd: false,
            proactive: false,
        }
    }

    /// First frame after the aligned block of the order that a frame is in.
    pub(super) const fn order_end(order: Order, pfn: u32) -> u32 {
        (pfn & !((1 << order.0) - 1)) + (1 << order.0)
    }
}

/// One compaction run: its goal, the positions of both scanners, and the pages isolated so far.
#[doc(alias = "compact_control")]
pub(super) struct Run<'a, H: Devices> {
    pub zone: &'a Zone<H>,
    pub state: &'a ZoneState,
    pub goal: Goal,
    /// How this kernel does it.
    pub policy: &'a CompactionPolicy,
    /// Isolated folios, the last one first.
    pub sources: PageList,
    /// Their pages.
    pub nr_sources: u32,
    /// Frames to move them to.
    pub targets: Frames,
    pub migrate_pfn: u32,
    pub free_pfn: u32,
    /// Order whose list is searched first for targets.
    pub search_order: u8,
    /// Searches of free lists in a row that found nothing.
    pub fast_fail: u32,
    /// The lowest frame at which a search ever found a source.
    pub fast_start: FastStart,
    /// Another task needs the lock or the CPU: the run stops, some kernels only at the end of the
    /// pageblock.
    pub contended: Option<Contention>,
    /// How often its task had lost its CPU when that was looked at last.
    pub preemptions: Option<u64>,
    /// Where the last visit to a pageblock began.
    pub visited_from: u32,
    /// All of the pageblock is taken, not a cluster.
    pub rescan: bool,
    pub migrate_scanned: u64,
    pub free_scanned: u64,
}

/// The lowest frame at which a search found a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FastStart {
    /// None was found.
    Unset,
    /// This.
    At(u32),
    /// A run went back to it already.
    Used,
}

/// Why a run should stop for others (rules/compaction#contended).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contention {
    /// A lock is held.
    Lock,
    /// A task waits for this CPU.
    Cpu,
    /// The run's task is to die.
    Dying,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub result: CompactResult,
    /// It stopped for others.
    pub contended: Option<Contention>,
    /// Frames looked at for sources and for targets.
    pub scanned: [u64; 2],
}

impl Ended {
    /// Not begun.
    const fn at_once(result: CompactResult) -> Ended {
        Ended { result, contended: None, scanned: [0; 2] }
    }
}

/// What looking for sources came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Some.
    Some,
    /// None in this pageblock.
    None,
    /// The run should end.
    Abort,
}

impl<'a, H: Devices> Run<'a, H> {
    pub(super) fn new(
        zone: &'a Zone<H>,
        state: &'a ZoneState,
        goal: Goal,
        policy: &'a CompactionPolicy,
    ) -> Self {
        Run {
            zone,
            state,
            goal,
            policy,
            sources: PageList::default(),
            nr_sources: 0,
            targets: Frames::default(),
            migrate_pfn: 0,
            free_pfn: 0,
            search_order: goal.order.map_or(0, |order| order.0.saturating_sub(1)),
            fast_fail: 0,
            fast_start: FastStart::Unset,
            contended: None,
            preemptions: None,
            visited_from: 0,
            rescan: false,
            migrate_scanned: 0,
            free_scanned: 0,
        }
    }

    /// Does it look at frames only, never at the free lists?
    pub(super) fn is_plain(&self) -> bool {
        self.policy.scanners == Scanners::Plain
    }

    /// The run waits for nothing.
    pub(super) fn is_async(&self) -> bool {
        self.goal.mode == Mode::Async
    }

    /// For an asynchronous direct run: its order. It gives up an aligned block of that order as
    /// soon as one page of it cannot be moved.
    pub(super) fn gives_up_blocks(&self) -> Option<Order> {
        let gives_up = self.policy.gives_up_blocks && self.goal.direct && self.is_async();
        self.goal.order.filter(|_| gives_up)
    }

    /// A lock that the run wants is held by others; false if it should end without it.
    pub(super) fn takes_contended(&mut self) -> bool {
        self.contended = Some(Contention::Lock);
        self.policy.contended == AsyncContended::EndsWithBlock
    }

    /// Whether the run should end because another task waits for the CPU. If it goes on, it yields
    /// the CPU here.
    pub(super) fn gives_way(&mut self, cx: &Cx<'_, H>) -> bool {
        let aborts = self.policy.resched == AsyncResched::Aborts && self.is_async();
        // A preemptive host may already have switched tasks.
        let now = cx.host.preemptions();
        let was_preempted = self.preemptions.replace(now).is_some_and(|before| before != now);
        if aborts && (was_preempted || cx.host.needs_resched()) {
            self.contended = Some(Contention::Cpu);
            return true;
        }
        cx.host.yield_now();
        false
    }

    /// Is it over for others' sake, wherever it is?
    pub(super) fn is_aborted(&self) -> bool {
        match self.contended {
            None => false,
            Some(Contention::Lock) => self.policy.contended == AsyncContended::Aborts,
            Some(Contention::Cpu | Contention::Dying) => true,
        }
    }

    /// Whether the run sets skip bits and positions. Up to 5.0, runs that ignore them did not set
    /// them.
    pub(super) fn leaves_marks(&self) -> bool {
        !(self.is_plain() && self.goal.ignore_skip)
    }

    /// Reports whether the run moves folios of an order: below the one that it is for, or below a
    /// pageblock. Larger ones are left where they are, because moving them gains nothing.
    pub(super) fn moves_order(&self, order: Order) -> bool {
        order < self.goal.order.unwrap_or(Order(PAGEBLOCK_ORDER))
    }

    /// Reports whether the run skips a pageblock by its skip bit.
    #[doc(alias = "isolation_suitable")]
    pub(super) fn skips(&self, pfn: u32) -> bool {
        !self.goal.ignore_skip && self.zone.pageblock_skip(Pfn(pfn))
    }

    /// Is a pageblock wholly in the zone? Nodes may be interleaved.
    pub(super) fn owns_block(&self, map: &crate::page::PageMap, start: u32, end: u32) -> bool {
        let zone = self.zone;
        let is_ours = |pfn: u32| {
            zone.spans(Pfn(pfn))
                && (pfn as usize) < map.len()
                && map.block(Pfn(pfn)).zone_id() == zone.id()
        };
        is_ours(start) && is_ours(end - 1)
    }
}

impl<H: Devices> Kernel<H> {
    /// Are pages moved at all under this policy?
    pub(super) fn compacts(&self) -> bool {
        self.mem.policy.compaction.scanners != Scanners::Absent
    }

    /// Compacts one zone: isolates sources from below and targets from above until the run is
    /// finished. `whole_zone` of the goal may be set on the way: the run began where the zone's
    /// last clean pass did.
    ///
    /// Linux: same name.
    pub(super) fn compact_zone(&self, cx: &Cx<'_, H>, zone: &Zone<H>, goal: &mut Goal) -> Ended {
        if let Some(order) = goal.order {
            match self.mem.compaction_suitable_for(zone, order, goal.flags, goal.highest) {
                Suitability::Success => return Ended::at_once(CompactResult::Success),
                Suitability::Skipped => return Ended::at_once(CompactResult::Skipped),
                Suitability::Continue => {}
            }
        }
        let _phase = cx.phase(Phase::Compact);
        let state = self.compaction.zone(zone.id());
        let policy = &self.mem.policy.compaction;
        let may_flush = policy.restart_flush == RestartFlush::Anyone || !goal.by_kswapd;
        if may_flush && goal.order.is_some_and(|order| state.deferral.is_over(order)) {
            self.flush_skip_bits(cx, zone);
        }
        let mut run = Run::new(zone, state, *goal, policy);
        run.begin();
        goal.whole_zone = run.goal.whole_zone;
        let [zone_start, zone_end] = [zone.start, zone.end];
        let sync = goal.mode != Mode::Async;
        let (migrate_pfn, free_pfn) = (Pfn(run.migrate_pfn), Pfn(run.free_pfn));
        cx.event(Event::CompactionBegin { zone_start, migrate_pfn, free_pfn, zone_end, sync });
        let status = self.scan_and_move(cx, &mut run);
        self.end_run(cx, &mut run);
        let (migrate_pfn, free_pfn) = (Pfn(run.migrate_pfn), Pfn(run.free_pfn));
        cx.event(Event::CompactionEnd {
            zone_start,
            migrate_pfn,
            free_pfn,
            zone_end,
            sync,
            status,
        });
        Ended {
            result: status,
            contended: run.contended,
            scanned: [run.migrate_scanned, run.free_scanned],
        }
    }

    pub(super) fn scan_and_move(&self, cx: &Cx<'_, H>, run: &mut Run<'_, H>) -> CompactResult {
        let state = run.state;
        let positions = || [0, 1].map(|slot: usize| state.cached_migrate[slot].load(Relaxed));
        let mut couples = !run.is_plain() && run.is_async() && positions()[0] == positions()[1];
        let mut last: u32 = 0;
        self.lru_add_drain(cx);
        loop {
            match self.finish(cx, run) {
                Finish::Continue => {}
                Finish::End(result) => return result,
            }
            let start = run.migrate_pfn;
            run.rescan = run.policy.finishes_blocks && block_of(last) == block_of(start);
            match self.isolate_sources(cx, run) {
                Found::Abort => {
                    self.putback_sources(cx, run);
                    return CompactResult::Contended;
                }
                Found::None => {
                    if couples {
                        state.cached_migrate[1].store(positions()[0], Relaxed);
                    }
                }
                Found::Some => {
                    couples = false;
                    last = if run.is_plain() { run.visited_from } else { start };
                    if let Some(result) = self.move_sources(cx, run, &mut last) {
                        return result;
                    }
                }
            }
            // Freed pages are on this CPU's lists, where they cannot merge.
            if let Some(order) = run.goal.order
                && last != 0
                && last < run.migrate_pfn & !((1 << order.0) - 1)
            {
                self.lru_add_drain(cx);
                self.mem.drain_cpu(cx, run.zone, cx.cpu());
                last = 0;
            }
            if cx.is_capturing() && cx.local::<Capture>().is_caught() {
                return CompactResult::Success;
            }
        }
    }

    /// Moves the isolated pages; returns how the run ends, if it ends.
    fn move_sources(
        &self,
        cx: &Cx<'_, H>,
        run: &mut Run<'_, H>,
        last: &mut u32,
    ) -> Option<CompactResult> {
        let mut sources = core::mem::take(&mut run.sources);
        let mut targets = core::mem::take(&mut run.targets);
        let wanted = core::mem::take(&mut run.nr_sources);
        let mode = run.goal.mode;
        let outcome = self.migrate_pages(cx, &mut sources, &mut targets, mode, |more| {
            self.isolate_targets(cx, run, wanted, more);
        });
        run.targets = targets;
        cx.event(Event::CompactionMigratepages {
            nr_migrated: outcome.moved as u32,
            nr_failed: outcome.failed as u32,
        });
        if outcome.is_complete() {
            return None;
        }
        self.putback_isolated(cx, &mut sources);
        if outcome.is_out_of_frames && !run.have_met() {
            return Some(CompactResult::Contended);
        }
        if let Some(order) = run.gives_up_blocks() {
            // The rest of that block is in vain.
            run.migrate_pfn = Goal::order_end(order, run.migrate_pfn - 1);
            *last = 0;
        }
        None
    }

    /// Gives back leftover pages and frames, and counts.
    pub(super) fn end_run(&self, cx: &Cx<'_, H>, run: &mut Run<'_, H>) {
        let mut highest = 0;
        while let Some((pfn, order)) = run.targets.pop(&self.mem.map) {
            highest = highest.max(pfn.0);
            let freed = self.mem.free(cx, pfn, order);
            debug_assert_eq!(freed, Ok(()), "a target is nobody's");
        }
        if highest != 0 {
            // Others may want those frames.
            let cached = &run.state.cached_free;
            cached.store(cached.load(Relaxed).max(block_of(highest)), Relaxed);
        }
        let events = &self.mem.events;
        events.add(cx.cpu(), VmEvent::CompactMigrateScanned, run.migrate_scanned);
        events.add(cx.cpu(), VmEvent::CompactFreeScanned, run.free_scanned);
    }
}
