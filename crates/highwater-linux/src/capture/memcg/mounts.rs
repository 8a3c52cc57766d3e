//! Where control groups are mounted, and which mount has the memory controller.
//!
//! `/proc/PID/mountinfo` has the mounts; the names of groups in `/proc/PID/cgroup` are those of
//! the reader's cgroup namespace, as the mounts' tops are.

use super::super::Source;
use super::settings::is_unlimited;

/// Version 1's controller, and the file of version 2 that lists controllers.
const MEMORY: &str = "memory";
const CONTROLLERS: &str = "cgroup.controllers";
/// The usual mounts of distributions, for a recorded tree without `mountinfo`: directory, version
/// 2, controller.
const USUAL: [(&str, bool, &str); 4] = [
    ("sys/fs/cgroup/memory", false, MEMORY),
    ("sys/fs/cgroup", true, ""),
    ("sys/fs/cgroup/unified", true, ""),
    ("sys/fs/cgroup/systemd", false, "name=systemd"),
];

/// A mounted hierarchy of control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Version 2, which has one hierarchy for all controllers.
    pub is_v2: bool,
    /// The directory, from the root of the file tree and without a slash before it.
    pub dir: String,
    /// The group at its top, as `/proc/PID/cgroup` has it; empty: the top of the namespace.
    pub top: String,
    /// Its options: controllers and name of version 1, `memory_recursiveprot` of version 2.
    pub options: Vec<String>,
    /// Its options were read from `mountinfo`; else only a usual place was found.
    pub is_known: bool,
}

impl Mount {
    /// A mount of control groups, from its line of `mountinfo`.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split_whitespace();
        let is_v2 = match kind.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        let mut mount = mount.split_whitespace().skip(3);
        let [top, dir] = [mount.next()?, mount.next()?].map(unescaped);
        let options = kind.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
        let (dir, top) = (trimmed(&dir), trimmed(&top));
        let top = if top.is_empty() { top } else { format!("/{top}") };
        Some(Mount { is_v2, dir, top, options, is_known: true })
    }

    /// A version 1 hierarchy with the memory controller.
    fn has_memory(&self) -> bool {
        !self.is_v2 && self.options.iter().any(|option| option == MEMORY)
    }

    /// The version of control groups: 1 or 2.
    pub fn version(&self) -> u32 {
        if self.is_v2 { 2 } else { 1 }
    }

    /// True if an option is set.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// The group of a process in this hierarchy, from its `/proc/PID/cgroup`.
    pub(super) fn group_of<'a>(&self, cgroup: &'a str) -> Option<&'a str> {
        cgroup.lines().find_map(|line| {
            // hierarchy:controllers:path
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_here = match self.is_v2 {
                true => number == "0" && controllers.is_empty(),
                false => controllers.split(',').any(|name| self.has_option(name)),
            };
            is_here.then_some(path)
        })
    }

    /// A group below the mount's top, from its path as `/proc/PID/cgroup` has it; `None`: it lies
    /// outside.
    pub(super) fn below_top(&self, path: &str) -> Option<String> {
        let path = format!("/{}", trimmed(path.trim_end_matches(" (deleted)")));
        let rest = path.strip_prefix(&self.top)?;
        let is_below = rest.is_empty() || rest.starts_with('/');
        let is_plain = !rest.split('/').any(|part| part == "..");
        (is_below && is_plain).then(|| trimmed(rest))
    }

    /// The path of a group below the top, as `/proc/PID/cgroup` has it.
    pub(super) fn path(&self, below: &str) -> String {
        match below {
            "" if self.top.is_empty() => "/".to_owned(),
            "" => self.top.clone(),
            _ => format!("{}/{below}", self.top),
        }
    }

    /// The directory of a group below the top.
    pub(super) fn dir_of(&self, below: &str) -> String {
        if below.is_empty() { self.dir.clone() } else { format!("{}/{below}", self.dir) }
    }

    /// True if its top is the root of all groups. A container sees only its own group and those
    /// below it.
    pub(super) fn has_root(&self, source: &Source) -> bool {
        let has = |file: &str| source.exists(&format!("{}/{file}", self.dir));
        self.top.is_empty()
            && match self.is_v2 {
                true => !has("cgroup.events") && !has("memory.max"),
                // A copy may have the files of memory only. The root has no limit.
                false => {
                    let is_unlimited = || {
                        let file = format!("{}/memory.limit_in_bytes", self.dir);
                        source.word(&file).is_some_and(|text| is_unlimited(&text))
                    };
                    has("release_agent")
                        || has("cgroup.sane_behavior")
                        || source.is_recorded() && is_unlimited()
                }
            }
    }
}

