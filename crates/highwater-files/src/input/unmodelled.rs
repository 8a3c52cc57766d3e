//! Features of Linux that are not modelled: one table, with the names under which users look for
//! them.
//!
//! A name that is not a key, sysctl or policy is looked up here. The result is one line: what is
//! missing, since which kernel Linux has it, the nearest modelled feature, and the page of the
//! book. A test makes the table of that page from this one.

use highwater_core::config::{KernelVersion, PRESETS, preset};

/// The page of the book that has the table.
pub const PAGE: &str = "docs/src/not-modelled.md";

/// A part of Linux that is not modelled.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its address on the page.
    pub anchor: &'static str,
    /// The name in a sentence: `multi-generational LRU`.
    pub name: &'static str,
    /// Names under which users look for it: keys, sysctls, files of `/sys` and of a cgroup. In
    /// lower case, with `_` for `-`; `*` at either end matches anything.
    pub patterns: &'static [&'static str],
    /// The kernel with which it came.
    pub since: &'static str,
    /// The nearest thing that is there.
    pub nearest: &'static str,
}

/// All features.
pub const FEATURES: &[Feature] = &[
    Feature {
        anchor: "mglru",
        name: "min_ttl_ms, debugfs and switching at run time of the multi-generational LRU",
        patterns: &["*min_ttl*", "*lru_gen_full*"],
        since: "6.1",
        nearest: "MGLRU for a whole run, --set policy.reclaim.algorithm=mglru",
    },
    Feature {
        anchor: "cgroup-v1",
        name: "moving charges, kmem limits and notifications of cgroup v1",
        patterns: &[
            "memory.kmem.*",
            "memory.use_hierarchy",
            "memory.move_charge_at_immigrate",
            "memory.pressure_level",
            "memory.force_empty",
        ],
        since: "2.6.25",
        nearest: "a job with group-version = 1 (limit, memsw-limit, soft-limit, swappiness, oom-control)",
    },
    Feature {
        anchor: "memory-cgroups",
        name: "memory cgroups outside of a job",
        patterns: &[
            "*cgroup*",
            "*memcg*",
            "memory.limit_in_bytes",
            "memory.soft_limit_in_bytes",
            "memory.memsw.*",
            "memory.oom_control",
            "memory.high",
            "memory.max",
            "memory.low",
            "memory.min",
            "memory.reclaim",
            "memory.swap.*",
            "memory.oom.group",
            "memory.zswap.*",
            "memory_high",
            "memory_max",
            "memory_low",
            "memory_min",
        ],
        since: "2.6.25, as version 2 since 4.5",
        nearest: "a job's [[group]] and --set group.NAME.max=SIZE, or a machine of the size, --mem SIZE",
    },
    Feature {
        anchor: "zswap",
        name: "zswap",
        patterns: &["*zswap*"],
        since: "3.11",
        nearest: "swap on a disk of model \"ram\" (--disk ram --swap SIZE), which uses no memory of the machine",
    },
    Feature {
        anchor: "zram",
        name: "zram's memory",
        patterns: &["*zram*", "*zsmalloc*"],
        since: "3.14",
        nearest: "swap on a disk of model \"ram\" (--disk ram --swap SIZE), which uses no memory of the machine",
    },
    Feature {
        anchor: "numa-balancing",
        name: "NUMA balancing",
        patterns: &["*numa_balancing*", "*autonuma*", "numa_balance*"],
        since: "3.8",
        nearest: "where memory lies by hand: a task's `node` and its phase `policy`",
    },
    Feature {
        anchor: "tiering",
        name: "memory tiering (demotion and promotion)",
        patterns: &["*demotion*", "*demote*", "*tiering*", "*memory_tier*", "*promotion*", "cxl*"],
        since: "5.15",
        nearest: "nodes at distances, --numa and --numa-distance, with vm.zone_reclaim_mode",
    },
    Feature {
        anchor: "hugetlb",
        name: "the pool of hugetlb pages",
        patterns: &[
            "*hugetlb*",
            "hugepages",
            "*nr_hugepages*",
            "*nr_overcommit_hugepages*",
            "hugepagesz",
            "*hugepages_treat_as_movable",
        ],
        since: "2.6",
        nearest: "transparent huge pages, vm.thp=always",
    },
    Feature {
        anchor: "direct-io",
        name: "direct I/O",
        patterns: &["direct", "*o_direct*", "*odirect*", "direct_io", "dio"],
        since: "2.4",
        nearest: "reads or writes, then a phase `advise` with `dontneed`",
    },
    Feature {
        anchor: "userfaultfd",
        name: "userfaultfd",
        patterns: &["*userfaultfd*", "*uffd*"],
        since: "4.3",
        nearest: "ordinary faults, a phase `touch`",
    },
    Feature {
        anchor: "ksm",
        name: "KSM (pages of equal contents become one)",
        patterns: &["ksm*", "*.ksm", "mergeable", "merge_across_nodes"],
        since: "2.6.32",
        nearest: "memory that tasks share: a [[file]] with memory = true",
    },
    Feature {
        anchor: "large-folios",
        name: "anonymous folios between a page and a huge page (mTHP)",
        patterns: &["*large_folio*", "*mthp*", "hugepages_*kb*", "*anon_orders*"],
        since: "6.8",
        nearest: "folios of files, policy folio.file; huge pages, vm.thp=always",
    },
    Feature {
        anchor: "defrag-mode",
        name: "vm.defrag_mode",
        patterns: &["*defrag_mode*"],
        since: "6.15",
        nearest: "vm.compaction_proactiveness",
    },
    Feature {
        anchor: "damon",
        name: "DAMON",
        patterns: &["*damon*"],
        since: "5.15",
        nearest: "a phase `advise` with `cold` or `pageout`",
    },
    Feature {
        anchor: "cma",
        name: "contiguous-memory areas (CMA)",
        patterns: &["cma*", "*.cma*"],
        since: "3.5",
        nearest: "a zone Movable in a machine's file",
    },
    Feature {
        anchor: "hotplug",
        name: "memory hotplug",
        patterns: &["*hotplug*", "*balloon*"],
        since: "2.6.15",
        nearest: "one run for each size, compare --vary machine.memory=2G,4G",
    },
    Feature {
        anchor: "le9",
        name: "protection of file or anonymous pages by a least share (le9)",
        patterns: &["*anon_min_*", "*clean_min_*", "*clean_low_*"],
        since: "in no release: a patch of some distributions",
        nearest: "vm.swappiness",
    },
    Feature {
        anchor: "extra-free",
        name: "Android's extra_free_kbytes",
        patterns: &["*extra_free_kbytes"],
        since: "in no release: a patch of Android",
        nearest: "vm.watermark_scale_factor (since 4.6) or vm.min_free_kbytes",
    },
    Feature {
        anchor: "max-map-count",
        name: "the limit of a process's VMAs (vm.max_map_count)",
        patterns: &["*max_map_count"],
        since: "2.6",
        nearest: "none is needed: a job's task may map as many as it likes",
    },
    Feature {
        anchor: "stat-interval",
        name: "another interval of the vmstat threads than a second",
        patterns: &["*stat_interval"],
        since: "2.6.24",
        nearest: "the interval as it is by default, 1 s",
    },
    Feature {
        anchor: "zonelist-order",
        name: "zonelists in another order than by node",
        patterns: &["*numa_zonelist_order"],
        since: "2.6.23, gone with 4.14",
        nearest: "the order by node",
    },
    Feature {
        anchor: "oom-scores",
        name: "what an OOM report lists, and a program's score",
        patterns: &["*oom_dump_tasks", "oom_score_adj", "oom_adj"],
        since: "2.6.25",
        nearest: "the report of each kill in the kernel's log (--out DIR), with all programs",
    },
    Feature {
        anchor: "block-dump",
        name: "vm.block_dump",
        patterns: &["*block_dump"],
        since: "2.6, gone with 5.13",
        nearest: "highwater trace --events block",
    },
    Feature {
        anchor: "device-dirty-share",
        name: "a device's share of the dirty pages",
        patterns: &["*min_ratio", "*max_ratio", "*strict_limit*"],
        since: "2.6.24",
        nearest: "limits of the machine, vm.dirty_bytes and vm.dirty_background_bytes",
    },
    Feature {
        anchor: "weighted-interleave",
        name: "weighted interleaving of nodes",
        patterns: &["*weighted*interleave*", "weighted_interleave*", "weighted interleave*"],
        since: "6.9",
        nearest: "a phase `policy` of \"interleave NODES\"",
    },
    Feature {
        anchor: "other-schedulers",
        name: "the schedulers BFQ, Kyber and CFQ",
        patterns: &["bfq", "kyber", "cfq"],
        since: "4.12, CFQ before 5.0",
        nearest: "scheduler = \"deadline\" of a disk, or \"none\"",
    },
    Feature {
        anchor: "reserves-of-overcommit",
        name: "reserves for administrators and users",
        patterns: &["*admin_reserve_kbytes", "*user_reserve_kbytes"],
        since: "3.10",
        nearest: "vm.min_free_kbytes",
    },
    Feature {
        anchor: "laptop-mode",
        name: "laptop mode",
        patterns: &["*laptop_mode"],
        since: "2.6.6",
        nearest: "vm.dirty_writeback_centisecs and vm.dirty_expire_centisecs",
    },
];

