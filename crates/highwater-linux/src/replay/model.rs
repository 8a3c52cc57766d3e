//! Second pass over a trace: the model's allocator serves the requests of the trace's callers.
//!
//! Requests and frees are replayed on the CPU that they came from. Work inside the allocator is not
//! replayed (removals from the buddy lists, drains, fallbacks), because the model has to do it by
//! itself. A real frame stands for the frame that the model allocated in its place. Frames that
//! were in use before the trace stand for themselves.
//!
//! Single-page frees are held back until the next event of their CPU, which shows whether they were
//! freed one by one or as a list.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use highwater_core::compaction;
use highwater_core::config::Policy;
use highwater_core::host::{CpuId, Cx, EventSink, Solo};
use highwater_core::page::{MAX_ORDER, MigrateType, Order, Pfn};
use highwater_core::page_alloc::boot;
use highwater_core::page_alloc::{Gfp, NoRelief, PageAllocator};
use highwater_core::sync::order::LockClass;
use highwater_core::trace::Event;
use highwater_core::zone::NodeId;
use highwater_results::import::kmem::{KmemEvent, KmemKind};

use super::state::{Shape, Sidecars};
use super::survey::Survey;
use super::tally::{EventKind, Tally};
use super::trace::Trace;
use highwater_files::input::InputError;
use highwater_runs::start::place::{Place, place};

/// Nanoseconds between two runs of a CPU's statistics worker (rules/per-cpu-lists#decay).
const STAT_INTERVAL_NS: u64 = 1_000_000_000;
/// Frees held back per CPU at most; a list free is one page vector or a bulk unmap.
const HELD_BACK_MAX: usize = 4096;

/// A zone's free memory at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFree {
    /// Node.
    pub node: u16,
    /// Zone name.
    pub zone: String,
    /// Free blocks by order, all types.
    pub nr_free: [u64; MAX_ORDER],
    /// Free blocks by type and order.
    pub by_type: [[u64; MAX_ORDER]; MigrateType::COUNT],
    /// Pages on per-CPU lists.
    pub nr_on_lists: u64,
}

/// The replay of one policy.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The policy.
    pub policy: Policy,
    /// The model's own events.
    pub tally: Tally,
    /// Takings of zone locks.
    pub zone_lock_takings: u64,
    /// Requests that the trace served and the model could not.
    pub nr_failed: u64,
    /// Requests that failed in the trace, and the model's result for each.
    pub failed_in_trace: FailedInTrace,
    /// Frees of blocks that were in use before the trace began.
    pub nr_frees_from_before: u64,
    /// Frees of unknown frames (the trace lost events).
    pub nr_frees_unknown: u64,
    /// Free memory at the start.
    pub start: Vec<ZoneFree>,
    /// Free memory at the end.
    pub end: Vec<ZoneFree>,
    /// Free pages of the captured files that found no place.
    pub nr_unplaced: u64,
    /// Pages on per-CPU lists at the start that are known only by number.
    pub nr_unknown_on_lists: u64,
    /// Free CMA pages at the start, which the model does not allocate.
    pub nr_cma: u64,
}

/// Requests that failed in the trace, repeated in the model. The replay has neither reclaim nor
/// compaction. The traced kernel failed in spite of both, so the model should fail too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedInTrace {
    /// The model refuses them, too.
    pub nr_refused: u64,
    /// The model has a block for them.
    pub nr_served: u64,
    /// The first of each, with the free memory of that moment.
    pub first_refused: Option<FailedRequest>,
    /// The first of these that the model serves.
    pub first_served: Option<FailedRequest>,
}

/// A request that failed in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Its size.
    pub order: u8,
    /// Its flags, by name.
    pub gfp: String,
    /// Free memory at the time of the model's request.
    pub free: Vec<ZoneFree>,
}

