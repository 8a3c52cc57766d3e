//! Memory cgroups of captured processes: their tree, settings and memory.
//!
//! ```text
//!  /proc/PID/mountinfo ─▶ mounts    which mount has the memory controller
//!  cgroup.procs        ─▶ members   processes of a group, the group of a unit
//!  memory.max ...      ─▶ settings  those that the job has, and all others
//!  memory.stat ...     ─▶ usage     the charged memory by owner
//! ```
//!
//! The tree holds the groups of the captured processes and all groups above them, except for the
//! root, which has no settings. A container sees its own group and those below it only; its top is
//! then a group like others, and a note says that the limits above it are not known.

mod members;
mod mounts;
mod settings;
mod table;
mod usage;

use std::collections::BTreeSet;

use super::process::Process;
use super::{Source, System};
use highwater_files::input::InputError;
use highwater_runs::workload::job::{GroupVersion, JobGroup};

use self::members::{Members, is_below};
use self::mounts::Mounts;
use self::settings::Files;
use self::usage::Held;

pub(super) use members::Lookup;
pub use mounts::Mount;
pub use usage::{Parts, Usage};

/// The mount option with which unclaimed protection goes down the tree.
const RECURSIVE: &str = "memory_recursiveprot";
/// `vm.swappiness` of a machine that does not say.
const SWAPPINESS: u32 = 60;
/// The mount option with which hugetlb pages are charged.
const HUGETLB: &str = "memory_hugetlb_accounting";

/// The consequence of a group's file that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// A note: nobody asked for groups.
    Notes,
    /// An error: somebody named a group.
    Fails,
}

/// Memory cgroups of captured processes.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// The mount that has them; `None`: there are none.
    pub mount: Option<Mount>,
    /// The groups, each after the one above it.
    pub all: Vec<Group>,
    /// Protection that no child claims goes to the children (`memory_recursiveprot`).
    pub is_recursive: bool,
    /// Lines about the mount, about groups that cannot be seen, and about settings that are not in
    /// the job.
    pub notes: Vec<String>,
}

/// A memory cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// As `/proc/PID/cgroup` has it.
    pub path: String,
    /// The group above, by number; `None`: the root.
    pub parent: Option<usize>,
    /// Its settings as the job has them, without name and parent.
    pub settings: JobGroup,
    /// The memory of the group and those below it; `None`: unknown.
    pub usage: Option<Usage>,
    /// That memory, divided by owner.
    pub parts: Parts,
    /// Captured processes in it and below it.
    pub nr_captured: usize,
    /// Other processes in it and below it.
    pub nr_others: usize,
}

/// Reads the groups of processes, and tells each process which one is its own.
///
/// # Errors
/// If a file cannot be parsed, or if it cannot be read and somebody named a group.
pub(super) fn gather(
    source: &Source,
    strictness: Strictness,
    system: &System,
    processes: &mut [Process],
) -> Result<Groups, InputError> {
    let mut groups = Groups::default();
    if processes.is_empty() {
        return Ok(groups);
    }
    if processes.iter().all(|process| process.cgroup.is_empty()) {
        let lost = "/proc/PID/cgroup of no process can be read: the job has no memory cgroups";
        groups.notes.push(lost.to_owned());
        return Ok(groups);
    }
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let mounts = Mounts::read(source, &pids);
    let Some(mount) = mounts.memory(source).cloned() else {
        let lost = "no control groups with a memory controller are mounted: the job has none";
        groups.notes.push(lost.to_owned());
        return Ok(groups);
    };
    let has_root = mount.has_root(source);
    let own: Vec<Option<String>> = processes
        .iter()
        .map(|process| own_group(source, &mount, has_root, process, &mut groups.notes))
        .collect();
    let mut tree: Vec<String> = ancestors(own.iter().flatten()).into_iter().collect();
    tree.retain(|below| !(has_root && below.is_empty()));
    for (process, own) in processes.iter_mut().zip(&own) {
        process.group = own.as_ref().and_then(|own| tree.iter().position(|below| below == own));
    }
    if tree.is_empty() {
        let (version, dir) = (mount.version(), source.name(&mount.dir));
        groups.notes.push(format!(
            "memory cgroups are version {version}, at {dir}; the captured processes are in none but the root: the job has none"
        ));
        return Ok(groups);
    }
    groups.describe(source, &mounts, &mount, has_root);
    for below in &tree {
        groups.read(source, &mount, below, (strictness, system))?;
    }
    for at in 0..groups.all.len() {
        groups.count(source, &mount, at, (&tree, strictness), processes)?;
    }
    groups.mount = Some(mount);
    Ok(groups)
}

