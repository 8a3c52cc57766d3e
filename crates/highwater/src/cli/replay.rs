//! `highwater replay`.

use highwater_report::render::Format;
use highwater_results::import::kmem::OnDamage;

use super::args::{ReplayArgs, policies};
use super::progress::Bar;
use super::{CliError, Outcome, print, remark};
use crate::replay::{self, Trace, UseSidecars, report};
use crate::settings::Settings;
use crate::sysctls;

/// Replays a trace under the chosen policies.
pub(super) fn run(args: &ReplayArgs) -> Result<Outcome, CliError> {
    let policies = policies(&args.policies, &["6.1"])?;
    let machine = args.machine.options().resolve()?;
    args.machine.ignore_storage("a trace of the allocator has neither disks nor swap");
    let labelled = policies.iter().map(|policy| (policy.clone(), policy.name.clone()));
    let judged =
        sysctls::judge(machine.as_slice(), &labelled.collect::<Vec<_>>(), &Settings::default());
    judged?.iter().for_each(|line| remark(line));
    let sidecars = if args.no_sidecars || machine.is_some() {
        // The user chose the machine, so it is not taken from the files beside the trace.
        UseSidecars::No
    } else {
        UseSidecars::Yes
    };
    let machine = machine.as_ref().map(|m| &m.machine);
    let on_damage = if args.partial { OnDamage::UseWhole } else { OnDamage::Refuse };
    let trace = Trace::file(&args.trace).on_damage(on_damage);
    let bar = Bar::counting("replay", policies.len(), "policies");
    let done = |nr| bar.set(nr, policies.len());
    let replayed = replay::run_trace(trace, &policies, machine, sidecars, done)?;
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
