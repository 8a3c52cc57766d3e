//! Selects processes to capture: by PID, by name, by control group or systemd unit.

use super::memcg::Lookup;
use super::process;
use super::{Source, Wanted};
use highwater_files::input::InputError;

/// Characters of a name that the kernel keeps (TASK_COMM_LEN - 1): `--comm` compares these.
const COMM_MAX: usize = 15;

/// The selected processes; all of them if nothing was selected.
///
/// # Errors
/// If a selector matches no process; the message names the selector.
pub(super) fn pids(source: &Source, wanted: &Wanted) -> Result<Vec<u32>, InputError> {
    let all = process::all(source);
    if !wanted.is_selected() {
        return Ok(all);
    }
    let mut pids = Vec::new();
    for pid in &wanted.pids {
        if !all.contains(pid) {
            let reason =
                format!("no process {pid}, or it is a kernel thread, which has no address space");
            return Err(InputError::whole("--pid", reason));
        }
        pids.push(*pid);
    }
    for name in &wanted.comms {
        let kept: String = name.chars().take(COMM_MAX).collect();
        let matches = all.iter().filter(|pid| process::comm(source, **pid) == kept);
        let found: Vec<u32> = matches.copied().collect();
        if found.is_empty() {
            let reason = format!(
                "no process is called \"{name}\" ({} were looked at; a name is what /proc/PID/comm has)",
                all.len()
            );
            return Err(InputError::whole("--comm", reason));
        }
        pids.extend(found);
    }
    let lookup = (wanted.cgroups.len() + wanted.units.len() > 0).then(|| Lookup::new(source, &all));
    if let Some(lookup) = &lookup {
        for path in &wanted.cgroups {
            pids.extend(lookup.pids("--cgroup", path)?);
        }
        for unit in &wanted.units {
            pids.extend(lookup.pids("--unit", &lookup.unit(unit)?)?);
        }
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}
