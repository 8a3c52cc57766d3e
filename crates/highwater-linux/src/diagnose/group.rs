//! A memory cgroup at its limit: its name, its use of memory and swap, and what would have helped.

use highwater_results::import::log::{Kill, MemcgLimit, Report, ReportKind};

use super::remedy::Remedy;
use super::words::{kb_text, total};

/// The cgroup of a report, with what follows from its lines.
pub(super) struct Group<'a> {
    report: &'a Report,
    /// Path of the cgroup whose limit was reached.
    pub(super) path: Option<&'a str>,
}

/// Version of the interface, as far as the lines tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    V1,
    V2,
}

/// The program that made a cgroup, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner<'a> {
    /// A unit of systemd: its name.
    Unit(&'a str),
    /// A unit of a user's own systemd: its name.
    UserUnit(&'a str),
    /// A login session, which has programs of all kinds.
    Session,
    /// A container of Docker: the first digits of its id.
    Docker(&'a str),
    /// A pod of Kubernetes.
    Pod,
    /// Anything else.
    Other,
}

impl<'a> Owner<'a> {
    /// The owner of a path such as `/system.slice/varnish.service`. A part below a unit or a container
    /// is of neither: its limit is its own, and names below a container are the container's.
    pub(super) fn of(path: &'a str) -> Owner<'a> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| part.starts_with("kubepods")) {
            return Owner::Pod;
        }
        let is_container = |part: &&str| {
            ["docker", "lxc", "libpod-", "machine-"].iter().any(|start| part.starts_with(start))
        };
        let Some((last, above)) = parts.split_last() else { return Owner::Other };
        let id = last.strip_prefix("docker-").and_then(|id| id.strip_suffix(".scope"));
        let id = id.or((above.last() == Some(&"docker")).then_some(*last));
        if let Some(id) = id.filter(|id| id.bytes().all(|b| b.is_ascii_hexdigit())) {
            return Owner::Docker(id.get(..12).unwrap_or(id));
        }
        let is_unit = [".service", ".scope", ".slice"].iter().any(|end| last.ends_with(end));
        if !is_unit || parts.iter().any(is_container) {
            return Owner::Other;
        }
        // The systemd of a user has all units below user@1000.service.
        if last.starts_with("session-") {
            Owner::Session
        } else if above.iter().any(|part| part.starts_with("user@")) {
            Owner::UserUnit(last)
        } else {
            Owner::Unit(last)
        }
    }

    /// Its name in a sentence; none where the path says more.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Owner::Unit(unit) | Owner::UserUnit(unit) => Some((*unit).to_owned()),
            Owner::Session => Some("a login session".to_owned()),
            Owner::Docker(id) => Some(format!("container {id}")),
            Owner::Pod | Owner::Other => None,
        }
    }

    /// How to set its limit of memory, on the machine of a report.
    pub(super) fn limit(
        &self,
        path: &str,
        interface: Option<Interface>,
        report: &Report,
    ) -> String {
        let key = systemd_key(report);
        match (self, interface) {
            (Owner::Unit(unit), _) => format!("systemctl set-property {unit} {key}=SIZE"),
            (Owner::UserUnit(unit), _) => {
                format!("systemctl --user set-property {unit} {key}=SIZE")
            }
            (Owner::Session, _) => {
                format!("systemd-run --user --scope -p {key}=SIZE PROGRAM")
            }
            (Owner::Docker(id), _) => {
                format!("docker update --memory SIZE --memory-swap SIZE_WITH_SWAP {id}")
            }
            (Owner::Pod, _) => "resources.limits.memory of the container in its pod".to_owned(),
            (Owner::Other, Some(Interface::V2)) => format!("/sys/fs/cgroup{path}/memory.max"),
            (Owner::Other, Some(Interface::V1)) => {
                format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
            }
            (Owner::Other, None) => {
                format!("memory.max of {path} (memory.limit_in_bytes with cgroup v1)")
            }
        }
    }
}

/// Systemd's name for the limit. Systemd of the time before 4.5 knows the older name only.
pub(super) fn systemd_key(report: &Report) -> &'static str {
    let version = report.kernel.as_ref().and_then(|kernel| kernel.version);
    let is_old = version.is_some_and(|version| (version.major, version.minor) < (4, 5));
    if is_old { "MemoryLimit" } else { "MemoryMax" }
}

/// Memory of a killed process by its line, kB: resident, without what lies in swap.
pub(super) fn killed_kb(kill: &Kill) -> u64 {
    let rss =
        ["anon-rss", "file-rss", "shmem-rss"].iter().filter_map(|key| kill.memory_kb.get(*key));
    total(rss.copied())
}

