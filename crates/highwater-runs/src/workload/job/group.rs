//! Memory cgroups of a job: as they are written, their errors, and their sizes on a machine.

use std::collections::BTreeSet;

use highwater_core::config::{GroupHierarchy, KernelVersion};
use highwater_workloads::jobs::{Action, GroupHow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{Do, JobParams, JobPhase, is_false};
use super::group_settings::{GroupVersion, NUMBERS, SIZES, SettingName};
use super::names::{Wrong, found, wrong};
use super::plan::pages_down;
use super::text::Amount;
use crate::workload::params::Problem;
use highwater_files::input::names::unknown;

/// A memory cgroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobGroup {
    /// Name in phases, in settings (`--set group.NAME.max=512M`) and in results.
    pub name: String,
    /// Group that it is part of, which stands before it in the file; default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `memory.max`: the limit. Bytes (`512M`), `max` (no limit, the default), or a share of the
    /// parent's `max` (`50%`), of the machine's memory if no group above has a limit. A charge
    /// beyond it reclaims from the group, and kills in the group if that does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Amount>,
    /// `memory.high`, of the same form: above it the group's tasks reclaim, and sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Amount>,
    /// `memory.low`, of the same form: below it the group is reclaimed only if nothing else is
    /// left; default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Amount>,
    /// `memory.min`, of the same form: below it the group is never reclaimed; default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Amount>,
    /// `memory.swap.max`, of the same form: the limit of the group's swap. A share is one of the
    /// parent's `max`, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_max: Option<Amount>,
    /// `memory.swap.high`, of the same form: with more in swap than that, tasks sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_high: Option<Amount>,
    /// `memory.oom.group`: an OOM kill in the group takes all of its tasks.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oom_group: bool,
    /// Version 1's `memory.limit_in_bytes`, of the same form as `max`: the limit. It cannot be set
    /// below what the group uses unless reclaim makes room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Amount>,
    /// Version 1's `memory.memsw.limit_in_bytes`, of the same form: the limit of memory and swap
    /// together, at least `limit`. A share is one of the parent's `limit`, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memsw_limit: Option<Amount>,
    /// Version 1's `memory.soft_limit_in_bytes`, of the same form: when the machine is short of
    /// memory, the group that is furthest above gives first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_limit: Option<Amount>,
    /// Version 1's `memory.swappiness`, 0 to 200, for reclaim of the group; default: its parent's,
    /// of the root `vm.swappiness`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 200))]
    pub swappiness: Option<u32>,
    /// Version 1's `memory.oom_control`: a fault that finds no memory below the limit waits until
    /// there is some, instead of an OOM kill.
    #[serde(default, skip_serializing_if = "is_false")]
    pub oom_control: bool,
}

/// An option with which memory cgroups are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MountOption {
    /// Protection that no child claims goes to the children's unclaimed usage.
    MemoryRecursiveprot,
}

/// The kernel with which the mount option `memory_recursiveprot` came.
const RECURSIVE_SINCE: KernelVersion = KernelVersion::new(5, 7);
/// Most groups of a job.
const GROUPS_MAX: usize = 4096;

impl JobGroup {
    /// A size of the group.
    pub(super) const fn size(&self, setting: SettingName) -> Option<Amount> {
        match setting {
            SettingName::Max => self.max,
            SettingName::High => self.high,
            SettingName::Low => self.low,
            SettingName::Min => self.min,
            SettingName::SwapMax => self.swap_max,
            SettingName::SwapHigh => self.swap_high,
            SettingName::Limit => self.limit,
            SettingName::MemswLimit => self.memsw_limit,
            SettingName::SoftLimit => self.soft_limit,
            SettingName::OomGroup | SettingName::Swappiness | SettingName::OomControl => None,
        }
    }

    /// A number of the group that is no size.
    const fn number(&self, setting: SettingName) -> Option<u32> {
        match setting {
            SettingName::OomGroup if self.oom_group => Some(1),
            SettingName::OomControl if self.oom_control => Some(1),
            SettingName::Swappiness => self.swappiness,
            _ => None,
        }
    }

    /// Most memory that it may have: `max`, or `limit` of version 1.
    const fn most(&self) -> Option<Amount> {
        match self.max {
            None => self.limit,
            max => max,
        }
    }

