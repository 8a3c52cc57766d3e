//! `kind: memcg`: what a script of operations in memory cgroups did to the counters of the machine
//! and of each group.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::model::{Counters, Zone};
use super::script::{Line, Op};
use super::validate::{self, Checked};
use super::{Document, ImportError};

/// Most groups and workers of a script.
const NAMES_MAX: usize = 256;

/// A captured script with its effects.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Memcg {
    /// Name of the capture.
    pub name: String,
    /// The Linux version.
    pub kernel: String,
    /// Always 4096.
    pub page_size: u64,
    /// Pages that Linux reports.
    pub phys_pages: u64,
    /// Number of CPUs.
    pub cpus: u32,
    /// Kernel settings, by the names of `/proc/sys` and `/sys/kernel/mm`, and mount options.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Zones with memory, before the script ran.
    pub zones: Vec<Zone>,
    /// The operations, in order.
    pub script: Vec<Line>,
    /// The same script several times.
    pub runs: Vec<MemcgRun>,
}

/// One run of a script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MemcgRun {
    /// Levels of the machine at the first snapshot.
    pub start_gauges: Counters,
    /// Groups at the first snapshot, by path; `/` is the root. Counters since the group was made.
    #[serde(default)]
    pub start_groups: BTreeMap<String, GroupReading>,
    /// Operations before the first snapshot.
    #[serde(default)]
    pub setup_ops: Vec<OpResult>,
    /// Steps in order: each ends with a snapshot.
    pub steps: Vec<MemcgStep>,
    /// Lines of the kernel's log about OOM kills.
    #[serde(default)]
    pub oom_log: Vec<String>,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MemcgStep {
    /// Label of the snapshot at its end.
    pub label: String,
    /// Seconds on the emulated machine; never compared.
    pub elapsed_s: f64,
    /// Changes of the machine's event counters; absent ones did not change.
    pub counters: Counters,
    /// Levels of the machine at the end; absent ones are 0.
    pub gauges: Counters,
    /// Groups by path.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupReading>,
    /// Operations of the step.
    #[serde(default)]
    pub ops: Vec<OpResult>,
}

/// Readings of a group's files. Absent counters and levels are 0.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct GroupReading {
    /// `memory.current`, bytes; the root has none of the four.
    pub current: Option<u64>,
    /// `memory.peak`, bytes.
    pub peak: Option<u64>,
    /// `memory.swap.current`, bytes.
    pub swap_current: Option<u64>,
    /// `memory.swap.peak`, bytes.
    pub swap_peak: Option<u64>,
    /// Levels of `memory.stat`, bytes.
    pub gauges: Counters,
    /// Changes of the events of `memory.stat`.
    pub counters: Counters,
    /// Changes of `memory.events`.
    pub events: Counters,
    /// Changes of `memory.events.local`.
    pub events_local: Counters,
    /// Changes of `memory.swap.events`.
    pub swap_events: Counters,
    /// Changes of the totals of `memory.pressure`, microseconds.
    pub pressure_us: Counters,
    /// Groups below.
    pub descendants: u64,
    /// Removed groups below that still hold memory.
    pub dying_descendants: u64,
}

/// The outcome of an operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct OpResult {
    /// Its line.
    pub op: String,
    /// Seconds of the whole, with hand-over; never compared.
    pub elapsed_s: f64,
    /// Seconds of the worker.
    pub worker_s: Option<f64>,
    /// Pages, or bytes / 1024; negative: an error number.
    pub result: Option<i64>,
    /// Error of a write to a setting; 0: none.
    pub errno: Option<i64>,
    /// Signal that killed the worker meanwhile.
    pub killed: Option<i64>,
    /// Exit status.
    pub exited: Option<i64>,
    /// `dead`: the worker was gone.
    pub note: Option<String>,
    /// Page faults without I/O.
    pub minflt: i64,
    /// Page faults with I/O.
    pub majflt: i64,
    /// Voluntary context switches.
    pub nvcsw: i64,
    /// Others.
    pub nivcsw: i64,
    /// CPU time of the program, microseconds.
    pub utime_us: i64,
    /// CPU time of the kernel, microseconds.
    pub stime_us: i64,
    /// Blocks read.
    pub inblock: i64,
    /// Blocks written.
    pub oublock: i64,
    /// Page number and milliseconds of every page that took at least 3.5 ms; only of operations
    /// with a time limit.
    pub sleeps_ms: Vec<(u64, f64)>,
}

