//! How late a group's statistics are, and who brings them up to date: pure sums.
//!
//! `memory.stat`, the heuristics of reclaim and the dirty limits read numbers that CPUs have added
//! up, and adding up is expensive: a subtree times all CPUs. So readers accept old numbers as long
//! as few updates are pending. The rules differ by kernel ([`MemcgStats`]):
//!
//! | rule | a CPU keeps for itself | a reader flushes |
//! |---|---|---|
//! | `batches` | up to 32 pages per item and group, without time limit | never |
//! | `rstat-global` | everything until a flush | if about 64 updates per CPU are pending anywhere |
//! | `rstat-per-group` | everything until a flush | `memory.stat` if 64 per CPU are pending in the subtree; others once the flusher is late |
//!
//! A worker flushes everything every 2 s ([`FLUSH_PERIOD`]), whatever is pending.
//!
//! Key types: [`Lateness`] (pending updates), [`Reader`]; [`batched`] for `batches`.
//!
//! Synchronisation: none. Counts are estimates in Linux too.

use alloc::boxed::Box;
use core::iter;

use super::counter::Counters;
use crate::config::MemcgStats;
use crate::host::HZ;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::units::{CpuId, GroupId, PAGE_SIZE};

/// Jiffies between two flushes of the worker.
pub(crate) const FLUSH_PERIOD: u64 = 2 * HZ;
/// Jiffies since the worker's last flush, beyond which it is late: a period was left out.
const LATE: u64 = 2 * FLUSH_PERIOD;
/// Updates that a CPU counts by itself.
const UPDATES: u64 = 64;
/// Pages or events of an item that a CPU keeps for itself (up to 5.12).
pub(crate) const ITEM_BATCH: u64 = 32;
/// The same of items in bytes.
pub(crate) const BYTES_BATCH: u64 = ITEM_BATCH * PAGE_SIZE as u64;

/// A reader of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// `memory.stat` and `memory.numa_stat`.
    File,
    /// A node pass of reclaim.
    NodePass,
    /// The dirty limits of a group.
    DirtyLimits,
    /// A refault, which compares distances with the working set.
    Refault,
}

/// Updates since the last flush.
#[derive(Debug)]
pub(crate) struct Lateness {
    rule: MemcgStats,
    nr_cpus: u64,
    /// Groups that counts are kept for: one for all, with a common threshold.
    nr_groups: usize,
    /// Sizes of updates, by CPU and group; at most [`UPDATES`] but for a moment.
    of_cpus: Box<[AtomicU64]>,
    /// By group: updates that CPUs reported. With a common threshold in units of [`UPDATES`].
    reported: Box<[AtomicU64]>,
}

impl Lateness {
    /// Nothing is pending.
    pub(crate) fn new(rule: MemcgStats, nr_cpus: usize, capacity: usize) -> Lateness {
        let nr_groups = match rule {
            MemcgStats::Batches => 0,
            MemcgStats::RstatGlobal => 1,
            MemcgStats::RstatPerGroup => capacity,
        };
        let cells = |nr| iter::repeat_with(|| AtomicU64::new(0)).take(nr).collect();
        Lateness {
            rule,
            nr_cpus: nr_cpus as u64,
            nr_groups,
            of_cpus: cells(nr_cpus * nr_groups),
            reported: cells(nr_groups),
        }
    }

    /// Notes that a statistic of a group changed by `value` on a CPU.
    #[doc(alias = "memcg_rstat_updated")]
    #[inline]
    pub(crate) fn note(&self, counters: &Counters, cpu: CpuId, group: GroupId, value: i64) {
        let size = value.unsigned_abs();
        match self.rule {
            MemcgStats::Batches => {}
            MemcgStats::RstatGlobal => {
                self.count(cpu, 0, size, |sum| sum > UPDATES, |sum| sum / UPDATES);
            }
            MemcgStats::RstatPerGroup => {
                for at in counters.ancestors(group) {
                    self.count(cpu, at.idx(), size, |sum| sum >= UPDATES, |sum| sum);
                }
            }
        }
    }

    /// Counts an update on a CPU, and reports once it has enough. A flush that is due needs no
    /// further counting.
    fn count(
        &self,
        cpu: CpuId,
        group: usize,
        size: u64,
        is_enough: impl Fn(u64) -> bool,
        report: impl Fn(u64) -> u64,
    ) {
        let own = &self.of_cpus[cpu.idx() * self.nr_groups + group];
        let sum = own.load(Relaxed) + size;
        if !is_enough(sum) {
            own.store(sum, Relaxed);
            return;
        }
        if !self.is_due(group) {
            self.reported[group].fetch_add(report(sum), Relaxed);
        }
        own.store(0, Relaxed);
    }

    /// Reports whether enough is pending for a reader to flush.
    #[doc(alias = "memcg_vmstats_needs_flush")]
    fn is_due(&self, group: usize) -> bool {
        let unit = if self.rule == MemcgStats::RstatGlobal { 1 } else { UPDATES };
        self.reported[group].load(Relaxed) > unit * self.nr_cpus
    }

    /// Reports whether a reader of a group's statistics flushes first; `since_worker` is the time
    /// since the worker's last flush, in jiffies.
    pub(crate) fn should_flush(&self, reader: Reader, group: GroupId, since_worker: u64) -> bool {
        match (self.rule, reader) {
            (MemcgStats::Batches, _) => false,
            (MemcgStats::RstatGlobal, Reader::Refault) => since_worker > LATE,
            (MemcgStats::RstatGlobal, _) => self.is_due(0),
            (MemcgStats::RstatPerGroup, Reader::File) => self.is_due(group.idx()),
            (MemcgStats::RstatPerGroup, _) => since_worker > LATE,
        }
    }