/// Features that are modelled, by names of Linux that are not names here: patterns as above, and
/// what to write instead.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["mglru", "mglru.*", "mglru_*", "*_mglru", "*lru_gen*", "multigen*", "*multi_gen*"],
        "the multi-generational LRU is a reclaim algorithm: write --set policy.reclaim.algorithm=mglru, \
         or algorithm = \"mglru\" under [reclaim] in a policy file (6.12 and 7.2 have it); see \
         docs/src/rules/mglru.md",
    ),
    (
        &["*pcp_auto*", "*high_min", "*high_max", "*auto_tun*"],
        "per-CPU lists tune their limit under --policy 6.12 and 7.2, or with \
         --set policy.pcp.sizing=auto; see docs/src/rules/per-cpu-lists.md",
    ),
];

impl Feature {
    /// The message for a user who looks for it.
    pub fn line(&self) -> String {
        let Feature { name, since, nearest, anchor, .. } = self;
        let since = match since.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("in Linux since {since}"),
            false => (*since).to_owned(),
        };
        format!("{name}: not modelled ({since}); nearest: {nearest}; see {PAGE}#{anchor}")
    }
}

/// The feature with a name: a key with its sections, or the name alone.
pub fn find(name: &str) -> Option<&'static Feature> {
    let name = name.trim().to_lowercase().replace('-', "_");
    let parts = || {
        // Try the whole name, each suffix after a dot, and each part alone.
        let starts = std::iter::once(0).chain(name.match_indices('.').map(|(at, _)| at + 1));
        starts.map(|at| &name[at..]).chain(name.split('.'))
    };
    let is_it = |pattern: &&str| parts().any(|part| matches(pattern, part));
    FEATURES.iter().find(|feature| feature.patterns.iter().any(is_it))
}

