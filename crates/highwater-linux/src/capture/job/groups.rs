//! The memory cgroups of the job: names, and what stands above each.

use super::super::memcg::{Group, Groups};
use super::MIB;
use super::names::Names;
use highwater_runs::workload::job::JobGroup;

/// A container's name is often a number of this many digits or more; the first few tell it apart.
const DIGITS_LONG: usize = 32;
const DIGITS_KEPT: usize = 12;
/// The name of a container's own group, whose path is `/`.
const TOP: &str = "container";

/// A group of the job, and the comment above it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) about: Vec<String>,
    pub(super) group: JobGroup,
}

/// The names of groups in the job.
pub(in super::super) fn names(groups: &Groups) -> Vec<String> {
    let mut taken = Names::default();
    let name = |group: &Group| taken.group(&short(group.path.rsplit('/').next().unwrap_or("")));
    groups.all.iter().map(name).collect()
}

/// The last part of a path with long numbers cut, and what systemd escapes as a dash.
fn short(last: &str) -> String {
    if last.is_empty() {
        return TOP.to_owned();
    }
    let mut short = String::new();
    let escaped = last.replace("\\x2d", "-");
    for part in escaped.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        let is_long = digits.len() >= DIGITS_LONG;
        short.push_str(if is_long { &digits[..DIGITS_KEPT] } else { digits });
        short.push_str(&part[digits.len()..]);
    }
    short
}

/// All groups, each after the one above it.
pub(super) fn tell(groups: &Groups, names: &[String]) -> Vec<Told> {
    let told = |(group, name): (&Group, &String)| {
        let parent = group.parent.map(|above| names[above].clone());
        let group_of_job = JobGroup { name: name.clone(), parent, ..group.settings.clone() };
        Told { about: about(group), group: group_of_job }
    };
    groups.all.iter().zip(names).map(told).collect()
}

fn about(group: &Group) -> Vec<String> {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB);
    let (captured, others) = (group.nr_captured, group.nr_others);
    let mut lines = vec![format!(
        "{}: processes in it and below it: {captured} captured, {others} not.",
        group.path
    )];
    let Some(usage) = &group.usage else { return lines };
    let peak = usage.peak.map_or_else(String::new, |peak| format!(" (at most {})", mib(peak)));
    let (charged, swap) = (mib(usage.charged), mib(usage.swap));
    let parts = &group.parts;
    lines.push(format!("It is charged for {charged}{peak}, and has {swap} in swap."));
    lines.push(format!(
        "Captured processes explain {}; not explained: {} of other processes, {} of page cache, {} of the kernel, {} of the rest.",
        mib(parts.captured),
        mib(parts.others),
        mib(parts.cache),
        mib(parts.kernel),
        mib(parts.rest)
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_last_parts_of_paths() {
        let id = "3f8a".repeat(16);
        let paths = [
            "/".to_owned(),
            "/system.slice".to_owned(),
            "/system.slice/redis.service".to_owned(),
            "/other/redis.service".to_owned(),
            format!("/system.slice/docker-{id}.scope"),
            "/dev-sda\\x2d1.slice".to_owned(),
        ];
        let all = paths.map(|path| Group { path, ..Group::default() }).to_vec();
        let names = names(&Groups { all, ..Groups::default() });
        assert_eq!(
            names,
            [
                "container",
                "system-slice",
                "redis-service",
                "redis-service-2",
                "docker-3f8a3f8a3f8a-scope",
                "dev-sda-1-slice"
            ]
        );
    }

    #[test]
    fn settings_go_with_names_of_parents() {
        let limit = Some("512M".parse().unwrap());
        let settings = JobGroup { max: limit, ..JobGroup::default() };
        let all = vec![
            Group { path: "/a.slice".to_owned(), settings, ..Group::default() },
            Group { path: "/a.slice/b".to_owned(), parent: Some(0), ..Group::default() },
        ];
        let groups = Groups { all, ..Groups::default() };
        let told = tell(&groups, &names(&groups));
        assert_eq!((told[0].group.max, told[1].group.max), (limit, None));
        assert_eq!(told[1].group.parent.as_deref(), Some("a-slice"));
    }
}
