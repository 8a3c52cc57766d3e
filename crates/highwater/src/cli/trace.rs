//! `highwater trace`: what one run did, moment by moment, as a file for a timeline or for scripts.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use highwater_report::trace::{ftrace, perfetto};
use highwater_results::recording::{Happening, Recording};
use highwater_results::store::write_atomically;
use highwater_results::words::count;
use highwater_sim::ledger::{KindSet, Window};

use super::args::{TraceArgs, TraceFormat};
use super::interrupt::{AtEnd, NEVER, exit_on_interrupt};
use super::out::check_file;
use super::progress::Bar;
use super::{CliError, Outcome, one_run, print, remark};
use crate::explain::check_operation;
use crate::recording::{self, Chosen, Wanted, When};
use crate::workload::Registry;

/// Default trace systems of a timeline: events of single pages would be millions.
const OF_TIMELINE: [&str; 3] = ["vmscan", "writeback", "compaction"];
/// Default margin on either side of a slow operation.
const MARGIN_NS: u64 = 5_000_000;
/// Where the protobuf is looked at.
const VIEWER: &str = "https://ui.perfetto.dev";

/// Records a run and writes it.
pub(super) fn run(registry: &Registry, args: &TraceArgs) -> Result<Outcome, CliError> {
    let wanted = wanted(args)?;
    check_file("--output", &args.output)?;
    let plan = one_run::plan(registry, &args.run)?;
    if let Some(op) = &args.op {
        check_operation(&plan, op).map_err(CliError::new)?;
    }
    let interrupts = exit_on_interrupt(AtEnd::default())?;
    let bar = Bar::start(&plan);
    let (recording, chosen) = recording::record(&plan, &wanted, &bar, &NEVER)?;
    bar.finish();
    recording.notes.iter().for_each(|note| remark(note));
    let (bytes, besides) = match args.format {
        TraceFormat::Perfetto => (perfetto::bytes(&recording), Vec::new()),
        TraceFormat::Ftrace => (ftrace::text(&recording).into_bytes(), sidecars(args, &recording)),
    };
    interrupts.begin_keeping();
    for (path, text) in &besides {
        write(path, text.as_bytes())?;
    }
    // Written last: if this file exists, all others do.
    write(&args.output, &bytes)?;
    print(&summary(args, &recording, &chosen, bytes.len(), &besides))?;
    Ok(Outcome::Done)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    write_atomically(path, bytes).map_err(|error| CliError::new(error.to_string()))
}

/// The options of the recording.
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
    if let (Some(_), None, None) = (args.margin, args.around_worst, &args.op) {
        return Err(CliError::new("--margin: needs --around-worst or --op"));
    }
    let nth = args.around_worst.or(args.op.as_ref().map(|_| 1));
    let when = match nth {
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
    Ok(Wanted { when, kinds, part: args.run.step.clone(), op: args.op.clone() })
}

/// Files beside the text that a replay starts from: files of `/proc` at the beginning of the
/// recording.
fn sidecars<'a>(args: &TraceArgs, recording: &'a Recording) -> Vec<(PathBuf, &'a str)> {
    let is_replayed = recording.event_counts().iter().any(|(system, _, _)| *system == "kmem");
    let files = recording.proc_files.iter().filter(|_| is_replayed);
    let files = files.map(|(name, text)| (args.output.with_extension(name), text.as_str()));
    files.filter(|(path, _)| *path != args.output).collect()
}

/// A summary of the written files.
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
        "  {} on {}: {}, {}, {}, {}",
        count(recording.tasks.len(), "task"),
        count(recording.nr_cpus, "CPU"),
        count(is(|what| matches!(what, Happening::Runs { .. })), "run"),
        count(is(|what| matches!(what, Happening::Waits { .. })), "wait"),
        match is(|what| matches!(what, Happening::Enters { .. })) {
            1 => "1 phase or lock".to_owned(),
            nr => format!("{nr} phases and locks"),
        },
        count(is(|what| matches!(what, Happening::EndsOperation { .. })), "operation"),
    );
    let counts = recording.event_counts();
    let nr_events: u64 = counts.iter().map(|(_, _, count)| count).sum();
    let (nr_rows, nr_columns) = (recording.counters.len(), recording.counters.columns.len());
    let _ = writeln!(
        text,
        "  {} of {}; {} of {}",
        count(nr_events, "event"),
        count(counts.len(), "tracepoint"),
        count(nr_rows, "sample"),
        count(nr_columns, "counter")
    );
    for (path, _) in besides {
        let _ = writeln!(text, "  beside it, for `highwater replay`: {}", path.display());
    }
    if matches!(args.format, TraceFormat::Perfetto) {
        let _ = writeln!(text, "  open it at {VIEWER}");
    }
    text
}
