//! A recording is complete and changes no result, and a partial one equals that part of the
//! complete one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use highwater_core::config::preset;
use highwater_report::trace::ftrace;
use highwater_results::recording::{FieldValue, Happening, Recording, Row};
use highwater_sim::ledger::{KindSet, Window};

use highwater_files::machine_file::MachineFile;
use highwater_linux::replay::{self, UseSidecars};
use highwater_plan::experiment::{Experiment, Progress, RunPlan};
use highwater_plan::recording::{Chosen, Recorder, Wanted, When, record};
use highwater_runs::workload::{Registry, Unit};

struct Nobody;

impl Progress for Nobody {
    fn cell_done(&self, _: usize, _: usize) {}
}

fn plan(workload: &str, machine: &str) -> RunPlan {
    let (name, _) = workload[1..].split_once(']').unwrap();
    let text = format!(
        "name = \"x\"\ntitle = \"t\"\nworkload = \"{name}\"\niterations = 1\n[[policy]]\nname = \"6.1\"\nlabel = \
         \"6.1\"\n[[machine]]\nname = \"m\"\n{workload}"
    );
    let experiment = Experiment::parse(&Registry::default(), "x.toml", &text).unwrap();
    let machines = vec![MachineFile::parse("m.toml", machine).unwrap()];
    RunPlan::new(experiment, machines, vec![(preset("6.1").unwrap(), "6.1".to_owned())])
}

fn netperf() -> RunPlan {
    plan(
        "[netperf-tcp]\nsizes = [4096]\nms-per-size = 5\nwarmup = \"1M\"\n",
        "[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n",
    )
}

/// Writers, a hog and a latency prober, on less memory than they need.
fn stutterp() -> RunPlan {
    let machine = include_str!("../../highwater/tests/cli/small.toml");
    plan("[stutterp]\nladder = [4, 5]\nseconds = 0.2\nwarm-up = 0.5\n", machine)
}

fn recorded(plan: &RunPlan, when: When, part: Option<&str>) -> (Recording, Chosen) {
    let wanted = Wanted { when, kinds: KindSet::all(), part: part.map(str::to_owned), op: None };
    record(plan, &wanted, &Nobody, &AtomicBool::new(false)).unwrap()
}

/// State of a task: its CPU, the waits and phases that it is in, whether it has an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct At {
    cpu: Option<u16>,
    waits: Option<u32>,
    inside: Vec<u32>,
    has_op: bool,
}

impl At {
    fn step(&mut self, what: &Happening) {
        match what {
            Happening::Runs { cpu } => (self.cpu, self.waits) = (Some(*cpu), None),
            Happening::Preempted => self.cpu = None,
            Happening::Waits { why, .. } => (self.cpu, self.waits) = (None, Some(*why)),
            Happening::Woken { .. } => self.waits = None,
            Happening::Enters { what } => self.inside.push(*what),
            Happening::Leaves => drop(self.inside.pop().expect("it is inside of something")),
            Happening::BeginsOperation => self.has_op = true,
            Happening::EndsOperation { .. } => {
                assert!(std::mem::take(&mut self.has_op), "an operation ends that did not begin");
            }
            Happening::Ends => *self = At::default(),
            Happening::Passes { .. } => {}
        }
    }
}

/// Follows all tasks through rows.
fn follow<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<u32, At> {
    let mut tasks: BTreeMap<u32, At> = BTreeMap::new();
    rows.for_each(|row| tasks.entry(row.task).or_default().step(&row.what));
    tasks
}