    /// Notes that the statistics of some groups, a subtree, are up to date. A flush with a common
    /// threshold is always of all groups.
    pub(crate) fn flushed(&self, subtree: impl IntoIterator<Item = GroupId>) {
        match self.rule {
            MemcgStats::Batches => {}
            MemcgStats::RstatGlobal => self.reported[0].store(0, Relaxed),
            MemcgStats::RstatPerGroup => {
                for group in subtree {
                    self.reported[group.idx()].store(0, Relaxed);
                    let of_group = self.of_cpus[group.idx()..].iter().step_by(self.nr_groups);
                    of_group.for_each(|own| own.store(0, Relaxed));
                }
            }
        }
    }
}

/// Adds an update of an item to those that a CPU holds back, at most `batch`. Returns the amount
/// that is held back now, and the amount that goes to the group and its ancestors.
pub(crate) const fn batched(held: i64, value: i64, batch: u64) -> (i64, i64) {
    let sum = held + value;
    if sum.unsigned_abs() > batch { (0, sum) } else { (sum, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: CpuId = CpuId(0);
    const P: GroupId = GroupId(1);
    const A: GroupId = GroupId(2);
    const B: GroupId = GroupId(3);

    fn counters() -> Counters {
        let counters = Counters::new(4);
        for (group, parent) in [(P, GroupId::ROOT), (A, P), (B, P)] {
            counters.reset(group, parent);
        }
        counters
    }

    /// A page that is touched for the first time: anon, list, fault.
    fn touch(lateness: &Lateness, counters: &Counters, nr_pages: u64) {
        for _ in 0..nr_pages {
            (0..3).for_each(|_| lateness.note(counters, CPU, A, 1));
        }
    }

    #[test]
    fn one_page_is_not_seen_and_three_hundred_are() {
        let (counters, late) = (counters(), Lateness::new(MemcgStats::RstatGlobal, 2, 4));
        let flushes = |reader| late.should_flush(reader, P, 0);
        touch(&late, &counters, 1);
        assert!(!flushes(Reader::File));
        touch(&late, &counters, 42);
        assert!(!flushes(Reader::File), "129 updates: threshold 1");
        touch(&late, &counters, 300);
        for reader in [Reader::File, Reader::NodePass, Reader::DirtyLimits] {
            assert!(flushes(reader), "{reader:?}");
        }
        late.flushed([]);
        assert!(!flushes(Reader::File));
        // One update may be worth several.
        late.note(&counters, CPU, B, -192);
        assert!(flushes(Reader::File));
    }

    #[test]
    fn a_common_threshold_stops_when_it_is_due() {
        let (counters, late) = (counters(), Lateness::new(MemcgStats::RstatGlobal, 2, 4));
        let note = |value| {
            late.note(&counters, CPU, A, value);
            late.reported[0].load(Relaxed)
        };
        assert_eq!([64, 1, 128, 64, 6400].map(note), [0, 1, 3, 3, 3]);
    }

    #[test]
    fn refaults_wait_for_the_worker() {
        for rule in [MemcgStats::RstatGlobal, MemcgStats::RstatPerGroup] {
            let (counters, late) = (counters(), Lateness::new(rule, 2, 4));
            touch(&late, &counters, 1000);
            let flushes = |reader, since| late.should_flush(reader, A, since);
            assert!(!flushes(Reader::Refault, 4 * HZ) && flushes(Reader::Refault, 4 * HZ + 1));
            let now = rule == MemcgStats::RstatGlobal;
            assert_eq!([0, 4 * HZ + 1].map(|since| flushes(Reader::NodePass, since)), [now, true]);
        }
    }

    #[test]
    fn groups_are_late_one_by_one() {
        let (counters, late) = (counters(), Lateness::new(MemcgStats::RstatPerGroup, 2, 4));
        let groups = [GroupId::ROOT, P, A, B];
        let due = || groups.map(|group| late.should_flush(Reader::File, group, 0));
        late.note(&counters, CPU, A, 63);
        late.note(&counters, CpuId(1), A, 128);
        assert_eq!(due(), [false; 4]);
        late.note(&counters, CPU, A, 1);
        assert_eq!(due(), [true, true, true, false], "192 > 64 updates for each of 2 CPUs");
        late.note(&counters, CPU, B, 10);
        // A flush of the subtree leaves the ancestors as they are.
        late.flushed([A]);
        assert_eq!(due(), [true, true, false, false]);
        late.flushed([P, A, B]);
        late.note(&counters, CPU, B, 63);
        late.note(&counters, CpuId(1), B, 128);
        assert_eq!(due(), [true, false, false, false], "the 10 of before are gone");
        late.note(&counters, CPU, B, 1);
        assert_eq!(due(), [true, true, false, true]);
    }

    #[test]
    fn a_batch_is_held_back_for_ever() {
        let late = Lateness::new(MemcgStats::Batches, 2, 4);
        touch(&late, &counters(), 1000);
        assert!(!late.should_flush(Reader::File, A, 100 * HZ));
        late.flushed([A]);
        assert_eq!(batched(0, 32, ITEM_BATCH), (32, 0));
        assert_eq!(batched(32, 1, ITEM_BATCH), (0, 33));
        assert_eq!(batched(-30, -3, ITEM_BATCH), (0, -33));
        assert_eq!(batched(30, -40, ITEM_BATCH), (-10, 0));
        assert_eq!(batched(0, 131_072, BYTES_BATCH), (131_072, 0));
    }
}
