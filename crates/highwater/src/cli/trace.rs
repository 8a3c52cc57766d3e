//! `highwater trace`: what one run did, moment by moment, as a file for a timeline or for scripts.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use highwater_core::config::Policy;
use highwater_report::Format;
use highwater_report::trace::{ftrace, perfetto};
use highwater_results::recording::{Happening, Recording};
use highwater_results::store::write_atomically;
use highwater_sim::ledger::{KindSet, Window};

use super::args::{CompareArgs, HostArg, MachineArgs, TraceArgs, TraceFormat};
use super::plan::experiment_plan;
use super::progress::{Bar, NEVER, exit_on_interrupt};
use super::{CliError, Outcome, print, remark};
use crate::experiment::RunPlan;
use crate::explain::source;
use crate::machine_file::MachineFile;
use crate::recording::{self, Chosen, Wanted, When};
use crate::workload::Registry;

/// Systems that a timeline is drawn with, unless told: events of single pages are millions.
const OF_TIMELINE: [&str; 3] = ["vmscan", "writeback", "compaction"];
/// Shown on either side of a slow operation, unless told.
const MARGIN_NS: u64 = 5_000_000;
/// Where the protobuf is looked at.
const VIEWER: &str = "https://ui.perfetto.dev";

/// Records a run and writes it.
pub(super) fn run(registry: &Registry, args: &TraceArgs) -> Result<Outcome, CliError> {
    let wanted = wanted(args)?;
    let plan = plan(registry, args)?;
    exit_on_interrupt(None)?;
    let bar = Bar::start(&RunPlan { jobs: 1, ..plan.clone() });
    let (recording, chosen) = recording::record(&plan, &wanted, &bar, &NEVER)?;
    bar.finish();
    recording.notes.iter().for_each(|note| remark(note));
    let (bytes, besides) = match args.format {
        TraceFormat::Perfetto => (perfetto::bytes(&recording), Vec::new()),
        TraceFormat::Ftrace => (ftrace::text(&recording).into_bytes(), sidecars(args, &recording)),
    };
    for (path, text) in &besides {
        write(path, text.as_bytes())?;
    }
    // Last: where it is, everything is.
    write(&args.output, &bytes)?;
    print(&summary(args, &recording, &chosen, bytes.len(), &besides))?;
    Ok(Outcome::Done)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    write_atomically(path, bytes).map_err(|error| CliError::new(error.to_string()))
}

/// What to record.
fn wanted(args: &TraceArgs) -> Result<Wanted, CliError> {
    let systems = KindSet::systems();
    let mut kinds = KindSet::NONE;
    for name in &args.events {
        let of = match name.as_str() {
            "all" => KindSet::all(),
            "none" => KindSet::NONE,
            system => KindSet::of_system(system),
        };
        if of.is_empty() && name != "none" {
            let known = systems.join(", ");
            return Err(CliError::new(format!(
                "--events {name}: no such system; there are {known}, all and none"
            )));
        }
        kinds = kinds.or(of);
    }
    if args.events.is_empty() {
        kinds = match args.format {
            TraceFormat::Ftrace => KindSet::all(),
            TraceFormat::Perfetto => OF_TIMELINE
                .iter()
                .fold(KindSet::NONE, |set, system| set.or(KindSet::of_system(system))),
        };
    }
    let when = match args.around_worst {
        Some(nth) => When::Worst { nth, margin_ns: args.margin.unwrap_or(MARGIN_NS) },
        None => {
            let window =
                Window { from_ns: args.from.unwrap_or(0), to_ns: args.to.unwrap_or(u64::MAX) };
            if window.from_ns >= window.to_ns {
                return Err(CliError::new("--to: must be after --from"));
            }
            When::Window(window)
        }
    };
    Ok(Wanted { when, kinds, part: args.step.clone() })
}

