//! `highwater replay`.

use highwater_report::render::Format;

use super::args::{ReplayArgs, policies};
use super::{CliError, Outcome, print};
use crate::replay::{self, UseSidecars, report};

/// Replays a trace under the policies asked for.
pub(super) fn run(args: &ReplayArgs) -> Result<Outcome, CliError> {
    let policies = policies(&args.policies, &["6.1"])?;
    let machine = args.machine.resolve()?;
    let sidecars = if args.no_sidecars || machine.is_some() {
        // A machine that was asked for is the machine.
        UseSidecars::No
    } else {
        UseSidecars::Yes
    };
    let machine = machine.as_ref().map(|m| &m.machine);
    let replayed = replay::run(&args.trace, &policies, machine, sidecars)?;
    let text = match args.format {
        Format::Json => report::json(&replayed, args.hottest),
        format => format.renderer().tables(&report::tables(&replayed, args.hottest)),
    };
    print(&text)?;
    Ok(Outcome::Done)
}
