//! Advice after an OOM kill of the machine: the holders of the memory, and ways to free it.

use std::collections::BTreeMap;

use highwater_results::import::log::Report;

use super::super::cause::{Cause, has_much_slab, is_of_page_fault, may_hide_policy};
use super::super::group::{Owner, systemd_key};
use super::super::holder::{HUGE, LOCKED, SHMEM, UNCOUNTED, all_tasks, is_of};
use super::super::words::{kb_text, total};
use super::Known;

/// Holders above this share of memory are worth a look.
const SHARE: f64 = 0.25;

pub(super) fn advice(known: &Known<'_>) -> Vec<String> {
    if is_of_page_fault(known.report) && known.reasons.cause == Cause::ServedAtDumpTime {
        return vec![
            "Look for the cgroup that was at its limit: its own report in the log just before, or memory.events and \
             failcnt of the groups."
                .to_owned(),
        ];
    }
    let mut found = Vec::new();
    let kill = known.report.kill.as_ref();
    if kill.is_some_and(|kill| kill.has_panicked && !kill.has_no_victim) {
        found.push(
            "With vm.panic_on_oom=0 the kernel kills a process in place of a panic.".to_owned(),
        );
    }
    if known.reasons.cause == Cause::Bound && may_hide_policy(known.report, known.rows) {
        found.push(
            "Look at the nodes that the process may use: cat /proc/PID/numa_maps, cpuset.mems, numactl --show."
                .to_owned(),
        );
    }
    found.extend(bound(known.report));
    if has_much_slab(known.report, known.rows) {
        found.push(slab(known.report));
    }
    let holders: Vec<String> = kinds(known).into_iter().chain(task(known)).collect();
    // Nothing else names a program or a kind of memory.
    if holders.is_empty() && !has_much_slab(known.report, known.rows) {
        found.extend(largest(known));
    }
    found.extend(holders);
    found.extend(swap(known));
    found
}

/// The largest holder, if nothing says more.
fn largest(known: &Known<'_>) -> Option<String> {
    /// Less than this share explains nothing.
    const LEAST: f64 = 0.1;
    let holder = known.holders.iter().find(|holder| holder.what != "free")?;
    let counts = known.memory_kb.is_none() || known.share(holder.kb) >= LEAST;
    counts.then(|| {
        format!(
            "Find what holds the memory (ps -e --sort=-rss, smem): most is {} ({}). Make it smaller, or add memory.",
            holder.what,
            kb_text(holder.kb)
        )
    })
}

/// The nodes of a cpuset or memory policy.
fn bound(report: &Report) -> Option<String> {
    let request = &report.request;
    match report.constraint.as_deref()? {
        "CPUSET" => {
            let name = request.cpuset.as_deref().unwrap_or("of the process");
            let nodes = request.mems_allowed.as_deref();
            let nodes = nodes.map_or_else(String::new, |nodes| format!(" (now {nodes})"));
            Some(format!("Give the cpuset {name} more nodes in cpuset.mems{nodes}, or the process less work."))
        }
        "MEMORY_POLICY" => Some(
            "Let the process use other nodes: numactl --preferred in place of --membind, or no policy at all."
                .to_owned(),
        ),
        _ => None,
    }
}

/// Kinds of memory that no limit of a process frees.
fn kinds(known: &Known<'_>) -> Vec<String> {
    let large = |what: &str| Some(known.held(what)).filter(|kb| known.share(*kb) >= SHARE);
    let mut found = Vec::new();
    if let Some(kb) = large(UNCOUNTED) {
        found.push(format!(
            "{} are in no counter. Check the balloon of a virtual machine (ask its host), GPU and network drivers, \
             ZFS, zswap, vmalloc (/proc/vmallocinfo).",
            kb_text(kb)
        ));
    }
    if let Some(kb) = large(HUGE) {
        let sizes = known.report.hugepages.iter();
        let free = total(sizes.map(|huge| huge.free.unwrap_or(0).saturating_mul(huge.size_kb)));
        found.push(if free > kb / 4 {
            format!(
                "Lower vm.nr_hugepages: {} of {} that are set aside for huge pages are unused.",
                kb_text(free),
                kb_text(kb)
            )
        } else {
            format!(
                "Huge pages hold {}, and programs use most of them: grep -l HugetlbPages /proc/*/status.",
                kb_text(kb)
            )
        });
    }
    if let Some(kb) = large(SHMEM) {
        found.push(format!(
            "Look for large files on tmpfs (df -h -t tmpfs) and shared memory (ipcs -m): {}.",
            kb_text(kb)
        ));
    }
    if let Some(kb) = large(LOCKED) {
        found.push(format!(
            "Look for what locks {} in memory (VmLck in /proc/PID/status; virtual machines, DPDK, databases).",
            kb_text(kb)
        ));
    }
    found
}

