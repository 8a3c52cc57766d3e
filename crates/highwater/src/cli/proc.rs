//! `highwater zoneinfo`, `buddyinfo`, `pagetypeinfo`, `vmstat`, `numastat`: Linux's own texts of a freshly booted
//! machine, or of one that starts from a state (`--state`).

use highwater_core::host::{CpuId, Cx, Solo};
use highwater_core::page_alloc::PageAllocator;
use highwater_core::page_alloc::boot;
use highwater_core::proc::{self, DirtyThresholds};
use highwater_core::writeback::DirtyLimits;

use super::args::ProcArgs;
use super::{CliError, Outcome, print, remark};
use crate::experiment::HostKind;
use crate::policy_file;
use crate::settings::Settings;
use crate::start;
use crate::sysctls;

/// Which text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// `/proc/zoneinfo`.
    Zoneinfo,
    /// `/proc/buddyinfo`.
    Buddyinfo,
    /// `/proc/pagetypeinfo`.
    Pagetypeinfo,
    /// `/proc/vmstat`.
    Vmstat,
    /// `numastat` of every node, each under its directory's name.
    Numastat,
}

/// Boots the machine and prints a text.
pub(super) fn run(file: File, args: &ProcArgs) -> Result<Outcome, CliError> {
    let options = args.machine.options();
    let machine = options.start(options.require()?, HostKind::Sim, &mut |line| remark(&line))?;
    args.machine.ignore_storage("nothing that this prints depends on disks or swap");
    let policy = policy_file::load(&args.policy)?;
    let label = policy.name.clone();
    let judged = [(policy, label)];
    sysctls::judge(std::slice::from_ref(&machine), &judged, &Settings::default())?
        .iter()
        .for_each(|line| remark(line));
    let [(policy, _)] = judged;
    let host = Solo::default();
    let memory = boot(&host, &machine.machine, &policy)
        .map_err(|error| CliError::new(format!("{}: {error}", machine.name)))?;
    let on = CpuId(0);
    if let Some(state) = &machine.state {
        start::restore(&memory, &Cx::new(&host, on), state)
            .map_err(|misfit| CliError::new(format!("{}: {}", machine.name, misfit.reason)))?;
    }
    let mut text = String::new();
    let written = match file {
        File::Zoneinfo => proc::zoneinfo(&mut text, &memory, on, |_| false),
        File::Buddyinfo => proc::buddyinfo(&mut text, &memory),
        File::Pagetypeinfo => proc::pagetypeinfo(&mut text, &memory, on),
        File::Vmstat => proc::vmstat(&mut text, &memory, dirty_limits(&memory)),
        File::Numastat => numastats(&mut text, &memory),
    };
    written.map_err(|_| CliError::new("the text could not be formatted"))?;
    print(&text)?;
    Ok(Outcome::Done)
}

/// The dirty limits of a machine without dirty pages (rules/dirty-throttling#limits).
fn dirty_limits(memory: &PageAllocator<Solo>) -> DirtyThresholds {
    let limits = DirtyLimits::new(memory.dirtyable_pages() + 1, &memory.tunables, None);
    DirtyThresholds { threshold: limits.thresh, background: limits.background }
}

/// The nodes' texts, one after the other.
fn numastats(text: &mut String, memory: &PageAllocator<Solo>) -> std::fmt::Result {
    use std::fmt::Write;

    for node in memory.nodes() {
        writeln!(text, "node{}:", node.id.0)?;
        proc::numastat(text, memory, node.id)?;
    }
    Ok(())
}
