//! First pass over a trace: its own counts, and what it reveals about its machine.
//!
//! A trace starts while the machine is running. The first event of a frame shows where the frame
//! was before:
//!
//! | first event | the frame was |
//! |---|---|
//! | allocated, and did not leave the buddy lists first | on that CPU's list of that order and type |
//! | drained | on that CPU's list of that order and type |
//! | freed | in use, at that order |
//! | left the buddy lists | free, on a list of that type or of one it fell back to |
//!
//! Allocations take a list's head and drains its tail, so both ends of a list at the start are
//! known in order. A list that was refilled was empty at that moment: all of it is known.

use std::collections::{BTreeMap, HashMap};

use highwater_results::import::kmem::{KmemEvent, KmemKind, SkippedLines};

use super::tally::{EventKind, Tally};
use super::trace::{Totals, Trace};
use super::warning::GAP_NS_MIN;
use highwater_files::input::InputError;
use highwater_runs::start::place::{Known, has_lists};
pub use highwater_runs::start::place::{ListKey, ListStart};

/// Times without an event, longer than [`GAP_NS_MIN`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// So many.
    pub nr: u64,
    /// The longest.
    pub longest_ns: u64,
    /// The last event before it.
    pub longest_at_ns: u64,
}

impl Gaps {
    fn between(&mut self, from_ns: u64, to_ns: u64) {
        let gap_ns = to_ns.saturating_sub(from_ns);
        if gap_ns > GAP_NS_MIN {
            self.nr += 1;
        }
        if gap_ns > GAP_NS_MIN.max(self.longest_ns) {
            (self.longest_ns, self.longest_at_ns) = (gap_ns, from_ns);
        }
    }
}

/// The figures of a trace.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Its own counts.
    pub tally: Tally,
    /// One past the highest frame.
    pub end_pfn: u64,
    /// The lowest frame.
    pub first_pfn: Option<u64>,
    /// One past the highest frame below 4 GiB.
    pub low_end_pfn: u64,
    /// One past the highest CPU.
    pub nr_cpus: u32,
    /// Lines passed over.
    pub skipped: SkippedLines,
    /// Events.
    pub nr_events: u64,
    /// Nanoseconds from the first to the last event.
    pub span_ns: u64,
    /// Times in between without an event.
    pub gaps: Gaps,
    /// Known contents of per-CPU lists at the start.
    pub lists: BTreeMap<ListKey, ListStart>,
    /// Blocks in use at the start that are freed later: first frame and order.
    pub used: Vec<(u64, u8)>,
    /// Free blocks at the start that leave the buddy lists: first frame, order, migratetype.
    pub free: Vec<(u64, u8, u8)>,
    /// Pages per refill of per-CPU lists, from the longest row of blocks that one took.
    pub batch: Option<u32>,
    /// Pages on a CPU's lists when it first drained some: an estimate of their high. It is too high
    /// by the pages of one list free at most. It is too low by pages that were there at the start
    /// and never moved.
    pub high: Option<u32>,
    /// Most pages on a CPU's lists before it gave any back: their limit is above.
    pub most_on_lists: u32,
}

impl Survey {
    /// Were removals from the buddy lists recorded?
    pub fn shows_refills(&self) -> bool {
        self.tally.total(EventKind::ZoneLocked) > 0
    }

    /// As far as the trace shows, frames assumed to have been on per-CPU lists were free.
    fn forget_lists(&mut self) {
        for ((_, order, migratetype), list) in std::mem::take(&mut self.lists) {
            let frames = list.head.into_iter().chain(list.tail);
            self.free.extend(frames.map(|pfn| (pfn, order, migratetype)));
        }
        self.high = None;
    }

    /// Reads a trace to its end.
    ///
    /// # Errors
    /// If it cannot be read, or an event is impossible; with the line.
    pub fn read(trace: &mut Trace) -> Result<Survey, InputError> {
        let surveyor = trace.first_pass(Surveyor::default, Surveyor::take)?;
        Ok(surveyor.finish(trace.totals()))
    }