    /// The first error in its settings, where a job's groups are of a version: the key, and why.
    fn problem(&self, version: GroupVersion) -> Option<(&'static str, String)> {
        let is_set = |&name: &SettingName| self.size(name).is_some() || self.number(name).is_some();
        for name in SIZES.into_iter().chain(NUMBERS).filter(is_set) {
            let (key, ..) = name.key();
            let number = self.number(name);
            if let Some(reason) = name.problem_in(version) {
                return Some((key, reason));
            }
            if number.is_some_and(|number| name.of_number(number).is_none()) {
                return Some((key, "must be from 0 to 200".to_owned()));
            }
        }
        // Shares are known on a machine only; there the kernel refuses them (EINVAL).
        let is_below = match (self.memsw_limit, self.limit) {
            (Some(Amount::Bytes(memsw)), Some(Amount::Bytes(limit))) => memsw < limit,
            (Some(Amount::Share(memsw)), Some(Amount::Share(limit))) => memsw < limit,
            (Some(Amount::Bytes(_)), None | Some(Amount::Unlimited)) => true,
            _ => false,
        };
        is_below.then(|| {
            let reason = "memory and swap together may not have less than limit";
            ("memsw-limit", reason.to_owned())
        })
    }
}

fn names(params: &JobParams) -> Vec<&str> {
    params.group.iter().map(|group| group.name.as_str()).collect()
}

/// The number of a group.
pub(super) fn number(params: &JobParams, name: &str) -> Option<usize> {
    params.group.iter().position(|group| group.name == name)
}

/// The first error in the groups, and in the group that a task names.
pub(super) fn problem(params: &JobParams) -> Option<Problem> {
    let wrong = |path: String, reason: String| Some(Problem { path, reason });
    let names = names(params);
    let mut before = BTreeSet::new();
    for (at, group) in params.group.iter().enumerate() {
        let name = group.name.as_str();
        // Its directory lies beside the files of its parent.
        if [".", "cgroup.", "memory.", "cpu.", "io."].iter().any(|start| name.starts_with(start)) {
            let reason = format!(
                "\"{name}\" begins with \".\", \"cgroup.\", \"memory.\", \"cpu.\" or \"io.\", as files of a group do; \
                 choose another name"
            );
            return wrong(format!("group.{at}.name"), reason);
        }
        if name.is_empty() || name.contains('/') || !before.insert(name) {
            let reason = format!("\"{name}\" is empty, has a / in it, or is there twice");
            return wrong(format!("group.{at}.name"), reason);
        }
        if at >= GROUPS_MAX {
            return wrong(format!("group.{at}.name"), format!("at most {GROUPS_MAX} groups"));
        }
    }
    let version = params.group_version;
    for (at, group) in params.group.iter().enumerate() {
        if let Some((key, reason)) = group.problem(version) {
            return wrong(format!("group.{at}.{key}"), reason);
        }
    }
    if version == GroupVersion::V1 && !params.group_mount.is_empty() {
        let reason = "memory_recursiveprot is an option of version 2, and the job's groups are version 1 (group-version)";
        return wrong("group-mount".to_owned(), reason.to_owned());
    }
    for (at, group) in params.group.iter().enumerate() {
        let Some(parent) = group.parent.as_deref() else { continue };
        let reason = match number(params, parent) {
            None => unknown("group", parent, &names),
            Some(above) if above < at => continue,
            Some(above) => match circle(params, above, at) {
                Some(circle) => format!("a group cannot be above itself: {circle}"),
                None => format!("{parent} stands below; a parent comes before its groups"),
            },
        };
        return wrong(format!("group.{at}.parent"), reason);
    }
    for (at, task) in params.task.iter().enumerate() {
        let Some(name) = task.group.as_deref() else { continue };
        let reason = match number(params, name) {
            None if names.is_empty() => format!("unknown group \"{name}\"; there is no [[group]]"),
            None => unknown("group", name, &names),
            Some(_) if task.softirq => "an interrupt is in no group".to_owned(),
            Some(_) => continue,
        };
        return wrong(format!("task.{at}.group"), reason);
    }
    None
}

/// The way up from a group to another one, as `a in b in a`, if it leads there.
fn circle(params: &JobParams, from: usize, to: usize) -> Option<String> {
    let (mut way, mut at) = (vec![params.group[to].name.as_str()], from);
    loop {
        way.push(&params.group[at].name);
        if at == to {
            return Some(way.join(" in "));
        }
        at = number(params, params.group[at].parent.as_deref()?)?;
        // Groups above that are a circle without this one.
        if way.len() > params.group.len() {
            return None;
        }
    }
}

