//! Arguments of `highwater sweep` and `highwater merge`.

use std::path::PathBuf;

use clap::Args;
use highwater_ledger::Share;
use highwater_report::Format;

use super::{PlanArgs, formats};

/// `highwater sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Experiment or job: a name, its number alone, or a file; or the file of a plan, which has the
    /// options below as keys
    #[arg(value_name = "EXPERIMENT|PLAN")]
    pub what: String,
    #[command(flatten)]
    /// The runs.
    pub plan: PlanArgs,
    /// Directory of the sweep: the plan (sweep.json), a file for each finished unit (units/), and the
    /// results once all are there. Units that are there are not repeated; any number of processes on
    /// any number of computers may share it
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Run only part I of N of the units, I from 1 to N
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Share>,
    /// Run this share of the units that are there again, at least one (0.01: one in a hundred), and
    /// compare bytes. If a unit differs, exit with status 1, and run nothing else
    #[arg(long, value_name = "FRACTION", value_parser = fraction)]
    pub verify: Option<f64>,
    /// Use the directory even if it has another sweep or other results, which are removed. Finished
    /// units stay
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Directories that `highwater sweep --out` wrote
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// Directory that gets the units of all of them, and the results if they are complete
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// A share of units.
fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_share = value > 0.0 && value <= 1.0;
    is_share.then_some(value).ok_or_else(|| "must be above 0, and 1 at most".to_owned())
}
