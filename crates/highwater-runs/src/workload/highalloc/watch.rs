//! Times of daemons and of compaction as mmtests takes them from trace events
//! (rules/mmtests-tables#trace-times), and requests served from other types' blocks.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use highwater_core::page::MigrateType;
use highwater_core::trace::{Event, Kind};
use highwater_results::{Counters, TRACE_TIMES};
use highwater_sim::engine::Sim;
use highwater_sim::host::TraceSink;
use highwater_sim::ledger::KindSet;

/// Names of the counts of [`Seen::extfrag`].
pub(super) const EXTFRAG: [&str; 4] = ["unmovable", "reclaimable", "movable", "whole pageblock"];

/// Events that [`Watch`] looks at: no others are built for it.
pub(super) const KINDS: KindSet = KindSet::NONE
    .with(Kind::KswapdWake)
    .with(Kind::KswapdSleep)
    .with(Kind::CompactionKcompactdWake)
    .with(Kind::CompactionKcompactdSleep)
    .with(Kind::CompactionBegin)
    .with(Kind::CompactionEnd)
    .with(Kind::PageAllocExtfrag);

/// Kind of a compacting task in the report, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Direct,
    Kswapd,
    Kcompactd,
}

impl Who {
    fn of(name: &str) -> Who {
        match name {
            name if name.starts_with("kswapd") => Who::Kswapd,
            name if name.starts_with("kcompactd") => Who::Kcompactd,
            _ => Who::Direct,
        }
    }
}

/// Events so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// By the rows' order ([`TRACE_TIMES`]), nanoseconds.
    ns: [u64; TRACE_TIMES.len()],
    /// Since when each node's kswapd and kcompactd is awake.
    awake: [BTreeMap<u16, u64>; 2],
    /// Compacting tasks, and when each began.
    compacting: BTreeMap<u64, (Who, u64)>,
    /// By [`EXTFRAG`].
    extfrag: [u64; EXTFRAG.len()],
}

/// Rows of [`TRACE_TIMES`].
const KSWAPD_AWAKE: usize = 0;
const KCOMPACTD_AWAKE: usize = 1;
const DIRECT: usize = 2;

impl Seen {
    /// A node's daemon wakes; if it is awake already, its start time stays.
    fn wake(&mut self, daemon: usize, node: u16, at_ns: u64) {
        self.awake[daemon].entry(node).or_insert(at_ns);
    }

    fn sleep(&mut self, daemon: usize, node: u16, at_ns: u64) {
        if let Some(since) = self.awake[daemon].remove(&node) {
            self.ns[daemon] += at_ns.saturating_sub(since);
        }
    }

    /// Discards everything so far; activity under way counts from now on.
    fn restart(&mut self, at_ns: u64) {
        (self.ns, self.extfrag) = Default::default();
        self.awake.iter_mut().for_each(|nodes| nodes.values_mut().for_each(|at| *at = at_ns));
        self.compacting.values_mut().for_each(|(_, at)| *at = at_ns);
    }

    fn begin(&mut self, task: u64, who: Who, at_ns: u64) {
        self.compacting.insert(task, (who, at_ns));
    }

    fn end(&mut self, task: u64, at_ns: u64) {
        if let Some((who, since)) = self.compacting.remove(&task) {
            self.ns[DIRECT + who as usize] += at_ns.saturating_sub(since);
        }
    }

    fn extfrag(&mut self, wanted: MigrateType, is_whole: bool) {
        let kind = match wanted {
            MigrateType::Unmovable => 0,
            MigrateType::Reclaimable => 1,
            _ => 2,
        };
        self.extfrag[kind] += 1;
        self.extfrag[EXTFRAG.len() - 1] += u64::from(is_whole);
    }
}

/// Looks at a machine's trace events.
#[derive(Clone, Default)]
pub(super) struct Watch {
    seen: Rc<RefCell<Seen>>,
    sim: Rc<OnceCell<Sim>>,
}

impl Watch {
    /// A sink for the events.
    pub(super) fn sink(&self) -> TraceSink {
        let watch = self.clone();
        Box::new(move |at_ns, _, event| watch.see(at_ns, event))
    }

    /// The simulation that knows the running task.
    pub(super) fn of(&self, sim: &Sim) {
        // Told twice, the first stays.
        let _ = self.sim.set(sim.clone());
    }

    /// The benchmark begins: earlier events do not count.
    pub(super) fn restart(&self, at_ns: u64) {
        self.seen.borrow_mut().restart(at_ns);
    }