/// Replays a trace under a policy.
///
/// # Errors
/// If the trace cannot be read or does not fit on the machine.
pub fn replay(
    trace: &Trace,
    survey: &Survey,
    sidecars: &Sidecars,
    shape: &Shape,
    policy: &Policy,
) -> Result<Replay, InputError> {
    let host = Solo::new(Recorder::default());
    let name = trace.name();
    let memory = boot(&host, &shape.machine, policy)
        .map_err(|error| InputError::whole(&name, error.to_string()))?;
    shape.apply_zone_sizes(&memory);
    shape.apply_pcp_sizes(policy, &memory);
    let start_of = restore(&host, &memory, &name, survey, sidecars)?;
    let start = free_memory(&memory);
    let takings = host.takings(LockClass::Zone);
    host.sink().is_on.set(true);

    let mut model = Model::new(&host, &memory, survey, shape);
    trace.each(|event| model.take(event))?;
    model.finish();
    // A broken rule is a bug of the model, and makes its figures worthless.
    highwater_core::audit::check(&memory, &model.cx)
        .map_err(|broken| InputError::whole(&name, format!("audit after the replay: {broken}")))?;
    let (nr_failed, nr_frees_from_before, nr_frees_unknown) =
        (model.nr_failed, model.nr_frees_from_before, model.nr_frees_unknown);
    Ok(Replay {
        policy: policy.clone(),
        zone_lock_takings: host.takings(LockClass::Zone) - takings - model.takings_asked,
        nr_failed,
        failed_in_trace: model.failed_in_trace,
        nr_frees_from_before,
        nr_frees_unknown,
        start,
        end: free_memory(&memory),
        nr_unplaced: start_of.nr_unplaced,
        nr_unknown_on_lists: start_of.nr_unknown_on_lists,
        nr_cma: start_of.nr_cma,
        tally: host.sink().tally.take(),
    })
}

/// Puts every zone into its state at the start of the trace.
fn restore(
    host: &Solo<Recorder>,
    memory: &PageAllocator<Solo<Recorder>>,
    trace: &str,
    survey: &Survey,
    sidecars: &Sidecars,
) -> Result<StartOf, InputError> {
    let cx = Cx::new(host, CpuId(0));
    let mut sums = StartOf::default();
    for zone in memory.populated_zones() {
        let counted = sidecars.zone_start(zone.node.0.into(), zone.zone);
        let start = counted.as_ref().map(|counted| &counted.start);
        let placed = place(Place::of(zone), survey.known(), start, &memory.policy);
        memory
            .restore(&cx, zone, &placed.state)
            .map_err(|error| InputError::whole(trace, error.to_string()))?;
        sums.nr_unplaced += placed.nr_unplaced;
        sums.nr_unknown_on_lists += placed.nr_unknown_on_lists;
        sums.nr_cma += counted.map_or(0, |counted| counted.nr_cma);
    }
    Ok(sums)
}

/// Sums over the zones of their state at the start.
#[derive(Default)]
struct StartOf {
    nr_unplaced: u64,
    nr_unknown_on_lists: u64,
    nr_cma: u64,
}

/// Receives the model's events.
#[derive(Default)]
struct Recorder {
    is_on: Cell<bool>,
    tally: RefCell<Tally>,
}

impl EventSink for Recorder {
    fn event(&self, cpu: CpuId, event: &Event) {
        if !self.is_on.get() {
            return;
        }
        let mut tally = self.tally.borrow_mut();
        let (kind, order) = match *event {
            Event::PageAlloc { pfn: None, order, .. } => (EventKind::AllocFailed, order),
            Event::PageAlloc { pfn: Some(pfn), order, migratetype, .. } => {
                tally.count_use(pfn.get(), order.0, migratetype as u8);
                (EventKind::Alloc, order)
            }
            Event::PageFree { order, .. } => (EventKind::Free, order),
            Event::PageFreeBatched { .. } => (EventKind::FreeBatched, Order::ZERO),
            Event::PageAllocZoneLocked { order, .. } => (EventKind::ZoneLocked, order),
            Event::PagePcpuDrain { order, .. } => (EventKind::PcpuDrain, order),
            Event::PageAllocExtfrag { alloc_order, .. } => (EventKind::ExtFrag, alloc_order),
            // Not the allocator's.
            _ => return,
        };
        tally.count(kind, u32::from(cpu.0), order.0);
    }
}

/// The allocator, and the trace's view of it.
struct Model<'a> {
    memory: &'a PageAllocator<Solo<Recorder>>,
    cx: Cx<'a, Solo<Recorder>>,
    /// By the first real frame of every block allocated in the trace: the model's frame and the
    /// order; `None` if the model could not serve the request.
    live: HashMap<u64, (Option<Pfn>, u8)>,
    /// Blocks in use before the trace, not yet freed.
    before: HashSet<(u64, u8)>,
    held_back: BTreeMap<u32, VecDeque<u64>>,
    next_stat_ns: BTreeMap<u32, u64>,
    nr_failed: u64,
    failed_in_trace: FailedInTrace,
    /// Takings of zone locks for requests that failed in the trace.
    takings_asked: u64,
    nr_frees_from_before: u64,
    nr_frees_unknown: u64,
    /// Advice for a trace that does not fit its machine.
    advice: &'static str,
}

