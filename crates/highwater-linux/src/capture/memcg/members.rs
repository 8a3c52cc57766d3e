//! The processes of a control group, and the group of a systemd unit.
//!
//! A group's own file, `cgroup.procs`, and `/proc/PID/cgroup` both say which processes are in it.
//! Both are read: the first has no processes of threaded groups, the second none of other PID
//! namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::super::Source;
use super::mounts::{Mount, Mounts, trimmed};
use highwater_files::input::{InputError, names};
use highwater_results::words::{count, refusal};

/// Suffixes of systemd's units that have groups.
const UNITS: [&str; 3] = [".service", ".scope", ".slice"];
const PROCS: &str = "cgroup.procs";

/// Processes of a group and of the groups below it.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) pids: BTreeSet<u32>,
    /// Processes of other PID namespaces, which have no number here.
    pub(super) nr_hidden: usize,
    /// Groups below it.
    nr_below: usize,
}

impl Members {
    /// Reads `cgroup.procs` of a directory and of all directories below it.
    ///
    /// # Errors
    /// If one of them cannot be read, or has something else in it.
    pub(super) fn read(source: &Source, dir: &str) -> Result<Members, InputError> {
        let mut members = Members::default();
        let mut left = vec![dir.to_owned()];
        while let Some(dir) = left.pop() {
            left.extend(source.dirs(&dir).iter().map(|name| format!("{dir}/{name}")));
            members.nr_below += 1;
            members.add(source, &format!("{dir}/{PROCS}"))?;
        }
        members.nr_below -= 1;
        Ok(members)
    }

    fn add(&mut self, source: &Source, file: &str) -> Result<(), InputError> {
        let text = match source.text(file) {
            Ok(text) => text,
            // Also of a group whose processes are in it thread by thread.
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(unreadable(source, file, &error)),
        };
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match line.trim().parse() {
                Ok(0) => self.nr_hidden += 1,
                Ok(pid) => drop(self.pids.insert(pid)),
                Err(_) => {
                    return Err(InputError {
                        line: Some(at + 1),
                        ..InputError::whole(
                            source.name(file),
                            format!("\"{line}\" is not a PID; cgroup.procs has one PID a line"),
                        )
                    });
                }
            }
        }
        Ok(())
    }
}

/// The file is not there: the kernel does not have it, or the group was removed meanwhile.
pub(super) fn is_gone(error: &io::Error) -> bool {
    const ENODEV: i32 = 19;
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(ENODEV)
}

pub(super) fn unreadable(source: &Source, file: &str, error: &io::Error) -> InputError {
    InputError::whole(source.name(file), format!("cannot be read: {}", refusal(error)))
}

/// Finds groups by what a user calls them.
pub(in super::super) struct Lookup<'a> {
    source: &'a Source,
    mounts: Mounts,
    /// `/proc/PID/cgroup` of all processes.
    cgroups: BTreeMap<u32, String>,
}