    fn see(&self, at_ns: u64, event: &Event) {
        debug_assert!(KINDS.has(event.kind()), "KINDS lacks {event:?}");
        let seen = || self.seen.borrow_mut();
        match *event {
            Event::KswapdWake { nid, .. } => seen().wake(KSWAPD_AWAKE, nid.0, at_ns),
            Event::KswapdSleep { nid } => seen().sleep(KSWAPD_AWAKE, nid.0, at_ns),
            Event::CompactionKcompactdWake { nid, .. } => {
                seen().wake(KCOMPACTD_AWAKE, nid.0, at_ns);
            }
            Event::CompactionKcompactdSleep { nid } => seen().sleep(KCOMPACTD_AWAKE, nid.0, at_ns),
            Event::CompactionBegin { .. } => {
                if let Some((task, name)) = self.running() {
                    seen().begin(task, Who::of(&name), at_ns);
                }
            }
            Event::CompactionEnd { .. } => {
                if let Some((task, _)) = self.running() {
                    seen().end(task, at_ns);
                }
            }
            Event::PageAllocExtfrag { alloc_migratetype, change_ownership, .. } => {
                seen().extfrag(alloc_migratetype, change_ownership);
            }
            _ => {}
        }
    }

    fn running(&self) -> Option<(u64, Rc<str>)> {
        let sim = self.sim.get()?;
        let task = sim.current()?;
        Some((task.as_u64(), sim.task_name(task)?))
    }

    /// The times so far as counters by the rows' names, milliseconds.
    pub(super) fn times(&self) -> Counters {
        let ns = self.seen.borrow().ns;
        TRACE_TIMES.iter().zip(ns).map(|(&name, ns)| (name, (ns / 1_000_000) as i64)).collect()
    }

    /// Requests served from other types' blocks so far.
    pub(super) fn extfrag(&self) -> impl Iterator<Item = (String, f64)> {
        let counts = self.seen.borrow().extfrag;
        EXTFRAG.iter().zip(counts).map(|(&name, count)| (name.to_owned(), count as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// rules/mmtests-tables#trace-times.
    #[test]
    fn times_are_between_pairs_of_events() {
        let mut seen = Seen::default();
        let ms = |seen: &Seen| seen.ns.map(|ns| ns / 1_000_000);
        for (wakes, at_ms) in
            [(true, 1000), (false, 1250), (true, 2000), (true, 2100), (false, 2500), (true, 3000)]
        {
            match wakes {
                true => seen.wake(KSWAPD_AWAKE, 0, at_ms * 1_000_000),
                false => seen.sleep(KSWAPD_AWAKE, 0, at_ms * 1_000_000),
            }
        }
        assert_eq!(ms(&seen), [750, 0, 0, 0, 0], "the last one has not ended");
        seen.begin(77, Who::of("make-77"), 5 * S);
        seen.begin(78, Who::of("kcompactd0"), 5 * S);
        seen.end(77, 5 * S + 4_000_000);
        seen.end(78, 6 * S);
        seen.end(79, 7 * S);
        assert_eq!(ms(&seen), [750, 0, 4, 0, 1000]);
        assert_eq!(Who::of("kswapd0"), Who::Kswapd);
    }

    #[test]
    fn what_was_before_the_benchmark_does_not_count() {
        let mut seen = Seen::default();
        seen.wake(KSWAPD_AWAKE, 0, S);
        seen.begin(77, Who::Direct, 2 * S);
        seen.extfrag(MigrateType::Movable, true);
        seen.restart(3 * S);
        seen.sleep(KSWAPD_AWAKE, 0, 5 * S);
        seen.end(77, 6 * S);
        assert_eq!((seen.ns[KSWAPD_AWAKE], seen.ns[DIRECT]), (2 * S, 3 * S));
        assert_eq!(seen.extfrag, [0; EXTFRAG.len()]);
    }

    #[test]
    fn nodes_are_added_up() {
        let mut seen = Seen::default();
        for node in [0, 1] {
            seen.wake(KCOMPACTD_AWAKE, node, S);
            seen.sleep(KCOMPACTD_AWAKE, node, 3 * S);
        }
        seen.sleep(KCOMPACTD_AWAKE, 0, 9 * S);
        assert_eq!(seen.ns[KCOMPACTD_AWAKE], 4 * S);
    }

    #[test]
    fn fallbacks_are_counted_by_what_was_asked_for() {
        let watch = Watch::default();
        for (wanted, whole) in [(MigrateType::Unmovable, true), (MigrateType::Movable, false)] {
            watch.seen.borrow_mut().extfrag(wanted, whole);
        }
        let counts: Vec<f64> = watch.extfrag().map(|(_, count)| count).collect();
        assert_eq!(counts, [1.0, 0.0, 1.0, 1.0]);
    }
}