impl<'a> Model<'a> {
    fn new(
        host: &'a Solo<Recorder>,
        memory: &'a PageAllocator<Solo<Recorder>>,
        survey: &Survey,
        shape: &Shape,
    ) -> Model<'a> {
        Model {
            memory,
            cx: Cx::new(host, CpuId(0)),
            live: HashMap::new(),
            before: survey.used.iter().copied().collect(),
            held_back: BTreeMap::new(),
            next_stat_ns: BTreeMap::new(),
            nr_failed: 0,
            failed_in_trace: FailedInTrace::default(),
            takings_asked: 0,
            advice: shape.source.advice(),
            nr_frees_from_before: 0,
            nr_frees_unknown: 0,
        }
    }

    fn take(&mut self, event: &KmemEvent) -> Result<(), String> {
        self.tick(event);
        match event.kind {
            KmemKind::Alloc { pfn, order, migratetype, gfp } => {
                self.check(pfn)?;
                self.release(event.cpu);
                self.alloc(event.cpu, pfn, order, migratetype, gfp);
            }
            KmemKind::Free { pfn, order } => {
                self.check(pfn)?;
                if order == 0 {
                    let held = self.held_back.entry(event.cpu).or_default();
                    held.push_back(pfn);
                    if held.len() > HELD_BACK_MAX {
                        self.release(event.cpu);
                    }
                } else {
                    self.release(event.cpu);
                    self.free(event.cpu, pfn, order, Way::Single);
                }
            }
            KmemKind::FreeBatched { pfn } => self.free_of_list(event.cpu, pfn),
            KmemKind::AllocFailed { order, migratetype, gfp } => {
                self.release(event.cpu);
                self.ask(event.cpu, order, migratetype, gfp);
            }
            // Work inside the allocator, not an action of a caller.
            KmemKind::ZoneLocked { .. } | KmemKind::PcpuDrain { .. } | KmemKind::ExtFrag { .. } => {
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        let cpus: Vec<u32> = self.held_back.keys().copied().collect();
        for cpu in cpus {
            self.release(cpu);
        }
    }

    /// Advances time: each CPU's vmstat worker runs once a second.
    fn tick(&mut self, event: &KmemEvent) {
        self.cx.host.set_now_ns(event.time_ns);
        let first = event.time_ns + STAT_INTERVAL_NS;
        let next = self.next_stat_ns.entry(event.cpu).or_insert(first);
        if event.time_ns >= *next {
            *next = event.time_ns + STAT_INTERVAL_NS;
            self.cx.set_cpu(CpuId(event.cpu as u16));
            self.memory.refresh_cpu_stats(&self.cx);
        }
    }

    fn check(&self, pfn: u64) -> Result<(), String> {
        let frame = u32::try_from(pfn).ok().map(Pfn);
        let is_there = frame.is_some_and(|frame| {
            self.memory.map.get(frame).is_some()
                && self.memory.zone_of(frame).is_some_and(|zone| zone.spans(frame))
        });
        if is_there {
            return Ok(());
        }
        let machine = self.memory.machine();
        let end = machine.end_pfn();
        let (name, advice) = (&machine.name, self.advice);
        Err(format!("{pfn:#x} is in no zone of machine {name}, which ends at {end:#x}{advice}"))
    }

    /// Repeats a request that failed in the trace. A block that the model allocates is freed at
    /// once and not counted, because the trace has no owner for it.
    fn ask(&mut self, cpu: u32, order: u8, migratetype: u8, gfp: u32) {
        let on = CpuId(cpu as u16);
        self.cx.set_cpu(on);
        let gfp = with_type(Gfp::from_bits_retain(gfp), migratetype);
        let recorder = self.cx.host.sink();
        recorder.is_on.set(false);
        let takings = self.cx.host.takings(LockClass::Zone);
        let known = &self.failed_in_trace;
        let is_first = known.first_refused.is_none() || known.first_served.is_none();
        let free = if is_first { free_memory(self.memory) } else { Vec::new() };
        let page = self.request(gfp, order, self.memory.cpu_node(on));
        let known = &mut self.failed_in_trace;
        let (nr, first) = match page {
            None => (&mut known.nr_refused, &mut known.first_refused),
            Some(_) => (&mut known.nr_served, &mut known.first_served),
        };
        *nr += 1;
        first.get_or_insert_with(|| FailedRequest { order, gfp: gfp.to_string(), free });
        match page {
            Some(page) => self.give_back(page, order, Way::Single),
            None => recorder.tally.borrow_mut().count(EventKind::AllocFailed, cpu, order),
        }
        recorder.is_on.set(true);
        self.takings_asked += self.cx.host.takings(LockClass::Zone) - takings;
    }

    fn alloc(&mut self, cpu: u32, pfn: u64, order: u8, migratetype: u8, gfp: u32) {
        let cpu = CpuId(cpu as u16);
        self.cx.set_cpu(cpu);
        let gfp = with_type(Gfp::from_bits_retain(gfp), migratetype);
        let node = match self.memory.zone_of(Pfn(pfn as u32)) {
            Some(zone) if gfp.contains(Gfp::THISNODE) => zone.node,
            _ => self.memory.cpu_node(cpu),
        };
        let page = self.request(gfp, order, node);
        self.nr_failed += u64::from(page.is_none());
        if let Some((Some(lost), old)) = self.live.insert(pfn, (page, order)) {
            // The trace lost the free in between.
            self.nr_frees_unknown += 1;
            self.give_back(lost, old, Way::Single);
        }
    }

    fn request(&self, gfp: Gfp, order: u8, node: NodeId) -> Option<Pfn> {
        self.memory.alloc(&self.cx, &NoRelief, gfp, Order(order), node, None)
    }

    /// A page of a list free: frees held back before it were single frees.
    fn free_of_list(&mut self, cpu: u32, pfn: u64) {
        let held = self.held_back.entry(cpu).or_default();
        let Some(at) = held.iter().position(|&p| p == pfn) else {
            // Already freed, when another event came in between; or its mm_page_free was lost.
            if self.live.contains_key(&pfn) || self.before.contains(&(pfn, 0)) {
                self.free(cpu, pfn, 0, Way::List);
            }
            return;
        };
        let singles: Vec<u64> = held.drain(..=at).take(at).collect();
        for single in singles {
            self.free(cpu, single, 0, Way::Single);
        }
        self.free(cpu, pfn, 0, Way::List);
    }

    /// Releases the held-back frees of a CPU.
    fn release(&mut self, cpu: u32) {
        while let Some(pfn) = self.held_back.get_mut(&cpu).and_then(VecDeque::pop_front) {
            self.free(cpu, pfn, 0, Way::Single);
        }
    }

    fn free(&mut self, cpu: u32, pfn: u64, order: u8, way: Way) {
        self.cx.set_cpu(CpuId(cpu as u16));
        match self.live.remove(&pfn) {
            Some((None, _)) => {}
            Some((Some(page), had)) if had == order => self.give_back(page, order, way),
            Some((Some(page), had)) if had > order => {
                self.split(pfn, page, had, order);
                self.give_back(page, order, way);
            }
            Some((Some(page), had)) => {
                // Larger than its allocation: the rest came from elsewhere.
                self.nr_frees_unknown += 1;
                self.give_back(page, had, way);
            }
            None if self.before.remove(&(pfn, order)) => {
                self.nr_frees_from_before += 1;
                self.give_back(Pfn(pfn as u32), order, way);
            }
            None => match self.split_around(pfn, order) {
                Some(page) => self.give_back(page, order, way),
                None => self.nr_frees_unknown += 1,
            },
        }
    }

    /// Part of a block allocated in the trace is freed by itself: the block was split.
    fn split_around(&mut self, pfn: u64, order: u8) -> Option<Pfn> {
        for larger in order + 1..MAX_ORDER as u8 {
            let head = pfn & !((1 << larger) - 1);
            if let Some(&(page, had)) = self.live.get(&head)
                && had >= larger
            {
                self.live.remove(&head);
                let page = page?;
                self.split(head, page, had, order);
                self.live.insert(head, (Some(page), order));
                return self.live.remove(&pfn).and_then(|(page, _)| page);
            }
        }
        None
    }

    /// Splits a block into blocks of `order`; all but the first become live by themselves.
    fn split(&mut self, real: u64, page: Pfn, had: u8, order: u8) {
        // A block in use as large as the model knows it to be can be split.
        if self.memory.split_used(&self.cx, page, Order(order)).is_err() {
            return;
        }
        for piece in (1u64 << order..1 << had).step_by(1 << order) {
            let tail = page.add(piece as u32);
            self.live.insert(real + piece, (Some(tail), order));
        }
    }

    fn give_back(&mut self, page: Pfn, order: u8, way: Way) {
        let freed = match way {
            Way::Single => self.memory.free(&self.cx, page, Order(order)),
            Way::List => self.memory.free_list(&self.cx, &[page]),
        };
        self.nr_frees_unknown += u64::from(freed.is_err());
    }
}

/// How a page is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Single,
    List,
}