/// The message about a name of a feature that is set in another way here.
pub fn elsewhere(name: &str) -> Option<&'static str> {
    let name = name.trim().to_lowercase().replace('-', "_");
    // Not a section in the middle: `reclaim.mglru.teirs` is a slip.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_it = |pattern: &&str| matches(pattern, &name) || matches(pattern, last);
    ELSEWHERE.iter().find(|(patterns, _)| patterns.iter().any(is_it)).map(|(_, line)| *line)
}

/// Whether a name matches a pattern, in which each `*` matches anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|mut tail| {
            loop {
                if matches(rest, tail) {
                    return true;
                }
                let mut chars = tail.chars();
                match chars.next() {
                    Some(_) => tail = chars.as_str(),
                    None => return false,
                }
            }
        }),
    }
}

/// The message about a kernel version without a preset; `None` if the name is not a version.
pub fn kernel(name: &str) -> Option<String> {
    let bare = name.trim_start_matches("linux-").trim_start_matches('v');
    let is_bare = bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let version: KernelVersion = bare.parse().ok().filter(|_| is_bare)?;
    let kernel_of = |name: &str| preset(name).map(|policy| policy.kernel);
    // Presets named by a version are kernels. Other presets of the same version count as the
    // nearest.
    let kernels: Vec<KernelVersion> =
        PRESETS.iter().filter_map(|(name, _)| plain_version(name)).collect();
    if kernels.contains(&version) {
        return Some(format!("use --policy {version}: all {version}.x releases are one policy"));
    }
    let same = PRESETS.iter().find(|(name, _)| kernel_of(name) == Some(version));
    let below = kernels.iter().filter(|&&known| known < version).max();
    let above = kernels.iter().filter(|&&known| known > version).min();
    let nearest = match (same, below, above) {
        (Some((name, about)), ..) => format!("{name} ({about})"),
        (_, Some(below), Some(above)) => format!("{below} before it, {above} after it"),
        (_, Some(one), None) | (_, None, Some(one)) => one.to_string(),
        (_, None, None) => return None,
    };
    Some(format!("Linux {version} is not modelled; nearest: {nearest}; see {PAGE}#kernels"))
}