/// Pages of which the sizes of a group are shares: the limit of the nearest group above that has
/// one, else the machine's memory.
fn whole(params: &JobParams, at: usize, memory_pages: u64) -> u64 {
    let parent = params.group[at].parent.as_deref().and_then(|name| number(params, name));
    let Some(above) = parent.filter(|&above| above < at) else { return memory_pages };
    match params.group[above].most() {
        None | Some(Amount::Unlimited) => whole(params, above, memory_pages),
        Some(max) => pages_down(max, whole(params, above, memory_pages)),
    }
}

/// The groups on a machine with this many pages.
pub(super) fn groups(params: &JobParams, memory_pages: u64) -> Vec<GroupHow> {
    let how = |(at, group): (usize, &super::JobGroup)| {
        let whole = whole(params, at, memory_pages);
        let sizes = SIZES
            .iter()
            .filter_map(|&setting| setting.of_pages(pages_down(group.size(setting)?, whole)));
        let numbers =
            NUMBERS.iter().filter_map(|&setting| setting.of_number(group.number(setting)?));
        let parent = group.parent.as_deref().and_then(|name| number(params, name));
        GroupHow { parent, settings: sizes.chain(numbers).collect() }
    };
    params.group.iter().enumerate().map(how).collect()
}

/// True if protection that no child claims goes down the tree, in a kernel.
pub(super) fn is_recursive(params: &JobParams, kernel: KernelVersion) -> bool {
    params.group_mount.contains(&MountOption::MemoryRecursiveprot) && kernel >= RECURSIVE_SINCE
}

/// True if tasks of some group may ever wait instead of an OOM kill.
pub(super) fn may_wait(params: &JobParams) -> bool {
    let mut phases = params.task.iter().flat_map(|task| &task.phase).flat_map(JobPhase::all);
    params.group.iter().any(|group| group.oom_control)
        || phases.any(|phase| phase.setting == Some(SettingName::OomControl))
}

/// The hierarchy of a job's groups.
pub(super) const fn hierarchy(params: &JobParams) -> GroupHierarchy {
    match params.group_version {
        GroupVersion::V1 => GroupHierarchy::V1,
        GroupVersion::V2 => GroupHierarchy::V2,
    }
}

/// The remark about a mount option of groups that a kernel does not have.
pub(super) fn mounted_in_vain(params: &JobParams, kernel: KernelVersion) -> Option<String> {
    (!params.group_mount.is_empty() && kernel < RECURSIVE_SINCE).then(|| {
        format!(
            "Linux {kernel} does not have memory_recursiveprot (since {RECURSIVE_SINCE}), with which the job mounts groups: ignored"
        )
    })
}

/// Settings of a group that the job gives it at any time.
pub(super) fn ever_set(params: &JobParams, at: usize) -> BTreeSet<SettingName> {
    let group = &params.group[at];
    let phases = params.task.iter().flat_map(|task| &task.phase).flat_map(JobPhase::all);
    let later = phases
        .filter(|phase| phase.action == Do::SetGroup && phase.of.as_ref() == Some(&group.name));
    let first = SIZES.into_iter().filter(|&setting| group.size(setting).is_some());
    first.chain(later.filter_map(|phase| phase.setting)).collect()
}