/// The run: one policy on one machine with one seed.
fn plan(registry: &Registry, args: &TraceArgs) -> Result<RunPlan, CliError> {
    let path = Path::new(&args.what);
    let plan = match source::of(registry, &args.what)? {
        source::Source::Experiment => of_experiment(registry, args)?,
        source::Source::Explained(_) => {
            let reason = "holds an explanation; a trace is made of an experiment or of results";
            return Err(CliError::new(format!("{}: {reason}", args.what)));
        }
        source::Source::Results(document) => {
            refuse_options(args)?;
            let mut plan = source::repeat(registry, &document, path)?;
            // The one with something to see.
            if let Some((run, slowest)) = document.slowest() {
                if args.policy.is_none() {
                    plan.policies.retain(|(_, label)| *label == run.label);
                }
                if args.machine.machine.is_none() {
                    plan.machines.retain(|machine| machine.name == run.machine);
                }
                plan.seed = slowest.seed;
            }
            if let Some(name) = &args.policy {
                let known = plan.policies.clone();
                plan.policies.retain(|policy| is_called(policy, name));
                if plan.policies.is_empty() {
                    let labels: Vec<&str> = known.iter().map(|(_, label)| label.as_str()).collect();
                    let (dir, labels) = (&args.what, labels.join(", "));
                    return Err(CliError::new(format!(
                        "--policy {name}: {dir} has no such policy; it has {labels}"
                    )));
                }
            }
            if let Some(name) = &args.machine.machine {
                choose_machine(&mut plan, name).map_err(|names| {
                    let dir = &args.what;
                    CliError::new(format!(
                        "--machine {name}: {dir} has no such machine; it has {names}"
                    ))
                })?;
            }
            plan.seed = args.seed.unwrap_or(plan.seed);
            plan
        }
    };
    let (machine, label) = (&plan.machines[0].name, &plan.policies[0].1);
    remark(&format!("{}: {label} on {machine}, seed {}", plan.experiment.name, plan.seed));
    Ok(RunPlan {
        machines: plan.machines[..1].to_vec(),
        policies: plan.policies[..1].to_vec(),
        ..plan
    })
}

/// Keeps the machine of a name; else says which there are.
fn choose_machine(plan: &mut RunPlan, name: &str) -> Result<(), String> {
    let is_it = |machine: &MachineFile| machine.name == name;
    if !plan.machines.iter().any(is_it) {
        let names: Vec<&str> = plan.machines.iter().map(|machine| machine.name.as_str()).collect();
        return Err(names.join(", "));
    }
    plan.machines.retain(is_it);
    Ok(())
}

fn is_called((policy, label): &(Policy, String), name: &str) -> bool {
    policy.name == name || label == name
}

/// As `compare` would run it; a policy goes by its heading or name there, or is any other one by name or file.
fn of_experiment(registry: &Registry, args: &TraceArgs) -> Result<RunPlan, CliError> {
    let plan = |compare: &CompareArgs| experiment_plan(registry, &args.what, compare, None);
    let mut compare = CompareArgs {
        quick: args.quick,
        full: args.full,
        iterations: None,
        seed: args.seed,
        jobs: None,
        host: HostArg::Sim,
        machine: args.machine.clone(),
        policies: Vec::new(),
        beyond: false,
        ablate: false,
        vary: Vec::new(),
        set: args.set.clone(),
        out: None,
        sample_every: None,
        force: false,
        format: Format::Terminal,
    };
    // A machine of the experiment may be a variant of another, which no file has.
    let mut machine = args.machine.machine.as_deref();
    if let Some(name) = machine {
        let own = CompareArgs { machine: MachineArgs::default(), ..compare.clone() };
        match plan(&own) {
            Ok(plan) if plan.machines.iter().any(|own| own.name == name) => compare = own,
            _ => machine = None,
        }
    }
    let choose = |mut plan: RunPlan| {
        plan.machines.retain(|own| machine.is_none_or(|name| own.name == name));
        plan
    };
    let Some(name) = &args.policy else { return plan(&compare).map(choose) };
    for beyond in [false, true] {
        match plan(&CompareArgs { beyond, ..compare.clone() }) {
            Ok(mut own) => {
                own.policies.retain(|policy| is_called(policy, name));
                if !own.policies.is_empty() {
                    return Ok(choose(own));
                }
            }
            // Not every experiment has policies beyond those of its study.
            Err(_) if beyond => {}
            Err(error) => return Err(error),
        }
    }
    plan(&CompareArgs { policies: vec![name.clone()], ..compare }).map(choose)
}