impl Memcg {
    /// True if multi-generational LRU was switched on.
    #[must_use]
    pub fn is_mglru(&self) -> bool {
        let enabled = self.settings.get("lru_gen.enabled").map(String::as_str);
        let number = enabled.and_then(|text| text.strip_prefix("0x"));
        number
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .is_some_and(|bits| bits & 1 != 0)
    }

    /// True if cgroup2 was mounted with `memory_recursiveprot`.
    #[must_use]
    pub fn has_recursive_protection(&self) -> bool {
        let options = self.settings.get("cgroup2_mount_options");
        options.is_some_and(|options| options.split(',').any(|o| o == "memory_recursiveprot"))
    }

    /// Number of groups that the script makes.
    #[must_use]
    pub fn nr_groups(&self) -> usize {
        self.script.iter().filter(|line| matches!(line.op, Op::Group(_))).count()
    }

    pub(super) fn validate(&self, document: &Document<'_>) -> Checked {
        validate::page_size(document, self.page_size)?;
        validate::machine(document, self.cpus, self.phys_pages, &self.zones)?;
        let labels = self.validate_script(document)?;
        let Some((_, expected)) = labels.split_first() else {
            return Err(document.error("script", "no snap: nothing is measured"));
        };
        if self.runs.is_empty() {
            return Err(document.error("runs", "no run"));
        }
        for (r, run) in self.runs.iter().enumerate() {
            if run.steps.len() != expected.len() {
                let (found, expected) = (run.steps.len(), expected.len());
                let problem = format!("{found} steps, but the script has {expected}");
                return Err(document.error(format!("runs[{r}].steps"), problem));
            }
            for (s, (step, label)) in run.steps.iter().zip(expected).enumerate() {
                if step.label != *label {
                    let problem = format!("not {label:?}, as the script calls it");
                    return Err(document.error(format!("runs[{r}].steps[{s}].label"), problem));
                }
            }
        }
        Ok(())
    }

    /// Checks that groups and workers exist when they are used. Returns the labels of the snaps.
    fn validate_script(&self, document: &Document<'_>) -> Result<Vec<&str>, ImportError> {
        let (mut groups, mut workers) = (BTreeSet::from(["/"]), BTreeSet::new());
        let mut labels = Vec::new();
        for (at, line) in self.script.iter().enumerate() {
            let wrong = |problem: String| document.error(format!("script[{at}]"), problem);
            let known = |what: &str, names: &BTreeSet<&str>, name: &str| {
                if names.contains(name) {
                    Ok(())
                } else {
                    Err(wrong(format!("no {what} {name:?}")))
                }
            };
            match &line.op {
                Op::Group(path) => {
                    known("group", &groups, path.rsplit_once('/').map_or("/", |(above, _)| above))?;
                    if !groups.insert(path) {
                        return Err(wrong(format!("there is a group {path:?}")));
                    }
                }
                Op::RemoveGroup(path) => {
                    known("group", &groups, path)?;
                    groups.remove(path.as_str());
                }
                Op::Set { group, .. } | Op::Reclaim { group, .. } => {
                    known("group", &groups, group)?;
                }
                Op::Worker { worker, group, cpu } => {
                    known("group", &groups, group)?;
                    if u32::from(*cpu) >= self.cpus {
                        let problem = format!("CPU {cpu} of a machine with {} CPUs", self.cpus);
                        return Err(wrong(problem));
                    }
                    if !workers.insert(worker.as_str()) {
                        return Err(wrong(format!("there is a worker {worker:?}")));
                    }
                }
                Op::Move { worker, group } => {
                    known("worker", &workers, worker)?;
                    known("group", &groups, group)?;
                }
                Op::Kill(worker) | Op::Wait(worker) | Op::Work { worker, .. } => {
                    known("worker", &workers, worker)?;
                }
                Op::Snap(label) => labels.push(label.as_str()),
                Op::MakeFile { .. } | Op::Sleep(_) | Op::Drop | Op::Sync | Op::Begin => {}
            }
            if self.nr_groups().max(workers.len()) > NAMES_MAX {
                return Err(wrong(format!("more than {NAMES_MAX} groups or workers")));
            }
        }
        Ok(labels)
    }
}