    /// Blocks whose frames are known.
    pub fn known(&self) -> Known<'_> {
        Known { lists: &self.lists, used: &self.used, free: &self.free }
    }

    /// Pages known to be on a CPU's lists at the start.
    pub fn known_pages(&self, cpu: u32) -> u64 {
        let of_cpu = self.lists.iter().filter(|((c, _, _), _)| *c == cpu);
        of_cpu.map(|((_, order, _), l)| ((l.head.len() + l.tail.len()) as u64) << order).sum()
    }
}

/// Frames below 4 GiB.
pub(super) const LOW_END: u64 = 1 << 20;

/// The largest batch (rules/per-cpu-lists#sizes).
const BATCH_MAX: u32 = 63;

/// The kind of an event, and the order under which it is counted.
pub(super) fn kind_and_order(kind: &KmemKind) -> (EventKind, u8) {
    match *kind {
        KmemKind::Alloc { order, .. } => (EventKind::Alloc, order),
        KmemKind::AllocFailed { order, .. } => (EventKind::AllocFailed, order),
        KmemKind::Free { order, .. } => (EventKind::Free, order),
        KmemKind::FreeBatched { .. } => (EventKind::FreeBatched, 0),
        KmemKind::ZoneLocked { order, .. } => (EventKind::ZoneLocked, order),
        KmemKind::PcpuDrain { order, .. } => (EventKind::PcpuDrain, order),
        KmemKind::ExtFrag { alloc_order, .. } => (EventKind::ExtFrag, alloc_order),
    }
}

/// The pass: the survey so far, and the frames already seen.
#[derive(Default)]
struct Surveyor {
    survey: Survey,
    seen: Frames,
    start_ns: Option<u64>,
    last_ns: Option<u64>,
    cpus: BTreeMap<u32, CpuPass>,
}

/// State of the pass for a CPU.
#[derive(Default)]
struct CpuPass {
    /// Pages put on its lists minus those taken.
    balance: i64,
    /// The balance when it first gave some back.
    at_first_drain: Option<i64>,
    /// The largest balance before that.
    most: i64,
    /// The list being refilled, and with how many blocks so far.
    refill: Option<(ListKey, u32)>,
}

impl Surveyor {
    fn take(&mut self, event: &KmemEvent) -> Result<(), String> {
        let cpu = event.cpu;
        let start_ns = *self.start_ns.get_or_insert(event.time_ns);
        let survey = &mut self.survey;
        if let Some(last_ns) = self.last_ns.replace(event.time_ns) {
            survey.gaps.between(last_ns, event.time_ns);
        }
        survey.span_ns = survey.span_ns.max(event.time_ns.saturating_sub(start_ns));
        survey.nr_cpus = survey.nr_cpus.max(cpu + 1);
        let (kind, order) = kind_and_order(&event.kind);
        survey.tally.count(kind, cpu, order);
        if kind != EventKind::ZoneLocked {
            self.end_refill(cpu);
        }
        if let Some(pass) = self.cpus.get_mut(&cpu)
            && pass.at_first_drain.is_none()
        {
            pass.most = pass.most.max(pass.balance);
        }
        let Some(pfn) = event.kind.pfn() else { return Ok(()) };
        let size = if kind == EventKind::ExtFrag { 0 } else { order };
        if pfn & ((1 << size) - 1) != 0 {
            return Err(format!("{pfn:#x} is not the start of a block of order {size}"));
        }
        let end = pfn + (1 << size);
        let survey = &mut self.survey;
        survey.end_pfn = survey.end_pfn.max(end);
        survey.first_pfn = Some(survey.first_pfn.map_or(pfn, |first| first.min(pfn)));
        if end <= LOW_END {
            survey.low_end_pfn = survey.low_end_pfn.max(end);
        }
        self.place(event, pfn, size);
        Ok(())
    }