/// The action of a phase that works on a group.
pub(super) fn action(
    params: &JobParams,
    phase: &JobPhase,
    memory_pages: u64,
) -> Result<Action, Wrong> {
    let group = found("group", "of", phase.of.as_deref(), &names(params))?;
    let whole = || whole(params, group, memory_pages);
    let version = params.group_version;
    if let (Do::SetGroup, Some(reason)) =
        (phase.action, phase.setting.and_then(|setting| setting.problem_in(version)))
    {
        return Err(wrong("setting", reason));
    }
    if phase.action == Do::Reclaim && version == GroupVersion::V1 {
        let reason = "version 1 has no memory.reclaim (group-version); lower the group's limit";
        return Err(wrong("do", reason));
    }
    Ok(match (phase.action, phase.setting) {
        (Do::SetGroup, None) => {
            let reason = match version {
                GroupVersion::V1 => {
                    "set-group wants a setting: limit, memsw-limit, soft-limit, swappiness or oom-control"
                }
                GroupVersion::V2 => {
                    "set-group wants a setting: max, high, low, min, swap-max, swap-high or oom-group"
                }
            };
            return Err(wrong("do", reason));
        }
        (Do::SetGroup, Some(name)) if NUMBERS.contains(&name) => {
            let ((key, ..), range) = (name.key(), name.range());
            if phase.size.is_some() {
                return Err(wrong("size", format!("{key} has a value, {range}")));
            }
            let setting = phase.value.and_then(|value| name.of_number(value));
            let Some(setting) = setting else {
                return Err(wrong("value", format!("{key} is {range}")));
            };
            Action::SetGroup { group, setting }
        }
        (Do::SetGroup, Some(setting)) => {
            let size = match (phase.size, phase.value) {
                (Some(size), None) => size,
                (_, Some(_)) => return Err(wrong("value", "this setting has a size")),
                (None, None) => return Err(wrong("do", "which size? There is none")),
            };
            let setting = setting.of_pages(pages_down(size, whole()));
            let Some(setting) = setting else { return Err(wrong("setting", "has no size")) };
            Action::SetGroup { group, setting }
        }
        (Do::Reclaim, _) => {
            let Some(size) = phase.size else {
                return Err(wrong("do", "reclaim wants a size"));
            };
            if size == Amount::Unlimited {
                return Err(wrong("size", "how much? max is for settings"));
            }
            Action::Reclaim { group, pages: pages_down(size, whole()) }
        }
        (Do::RemoveGroup, _) => Action::RemoveGroup { group },
        _ => Action::Join { group },
    })
}

#[cfg(test)]
mod tests {
    use highwater_core::reclaim::GroupSetting;

    use super::*;
    use crate::workload::params::Params;

    fn job(text: &str) -> JobParams {
        let task = "[[task]]\nname = \"t\"\n[[task.phase]]\ndo = \"compute\"\nus = 1.0\n";
        toml::from_str(&format!("{text}\n{task}")).unwrap()
    }

    fn error(text: &str) -> String {
        let Problem { path, reason } = job(text).problem().unwrap();
        format!("{path}: {reason}")
    }

    fn group(name: &str, more: &str) -> String {
        format!("[[group]]\nname = \"{name}\"\n{more}\n")
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let (a, b) = (group("a", "parent = \"b\""), group("b", "parent = \"a\""));
        let twice = "is empty, has a / in it, or is there twice";
        let as_file = "begins with \".\", \"cgroup.\", \"memory.\", \"cpu.\" or \"io.\", as files of a group do; \
                       choose another name";
        for (text, reason) in [
            (group("", ""), format!("group.0.name: \"\" {twice}")),
            (group("a/b", ""), format!("group.0.name: \"a/b\" {twice}")),
            (group("..", ""), format!("group.0.name: \"..\" {as_file}")),
            (group("io.pressure", ""), format!("group.0.name: \"io.pressure\" {as_file}")),
            (group("a", "") + &group("a", ""), format!("group.1.name: \"a\" {twice}")),
            (
                a.clone() + &group("b", ""),
                "group.0.parent: b stands below; a parent comes before its groups".to_owned(),
            ),
            (
                a.clone() + &b,
                "group.0.parent: a group cannot be above itself: a in b in a".to_owned(),
            ),
            (
                group("a", "parent = \"a\""),
                "group.0.parent: a group cannot be above itself: a in a".to_owned(),
            ),
            (
                group("front", "") + &group("b", "parent = \"frnt\""),
                "group.1.parent: unknown group \"frnt\"; did you mean front? (there are front, b)"
                    .to_owned(),
            ),
        ] {
            assert_eq!(error(&text), reason);
        }
    }