/// The request's flags with the type that the trace says it had.
fn with_type(gfp: Gfp, migratetype: u8) -> Gfp {
    if gfp.migratetype().is_some_and(|t| t as u8 == migratetype) || migratetype > 2 {
        return gfp;
    }
    let bits = match migratetype {
        1 => Gfp::MOVABLE,
        2 => Gfp::RECLAIMABLE,
        _ => Gfp::empty(),
    };
    (gfp - Gfp::MOVABLE - Gfp::RECLAIMABLE) | bits
}

fn free_memory(memory: &PageAllocator<Solo<Recorder>>) -> Vec<ZoneFree> {
    use highwater_core::host::Lock;
    memory
        .populated_zones()
        .map(|zone| {
            let cpu = CpuId(0);
            let nr_on_lists =
                memory.cpus().map(|c| u64::from(memory.pcp_count(zone, c, cpu))).sum();
            let area = zone.free.lock(cpu);
            let by_type = std::array::from_fn(|t| {
                std::array::from_fn(|order| {
                    u64::from(area.nr_blocks(Order(order as u8), MigrateType::ALL[t]))
                })
            });
            ZoneFree {
                node: zone.node.0,
                zone: zone.zone.to_string(),
                nr_free: std::array::from_fn(|o| u64::from(zone.nr_free_blocks(Order(o as u8)))),
                by_type,
                nr_on_lists,
            }
        })
        .collect()
}