#[test]
fn nobody_shares_a_cpu_and_what_is_left_was_entered() {
    let (recording, _) = recorded(&stutterp(), When::Window(Window::ALL), Some("mmap-5"));
    assert!(recording.rows.is_sorted_by_key(|row| row.at_ns));
    let mut tasks: BTreeMap<u32, At> = BTreeMap::new();
    let mut cpus: BTreeMap<u16, u32> = BTreeMap::new();
    for row in &recording.rows {
        let at = tasks.entry(row.task).or_default();
        let before = at.cpu;
        at.step(&row.what);
        if recording.tasks[row.task as usize].is_interrupt {
            continue;
        }
        if let Happening::Passes { cpu, .. } = row.what {
            assert_eq!(at.cpu, Some(cpu), "{row:?}");
        }
        if before != at.cpu {
            before.iter().for_each(|cpu| assert_eq!(cpus.remove(cpu), Some(row.task)));
            let taken = at.cpu.and_then(|cpu| cpus.insert(cpu, row.task));
            assert_eq!(taken, None, "{row:?}");
        }
    }
    let names: Vec<&str> = recording.names.iter().map(String::as_str).collect();
    for name in ["page fault", "balance node", "mmap-5", "vmscan", "mm_page_alloc"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let nr_woken = |by: fn(&Option<u32>) -> bool| {
        let is = |row: &&Row| matches!(&row.what, Happening::Woken { by: waker } if by(waker));
        recording.rows.iter().filter(is).count()
    };
    assert!(nr_woken(Option::is_some) > 10 && nr_woken(Option::is_none) > 10);
}

#[test]
fn a_part_is_that_part_of_the_whole() {
    let plan = stutterp();
    let (whole, _) = recorded(&plan, When::Window(Window::ALL), Some("mmap-5"));
    let middle_ns = whole.to_ns / 2;
    let window = Window { from_ns: middle_ns, to_ns: middle_ns + 60_000_000 };
    let (part, _) = recorded(&plan, When::Window(window), Some("mmap-5"));
    assert_eq!((part.from_ns, part.to_ns), (window.from_ns, window.to_ns));
    // Names have other numbers: a part has fewer.
    let named = |of: &Recording, row: &Row| {
        let name = |id: u32| of.name(id).to_owned();
        let what = match &row.what {
            Happening::Waits { why, .. } => format!("waits {}", name(*why)),
            Happening::Enters { what } => format!("enters {}", name(*what)),
            Happening::EndsOperation { name: op } => format!("ends {}", name(*op)),
            Happening::Passes { cpu, name: event, text, .. } => {
                format!("{cpu} {} {text}", name(*event))
            }
            other => format!("{other:?}"),
        };
        (row.at_ns, row.task, what)
    };
    // Rows with the state at the start of the part come before the rows of the part.
    let of_whole: Vec<_> = whole.rows.iter().filter(|row| window.has(row.at_ns)).collect();
    let of_part = &part.rows[part.rows.len() - of_whole.len()..];
    assert!(of_whole.len() > 100);
    let all = |of: &Recording, rows: &mut dyn Iterator<Item = &Row>| {
        rows.map(|row| named(of, row)).collect::<Vec<_>>()
    };
    let expected = all(&whole, &mut of_whole.into_iter());
    assert_eq!(all(&part, &mut of_part.iter()), expected);
    let before = whole.rows.iter().take_while(|row| row.at_ns < window.from_ns);
    let opening = &part.rows[..part.rows.len() - of_part.len()];
    let names = |of: &Recording, at: At| {
        let inside: Vec<String> = at.inside.iter().map(|&id| of.name(id).to_owned()).collect();
        (at.cpu, at.waits.map(|id| of.name(id).to_owned()), inside, at.has_op)
    };
    let is_there =
        |task: &u32, at: &At| *at != At::default() || part.rows.iter().any(|r| r.task == *task);
    let before = follow(before).into_iter().filter(|(task, at)| is_there(task, at));
    let before: Vec<_> = before.map(|(task, at)| (task, names(&whole, at))).collect();
    let opened = follow(opening.iter()).into_iter();
    let opened: Vec<_> = opened.map(|(task, at)| (task, names(&part, at))).collect();
    assert_eq!(opened, before);
}

#[test]
fn a_recording_changes_nothing() {
    let plan = stutterp();
    let job = &plan.experiment.job;
    let unit = Unit::of(&plan.machines[0], &plan.policies[0].0, 1);
    let alone = job.run(&unit).unwrap();
    let recorder = Recorder::new(Window::ALL, KindSet::all());
    let watched = job.run(&Unit { recorder: Some(&recorder), ..unit }).unwrap();
    assert_eq!((alone.digest, alone.counters), (watched.digest, watched.counters));
    let recording = recorder.finish("").unwrap();
    // Every operation of the run is in it.
    let nr = |of: &str| {
        let ends = |row: &&Row| matches!(row.what, Happening::EndsOperation { name } if recording.name(name) == of);
        recording.rows.iter().filter(ends).count()
    };
    let nr_samples = watched.samples.iter().filter(|(name, _)| name == "mmap-4").count();
    assert!(nr_samples > 10 && nr("mmap-4") >= nr_samples, "{}, {nr_samples}", nr("mmap-4"));
    let reclaimed = recording.event_counts();
    let begun = reclaimed.iter().find(|(_, name, _)| *name == "mm_vmscan_direct_reclaim_begin");
    assert!(begun.is_some_and(|&(_, _, count)| count > 0));
}

/// Fields are typed, and say what ftrace's text says.
#[test]
fn fields_of_tracepoints_are_those_of_the_text() {
    let (recording, _) = recorded(&stutterp(), When::Window(Window::ALL), Some("mmap-4"));
    let mut types = BTreeSet::new();
    for row in &recording.rows {
        let Happening::Passes { name, text, values, .. } = &row.what else { continue };
        let names = &recording.fields[name];
        assert_eq!(names.len(), values.len(), "{}", recording.name(*name));
        let said: BTreeMap<&str, &str> =
            text.split(' ').filter_map(|word| word.split_once('=')).collect();
        for (&field, value) in names.iter().zip(values) {
            let (kind, value) = match *value {
                FieldValue::Number(number) => ("number", number.to_string()),
                FieldValue::Flag(is_set) => ("flag", u8::from(is_set).to_string()),
                FieldValue::Frame(pfn) => ("frame", format!("{pfn:#x}")),
                FieldValue::NoFrame => ("no frame", format!("{:#x}", u64::MAX)),
                FieldValue::Words(words) => ("words", recording.name(words).to_owned()),
            };
            types.insert((recording.name(*name), recording.name(field), kind));
            if let Some(said) = said.get(recording.name(field)) {
                assert_eq!(*said, value, "{text}");
            }
        }
    }
    for expected in [
        ("mm_page_alloc", "order", "number"),
        ("mm_page_alloc", "gfp_flags", "words"),
        ("mm_page_alloc", "pfn", "frame"),
        ("mm_page_alloc_zone_locked", "percpu_refill", "flag"),
        ("mm_vmscan_direct_reclaim_end", "nr_reclaimed", "number"),
    ] {
        assert!(types.contains(&expected), "{expected:?}: {types:?}");
    }
}

#[test]
fn the_slowest_operation_is_in_its_window() {
    let margin_ns = 1_000_000;
    let (recording, chosen) = recorded(&stutterp(), When::Worst { nth: 1, margin_ns }, None);
    let (name, start_ns, ns) = chosen.operation.unwrap();
    assert_eq!(recording.part, name);
    assert_eq!(recording.from_ns, start_ns - margin_ns);
    // A run may end before its slowest operation's margin does.
    let last_ns = start_ns + ns + margin_ns;
    assert!((start_ns + ns..=last_ns).contains(&recording.to_ns), "{}", recording.to_ns);
    let ends = recording.rows.iter().filter(|row| row.at_ns == start_ns + ns);
    let mut ends = ends.filter(|row| matches!(row.what, Happening::EndsOperation { .. }));
    let task = ends.next().expect("its end").task;
    assert_eq!(recording.tasks[task as usize].name, "latency");
    let wanted = Wanted {
        when: When::Worst { nth: 1_000_000, margin_ns },
        kinds: KindSet::NONE,
        part: Some("mmap-4".to_owned()),
        op: None,
    };
    let error = record(&stutterp(), &wanted, &Nobody, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().starts_with("--around-worst 1000000: x has "), "{error}");
    let wanted = Wanted { op: Some("mmap-9".to_owned()), ..wanted };
    let error = record(&stutterp(), &wanted, &Nobody, &AtomicBool::new(false)).unwrap_err();
    let expected = "--op: unknown operation \"mmap-9\"; did you mean mmap-4? (there is mmap-4)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_text_of_a_run_replays_with_the_same_counts() {
    let (recording, _) = recorded(&netperf(), When::Window(Window::ALL), None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.txt");
    std::fs::write(&path, ftrace::text(&recording)).unwrap();
    assert_eq!(recording.proc_files.len(), 3);
    for (name, text) in &recording.proc_files {
        std::fs::write(path.with_extension(name), text).unwrap();
    }
    let report = replay::run(&path, &[preset("6.1").unwrap()], None, UseSidecars::Yes).unwrap();
    assert_eq!(report.warnings, []);
    let of_trace = &report.survey.tally;
    for kind in replay::EventKind::ALL {
        let counts = (of_trace.total(kind), report.replays[0].tally.total(kind));
        assert_eq!(counts.0, counts.1, "{kind:?}");
    }
    let nr: u64 = recording.event_counts().iter().map(|(_, _, count)| count).sum();
    let replayed: u64 = replay::EventKind::ALL.into_iter().map(|kind| of_trace.total(kind)).sum();
    assert_eq!(replayed, nr);
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let refused = |plan: &RunPlan, part: Option<&str>, from_ns| {
        let window = Window { from_ns, to_ns: u64::MAX };
        let when = When::Window(window);
        let wanted = Wanted { when, kinds: KindSet::NONE, part: part.map(str::to_owned), op: None };
        record(plan, &wanted, &Nobody, &AtomicBool::new(false)).unwrap_err().to_string()
    };
    let steps = refused(&stutterp(), Some("mmap-7"), 0);
    assert_eq!(steps, "--step mmap-7: no such step; there are mmap-4, mmap-5");
    let late = refused(&netperf(), None, 1 << 50);
    assert!(late.starts_with("--from 1125899.906842624: nothing happens after that"), "{late}");
}