    /// Where was the block before, and how does the event change the CPU's lists?
    fn place(&mut self, event: &KmemEvent, pfn: u64, order: u8) {
        let cpu = event.cpu;
        let survey = &mut self.survey;
        let pass = self.cpus.entry(cpu).or_default();
        let pages = if has_lists(order) { 1i64 << order } else { 0 };
        match event.kind {
            KmemKind::Alloc { migratetype, .. } => {
                survey.tally.count_use(pfn, order, migratetype);
                pass.balance -= pages;
                if self.seen.insert(pfn, order) {
                    if has_lists(order) {
                        let list = survey.lists.entry((cpu, order, migratetype)).or_default();
                        list.head.push(pfn);
                    } else {
                        survey.free.push((pfn, order, migratetype));
                    }
                }
            }
            KmemKind::Free { .. } => {
                pass.balance += pages;
                if self.seen.insert(pfn, order) {
                    survey.used.push((pfn, order));
                }
            }
            KmemKind::ZoneLocked { migratetype, percpu_refill, .. } => {
                pass.balance += pages;
                if self.seen.insert(pfn, order) {
                    survey.free.push((pfn, order, migratetype));
                }
                let key = (cpu, order, migratetype);
                if has_lists(order) && percpu_refill != Some(false) {
                    survey.lists.entry(key).or_default().is_complete = true;
                    match &mut pass.refill {
                        Some((list, blocks)) if *list == key => *blocks += 1,
                        _ => {
                            self.end_refill(cpu);
                            self.cpus.entry(cpu).or_default().refill = Some((key, 1));
                        }
                    }
                }
            }
            KmemKind::PcpuDrain { migratetype, .. } => {
                pass.at_first_drain.get_or_insert(pass.balance);
                pass.balance -= pages;
                if self.seen.insert(pfn, order) {
                    let list = survey.lists.entry((cpu, order, migratetype)).or_default();
                    list.tail.push(pfn);
                }
            }
            KmemKind::FreeBatched { .. }
            | KmemKind::ExtFrag { .. }
            | KmemKind::AllocFailed { .. } => {}
        }
    }

    /// A batch is one less than a power of two, and a refill takes `batch >> order` blocks
    /// (rules/per-cpu-lists#sizes, rules/per-cpu-lists#refill).
    fn end_refill(&mut self, cpu: u32) {
        let Some(((_, order, _), blocks)) = self.cpus.entry(cpu).or_default().refill.take() else {
            return;
        };
        let batch = ((blocks + 1) << order) - 1;
        // Every refill has at least two blocks, so two say nothing. More than the largest batch are
        // several refills, of a trace without the events between them.
        if blocks > 2 && (blocks + 1).is_power_of_two() && batch <= BATCH_MAX {
            self.survey.batch = self.survey.batch.max(Some(batch));
        }
    }

    fn finish(mut self, totals: &Totals) -> Survey {
        let cpus: Vec<u32> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            self.end_refill(cpu);
        }
        let mut survey = self.survey;
        let high = self.cpus.iter().filter_map(|(&cpu, pass)| {
            let count = pass.at_first_drain? + survey.known_pages(cpu) as i64;
            u32::try_from(count).ok()
        });
        survey.high = high.max();
        // If the trace has no removals from the buddy lists, their absence means nothing.
        if !survey.shows_refills() {
            survey.forget_lists();
        }
        let most = self.cpus.iter().filter_map(|(&cpu, pass)| {
            u32::try_from(pass.most + survey.known_pages(cpu) as i64).ok()
        });
        survey.most_on_lists = if survey.shows_refills() { most.max().unwrap_or(0) } else { 0 };
        survey.nr_events = totals.nr_events;
        survey.skipped = totals.skipped.clone();
        survey
    }
}