impl<'a> Group<'a> {
    pub(super) fn of(report: &'a Report) -> Group<'a> {
        let memcg = report.memcg.as_ref().and_then(|memcg| memcg.path.as_deref());
        let kill = report.kill.as_ref().and_then(|kill| kill.oom_memcg.as_deref());
        Group { report, path: memcg.or(kill) }
    }

    fn limit(&self) -> Option<MemcgLimit> {
        self.report.memcg.as_ref()?.memory
    }

    fn stat(&self, names: &[&str]) -> Option<u64> {
        let memcg = self.report.memcg.as_ref()?;
        names.iter().find_map(|name| memcg.stat_kb(name))
    }

    /// Version of the interface. Version 1 counts memory and swap together, and kernel memory apart.
    pub(super) fn interface(&self) -> Option<Interface> {
        let memcg = self.report.memcg.as_ref()?;
        if memcg.swap.is_some() {
            return Some(Interface::V2);
        }
        let is_v1 = memcg.memory_and_swap.is_some() || memcg.kmem.is_some();
        is_v1.then_some(Interface::V1)
    }

    /// Swap that the group uses, kB, as far as the text tells. Memory and swap together are never
    /// less than memory: such a number is of a counter that is not in use.
    pub(super) fn swap_kb(&self) -> Option<u64> {
        let memcg = self.report.memcg.as_ref()?;
        let both = memcg.memory_and_swap.zip(memcg.memory);
        let apart = both.and_then(|(both, memory)| both.usage.checked_sub(memory.usage));
        let printed = memcg.swap.map(|swap| swap.usage).or(apart).or_else(|| self.stat(&["swap"]));
        // A task in the table may have more in swap than the group's counter says.
        printed.filter(|kb| *kb > 0 || self.tasks_swap_kb() == 0)
    }

    /// Swap of the tasks in the table, kB.
    pub(super) fn tasks_swap_kb(&self) -> u64 {
        let page_kb = super::zone::page_size(self.report) / 1024;
        let rows = self.report.tasks.rows.iter();
        let pages = rows.filter_map(|row| row.values.get("swapents"));
        total(pages.map(|pages| (*pages).max(0) as u64)).saturating_mul(page_kb)
    }

    /// Memory and swap that the group had when it was refused more, kB.
    pub(super) fn had_kb(&self) -> Option<u64> {
        let memory = self.limit()?.usage;
        let swap = self.swap_kb().unwrap_or_else(|| self.tasks_swap_kb());
        Some(memory.saturating_add(swap))
    }

    /// The file of the limit that was reached, if it is not that of memory (version 1).
    pub(super) fn other_limit(&self) -> Option<&'static str> {
        let memcg = self.report.memcg.as_ref()?;
        let is_reached = |limit: Option<MemcgLimit>| {
            limit.is_some_and(|it| !it.is_unlimited() && it.usage >= it.limit - it.limit / 100)
        };
        if is_reached(memcg.memory) {
            None
        } else if is_reached(memcg.memory_and_swap) {
            Some("memory.memsw.limit_in_bytes")
        } else if is_reached(memcg.kmem) {
            Some("memory.kmem.limit_in_bytes")
        } else {
            None
        }
    }

    pub(super) fn cache_kb(&self) -> Option<u64> {
        // Shared memory is counted in it, and can only be swapped.
        let all = self.stat(&["file", "cache"])?;
        Some(all.saturating_sub(self.stat(&["shmem"]).unwrap_or(0)))
    }

    /// Kernel memory, kB: of the counter of version 1, or of the statistics since 5.18.
    pub(super) fn kernel_kb(&self) -> Option<u64> {
        let kmem = self.report.memcg.as_ref()?.kmem.map(|kmem| kmem.usage).filter(|kb| *kb > 0);
        kmem.or_else(|| self.stat(&["kernel"]))
    }

    /// Page cache that has to be written before it can be freed, kB.
    pub(super) fn unwritten_kb(&self) -> Option<u64> {
        let dirty = self.stat(&["file_dirty", "dirty"]);
        let under = self.stat(&["file_writeback", "writeback"]);
        Some(dirty?.saturating_add(under.unwrap_or(0)))
    }

    /// Most of the page cache is dirty or under writeback, and it is a large part of the group.
    pub(super) fn is_held_by_writes(&self) -> bool {
        let (Some(cache), Some(unwritten), Some(limit)) =
            (self.cache_kb(), self.unwritten_kb(), self.limit())
        else {
            return false;
        };
        cache > limit.usage / 4 && unwritten > cache / 2
    }

    /// Page cache is dirty, and none of it is being written.
    pub(super) fn waits_for_flusher(&self) -> bool {
        self.stat(&["file_writeback", "writeback"]) == Some(0)
    }

    /// Kernel memory by kind as far as the statistics say, and its names.
    pub(super) fn kernel_parts(&self) -> Vec<(&'static str, u64)> {
        let kinds = [
            ("slab", "slab"),
            ("page tables", "pagetables"),
            ("page tables of devices", "sec_pagetables"),
            ("stacks", "kernel_stack"),
            ("per-CPU memory", "percpu"),
            ("vmalloc", "vmalloc"),
        ];
        let sizes = kinds.iter().filter_map(|(name, key)| Some((*name, self.stat(&[*key])?)));
        sizes.filter(|(_, kb)| *kb > 0).collect()
    }