    #[test]
    fn shares_are_those_of_the_parents_limit() {
        let text = group("pod", "max = \"50%\"")
            + &group("slice", "parent = \"pod\"\nlow = \"25%\"")
            + &group("app", "parent = \"slice\"\nmax = \"10%\"\nhigh = \"max\"\noom-group = true")
            + &group("db", "max = \"5K\"\nswap-max = \"0\"");
        let job = job(&text);
        assert_eq!(job.problem(), None);
        let mib = 256;
        let groups = groups(&job, 1000 * mib);
        let settings = |at: usize| groups[at].settings.clone();
        assert_eq!(settings(0), [GroupSetting::Max(500 * mib)]);
        assert_eq!(settings(1), [GroupSetting::Low(125 * mib)]);
        // No limit between it and the first group.
        let app = [
            GroupSetting::Max(50 * mib),
            GroupSetting::High(u64::MAX),
            GroupSetting::OomGroup(true),
        ];
        assert_eq!(settings(2), app);
        // As the kernel does: whole pages, rounded down.
        assert_eq!(settings(3), [GroupSetting::Max(1), GroupSetting::SwapMax(0)]);
        assert_eq!(
            groups.iter().map(|group| group.parent).collect::<Vec<_>>(),
            [None, Some(0), Some(1), None]
        );
    }

    #[test]
    fn phases_about_groups_say_what_they_lack() {
        let phase = |phase: &str| {
            let text = format!(
                "{}[[task]]\nname = \"x\"\n[[task.phase]]\n{phase}\n",
                group("db", "max = \"8M\"")
            );
            job(&text).problem().map(|Problem { path, reason }| format!("{path}: {reason}"))
        };
        for good in [
            "do = \"set-group\"\nof = \"db\"\nsetting = \"high\"\nsize = \"max\"",
            "do = \"set-group\"\nof = \"db\"\nsetting = \"oom-group\"\nvalue = 1",
            "do = \"reclaim\"\nof = \"db\"\nsize = \"1M\"",
            "do = \"remove-group\"\nof = \"db\"",
            "do = \"join\"\nof = \"db\"",
        ] {
            assert_eq!(phase(good), None, "{good}");
        }
        for (bad, reason) in [
            ("do = \"join\"\nof = \"bd\"", "of: unknown group \"bd\"; there is db"),
            ("do = \"join\"", "do: which group? There is no of"),
            (
                "do = \"set-group\"\nof = \"db\"",
                "do: set-group wants a setting: max, high, low, min, swap-max, swap-high or oom-group",
            ),
            ("do = \"set-group\"\nof = \"db\"\nsetting = \"max\"", "do: which size? There is none"),
            (
                "do = \"set-group\"\nof = \"db\"\nsetting = \"max\"\nvalue = 1",
                "value: this setting has a size",
            ),
            (
                "do = \"set-group\"\nof = \"db\"\nsetting = \"oom-group\"\nvalue = 2",
                "value: oom-group is 0 or 1",
            ),
            (
                "do = \"reclaim\"\nof = \"db\"\nsize = \"max\"",
                "size: how much? max is for settings",
            ),
            (
                "do = \"join\"\nof = \"db\"\nsetting = \"max\"",
                "setting: this action does not have it",
            ),
            ("do = \"map\"\nof = \"m\"\nsize = \"max\"", "size: max is for groups; how much?"),
        ] {
            assert_eq!(phase(bad), Some(format!("task.0.phase.0.{reason}")), "{bad}");
        }
    }

    /// Keys of the other version, and values that cannot be, are refused in one line.
    #[test]
    fn each_version_has_keys_of_its_own() {
        let v1 = "group-version = 1\n";
        let one = "limit = \"8M\"\nmemsw-limit = \"12M\"\nsoft-limit = \"4M\"\nswappiness = 0\noom-control = true";
        let good = job(&format!("{v1}{}", group("a", one)));
        assert_eq!((good.problem(), hierarchy(&good)), (None, GroupHierarchy::V1));
        let settings = groups(&good, 1 << 20)[0].settings.clone();
        let expected = [
            GroupSetting::Limit(2048),
            GroupSetting::MemswLimit(3072),
            GroupSetting::SoftLimit(1024),
            GroupSetting::Swappiness(0),
            GroupSetting::OomControl(true),
        ];
        assert_eq!(settings, expected);
        let other = |key: &str, of, version, nearest: &str| {
            format!(
                "group.0.{key}: {key} is a setting of version {of}, and the job's groups are version {version} \
                 (group-version); the nearest there is {nearest}"
            )
        };
        for (text, reason) in [
            (format!("{v1}{}", group("a", "max = \"8M\"")), other("max", 2, 1, "limit")),
            (format!("{v1}{}", group("a", "oom-group = true")), other("oom-group", 2, 1, "oom-control")),
            (group("a", "limit = \"8M\""), other("limit", 1, 2, "max")),
            (
                group("a", "swappiness = 1"),
                other("swappiness", 1, 2, "vm.swappiness of the machine"),
            ),
            (
                format!("{v1}{}", group("a", "swappiness = 201")),
                "group.0.swappiness: must be from 0 to 200".to_owned(),
            ),
            (
                format!("{v1}{}", group("a", "limit = \"8M\"\nmemsw-limit = \"7M\"")),
                "group.0.memsw-limit: memory and swap together may not have less than limit"
                    .to_owned(),
            ),
            (
                format!("{v1}group-mount = [\"memory_recursiveprot\"]\n{}", group("a", "")),
                "group-mount: memory_recursiveprot is an option of version 2, and the job's groups are version 1 \
                 (group-version)"
                    .to_owned(),
            ),
        ] {
            assert_eq!(error(&text), reason);
        }
        let wrong = toml::from_str::<JobParams>("group-version = 3").unwrap_err();
        assert!(wrong.to_string().contains("the version of cgroups is 1 or 2"), "{wrong}");
    }