/// The largest slab caches and the places that allocate most.
pub(super) fn slab(report: &Report) -> String {
    const NAMED: usize = 3;
    // Places above the slabs themselves.
    let is_allocator =
        |function: &str| function.contains("slab_page") || function.contains("alloc_pages");
    let sites = report.sites.iter().filter(|site| !is_allocator(&site.function));
    let mut names: Vec<String> = sites
        .take(NAMED)
        .map(|site| format!("{} {} ({} objects)", site.function, kb_text(site.kb), site.count))
        .collect();
    let mut which = "Allocated most, of slabs of both kinds";
    if names.is_empty() {
        let mut caches: Vec<_> = report.slabs.iter().collect();
        caches.sort_by_key(|cache| (std::cmp::Reverse(cache.total_kb), cache.name.as_str()));
        let largest = caches.iter().take(NAMED);
        names =
            largest.map(|cache| format!("{} {}", cache.name, kb_text(cache.total_kb))).collect();
        which = "The largest here";
    }
    let which = match names.as_slice() {
        [] => String::new(),
        names => format!(" {which}: {}.", names.join(", ")),
    };
    let files = ["alloc_empty_file", "filp", "dentry", "d_alloc"];
    let has_files = names.iter().any(|name| files.iter().any(|file| name.contains(file)));
    let files = if has_files { " Open files: cat /proc/sys/fs/file-nr, lsof." } else { "" };
    format!(
        "Find the slab cache that grows: slabtop -s c, twice, some minutes apart.{which}{files}"
    )
}

/// The process, or the processes of one name, that hold most.
fn task(known: &Known<'_>) -> Option<String> {
    let tasks = all_tasks(known.report);
    let mut by_name: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (row, holder) in &tasks {
        let sum = by_name.entry(row.name.as_str()).or_default();
        *sum = (sum.0.saturating_add(holder.all_kb()), sum.1 + 1);
    }
    let (row, largest) = tasks.first()?;
    if known.share(largest.all_kb()) >= SHARE {
        let killed = known.report.kill.as_ref().filter(|kill| is_of(row, kill));
        let path = killed.and_then(|kill| kill.task_memcg.as_deref()).filter(|path| *path != "/");
        let swap =
            largest.swap_kb.map_or_else(String::new, |kb| format!(" and {} of swap", kb_text(kb)));
        let how = path.map(|path| Owner::of(path).limit(path, None, known.report)).map_or_else(
            || {
                let key = systemd_key(known.report);
                format!("put it into a cgroup with a limit (systemd-run -p {key}=SIZE PROGRAM)")
            },
            |setting| format!("give it a limit ({setting})"),
        );
        return Some(format!(
            "Make {} smaller or {how}: it had {}{swap}, memory of the machine is {}.",
            largest.what,
            kb_text(largest.kb),
            kb_text(known.memory_kb?),
        ));
    }
    let (name, (kb, nr)) = by_name.into_iter().max_by_key(|(_, (kb, _))| *kb)?;
    (known.share(kb) >= SHARE && nr > 1).then(|| {
        format!(
            "Run fewer processes of {name}, or smaller ones: {nr} hold {} together.",
            kb_text(kb)
        )
    })
}

/// Would swap help? At most what is anonymous can go there.
fn swap(known: &Known<'_>) -> Option<String> {
    let swap = &known.report.swap;
    let anon =
        known.report.counters.get("active_anon").zip(known.report.counters.get("inactive_anon"));
    let page_kb = super::super::zone::page_size(known.report) / 1024;
    let swappable = anon.map(|(a, i)| a.saturating_add(*i).saturating_mul(page_kb));
    match swap.total {
        Some(0) => {
            let kb = swappable?;
            Some(if known.share(kb) < 0.1 {
                format!("Swap would not help: only {} could be swapped.", kb_text(kb))
            } else {
                format!(
                    "Add swap if part of the {} of anonymous and shared memory is idle (zram, or a swap file); against a leak it \
                     only buys time.",
                    kb_text(kb)
                )
            })
        }
        Some(total) if swap.is_full() => {
            let (_, largest) = all_tasks(known.report).into_iter().next()?;
            let of = largest.swap_kb.filter(|kb| *kb > total / 2).map(|kb| {
                let share = kb as f64 * 100.0 / total as f64;
                format!("{share:.0} % of the full swap is of {}: ", largest.what)
            });
            Some(format!(
                "{}more swap helps only if what fills it is idle; otherwise it delays the next kill.",
                of.unwrap_or_else(|| format!("Swap of {} is full: ", kb_text(total)))
            ))
        }
        _ => None,
    }
}
