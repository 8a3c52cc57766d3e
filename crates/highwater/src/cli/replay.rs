//! `highwater replay`.

use highwater_report::render::Format;

use super::args::ReplayArgs;
use super::progress::Bar;
use super::{CliError, Outcome, print, remark, remark_once};
use crate::replay::report;

/// Replays a trace under the chosen policies.
pub(super) fn run(args: &ReplayArgs) -> Result<Outcome, CliError> {
    let plan = args.options().plan(&mut |line| remark_once(&line))?;
    let nr_policies = plan.policies.len();
    let bar = Bar::counting("replay", nr_policies, "policies");
    let replayed = plan.run(|nr| bar.set(nr, nr_policies))?;
    bar.finish();
    if args.format == Format::Csv {
        // The output has rows only; warnings go to stderr.
        replayed.warning_lines().for_each(|line| remark(&line));
    }
    let text = match args.format {
        Format::Json => report::json(&replayed, args.hottest),
        format => super::tables(format, &report::tables(&replayed, args.hottest)),
    };
    print(&text)?;
    Ok(Outcome::Done)
}
