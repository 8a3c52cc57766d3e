//! Selects processes to capture: by PID, by name, by control group.

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
    for path in &wanted.cgroups {
        let matches = all.iter().filter(|pid| is_in(source, **pid, path));
        let found: Vec<u32> = matches.copied().collect();
        if found.is_empty() {
            let reason = format!(
                "no process is in the control group \"{path}\" or below it ({} were looked at; /proc/PID/cgroup has the \
                 path, as in /system.slice/redis.service)",
                all.len()
            );
            return Err(InputError::whole("--cgroup", reason));
        }
        pids.extend(found);
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}

/// It is in a control group or below it, in any hierarchy.
fn is_in(source: &Source, pid: u32, path: &str) -> bool {
    let text = source.text(&format!("proc/{pid}/cgroup")).unwrap_or_default();
    has_group(&text, path)
}

/// A `/proc/PID/cgroup` names the group or one below it.
fn has_group(text: &str, path: &str) -> bool {
    let wanted = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path).trim_matches('/');
    text.lines().any(|line| {
        // hierarchy:controllers:path
        let Some(group) = line.splitn(3, ':').nth(2) else { return false };
        let group = group.trim_matches('/');
        // The root has everybody.
        wanted.is_empty()
            || group
                .strip_prefix(wanted)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_match_themselves_and_what_is_below() {
        let text = "4:memory:/old/one\n0::/system.slice/redis.service\n";
        for path in [
            "/system.slice/redis.service",
            "system.slice",
            "/system.slice/",
            "/sys/fs/cgroup/system.slice/redis.service",
            "/old/one",
            "/",
        ] {
            assert!(has_group(text, path), "{path}");
        }
        for path in ["/system", "/redis.service", "/system.slice/redis.service/x"] {
            assert!(!has_group(text, path), "{path}");
        }
    }
}