/// The longest time of an operation or a step that is believed, in seconds.
const ELAPSED_MAX: f64 = 600.0;

/// When an operation of a script began on the captured machine, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpTime {
    /// Seconds since the first operation began.
    pub start_s: f64,
    /// Seconds of the worker. None if the main program did it, or the worker was killed.
    pub worker_s: Option<f64>,
}

impl MemcgRun {
    /// The times of the operations of a script.
    ///
    /// Snapshots and the main program's own work take time too, in which the kernel's periodic work
    /// goes on. The time of the first snapshot is not in the file and counts as 0.
    pub fn times(&self, script: &[Line]) -> Vec<OpTime> {
        let seconds = |elapsed: f64| elapsed.clamp(0.0, ELAPSED_MAX);
        let (mut ops, mut steps) = (self.setup_ops.iter(), self.steps.iter());
        // A step begins with the end of a snapshot and ends with that of the next.
        let (mut now, mut step_end) = (0.0, None);
        // Operations that nobody has waited for yet, by their worker: the wait has their time.
        let mut running = BTreeMap::new();
        let mut times: Vec<OpTime> = Vec::new();
        for (at, line) in script.iter().enumerate() {
            times.push(OpTime { start_s: now, worker_s: None });
            if matches!(line.op, Op::Snap(_)) {
                now = step_end.take().map_or(now, |end: f64| end.max(now));
                if let Some(step) = steps.next() {
                    step_end = Some(now + seconds(step.elapsed_s));
                    ops = step.ops.iter();
                }
            } else if let Some(op) = ops.next() {
                now += seconds(op.elapsed_s);
                let ended = match &line.op {
                    Op::Work { worker, is_parallel: true, .. } => running.insert(worker, at),
                    Op::Wait(worker) => running.remove(worker),
                    _ => Some(at),
                };
                if let Some(ended) = ended {
                    times[ended].worker_s = op.worker_s.map(seconds);
                }
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reference;
    use super::*;

    fn text(script: &str, steps: &str) -> String {
        format!(
            r#"{{"schema": 1, "kind": "memcg", "name": "t", "kernel": "Linux 6.1 (Debian)",
"page_size": 4096, "phys_pages": 1000, "cpus": 2,
"settings": {{"lru_gen.enabled": "0x0007", "cgroup2_mount_options": "rw,memory_recursiveprot"}},
"zones": [{{"node": 0, "zone": "DMA32", "pagesets": [], "free": 900, "min": 1, "low": 2, "high": 3,
"spanned": 1000, "present": 1000, "managed": 1000, "protection": [], "start_pfn": 4096}}],
"script": [{script}],
"runs": [{{"start_gauges": {{}}, "steps": [{steps}]}}]}}"#
        )
    }

    fn read(script: &str, steps: &str) -> Result<Memcg, String> {
        match Reference::parse("t.json", text(script, steps).as_bytes()) {
            Ok(Reference::Memcg(read)) => Ok(read),
            Ok(other) => panic!("{}", other.kind()),
            Err(error) => Err(error.to_string()),
        }
    }

    const STEP: &str = r#"{"label": "s", "elapsed_s": 1, "counters": {}, "gauges": {},
"groups": {"a": {"current": 8192, "events": {"max": 3}}},
"ops": [{"op": "w touch m", "sleeps_ms": [[7, 12.5]], "killed": 9}]}"#;
    const SCRIPT: &str = r#""group a", "worker w a", "snap b", "w map m 8", "snap s""#;