/// The version, if a name is only a version.
fn plain_version(name: &str) -> Option<KernelVersion> {
    let version: KernelVersion = name.parse().ok()?;
    (version.to_string() == name).then_some(version)
}

/// Kernel versions that have a preset.
pub fn kernels() -> Vec<KernelVersion> {
    PRESETS.iter().filter_map(|(name, _)| plain_version(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_ask_by_many_names() {
        for (name, anchor) in [
            ("vm.lru_gen_min_ttl_ms", "mglru"),
            ("min_ttl_ms", "mglru"),
            ("lru_gen_full", "mglru"),
            ("memory.high", "memory-cgroups"),
            ("job.memory.max", "memory-cgroups"),
            ("memory-low", "memory-cgroups"),
            ("cgroup", "memory-cgroups"),
            ("memory.swap.max", "memory-cgroups"),
            ("vm.zswap", "zswap"),
            ("zswap.max_pool_percent", "zswap"),
            ("zram0", "zram"),
            ("numa_balancing", "numa-balancing"),
            ("kernel.numa_balancing", "numa-balancing"),
            ("demotion", "tiering"),
            ("numa.demotion_enabled", "tiering"),
            ("hugepages", "hugetlb"),
            ("vm.nr_hugepages", "hugetlb"),
            ("hugetlb_shm_group", "hugetlb"),
            ("direct", "direct-io"),
            ("O_DIRECT", "direct-io"),
            ("vm.unprivileged_userfaultfd", "userfaultfd"),
            ("ksm.run", "ksm"),
            ("vm.defrag_mode", "defrag-mode"),
            ("vm.laptop_mode", "laptop-mode"),
            ("hugepages-64kB.enabled", "large-folios"),
        ] {
            assert_eq!(find(name).map(|feature| feature.anchor), Some(anchor), "{name}");
        }
        for name in
            ["5.18", "6.2", "swappines", "memory", "memry", "redirect", "group", "groups", ""]
        {
            assert!(find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_feature_that_goes_by_another_name_says_how_it_is_set() {
        for name in
            ["mglru", "5.10-mglru", "vm.mglru", "lru_gen", "lru_gen.enabled", "multi-gen-lru"]
        {
            let line = elsewhere(name).unwrap();
            assert!(line.contains("--set policy.reclaim.algorithm=mglru") && !line.contains('\n'));
            assert!(find(name).is_none(), "{name}");
        }
        assert!(
            elsewhere("pcp_high_max").is_some_and(|line| line.contains("policy.pcp.sizing=auto"))
        );
        for name in ["reclaim.mglru.teirs", "generation", "lru", ""] {
            assert_eq!(elsewhere(name), None, "{name}");
        }
    }

    #[test]
    fn an_answer_is_one_line_with_everything_in_it() {
        for feature in FEATURES {
            let line = feature.line();
            assert!(!line.contains('\n') && line.len() < 240, "{line}");
            let is_version = feature.since.starts_with(|c: char| c.is_ascii_digit());
            assert!(is_version || feature.since.starts_with("in no release: "), "{line}");
        }
        let zswap = "zswap: not modelled (in Linux since 3.11); nearest: swap on a disk of model \"ram\" \
                     (--disk ram --swap SIZE), which uses no memory of the machine; see \
                     docs/src/not-modelled.md#zswap";
        assert_eq!(find("vm.zswap").unwrap().line(), zswap);
    }

    #[test]
    fn a_kernel_that_is_no_preset_has_neighbours() {
        let line = |name| kernel(name).unwrap();
        assert_eq!(
            line("5.12"),
            "Linux 5.12 is not modelled; nearest: 5.10 before it, 5.16 after it; see \
             docs/src/not-modelled.md#kernels"
        );
        assert!(line("5.15").contains("nearest: congestion-wait-5.15 ("), "{}", line("5.15"));
        let between = "Linux 6.6 is not modelled; nearest: 6.1 before it, 6.12 after it; see ";
        assert!(line("6.6").starts_with(between), "{}", line("6.6"));
        assert!(
            line("8.0").starts_with("Linux 8.0 is not modelled; nearest: 7.2;"),
            "{}",
            line("8.0")
        );
        assert!(line("4.1").contains("nearest: 4.3;"), "{}", line("4.1"));
        assert!(line("v6.18.3").starts_with("Linux 6.18 "), "{}", line("v6.18.3"));
        assert_eq!(line("6.1.192"), "use --policy 6.1: all 6.1.x releases are one policy");
        assert_eq!((kernel("mglru"), kernel("6.1-clok")), (None, None));
    }
}
