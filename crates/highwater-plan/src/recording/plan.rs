//! Selects the run to record, and the part of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highwater_core::config::Policy;
use highwater_core::host::{CpuId, Solo};
use highwater_core::page_alloc::boot;
use highwater_core::proc;
use highwater_results::Series;
use highwater_results::recording::Recording;
use highwater_results::words::count;
use highwater_sim::ledger::Window;

use super::{Recorder, Wanted, When};
use crate::experiment::{Progress, RunPlan};
use crate::explain::has_ended;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::{HostKind, RunError, Unit};

/// The selected part of all that could be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The slowest operation in the recording, if one was wanted: name, start and length in
    /// nanoseconds.
    pub operation: Option<(String, u64, u64)>,
}

/// Runs the first policy of a plan on its first machine with its first seed, and records a part of
/// that run.
///
/// # Errors
/// If there is no such part, the unit cannot run, or `stop` is set.
pub fn record(
    plan: &RunPlan,
    wanted: &Wanted,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<(Recording, Chosen), RunError> {
    let refuse = |reason: String| Err(RunError::Unexplained(reason));
    if plan.host != HostKind::Sim {
        return refuse("--host native: only virtual time can be recorded".to_owned());
    }
    let (Some(machine), Some((policy, label))) = (plan.machines.first(), plan.policies.first())
    else {
        return refuse("nothing to record: no machine, or no policy".to_owned());
    };
    let job = plan.experiment.job_on(&machine.name);
    let nr_parts = job.units(machine);
    let names: Vec<String> = (0..nr_parts).map(|part| job.part_name(machine, part)).collect();
    let part = match &wanted.part {
        None => None,
        Some(wanted) => match names.iter().position(|name| name == wanted) {
            Some(part) => Some(part),
            None => {
                let names = names.join(", ");
                return refuse(format!("--step {wanted}: no such step; there are {names}"));
            }
        },
    };
    let unit =
        |part| Unit { part, clock: progress.clock(), ..Unit::of(machine, policy, plan.seed) };
    // Only the slowest operation shows which step to record.
    let looks = match (wanted.when, part) {
        (When::Worst { .. }, Some(part)) => part..part + 1,
        (When::Worst { .. }, None) => 0..nr_parts,
        (When::Window(_), None) if nr_parts > 1 => 0..nr_parts,
        (When::Window(_), _) => 0..0,
    };
    let (total, done) = (looks.len() + 1, AtomicUsize::new(0));
    let step_done = || progress.cell_done(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    let nth = match wanted.when {
        When::Worst { nth, .. } => nth,
        When::Window(_) => 1,
    };
    let only_op = wanted.op.as_deref();
    let run = |unit: &Unit<'_>| job.run(unit).map_err(|error| plan.experiment.at_place(error));
    let (mut operations, mut names_of_ops) = (Vec::new(), Vec::new());
    for part in looks {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let outcome = run(&Unit { explain: Some(nth), only_op, ..unit(part) })?;
        let explained = outcome.explained.unwrap_or_default();
        names_of_ops.extend(explained.bands.into_iter().map(|band| band.operation));
        let worst = explained.worst;
        operations.extend(worst.into_iter().map(|operation| (part, operation)));
        step_done();
    }
    // Stable: of equals, the earlier step's.
    operations.sort_by_key(|(_, operation)| std::cmp::Reverse(operation.ns));
    let operation = operations.get(nth - 1);
    let window = match (wanted.when, operation) {
        (When::Window(window), _) => window,
        (When::Worst { margin_ns, .. }, Some((_, operation))) => Window {
            from_ns: operation.start_ns.saturating_sub(margin_ns),
            to_ns: (operation.start_ns + operation.ns).saturating_add(margin_ns),
        },
        (When::Worst { .. }, None) => {
            if let Some(op) = only_op {
                let ended = names_of_ops.iter().map(String::as_str);
                has_ended(op, ended, &job.operations()).map_err(RunError::Unexplained)?;
            }
            let (name, found) = (&plan.experiment.name, count(operations.len(), "operation"));
            return refuse(format!("--around-worst {nth}: {name} has {found}"));
        }
    };
    let part = operation.map(|(part, _)| *part).or(part).unwrap_or(0);
    let recorder = Recorder::new(window, wanted.kinds);
    run(&Unit { recorder: Some(&recorder), ..unit(part) })?;
    step_done();
    let part_name = if nr_parts > 1 { names[part].as_str() } else { "" };
    let Some(mut recording) = recorder.finish(part_name) else {
        let name = job.entry().name;
        return refuse(format!("{name} cannot be recorded: it keeps no ledger"));
    };
    recording.experiment.clone_from(&plan.experiment.name);
    recording.machine.clone_from(&machine.name);
    recording.policy.clone_from(&policy.name);
    recording.label.clone_from(label);
    recording.seed = plan.seed;
    recording.proc_files = match window.from_ns {
        0 => proc_files(machine, policy, &recording.counters),
        _ => Vec::new(),
    };
    if recording.rows.is_empty() {
        let (from, end) = (window.from_ns as f64 / 1e9, recording.to_ns as f64 / 1e9);
        return refuse(format!(
            "--from {from}: nothing happens after that; the run ends at {end} s"
        ));
    }
    let operation = operation.map(|(_, op)| (op.name.clone(), op.start_ns, op.ns));
    Ok((recording, Chosen { operation }))
}

/// Files of `/proc` after the boot: of another boot of the same machine, since making these texts takes locks. None if
/// the recorded one had other memory free by then.
fn proc_files(machine: &MachineFile, policy: &Policy, counters: &Series) -> Vec<(String, String)> {
    let host = Solo::default();
    let Ok(memory) = boot(&host, &machine.machine, policy) else { return Vec::new() };
    let column = counters.column("nr_free_pages");
    let first = counters.rows().next().zip(column).map(|((_, row), column)| row[column]);
    if first != Some(memory.nr_free_pages()) {
        return Vec::new();
    }
    let on = CpuId(0);
    let text = |name: &str, write: &dyn Fn(&mut String) -> std::fmt::Result| {
        let mut text = String::new();
        // Writing to a string does not fail.
        write(&mut text).ok().map(|()| (name.to_owned(), text))
    };
    let files = [
        text("zoneinfo", &|to| proc::zoneinfo(to, &memory, on, |_| false)),
        text("pagetypeinfo", &|to| proc::pagetypeinfo(to, &memory, on)),
        text("buddyinfo", &|to| proc::buddyinfo(to, &memory)),
    ];
    files.into_iter().flatten().collect()
}