/// The memory cgroup of a process, below the mount's top; a note if it cannot be seen.
fn own_group(
    source: &Source,
    mount: &Mount,
    has_root: bool,
    process: &Process,
    notes: &mut Vec<String>,
) -> Option<String> {
    let name = format!("process {} ({})", process.pid, process.comm);
    if process.cgroup.is_empty() {
        notes.push(format!(
            "{name}: /proc/{}/cgroup cannot be read: it is in no group of the job",
            process.pid
        ));
        return None;
    }
    let path = mount.group_of(&process.cgroup)?;
    let Some(mut below) = mount.below_top(path) else {
        notes.push(format!(
            "{name}: its group {path} is outside of what {} shows: it is in no group of the job",
            source.name(&mount.dir)
        ));
        return None;
    };
    let dir = source.name(&mount.dir_of(&below));
    if !source.exists(&mount.dir_of(&below)) {
        notes.push(format!("{name}: its group {dir} is not there: it is in no group of the job"));
        return None;
    }
    // Without the controller the nearest group above that has it pays.
    let has_memory = |below: &str| source.exists(&format!("{}/memory.max", mount.dir_of(below)));
    while mount.is_v2 && !below.is_empty() && !has_memory(&below) {
        below.truncate(below.rfind('/').unwrap_or(0));
    }
    let is_group = !below.is_empty() || !has_root && (!mount.is_v2 || has_memory(""));
    is_group.then_some(below)
}

/// The groups and all above them; each stands after those above it.
fn ancestors<'a>(groups: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for group in groups {
        let ends = group.match_indices('/').map(|(at, _)| at);
        all.extend(ends.chain([0, group.len()]).map(|end| group[..end].to_owned()));
    }
    all
}

impl Groups {
    /// True if the job has no groups.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The notes about the mount: which one, and what cannot be seen of it.
    fn describe(&mut self, source: &Source, mounts: &Mounts, mount: &Mount, has_root: bool) {
        let dir = source.name(&mount.dir);
        self.is_recursive = mount.is_v2 && mount.has_option(RECURSIVE);
        let version = mount.version();
        let other = mounts.all().iter().find(|other| other.is_v2 != mount.is_v2);
        self.notes.push(match other {
            Some(other) => format!(
                "both versions of control groups are mounted; the memory controller is in version {version}, at {dir}, and not \
                 at {}",
                source.name(&other.dir)
            ),
            None => format!("memory cgroups are version {version}, at {dir}"),
        });
        if !mount.is_v2 {
            let lost = "the job's groups are version 1 too; its other controllers are not read";
            self.notes.push(lost.to_owned());
        }
        if !has_root {
            self.notes.push(format!(
                "{dir} shows a container's own group {} and those below it: limits of the groups above are not visible; \
                 capture on the host has them",
                mount.path("")
            ));
        }
        match (mount.is_v2, mount.is_known) {
            (true, false) => self.notes.push(format!(
                "mountinfo has no control groups: {dir} is taken to be mounted without {RECURSIVE}"
            )),
            (true, true) if self.is_recursive => {
                self.notes.push(format!("{RECURSIVE} is on, in the job too"));
            }
            _ => {}
        }
        if mount.has_option(HUGETLB) {
            self.notes.push(format!("{HUGETLB} is on: hugetlb pages are not modelled"));
        }
    }