    fn starts(captured: &Memcg) -> Vec<f64> {
        let times = captured.runs[0].times(&captured.script);
        times.iter().map(|time| time.start_s).collect()
    }

    /// A worker's time stands at the operation, or at the wait for one that ran beside others.
    #[test]
    fn operations_last_as_long_as_their_workers_say() {
        let script = r#""group a", "worker v a", "worker w a", "snap b", "v map m 8",
"&w map n 8", "v touch m", "wait w", "w touch n", "snap s""#;
        let step = r#"{"label": "s", "elapsed_s": 9, "counters": {}, "gauges": {}, "ops": [
{"op": "v map m 8", "worker_s": 0.5}, {"op": "&w map n 8", "elapsed_s": 0.125},
{"op": "v touch m", "worker_s": 1}, {"op": "wait w", "worker_s": 2},
{"op": "w touch n", "killed": 9}]}"#;
        let captured = read(script, step).expect("a capture");
        let times = captured.runs[0].times(&captured.script);
        let lasts: Vec<_> = times[4..9].iter().map(|time| time.worker_s).collect();
        assert_eq!(lasts, [Some(0.5), Some(2.0), Some(1.0), None, None]);
    }

    /// A snapshot takes what the step has beyond its operations.
    #[test]
    fn operations_begin_one_after_the_other() {
        let step = |label: &str, elapsed: f64, op: f64| {
            format!(
                r#"{{"label": "{label}", "elapsed_s": {elapsed}, "counters": {{}}, "gauges": {{}},
"ops": [{{"op": "x", "elapsed_s": {op}}}]}}"#
            )
        };
        let script = r#""group a", "worker w a", "snap b", "w map m 8", "snap s", "w map n 8",
"snap t", "w touch m""#;
        let steps = format!("{}, {}", step("s", 1.0, 0.25), step("t", 2.0, 0.5));
        let mut captured = read(script, &steps).expect("a capture");
        assert_eq!(starts(&captured), [0.0, 0.0, 0.0, 0.0, 0.25, 1.0, 1.5, 3.0]);
        captured.runs[0].steps[0].elapsed_s = 0.125;
        captured.runs[0].steps[1].elapsed_s = 1e12;
        let starts = starts(&captured);
        assert_eq!(starts[5..], [0.25, 0.75, 600.25]);
    }

    #[test]
    fn a_whole_file() {
        let read = read(SCRIPT, STEP).expect("a capture");
        assert!(read.is_mglru() && read.has_recursive_protection());
        assert_eq!((read.nr_groups(), read.script.len()), (1, 5));
        let step = &read.runs[0].steps[0];
        assert_eq!(step.groups["a"].current, Some(8192));
        assert_eq!(step.groups["a"].events["max"], 3);
        assert_eq!(step.ops[0].sleeps_ms, [(7, 12.5)]);
    }

    #[test]
    fn errors_name_the_line_of_the_script() {
        let script = SCRIPT.replace("w map m 8", "w map m");
        let error = read(&script, STEP).expect_err("a wrong line");
        assert!(error.contains("script[3]") && error.contains("map does not take"), "{error}");
        for (from, to, reason) in [
            ("worker w a", "worker w b", "no group \"b\""),
            ("w map m 8", "v map m 8", "no worker \"v\""),
            ("worker w a", "worker w a 2", "CPU 2 of a machine with 2 CPUs"),
            ("group a", "group a/b", "no group \"a\""),
        ] {
            let error = read(&SCRIPT.replace(from, to), STEP).expect_err(reason);
            assert!(error.contains("script[") && error.contains(reason), "{error}");
        }
        let error = read(SCRIPT, &STEP.replace("\"s\"", "\"x\"")).expect_err("another label");
        assert!(error.contains("runs[0].steps[0].label"), "{error}");
    }
}