impl<'a> Lookup<'a> {
    /// Reads mounts and the groups of processes.
    pub(in super::super) fn new(source: &'a Source, pids: &[u32]) -> Lookup<'a> {
        let cgroup = |pid: &u32| Some((*pid, source.text(&format!("proc/{pid}/cgroup")).ok()?));
        Lookup {
            source,
            mounts: Mounts::read(source, pids),
            cgroups: pids.iter().filter_map(cgroup).collect(),
        }
    }

    /// Processes of a group and of the groups below it. `path` is a directory or as
    /// `/proc/PID/cgroup` has it; `option` is what named it.
    ///
    /// # Errors
    /// If there is no such group, or no process in it.
    pub(in super::super) fn pids(&self, option: &str, path: &str) -> Result<Vec<u32>, InputError> {
        let wrong = |reason: String| InputError::whole(option, reason);
        if path.trim().is_empty() {
            return Err(wrong("is empty; / is the root, with all processes".to_owned()));
        }
        let mut empty = None;
        for (mount, below) in self.places(path) {
            let dir = mount.dir_of(&below);
            if !self.source.exists(&dir) {
                continue;
            }
            let mut members = Members::read(self.source, &dir)?;
            let is_in = |cgroup: &str| {
                let group = mount.group_of(cgroup).and_then(|path| mount.below_top(path));
                group.is_some_and(|group| is_below(&group, &below))
            };
            members
                .pids
                .extend(self.cgroups.iter().filter(|(_, text)| is_in(text)).map(|(p, _)| p));
            if !members.pids.is_empty() {
                return Ok(members.pids.into_iter().collect());
            }
            empty.get_or_insert((dir, members));
        }
        // Without the directories the processes' files name the groups.
        let named = self.cgroups.iter().filter(|(_, text)| has_group(text, path));
        let named: Vec<u32> = named.map(|(pid, _)| *pid).collect();
        if !named.is_empty() {
            return Ok(named);
        }
        Err(wrong(match empty {
            Some((dir, Members { nr_hidden, .. })) if nr_hidden > 0 => format!(
                "{}: its {} cannot be seen from this PID namespace; run capture on the host",
                self.source.name(&format!("{dir}/{PROCS}")),
                count(nr_hidden, "process")
            ),
            Some((dir, Members { nr_below, .. })) => format!(
                "{}: no process is in the control group \"{path}\", nor in the {} below it",
                self.source.name(&format!("{dir}/{PROCS}")),
                count(nr_below, "group")
            ),
            None => self.no_group(path),
        }))
    }

    fn no_group(&self, path: &str) -> String {
        let paths = self.paths();
        let all: Vec<&str> = paths.iter().map(String::as_str).collect();
        let near = names::nearest(path, all.iter().copied());
        let advice = match near.first() {
            Some(near) => format!("did you mean {near}?"),
            None => "/proc/PID/cgroup has the path, as in /system.slice/redis.service".to_owned(),
        };
        format!(
            "no process is in the control group \"{path}\" or below it, and there is no directory of it ({} were looked \
             at); {advice}",
            count(all.len(), "group")
        )
    }

    /// The path of a systemd unit's group.
    ///
    /// # Errors
    /// If no group or more than one has its name.
    pub(in super::super) fn unit(&self, name: &str) -> Result<String, InputError> {
        let wrong = |reason: String| Err(InputError::whole("--unit", reason));
        let has_suffix = UNITS.iter().any(|suffix| name.ends_with(suffix));
        let wanted: Vec<String> = match has_suffix {
            true => vec![name.to_owned()],
            false => UNITS.iter().map(|suffix| format!("{name}{suffix}")).collect(),
        };
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let paths = self.paths();
        let found: Vec<&String> =
            paths.iter().filter(|path| wanted.contains(&last(path))).collect();
        match found[..] {
            [one] => Ok(one.clone()),
            [] => {
                let units: BTreeSet<String> = paths.iter().map(|path| last(path)).collect();
                let units = units.iter().filter(|name| UNITS.iter().any(|end| name.ends_with(end)));
                let whole = wanted.first().map_or(name, String::as_str);
                let near = names::nearest(whole, units.map(String::as_str));
                let advice = match near[..] {
                    [] => "a unit has a group while it runs: `systemctl status` shows its path for --cgroup".to_owned(),
                    _ => format!("did you mean {}?", near.join(" or ")),
                };
                wrong(format!(
                    "no control group is called {} ({} were looked at); {advice}",
                    wanted.join(", "),
                    count(paths.len(), "group")
                ))
            }
            _ => {
                let found: Vec<&str> = found.iter().map(|path| path.as_str()).collect();
                wrong(format!(
                    "{} groups are called {name}: {}; name one of them with --cgroup",
                    found.len(),
                    found.join(", ")
                ))
            }
        }
    }

    /// Mounts and places below their tops that a path may mean, the most likely first.
    fn places(&self, path: &str) -> Vec<(&Mount, String)> {
        let plain = trimmed(path);
        let under = |mount: &&Mount| {
            let rest = plain.strip_prefix(&mount.dir)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(mount.dir.len())
        };
        // The mounts of version 1 lie below a directory that is a mount of version 2 elsewhere.
        if let Some(mount) =
            self.mounts.all().iter().rev().max_by_key(under).filter(|m| under(m).is_some())
        {
            let below = trimmed(&plain[mount.dir.len()..]);
            let is_plain = !below.split('/').any(|part| part == "..");
            return if is_plain { vec![(mount, below)] } else { Vec::new() };
        }
        self.mounts.all().iter().filter_map(|mount| Some((mount, mount.below_top(path)?))).collect()
    }

    /// Paths of all known groups: those that have directories, and those of processes.
    fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for mount in self.mounts.all() {
            let mut left = vec![String::new()];
            while let Some(below) = left.pop() {
                for name in self.source.dirs(&mount.dir_of(&below)) {
                    left.push(trimmed(&format!("{below}/{name}")));
                }
                if !below.is_empty() {
                    paths.insert(mount.path(&below));
                }
            }
        }
        let of_processes = self.cgroups.values().flat_map(|text| text.lines());
        for path in of_processes.filter_map(|line| line.splitn(3, ':').nth(2)) {
            let path = format!("/{}", trimmed(path));
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
            paths.extend(ends.map(|end| path[..end].to_owned()).filter(|path| path.len() > 1));
        }
        paths
    }
}

/// A group is another one, or lies below it.
pub(super) fn is_below(group: &str, above: &str) -> bool {
    let rest = group.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A `/proc/PID/cgroup` names the group or one below it, in any hierarchy.
fn has_group(text: &str, path: &str) -> bool {
    let wanted = trimmed(path.strip_prefix("/sys/fs/cgroup").unwrap_or(path));
    // hierarchy:controllers:path
    let groups = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    groups.into_iter().any(|group| is_below(&trimmed(group), &wanted))
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