/// All mounts of control groups.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Mounts(Vec<Mount>);

impl Mounts {
    /// The mounts that this process sees; of a recorded tree those of the first process that has
    /// them, else the usual ones.
    pub(in super::super) fn read(source: &Source, pids: &[u32]) -> Mounts {
        let own = ["proc/self/mountinfo".to_owned()];
        let others = pids.iter().map(|pid| format!("proc/{pid}/mountinfo"));
        let files = own.into_iter().chain(others.filter(|_| source.is_recorded()));
        let parsed = |text: String| text.lines().filter_map(Mount::parse).collect::<Vec<_>>();
        let mut found = files.filter_map(|file| source.text(&file).ok()).map(parsed);
        let found = found.find(|mounts| !mounts.is_empty()).unwrap_or_else(|| usual(source));
        Mounts::new(found)
    }

    /// The one with the memory controller first, then version 2, then the others.
    fn new(mut all: Vec<Mount>) -> Mounts {
        all.sort_by_key(|mount| (!mount.has_memory(), !mount.is_v2, !mount.top.is_empty()));
        Mounts(all)
    }

    /// All of them, the one with the memory controller first.
    pub(super) fn all(&self) -> &[Mount] {
        &self.0
    }

    /// The mount with the memory controller.
    pub(super) fn memory(&self, source: &Source) -> Option<&Mount> {
        self.0.iter().find(|mount| match mount.is_v2 {
            true => {
                let file = format!("{}/{CONTROLLERS}", mount.dir);
                let controllers = source.word(&file).unwrap_or_default();
                controllers.split_whitespace().any(|name| name == MEMORY)
            }
            false => mount.has_memory() && source.exists(&mount.dir),
        })
    }
}

fn usual(source: &Source) -> Vec<Mount> {
    let is_there = |dir: &str, is_v2: bool| match is_v2 {
        true => source.exists(&format!("{dir}/{CONTROLLERS}")),
        false => source.exists(dir),
    };
    let mount = |&(dir, is_v2, option): &(&str, bool, &str)| Mount {
        is_v2,
        dir: dir.to_owned(),
        options: vec![option.to_owned()],
        ..Mount::default()
    };
    USUAL.iter().filter(|(dir, is_v2, _)| is_there(dir, *is_v2)).map(mount).collect()
}

/// A path without the slashes around it, or double ones in it.
pub(super) fn trimmed(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// The kernel writes blanks and backslashes of paths in octal: `\040`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.map_or('\\', char::from));
        plain.push_str(if code.is_some() { &part[3..] } else { part });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

    fn mounts(text: &str) -> Mounts {
        Mounts::new(text.lines().filter_map(Mount::parse).collect())
    }

    #[test]
    fn the_memory_controller_comes_first() {
        let mounts = mounts(HYBRID);
        let dirs: Vec<&str> = mounts.all().iter().map(|mount| mount.dir.as_str()).collect();
        assert_eq!(
            dirs,
            ["sys/fs/cgroup/memory", "sys/fs/cgroup/unified", "sys/fs/cgroup/systemd"]
        );
        assert!(mounts.all()[1].has_option("memory_recursiveprot"));
    }

    #[test]
    fn a_process_has_a_group_in_each_hierarchy() {
        let mounts = mounts(HYBRID);
        let cgroup = "9:name=systemd:/system.slice/a.service\n4:cpuset,memory:/a\n0::/b:c\n";
        let groups: Vec<_> = mounts.all().iter().map(|mount| mount.group_of(cgroup)).collect();
        assert_eq!(groups, [Some("/a"), Some("/b:c"), Some("/system.slice/a.service")]);
    }

    #[test]
    fn groups_outside_of_the_mount_are_not_seen() {
        let line = "1 0 0:1 /docker/3f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let mount = Mount::parse(line.trim()).unwrap();
        assert_eq!(mount.below_top("/docker/3f/a/").as_deref(), Some("a"));
        assert_eq!(mount.below_top("/docker/3f").as_deref(), Some(""));
        for outside in ["/docker/3f0", "/", "/docker/3f/../x"] {
            assert_eq!(mount.below_top(outside), None, "{outside}");
        }
        assert_eq!((mount.path("a"), mount.dir_of("")), ("/docker/3f/a".into(), mount.dir.clone()));
        assert_eq!(Mount::default().below_top("/../x"), None);
    }

    #[test]
    fn paths_are_unescaped() {
        assert_eq!(unescaped(r"/a\040b\134x2dc"), r"/a b\x2dc");
        assert_eq!(unescaped(r"/a\9"), r"/a\9");
    }
}
