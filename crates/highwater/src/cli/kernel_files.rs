//! `--cgroupfs DIR`: the simulated machine's files of `/proc` and of its memory cgroups.

use super::args::CgroupfsArgs;
use super::{CliError, remark};
use crate::experiment::{FilesPlan, RunPlan};
use highwater_runs::kernel_files::{Keep, not_modelled};

/// Virtual time between two states in a directory of all.
const EVERY_NS: u64 = 1_000_000_000;

/// The files stay as they were at each time.
pub(super) fn of_all_times(args: &CgroupfsArgs, plan: &mut RunPlan) -> Result<(), CliError> {
    begin(args, plan, Keep::Each, EVERY_NS)
}

/// The files are those of the look that the screen shows.
pub(super) fn of_looks(
    args: &CgroupfsArgs,
    plan: &mut RunPlan,
    every_ns: u64,
) -> Result<(), CliError> {
    begin(args, plan, Keep::Latest, every_ns)
}

fn begin(
    args: &CgroupfsArgs,
    plan: &mut RunPlan,
    keep: Keep,
    every_ns: u64,
) -> Result<(), CliError> {
    let Some(dir) = &args.cgroupfs else { return Ok(()) };
    let every_ns = args.cgroupfs_every.unwrap_or(every_ns);
    plan.files = Some(FilesPlan { dir: dir.clone(), every_ns, keep });
    plan.prepare_files()?;
    let dirs = match keep {
        Keep::Each => plan.files_dirs(),
        Keep::Latest => Vec::new(),
    };
    let place = match &dirs[..] {
        [] => dir.display().to_string(),
        [first, ..] => format!("{}/UNIT ({first}, ...; {} of them)", dir.display(), dirs.len()),
    };
    let every_s = every_ns as f64 / 1e9;
    remark(&format!("{place}: files of /proc and cgroups every {every_s} s of virtual time"));
    if let Some((policy, _)) = plan.policies.first() {
        remark(&format!("not modelled in these files: {}", not_modelled(policy)));
    }
    Ok(())
}