impl ZoneFree {
    /// Free pages.
    pub fn nr_pages(&self) -> u64 {
        self.nr_free.iter().enumerate().map(|(order, n)| n << order).sum()
    }

    /// Fragmentation index of an order, in thousandths (rules/compaction#fragmentation-index).
    /// −1000 if a block is free; otherwise towards 0 if memory is short, and towards 1000 if it is
    /// fragmented.
    pub fn fragmentation_index(&self, order: usize) -> i64 {
        compaction::fragmentation_index(Order(order as u8), &self.nr_free)
    }

    /// Share of free memory that is in blocks too small for an order, thousandths
    /// (rules/compaction#unusable-index).
    pub fn unusable_index(&self, order: usize) -> u64 {
        compaction::unusable_index(Order(order as u8), &self.nr_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_free_memory() {
        let mut zone = ZoneFree {
            node: 0,
            zone: "Normal".to_owned(),
            nr_free: [100, 50, 20, 10, 5, 2, 1, 1, 1, 1, 0],
            by_type: Default::default(),
            nr_on_lists: 0,
        };
        assert_eq!((zone.nr_pages(), zone.unusable_index(9)), (1464, 650));
        assert_eq!((zone.fragmentation_index(9), zone.fragmentation_index(10)), (-1000, 988));
        zone.nr_free = [0; MAX_ORDER];
        assert_eq!((zone.unusable_index(9), zone.fragmentation_index(9)), (1000, 0));
    }

    #[test]
    fn the_traced_type_wins_over_the_flags() {
        assert_eq!(with_type(Gfp::GFP_KERNEL, 1), Gfp::GFP_KERNEL | Gfp::MOVABLE);
        assert_eq!(with_type(Gfp::GFP_HIGHUSER_MOVABLE, 1), Gfp::GFP_HIGHUSER_MOVABLE);
        assert_eq!(with_type(Gfp::GFP_HIGHUSER_MOVABLE, 0), Gfp::GFP_HIGHUSER);
    }
}