    #[test]
    fn phases_have_the_settings_of_the_version() {
        let phase = |phase: &str| {
            let text = format!(
                "group-version = 1\n{}[[task]]\nname = \"x\"\n[[task.phase]]\n{phase}\n",
                group("db", "limit = \"8M\"")
            );
            job(&text).problem().map(|Problem { path, reason }| format!("{path}: {reason}"))
        };
        for good in [
            "do = \"set-group\"\nof = \"db\"\nsetting = \"limit\"\nsize = \"50%\"",
            "do = \"set-group\"\nof = \"db\"\nsetting = \"swappiness\"\nvalue = 200",
            "do = \"set-group\"\nof = \"db\"\nsetting = \"oom-control\"\nvalue = 1",
        ] {
            assert_eq!(phase(good), None, "{good}");
        }
        for (bad, reason) in [
            (
                "do = \"set-group\"\nof = \"db\"",
                "do: set-group wants a setting: limit, memsw-limit, soft-limit, swappiness or oom-control",
            ),
            (
                "do = \"set-group\"\nof = \"db\"\nsetting = \"swappiness\"\nvalue = 201",
                "value: swappiness is 0 to 200",
            ),
            (
                "do = \"set-group\"\nof = \"db\"\nsetting = \"high\"\nsize = \"1M\"",
                "setting: high is a setting of version 2, and the job's groups are version 1 (group-version); the nearest \
                 there is soft-limit",
            ),
            (
                "do = \"reclaim\"\nof = \"db\"\nsize = \"1M\"",
                "do: version 1 has no memory.reclaim (group-version); lower the group's limit",
            ),
        ] {
            assert_eq!(phase(bad), Some(format!("task.0.phase.0.{reason}")), "{bad}");
        }
    }

    #[test]
    fn unclaimed_protection_goes_down_where_the_kernel_can() {
        let [old, new] = [KernelVersion::new(5, 4), KernelVersion::new(6, 1)];
        let mounted = job(&format!("group-mount = [\"memory_recursiveprot\"]\n{}", group("a", "")));
        assert!(is_recursive(&mounted, new) && !is_recursive(&mounted, old));
        assert!(
            mounted_in_vain(&mounted, old).is_some() && mounted_in_vain(&mounted, new).is_none()
        );
        let plain = job(&group("a", ""));
        assert!(!is_recursive(&plain, new) && mounted_in_vain(&plain, old).is_none());
        let wrong = toml::from_str::<JobParams>("group-mount = [\"nsdelegate\"]").unwrap_err();
        assert!(wrong.to_string().contains("expected `memory_recursiveprot`"), "{wrong}");
    }

    #[test]
    fn columns_are_of_limits_that_there_ever_are() {
        let set = "[[task]]\nname = \"x\"\n[[task.phase]]\ndo = \"set-group\"\nof = \"db\"\nsetting = \"high\"\nsize = \"1M\"\n";
        let job = job(&(group("db", "max = \"8M\"") + &group("web", "") + set));
        let ever = |at: usize| ever_set(&job, at).into_iter().collect::<Vec<_>>();
        assert_eq!(ever(0), [SettingName::Max, SettingName::High]);
        assert_eq!(ever(1), []);
    }
}