    /// Memory that could go to swap, kB.
    pub(super) fn swappable_kb(&self) -> Option<u64> {
        let inactive = self.stat(&["inactive_anon"])?;
        Some(inactive.saturating_add(self.stat(&["active_anon"])?))
    }

    /// Ways that would have helped. Nothing is tested: the lines of the report answer.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        let mut found = Vec::new();
        found.extend(self.dropping_cache());
        found.extend(self.swapping());
        if self.report.kind == ReportKind::MemcgOom {
            found.extend(self.more());
        }
        found
    }

    fn dropping_cache(&self) -> Option<Remedy> {
        let kb = self.cache_kb()?;
        let all = self.limit().map_or(0, |limit| limit.usage);
        let share = kb as f64 * 100.0 / all.max(1) as f64;
        let result = match self.unwritten_kb() {
            Some(unwritten) if self.is_held_by_writes() => format!(
                "{} ({share:.0} %) are page cache, but {} of it are dirty or under writeback, and have to reach the \
                 disk first",
                kb_text(kb),
                kb_text(unwritten)
            ),
            _ => {
                format!("only {} ({share:.0} %) are page cache, and reclaim tried it", kb_text(kb))
            }
        };
        let result = match self.is_held_by_writes() || share < 10.0 {
            true => result,
            false => result.replacen("only ", "", 1),
        };
        Some(Remedy::new("dropping page cache of the cgroup", Some(false), result))
    }

    fn swapping(&self) -> Option<Remedy> {
        let memcg = self.report.memcg.as_ref()?;
        // Enough of it to matter: a hundredth of the group.
        let least = self.limit().map_or(1, |limit| limit.usage / 100).max(1);
        let change = "swap for the cgroup";
        if let Some(kb) = self.swappable_kb().filter(|kb| *kb < least) {
            let result = format!("only {} could be swapped", kb_text(kb));
            return Some(Remedy::new(change, Some(false), result));
        }
        let limit = memcg.swap.or(memcg.memory_and_swap)?;
        let has_room = limit.is_unlimited() || limit.usage < limit.limit;
        let what = if has_room { "its limit allows more" } else { "its limit allows no more" };
        let result = match self.swap_kb() {
            Some(kb) => format!("it uses {} of swap, and {what}", kb_text(kb)),
            None if self.tasks_swap_kb() > 0 => format!(
                "its counter and its tasks do not agree on how much it uses (tasks: {}); {what}",
                kb_text(self.tasks_swap_kb())
            ),
            None => format!("how much it uses is not in the text; {what}"),
        };
        Some(Remedy::new(change, None, result))
    }

    fn more(&self) -> Option<Remedy> {
        let had = self.had_kb()?;
        let swap = had.saturating_sub(self.limit()?.usage);
        let of =
            if swap > 0 { format!(" ({} of it in swap)", kb_text(swap)) } else { String::new() };
        Some(Remedy::new(
            "a higher limit",
            None,
            format!(
                "it had {}{of} and asked for more; how much more is not in the text",
                kb_text(had)
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_path() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let docker = format!("/system.slice/docker-{id}.scope");
        let old = format!("/docker/{id}");
        for (path, owner) in [
            ("/system.slice/varnish.service", Owner::Unit("varnish.service")),
            ("/user.slice/user-1000.slice/session-2.scope", Owner::Session),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope",
                Owner::UserUnit("a.scope"),
            ),
            ("/user.slice/user-1000.slice/user@1000.service", Owner::Unit("user@1000.service")),
            ("/system.slice/a.service/worker", Owner::Other),
            ("/lxc.payload.x/system.slice/mysql.service", Owner::Other),
            ("/user.slice", Owner::Unit("user.slice")),
            ("/kubepods.slice/kubepods-burstable.slice/x.scope", Owner::Pod),
            ("/kubepods/burstable/pod1/2", Owner::Pod),
            (docker.as_str(), Owner::Docker("0123456789ab")),
            (old.as_str(), Owner::Docker("0123456789ab")),
            ("/leaker", Owner::Other),
            ("/docker/buildkit", Owner::Other),
        ] {
            assert_eq!(Owner::of(path), owner, "{path}");
        }
    }

    #[test]
    fn settings_name_the_file_of_the_interface() {
        let report = Report::default();
        let limit = |interface| Owner::Other.limit("/a", interface, &report);
        assert_eq!(limit(Some(Interface::V2)), "/sys/fs/cgroup/a/memory.max");
        assert_eq!(limit(Some(Interface::V1)), "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
        assert!(limit(None).starts_with("memory.max of /a"));
        let log = highwater_results::import::log::Log::read(
            b"a invoked oom-killer: gfp_mask=0xd0, order=0\nCPU: 0 PID: 1 Comm: a Not tainted 3.10.0 #1\n",
        );
        let unit = Owner::Unit("a.service").limit("/", None, &log.reports[0]);
        assert_eq!(unit, "systemctl set-property a.service MemoryLimit=SIZE");
    }
}
