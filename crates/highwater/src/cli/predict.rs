//! `highwater predict`: composite works on the model and on this computer, side by side.

use std::path::Path;

use highwater_report::{Cell, Layout, Table};
use highwater_results::words::count;

use super::args::PredictArgs;
use super::interrupt::{AtEnd, exit_on_interrupt};
use super::progress::Bar;
use super::{CliError, Outcome, show, tables};
use crate::calibrate::{Computer, Options};
use crate::machine_file::MachineFile;
use crate::predict::{Prediction, Work, here, model};

/// Runs both and prints the table.
pub(super) fn run(args: &PredictArgs) -> Result<Outcome, CliError> {
    if args.machine == "machine.toml" && !Path::new(&args.machine).exists() {
        let next = "`highwater capture --calibrate` writes one, or --machine names another";
        return Err(CliError::new(format!("machine.toml: there is no such file; {next}")));
    }
    let machine = MachineFile::load(&args.machine)?;
    let computer = Computer::running()?;
    exit_on_interrupt(AtEnd::default())?;
    let bar = Bar::counting("predict", 1, "works");
    let modelled = model(&machine, &args.policy)?;
    let options = Options { seconds: args.seconds, dir: args.dir.clone(), caches: computer.caches };
    let measured = here(&options, &mut |done, total, _| bar.set(done, total))
        .map_err(|error| CliError::new(format!("predict: {error}")))?;
    bar.finish();
    let predictions: Vec<Prediction> = Work::ALL
        .into_iter()
        .zip(modelled)
        .zip(measured)
        .map(|((work, model_ns), here)| Prediction { work, model_ns, here })
        .collect();
    let table = table(&predictions, &machine, &computer, &args.policy);
    show(args.format, &tables(args.format, &[table]))?;
    Ok(Outcome::Done)
}

fn table(
    predictions: &[Prediction],
    machine: &MachineFile,
    computer: &Computer,
    policy: &str,
) -> Table {
    let heads = ["model, us", "here, us", "quartiles", "model / here", "a round is"];
    let title = format!("{policy} on {} beside {}", machine.name, computer.name);
    let mut table = Table::new(title, &["work"], heads.map(str::to_owned).to_vec(), Layout::Fitted);
    for prediction in predictions {
        let us = |ns: f64| Cell::number(ns / 1e3, 1);
        let (median, quartiles) = match &prediction.here {
            Ok(here) => (us(here.median), format!("{:.1} to {:.1}", here.q1 / 1e3, here.q3 / 1e3)),
            Err(_) => (Cell::text("not measured"), String::new()),
        };
        let model = match &prediction.model_ns {
            Ok(ns) => us(*ns),
            Err(why) => {
                table.notes.push(format!("{}: not modelled: {why}", prediction.work.name()));
                Cell::text("not modelled")
            }
        };
        let ratio = prediction.ratio().map_or(Cell::text(""), |ratio| Cell::number(ratio, 2));
        let about = Cell::text(prediction.work.about());
        let cells = vec![model, median, Cell::text(quartiles), ratio, about];
        table.push(&[prediction.work.name()], cells);
        if let Err(why) = &prediction.here {
            table.notes.push(format!("{}: not measured: {why}", prediction.work.name()));
        }
    }
    let waiting = predictions.iter().filter(|p| p.work.waits()).map(|p| p.work.name());
    table.notes.push(format!(
        "here: elapsed time of {}, which wait for a disk; CPU time of the others",
        waiting.collect::<Vec<_>>().join(" and ")
    ));
    let mut factors: Vec<f64> = predictions.iter().filter_map(Prediction::factor).collect();
    factors.sort_by(f64::total_cmp);
    if let (Some(median), Some(worst)) = (factors.get(factors.len() / 2), factors.last()) {
        table.notes.push(format!(
            "{}: the median one is apart by a factor of {median:.2}, the worst by {worst:.2}",
            count(factors.len(), "work")
        ));
    }
    table
}
