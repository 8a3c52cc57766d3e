//! A recording: part of one simulated run as rows, for timelines.
//!
//! Key types: [`Recording`] (one step of one policy on one machine with one seed), [`Row`] (an
//! event of a task), [`Happening`] (the kind of event).
//!
//! Neighbours: filled by `highwater` from the simulation's journal, written as Perfetto's protobuf
//! or ftrace's text by `highwater-report`. Rows are plain; names are stored once, in
//! [`Recording::names`].

use std::collections::BTreeMap;

use crate::Series;

/// A part of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Name of the experiment or workload.
    pub experiment: String,
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// Heading of its column.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// Name of the recorded step; empty if there is only one.
    pub part: String,
    /// Start, virtual time since boot in nanoseconds.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Number of CPUs of the machine.
    pub nr_cpus: u16,
    /// The tasks.
    pub tasks: Vec<RecordedTask>,
    /// Names of phases, locks, waits, operations, tracepoints and their fields, and words that are
    /// values of fields.
    pub names: Vec<String>,
    /// By a tracepoint's name: the names of its fields, as ftrace's text has them
    /// (`nr_reclaimed`).
    pub fields: BTreeMap<NameId, Vec<NameId>>,
    /// Events, in order of time.
    pub rows: Vec<Row>,
    /// Counters over time, as with `--sample-every`.
    pub counters: Series,
    /// Files of `/proc` at the start, as name and text (`zoneinfo`), if the recording begins with
    /// the boot.
    pub proc_files: Vec<(String, String)>,
    /// Remarks for the reader, such as what was left out.
    pub notes: Vec<String>,
}

/// A task of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTask {
    /// Its name: `kswapd0`.
    pub name: String,
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// True if it runs in interrupts and never has a CPU to itself.
    pub is_interrupt: bool,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Virtual time since boot, nanoseconds.
    pub at_ns: u64,
    /// The task: an index of [`Recording::tasks`].
    pub task: u32,
    /// The kind of event.
    pub what: Happening,
}

/// An index of [`Recording::names`].
pub type NameId = u32;

/// Events that can happen to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The task has this CPU from now on.
    Runs {
        /// The CPU.
        cpu: u16,
    },
    /// The task lost its CPU and wants to run.
    Preempted,
    /// The task gave up its CPU and waits.
    Waits {
        /// The reason.
        why: NameId,
        /// True for a sleep or a timer: no other task is waited for.
        is_sleep: bool,
    },
    /// The task's wait is over.
    Woken {
        /// The task that woke it; none if its time was over.
        by: Option<u32>,
    },
    /// The task begins an activity inside its current one.
    Enters {
        /// A phase or the wait for a lock.
        what: NameId,
    },
    /// The task ends the innermost activity.
    Leaves,
    /// The task begins an operation that the workload measures.
    BeginsOperation,
    /// The task ends its operation.
    EndsOperation {
        /// The operation's name.
        name: NameId,
    },
    /// The task passed a tracepoint.
    Passes {
        /// The CPU.
        cpu: u16,
        /// The tracepoint's system: `vmscan`.
        system: NameId,
        /// Its name: `mm_vmscan_kswapd_wake`.
        name: NameId,
        /// The rest of its line in ftrace's text: `nid=0 order=0`.
        text: Box<str>,
        /// The values of its fields, in the order of [`Recording::fields`].
        values: Box<[FieldValue]>,
    },
    /// The task has ended.
    Ends,
}

/// The value of a field, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A count, an index, a time.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// The number of a page frame.
    Frame(u64),
    /// No page frame: the kernel's pfn −1.
    NoFrame,
    /// Words: a name, or flags as symbols.
    Words(NameId),
}

impl Recording {
    /// The name with this index.
    pub fn name(&self, id: NameId) -> &str {
        self.names.get(id as usize).map_or("", String::as_str)
    }

    /// Number of times each tracepoint was passed, by system and name.
    pub fn event_counts(&self) -> Vec<(&str, &str, u64)> {
        let mut counts: Vec<(NameId, NameId, u64)> = Vec::new();
        for row in &self.rows {
            if let Happening::Passes { system, name, .. } = row.what {
                match counts.iter_mut().find(|(_, known, _)| *known == name) {
                    Some((_, _, count)) => *count += 1,
                    None => counts.push((system, name, 1)),
                }
            }
        }
        let mut named: Vec<_> =
            counts.iter().map(|&(s, n, count)| (self.name(s), self.name(n), count)).collect();
        named.sort_unstable();
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_counted_by_name() {
        let names = ["kmem", "b", "a"].map(str::to_owned).to_vec();
        let mut recording = Recording { names, ..Recording::default() };
        for name in [1, 2, 1] {
            let (text, values) = Default::default();
            let what = Happening::Passes { cpu: 0, system: 0, name, text, values };
            recording.rows.push(Row { at_ns: 0, task: 0, what });
        }
        assert_eq!(recording.event_counts(), [("kmem", "a", 1), ("kmem", "b", 2)]);
    }
}