    /// Reads a group below the mount's top.
    fn read(
        &mut self,
        source: &Source,
        mount: &Mount,
        below: &str,
        (strictness, system): (Strictness, &System),
    ) -> Result<(), InputError> {
        let path = mount.path(below);
        let dir = mount.dir_of(below);
        let above = below.rfind('/').map_or("", |at| &below[..at]);
        let mut parent = self.all.iter().position(|group| group.path == mount.path(above));
        if !mount.is_v2 && !below.is_empty() {
            let dir = mount.dir_of(above);
            let notes = &mut self.notes;
            let counts =
                settings::counts_children(&mut Files { source, dir: &dir, strictness, notes })?;
            if let (false, Some(above)) = (counts, parent) {
                let above = &self.all[above].path;
                self.notes.push(format!(
                    "{path}: not charged to {above} (memory.use_hierarchy = 0): in the job it has no parent"
                ));
                parent = None;
            }
        }
        let swappiness = self.swappiness(parent, system);
        let notes = &mut self.notes;
        let mut files = Files { source, dir: &dir, strictness, notes };
        let settings = match mount.is_v2 {
            true => settings::v2(&mut files)?,
            false => settings::v1(&mut files, swappiness)?,
        };
        let usage = usage::read(&mut files, mount.is_v2)?;
        self.notes.extend(settings.lost.iter().map(|lost| format!("{path}: {lost}")));
        self.all.push(Group { path, parent, settings: settings.job, usage, ..Group::default() });
        Ok(())
    }

    /// The swappiness that a version 1 group below `parent` has in the job without a setting: its
    /// parent's, at last the machine's.
    fn swappiness(&self, parent: Option<usize>, system: &System) -> u32 {
        let line = std::iter::successors(parent, |at| self.all[*at].parent);
        let mut settings = line.map(|at| self.all[at].settings.swappiness);
        let machine = || system.settings.get("vm.swappiness")?.trim().parse().ok();
        settings.find_map(|own| own).or_else(machine).unwrap_or(SWAPPINESS)
    }

    /// The version that the job's groups are of.
    pub fn version(&self) -> GroupVersion {
        match self.mount.as_ref().is_some_and(|mount| !mount.is_v2) {
            true => GroupVersion::V1,
            false => GroupVersion::V2,
        }
    }

    /// True if a group's memory is charged to another one: to itself, or to one above.
    fn is_charged_to(&self, group: usize, above: usize) -> bool {
        let parents = std::iter::successors(Some(group), |at| self.all[*at].parent);
        parents.into_iter().any(|at| at == above)
    }

    /// Counts the processes of a group, and what they explain of its memory.
    fn count(
        &mut self,
        source: &Source,
        mount: &Mount,
        at: usize,
        (tree, strictness): (&[String], Strictness),
        processes: &[Process],
    ) -> Result<(), InputError> {
        // Charged to the group: version 1 may not charge groups to those above them.
        let is_charged =
            |process: &&Process| process.group.is_some_and(|own| self.is_charged_to(own, at));
        let mut held = Held::default();
        processes.iter().filter(is_charged).for_each(|process| held.add(process));
        let nr_captured = processes.iter().filter(is_charged).count();
        let members = match Members::read(source, &mount.dir_of(&tree[at])) {
            Ok(members) => members,
            Err(error) if strictness == Strictness::Fails => return Err(error),
            Err(error) => {
                self.notes.push(format!("{error}: other processes of the group are not known"));
                Members::default()
            }
        };
        let is_in =
            |process: &&Process| process.group.is_some_and(|own| is_below(&tree[own], &tree[at]));
        let captured: BTreeSet<u32> =
            processes.iter().filter(is_in).map(|process| process.pid).collect();
        let group = &mut self.all[at];
        group.nr_captured = nr_captured;
        group.nr_others = members.pids.difference(&captured).count() + members.nr_hidden;
        group.parts = group.usage.map_or_else(Parts::default, |usage| usage.parts(held));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stand_after_those_above_them() {
        let groups = ["a/b/c", "a-b", "a"].map(str::to_owned);
        let all: Vec<String> = ancestors(groups.iter()).into_iter().collect();
        assert_eq!(all, ["", "a", "a-b", "a/b", "a/b/c"]);
    }
}
