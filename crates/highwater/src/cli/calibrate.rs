//! `highwater calibrate`: what operations cost on this computer, as a file of costs.

use std::path::Path;

use highwater_report::{Cell, Layout, Table};
use highwater_results::store::write_atomically;
use highwater_results::words::count;

use super::args::CalibrateArgs;
use super::interrupt::{AtEnd, exit_on_interrupt};
use super::out::check_file;
use super::progress::Bar;
use super::{CliError, Outcome, remark, show, tables};
use crate::calibrate::{
    Base, Calibration, Computer, Costs, DiskFigures, Options, Origin, SECONDS_QUICK, run as measure,
};

/// Others that use a larger share of the CPUs than this spoil figures.
const OTHERS_MAX: f64 = 0.05;

/// Measures, writes the file and prints the tables.
pub(super) fn run(args: &CalibrateArgs) -> Result<Outcome, CliError> {
    new_file(&args.output, args.force)?;
    has_suffix("--output", &args.output)?;
    let base = Base::load(&args.base)?;
    let computer = Computer::running()?;
    let interrupts = exit_on_interrupt(AtEnd::default())?;
    let seconds = if args.quick { SECONDS_QUICK } else { args.seconds };
    let calibration = calibrate(&args.dir, seconds, &computer)?;
    let costs = Costs::new(&calibration, &computer, &base);
    let file = args.output.display().to_string();
    let text = costs.to_toml(&file, &calibration, &computer, &base)?;
    // Written at once or not at all; a signal waits until the tables are printed.
    interrupts.begin_keeping();
    write_atomically(&args.output, text.as_bytes())
        .map_err(|error| CliError::new(error.to_string()))?;
    let is_data = !args.format.is_for_reading();
    let all =
        [rows(&calibration, &computer, is_data), of_costs(&costs, &calibration, &computer, &file)];
    show(args.format, &tables(args.format, &all))?;
    Ok(Outcome::Done)
}

/// Refuses a file that is there already, or that could not be written later.
pub(super) fn new_file(file: &Path, force: bool) -> Result<(), CliError> {
    if !force && file.symlink_metadata().is_ok() {
        let reason = "is there already; --force replaces it";
        return Err(CliError::new(format!("{}: {reason}", file.display())));
    }
    check_file("--output", file)
}

/// Refuses a name that `costs = "FILE"` of a machine file would not take for a file.
pub(super) fn has_suffix(option: &str, file: &Path) -> Result<(), CliError> {
    let is_toml = file.extension().is_some_and(|suffix| suffix == "toml");
    if is_toml && file.to_str().is_some() {
        return Ok(());
    }
    let reason = "a file of costs is named NAME.toml, so that costs = \"FILE\" finds it";
    Err(CliError::new(format!("{option}: {}: {reason}", file.display())))
}

/// Measures this computer, with progress.
pub(super) fn calibrate(
    dir: &Path,
    seconds: f64,
    computer: &Computer,
) -> Result<Calibration, CliError> {
    let bar = Bar::counting("calibrate", 1, "parts");
    remark(&format!(
        "calibrate: at most about {seconds:.0} s; other work on this computer spoils figures"
    ));
    let options = Options { seconds, dir: dir.to_owned(), caches: computer.caches };
    let result = measure(&options, &mut |done, total, _| bar.set(done, total));
    bar.finish();
    result.map_err(|error| CliError::new(format!("calibrate: {error}")))
}

/// Every measured row with its spread; for programs also how it was measured, which the file says
/// to readers.
fn rows(calibration: &Calibration, computer: &Computer, is_data: bool) -> Table {
    let mut heads = ["median", "quartiles", "samples", "unit"].map(str::to_owned).to_vec();
    heads.extend(is_data.then(|| "how".to_owned()));
    let title = format!("Costs of primitives here ({})", computer.name);
    let mut table = Table::new(title, &["row"], heads, Layout::Fitted);
    for row in &calibration.rows {
        let spread = &row.spread;
        let decimals = decimals(spread.median);
        let quartiles = format!("{:.decimals$} to {:.decimals$}", spread.q1, spread.q3);
        let mut cells = vec![
            Cell::number(spread.median, decimals as u8),
            Cell::text(quartiles),
            Cell::number(spread.samples as f64, 0),
            Cell::text(row.unit.name()),
        ];
        cells.extend(is_data.then(|| Cell::text(row.how.clone())));
        table.push(&[&row.name], cells);
    }
    table.notes.extend(spoiled(calibration));
    for left in &calibration.left_out {
        table.notes.push(format!("not measured: {}: {}", left.name, left.why));
    }
    table
}

/// Says that other programs ran meanwhile.
pub(super) fn spoiled(calibration: &Calibration) -> Option<String> {
    let share = calibration.others.filter(|share| *share >= OTHERS_MAX)?;
    let percent = 100.0 * share;
    Some(format!(
        "spoiled: others used {percent:.0}% of this computer's CPUs meanwhile; measure again when it is idle"
    ))
}

/// Digits behind the point that say something.
fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v < 10.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    }
}

/// The costs of the file, beside those of the base.
fn of_costs(costs: &Costs, calibration: &Calibration, computer: &Computer, file: &str) -> Table {
    let base = &costs.base;
    let heads = ["ns", base, "is from"].map(str::to_owned).to_vec();
    let title = format!("Costs in {file}");
    let mut table = Table::new(title, &["cost"], heads, Layout::Fitted);
    for cost in &costs.costs {
        let origin = match cost.origin {
            Origin::Measured => "here",
            Origin::Base => base,
        };
        let cells = vec![
            Cell::number(cost.ns as f64, 0),
            Cell::number(cost.base_ns as f64, 0),
            Cell::text(origin),
        ];
        table.push(&[cost.key], cells);
    }
    table.notes.push(summary(costs, calibration, file));
    table.notes.extend(costs.notes.iter().cloned());
    if let Some(disk) = DiskFigures::new(calibration, computer) {
        table.notes.push(format!("disk {}: {}", disk.disk, disk.lines().join(", ")));
    }
    table.notes.push(format!("a machine file takes it with costs = {file:?}"));
    table
}

/// How many costs come from where.
pub(super) fn summary(costs: &Costs, calibration: &Calibration, file: &str) -> String {
    format!(
        "{file}: measured {}, from {} {}; {} in {:.1} s",
        costs.nr(Origin::Measured),
        costs.base,
        costs.nr(Origin::Base),
        count(calibration.rows.len(), "row"),
        calibration.seconds
    )
}