/// A directory says itself what was run.
fn refuse_options(args: &TraceArgs) -> Result<(), CliError> {
    let machine = &args.machine;
    let given = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--set", !args.set.set.is_empty()),
        ("--mem", machine.mem.is_some()),
        ("--cpus", machine.cpus.is_some()),
        ("--numa", !machine.numa.is_empty()),
        ("--numa-distance", !machine.numa_distance.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let dir = &args.what;
            Err(CliError::new(format!("{option}: not with a directory; {dir} says what was run")))
        }
    }
}

/// What a replay starts from, beside the text: files of `/proc` at the beginning of the recording.
fn sidecars<'a>(args: &TraceArgs, recording: &'a Recording) -> Vec<(PathBuf, &'a str)> {
    let is_replayed = recording.event_counts().iter().any(|(system, _, _)| *system == "kmem");
    let files = recording.proc_files.iter().filter(|_| is_replayed);
    let files = files.map(|(name, text)| (args.output.with_extension(name), text.as_str()));
    files.filter(|(path, _)| *path != args.output).collect()
}

/// What was written, in a few lines.
fn summary(
    args: &TraceArgs,
    recording: &Recording,
    chosen: &Chosen,
    nr_bytes: usize,
    besides: &[(PathBuf, &str)],
) -> String {
    let Recording { label, machine, seed, part, from_ns, to_ns, .. } = recording;
    let step = if part.is_empty() { String::new() } else { format!(", step {part}") };
    let s = |ns: u64| format!("{:.6} s", ns as f64 / 1e9);
    let kib = nr_bytes.div_ceil(1024);
    let mut text = format!(
        "{}: {kib} KiB; {label} on {machine}, seed {seed}{step}, {} to {}\n",
        args.output.display(),
        s(*from_ns),
        s(*to_ns)
    );
    // Writing to a string does not fail.
    if let Some((name, start_ns, ns)) = &chosen.operation {
        let ms = *ns as f64 / 1e6;
        let _ = writeln!(text, "  slowest operation: {name}, {ms:.3} ms from {} on", s(*start_ns));
    }
    let is = |what: fn(&Happening) -> bool| recording.rows.iter().filter(|r| what(&r.what)).count();
    let _ = writeln!(
        text,
        "  {} tasks on {} CPUs: {} runs, {} waits, {} phases and locks, {} operations",
        recording.tasks.len(),
        recording.nr_cpus,
        is(|what| matches!(what, Happening::Runs { .. })),
        is(|what| matches!(what, Happening::Waits { .. })),
        is(|what| matches!(what, Happening::Enters { .. })),
        is(|what| matches!(what, Happening::EndsOperation { .. })),
    );
    let counts = recording.event_counts();
    let nr_events: u64 = counts.iter().map(|(_, _, count)| count).sum();
    let (nr_rows, nr_columns) = (recording.counters.len(), recording.counters.columns.len());
    let _ = writeln!(
        text,
        "  {nr_events} events of {} tracepoints; {nr_rows} samples of {nr_columns} counters",
        counts.len()
    );
    for (path, _) in besides {
        let _ = writeln!(text, "  beside it, for `highwater replay`: {}", path.display());
    }
    if matches!(args.format, TraceFormat::Perfetto) {
        let _ = writeln!(text, "  open it at {VIEWER}");
    }
    text
}
