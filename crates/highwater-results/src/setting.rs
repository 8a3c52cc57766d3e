//! Keys of settings (`--set KEY=VALUE`): the one grammar of them.
//!
//! | key | is a key of |
//! |---|---|
//! | `iterations`, `native.memory`, `native.cpus` | the experiment |
//! | `disk`, `swap` | the storage that every machine gets |
//! | `machine.PATH` | every machine's file |
//! | `mem`, `cpus` | the same: `machine.memory`, `machine.cpus` |
//! | `vm.NAME` | the same: `machine.tunables.NAME`; a sysctl, with `-` or `_` |
//! | `policy.PATH` | every policy |
//! | `WORKLOAD.PATH` | the workload's parameters |
//! | `group.NAME.KEY` | the same of a job: `job.group.NAME.KEY`, a memory cgroup |
//!
//! A path has dots between its parts; elements of lists go by number or by name: `job.task.0.count`,
//! `machine.disk.data.model`. Results keep settings as they were written ([`Document::settings`]); the command applies
//! them, and reports find the values that they replace.
//!
//! [`Document::settings`]: crate::Document

use std::fmt;

/// Keys of an experiment.
pub const OF_EXPERIMENT: [&str; 3] = ["iterations", "native.memory", "native.cpus"];
/// Equipment of every machine, by the names of the options.
pub const STORAGE: [&str; 2] = ["disk", "swap"];
/// Keys by the names of options.
pub const SHORT: [(&str, &str); 2] = [("mem", "machine.memory"), ("cpus", "machine.cpus")];
/// Parameters of a job by their own name, and the workload that has them.
const OF_JOB: (&str, &str) = ("group", "job");
/// Where a machine's file has its sysctls.
const TUNABLES: &str = "tunables";

/// The part of a plan to which a key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The workload's parameters.
    Workload,
    /// The experiment.
    Experiment,
    /// Every machine's file.
    Machine,
    /// The disk and the swap that every machine gets.
    Storage,
    /// Every policy.
    Policy,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    scope: Scope,
    head: String,
    path: String,
}

impl Key {
    /// Reads a key. What begins with no other word is a key of the workload of that name, whether or not there is one.
    pub fn parse(text: &str) -> Key {
        let text = text.trim();
        let full = SHORT.iter().find(|(short, _)| *short == text).map_or(text, |(_, full)| full);
        let of = |scope, head: &str, path: String| Key { scope, head: head.to_owned(), path };
        if OF_EXPERIMENT.contains(&full) {
            return of(Scope::Experiment, "", full.to_owned());
        }
        if STORAGE.contains(&full) {
            return of(Scope::Storage, "", full.to_owned());
        }
        let (head, path) = full.split_once('.').unwrap_or((full, ""));
        match head {
            "machine" => of(Scope::Machine, head, path.to_owned()),
            "vm" if path.is_empty() => of(Scope::Machine, head, String::new()),
            "vm" => of(Scope::Machine, head, format!("{TUNABLES}.{}", path.replace('-', "_"))),
            "policy" => of(Scope::Policy, head, path.to_owned()),
            head if head == OF_JOB.0 => of(Scope::Workload, OF_JOB.1, full.to_owned()),
            _ => of(Scope::Workload, head, path.to_owned()),
        }
    }

    /// The part of a plan to which it belongs.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// The word that it begins with; of a workload's key the workload. Empty for keys that are one word.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The rest of the path; empty if there is none. A sysctl's is that of a machine's file: `tunables.swappiness`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name of the sysctl that it is.
    pub fn sysctl(&self) -> Option<&str> {
        let path = Some(self.path.as_str()).filter(|_| self.scope == Scope::Machine)?;
        path.strip_prefix(TUNABLES)?.strip_prefix('.')
    }

    /// True if both name the same value: `mem` and `machine.memory`, `vm.swappiness` and `machine.tunables.swappiness`.
    pub fn is_same(&self, other: &Key) -> bool {
        let of_workload = self.scope != Scope::Workload || self.head == other.head;
        self.scope == other.scope && self.path == other.path && of_workload
    }
}

impl fmt::Display for Key {
    /// In full: `mem` is `machine.memory`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match (self.head.as_str(), self.sysctl()) {
            ("vm", Some(name)) => name,
            _ => &self.path,
        };
        match (self.head.as_str(), path) {
            ("", path) => f.write_str(path),
            (head, "") => f.write_str(head),
            (head, path) => write!(f, "{head}.{path}"),
        }
    }
}

/// The key and the value of a text, without spaces around them; none if it is not `KEY=VALUE`.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    Some((key.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_is_a_key_of() {
        for (text, scope, path, full) in [
            ("iterations", Scope::Experiment, "iterations", "iterations"),
            ("native.cpus", Scope::Experiment, "native.cpus", "native.cpus"),
            ("swap", Scope::Storage, "swap", "swap"),
            ("mem", Scope::Machine, "memory", "machine.memory"),
            (
                "machine.disk.data.model",
                Scope::Machine,
                "disk.data.model",
                "machine.disk.data.model",
            ),
            ("vm.dirty-ratio", Scope::Machine, "tunables.dirty_ratio", "vm.dirty_ratio"),
            ("policy.watermark.boost", Scope::Policy, "watermark.boost", "policy.watermark.boost"),
            (" job.task.0.count ", Scope::Workload, "task.0.count", "job.task.0.count"),
            ("group.db.max", Scope::Workload, "group.db.max", "job.group.db.max"),
            ("foo", Scope::Workload, "", "foo"),
            ("vm", Scope::Machine, "", "vm"),
        ] {
            let key = Key::parse(text);
            assert_eq!((key.scope(), key.path()), (scope, path), "{text}");
            assert_eq!(key.to_string(), full, "{text}");
        }
        assert_eq!(Key::parse("job.task.0.count").head(), "job");
        assert_eq!(Key::parse("vm.swappiness").sysctl(), Some("swappiness"));
        assert_eq!(Key::parse("machine.cpus").sysctl(), None);
        let is_same = |a: &str, b: &str| Key::parse(a).is_same(&Key::parse(b));
        assert!(is_same("mem", "machine.memory"));
        assert!(is_same("group.db.max", "job.group.db.max"));
        assert!(is_same("vm.swappiness", "machine.tunables.swappiness"));
        assert!(!is_same("a.rounds", "b.rounds") && !is_same("disk", "swap"));
    }

    #[test]
    fn the_first_equals_sign_ends_a_key() {
        assert_eq!(split(" a.b = c = d "), Some(("a.b", "c = d")));
        assert_eq!(split("a.b"), None);
    }
}
