//! `highwater capture`: a running Linux as a machine file, a job file and a reference.

use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater_report::Format;
use highwater_results::store::write_atomically;

use super::args::CaptureArgs;
use super::interrupt::{AtEnd, exit_on_interrupt};
use super::out::check_file;
use super::progress::Bar;
use super::{CliError, Outcome, calibrate, print, remark, show, tables};
use crate::calibrate::{Base, Computer, Costs, DiskFigures, SECONDS};
use crate::capture::{Capture, Files, MeasuredCosts, Names, Source, Wanted, capture};

/// Captures, writes the files and says how near the model's boot comes.
pub(super) fn run(args: &CaptureArgs) -> Result<Outcome, CliError> {
    let files = [&args.output, &args.machine, &args.reference];
    let outputs = files.iter().copied().chain(args.calibrate.then_some(&args.costs));
    let outputs: Vec<&PathBuf> = outputs.collect();
    // Check every output path before waiting.
    for (at, file) in outputs.iter().enumerate() {
        if outputs[..at].contains(file) {
            let reason = "two of the files have this name";
            return Err(CliError::new(format!("{}: {reason}", file.display())));
        }
        if !args.force && file.symlink_metadata().is_ok() {
            let reason = "is there already; --force replaces it";
            return Err(CliError::new(format!("{}: {reason}", file.display())));
        }
        check_file(["--output", "--machine", "--reference", "--costs"][at], file)?;
    }
    if args.calibrate {
        calibrate::has_suffix("--costs", &args.costs)?;
    }
    let source = match &args.root {
        Some(root) => Source::recorded(root),
        None => Source::running()?,
    };
    let wanted = Wanted {
        pids: args.pids.clone(),
        comms: args.comms.clone(),
        cgroups: args.cgroups.clone(),
        units: args.units.clone(),
        working_set: Duration::from_secs_f64(args.working_set.unwrap_or(0.0)),
        watch: Duration::from_secs_f64(args.seconds),
        every: Duration::from_millis(args.every),
        no_processes: false,
    };
    let bar = Bar::counting("capture", files.len(), "files written");
    let mut captured = capture(&source, &wanted)?;
    bar.finish();
    if args.calibrate {
        // After the watching, which the measuring would disturb.
        captured.costs = Some(calibrated(args, &captured)?);
    }
    captured.notes.iter().for_each(|note| remark(note));
    let [job, machine, reference] = files.map(|file| file.display().to_string());
    // A job finds a machine beside it by its name.
    let is_beside = args.output.parent() == args.machine.parent();
    let beside = args.machine.file_name().filter(|_| is_beside).and_then(|name| name.to_str());
    let beside = beside.filter(|name| name.ends_with(".toml"));
    let names =
        Names { machine: &machine, job: &job, machine_of_job: beside, reference: &reference };
    let texts = captured.files(names)?;
    texts.guesses.iter().for_each(|guess| remark(guess));
    if let Some(text) = &texts.machine {
        write(&args.machine, text)?;
    }
    if let Some(text) = &texts.reference {
        write(&args.reference, text)?;
    }
    if let Some(text) = &texts.job {
        write(&args.output, text)?;
    }
    print(&summary(args, &captured, &texts))?;
    // Without a job the groups are of no use.
    let groups = captured.table_of_groups().filter(|_| texts.job.is_some());
    let all: Vec<_> = groups.into_iter().chain([captured.table(&texts.verdict)]).collect();
    show(Format::Terminal, &format!("\n{}", tables(Format::Terminal, &all)))?;
    match texts.not_modelled {
        None => Ok(Outcome::Done),
        Some(reason) => {
            let file = if texts.reference.is_some() {
                "no machine file"
            } else {
                "no machine file, no reference"
            };
            Err(CliError::new(format!("{file}: {reason}")))
        }
    }
}

/// Measures this computer, writes the file of costs, and says how the machine file takes it.
fn calibrated(args: &CaptureArgs, captured: &Capture) -> Result<MeasuredCosts, CliError> {
    let interrupts = exit_on_interrupt(AtEnd::default())?;
    let computer = Computer::of(&captured.system);
    let calibration = calibrate::calibrate(Path::new("."), SECONDS, &computer)?;
    let base = Base::load(captured.base_of_costs())?;
    let costs = Costs::new(&calibration, &computer, &base);
    let file = args.costs.display().to_string();
    let text = costs.to_toml(&file, &calibration, &computer, &base)?;
    // All files are complete from here on, or a signal ends the command before the first.
    interrupts.begin_keeping();
    write(&args.costs, &text)?;
    remark(&calibrate::summary(&costs, &calibration, &file));
    calibrate::spoiled(&calibration).iter().for_each(|note| remark(note));
    let full = |file: &Path| std::path::absolute(file).ok()?.parent().map(Path::to_owned);
    let is_beside = full(&args.costs) == full(&args.machine);
    let beside = args.costs.file_name().filter(|_| is_beside).map(Path::new);
    let file = match beside {
        Some(name) => name.to_owned(),
        None => std::path::absolute(&args.costs).unwrap_or_else(|_| args.costs.clone()),
    };
    let disk = DiskFigures::new(&calibration, &computer).map(Into::into);
    Ok(MeasuredCosts { file: file.display().to_string(), disk })
}

fn write(file: &Path, text: &str) -> Result<(), CliError> {
    write_atomically(file, text.as_bytes()).map_err(|error| CliError::new(error.to_string()))
}

/// A summary of the written files.
fn summary(args: &CaptureArgs, captured: &Capture, texts: &Files) -> String {
    let system = &captured.system;
    let name = |file: &PathBuf| file.display().to_string();
    let (machine, reference) = (name(&args.machine), name(&args.reference));
    let machine = if texts.machine.is_some() { machine } else { "not modelled".to_owned() };
    let mut lines = vec![format!(
        "{machine}: {}, {} MiB; CPUs: {}, nodes: {}, disks: {}, swap areas: {}",
        system.kernel,
        system.bytes() >> 20,
        system.nr_cpus,
        system.nodes.len(),
        system.disks.len(),
        system.swaps.len()
    )];
    if texts.reference.is_some() {
        lines.push(format!(
            "{reference}: what its kernel computed, for `highwater check {reference}`"
        ));
    }
    let (nr, nr_left_out) = (captured.processes.len(), captured.nr_left_out);
    lines.push(match texts.job {
        None if texts.machine.is_none() => "no job: it would have no machine".to_owned(),
        None => "no job: no process of yours uses memory or CPU time worth a task; --pid, --comm, --cgroup and --unit name some"
            .to_owned(),
        Some(_) => {
            let how = match captured.watched {
                Some(seconds) => format!("watched for {seconds:.1} s"),
                None => "averages since each began".to_owned(),
            };
            let job = name(&args.output);
            format!(
                "{job}: processes: {nr}, left out: {nr_left_out}; {how}; next:\n  \
                 highwater compare {job} --machine {machine} --quick"
            )
        }
    });
    lines.join("\n") + "\n"
}