/// A set of frames.
#[derive(Default)]
struct Frames {
    chunks: HashMap<u64, Box<[u64; Frames::WORDS]>>,
}

impl Frames {
    const WORDS: usize = 64;
    const FRAMES: u64 = 64 * Self::WORDS as u64;

    /// Adds a block; true if no part of it was there.
    fn insert(&mut self, pfn: u64, order: u8) -> bool {
        let mut is_new = true;
        for frame in pfn..pfn + (1 << order) {
            let empty = || Box::new([0; Self::WORDS]);
            let chunk = self.chunks.entry(frame / Self::FRAMES).or_insert_with(empty);
            let word = &mut chunk[(frame % Self::FRAMES / 64) as usize];
            let bit = 1 << (frame % 64);
            is_new &= *word & bit == 0;
            *word |= bit;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(lines: &[&str]) -> Result<Survey, InputError> {
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(i, line)| {
                let (cpu, event) = line.split_once(' ').unwrap();
                format!("t-1 [{cpu:0>3}] ..... 1.{i:06}: {event}\n")
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, text).unwrap();
        Survey::read(&mut Trace::file(&path))
    }

    #[test]
    fn first_events_say_where_frames_were() {
        let alloc = |pfn: u64, order: u8| {
            format!(
                "0 mm_page_alloc: page=1 pfn={pfn:#x} order={order} migratetype=1 gfp_flags=GFP_USER|__GFP_MOVABLE"
            )
        };
        let s = survey(&[
            &alloc(0x10, 0),
            "1 mm_page_free: page=1 pfn=0x20 order=2",
            "1 mm_page_free: page=1 pfn=0x10 order=0",
            "1 mm_page_pcpu_drain: page=1 pfn=0x20 order=2 migratetype=0",
            "1 mm_page_pcpu_drain: page=1 pfn=0x30 order=2 migratetype=0",
            "0 mm_page_alloc_zone_locked: page=1 pfn=0x40 order=0 migratetype=1 percpu_refill=1",
            "0 mm_page_alloc_zone_locked: page=1 pfn=0x41 order=0 migratetype=1 percpu_refill=1",
            "0 mm_page_alloc_zone_locked: page=1 pfn=0x42 order=0 migratetype=1 percpu_refill=1",
            &alloc(0x40, 0),
            &alloc(0x80, 4),
        ])
        .unwrap();
        let list = &s.lists[&(0, 0, 1)];
        assert_eq!((list.head.as_slice(), list.is_complete), (&[0x10][..], true));
        assert_eq!(s.lists[&(1, 2, 0)].tail, [0x30]);
        assert_eq!(s.used, [(0x20, 2)]);
        assert_eq!(s.free, [(0x40, 0, 1), (0x41, 0, 1), (0x42, 0, 1), (0x80, 4, 1)]);
        assert_eq!((s.batch, s.high), (Some(3), Some(9)));
        assert_eq!((s.end_pfn, s.nr_cpus, s.known_pages(1)), (0x90, 2, 4));
    }

    #[test]
    fn gaps_are_counted_and_the_longest_is_kept() {
        let mut gaps = Gaps::default();
        let times = [5, 5 + GAP_NS_MIN, 6 + 2 * GAP_NS_MIN, 9 + 5 * GAP_NS_MIN, 7 * GAP_NS_MIN];
        times.windows(2).for_each(|pair| gaps.between(pair[0], pair[1]));
        let (longest_ns, longest_at_ns) = (3 + 3 * GAP_NS_MIN, 6 + 2 * GAP_NS_MIN);
        assert_eq!(gaps, Gaps { nr: 3, longest_ns, longest_at_ns });
    }

    #[test]
    fn a_block_starts_at_a_multiple_of_its_size() {
        let error = survey(&["0 mm_page_free: page=1 pfn=0x21 order=2"]).unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with("/t:1: pfn: 0x21 is not the start of a block of order 2"), "{text}");
    }
}
