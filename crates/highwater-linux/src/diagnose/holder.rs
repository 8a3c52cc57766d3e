//! Holders of the memory: counters of the machine or the cgroup, and the largest tasks.

use highwater_results::import::log::{Report, ReportKind, TaskRow};
use serde::Serialize;

use super::words::total;
use super::zone::page_size;

/// A holder of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Kind of memory, or a task.
    pub what: String,
    /// kB.
    pub kb: u64,
}

/// Holders with at least this share are listed.
const LEAST_SHARE: f64 = 0.03;
/// Most tasks that are listed.
const TASKS_MAX: usize = 3;

/// The holders of a report, the largest first, and the memory in all, kB.
pub(super) fn holders(report: &Report) -> (Vec<Holder>, Option<u64>) {
    let (mut found, all) =
        if report.kind == ReportKind::MemcgOom { of_memcg(report) } else { of_machine(report) };
    let least = all.map_or(1.0, |kb| kb as f64 * LEAST_SHARE) as u64;
    found.retain(|holder| holder.kb > least);
    found.sort_by(|a, b| b.kb.cmp(&a.kb).then_with(|| a.what.cmp(&b.what)));
    (found, all)
}

/// The largest tasks by resident pages.
pub(super) fn tasks(report: &Report) -> Vec<Holder> {
    let page_kb = page_size(report) / 1024;
    let pages = |row: &TaskRow| row.values.get("rss").copied().unwrap_or(0).max(0) as u64;
    let rss = |row: &TaskRow| pages(row).saturating_mul(page_kb);
    let mut rows: Vec<&TaskRow> = report.tasks.rows.iter().filter(|row| rss(row) > 0).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(rss(row)), row.pid));
    let named =
        |row: &&TaskRow| Holder { what: format!("{} (pid {})", row.name, row.pid), kb: rss(row) };
    rows.iter().take(TASKS_MAX).map(named).collect()
}

fn of_machine(report: &Report) -> (Vec<Holder>, Option<u64>) {
    let page_kb = page_size(report) / 1024;
    let pages = |name: &str| report.counters.get(name).copied();
    let sum = |names: &[&str]| -> Option<u64> {
        let all: Option<Vec<u64>> = names.iter().map(|name| pages(name)).collect();
        all.map(total)
    };
    let mut found = Vec::new();
    let mut add = |what: &str, nr: Option<u64>| {
        if let Some(nr) = nr {
            found.push(Holder { what: what.to_owned(), kb: nr.saturating_mul(page_kb) });
        }
    };
    let anon = sum(&["active_anon", "inactive_anon"]);
    let shmem = pages("shmem");
    // Shared memory is on the anonymous lists.
    let alone = anon.map(|anon| anon.saturating_sub(shmem.unwrap_or(0)));
    // Locked shared memory is unevictable, and not on these lists.
    let locked = anon.map_or(0, |anon| shmem.unwrap_or(0).saturating_sub(anon));
    add("anonymous memory of processes", alone);
    add("shared memory and tmpfs (shmem)", shmem);
    add("page cache of files", sum(&["active_file", "inactive_file"]));
    add("unevictable (mlocked)", pages("unevictable").map(|all| all.saturating_sub(locked)));
    add("slab that cannot be reclaimed", pages("slab_unreclaimable"));
    add("slab that can be reclaimed", pages("slab_reclaimable"));
    add("page tables", pages("pagetables"));
    add("kernel stacks", of_nodes(report, "kernel_stack").map(|kb| kb / page_kb.max(1)));
    add("free", pages("free"));
    let sizes = report.hugepages.iter();
    let huge = total(sizes.map(|huge| huge.total.unwrap_or(0).saturating_mul(huge.size_kb)));
    add("huge pages of hugetlbfs", Some(huge / page_kb.max(1)));
    // Kernels leave out zones that the request may not use: then the machine's pages count.
    let managed: Option<Vec<u64>> = report.zones.iter().map(|zone| zone.managed).collect();
    let managed = managed.map_or(0, total);
    let ram = report
        .pages
        .ram
        .map(|ram| ram.saturating_sub(report.pages.reserved.unwrap_or(0)).saturating_mul(page_kb));
    let all = Some(managed.max(ram.unwrap_or(0))).filter(|kb| *kb > 0);
    let known = total(found.iter().map(|holder| holder.kb));
    if let (Some(all), true) = (all, anon.is_some() && pages("free").is_some()) {
        let what = "not in any counter (drivers, vmalloc, CMA users)".to_owned();
        found.push(Holder { what, kb: all.saturating_sub(known) });
    }
    (found, all)
}

/// Sum over nodes, or over zones before 4.8.
fn of_nodes(report: &Report, name: &str) -> Option<u64> {
    let nodes = report.nodes.iter().filter_map(|node| node.counters.get(name));
    let zones = report.zones.iter().filter_map(|zone| zone.counters.get(name));
    let all: Vec<u64> = nodes.chain(zones).copied().collect();
    (!all.is_empty()).then(|| total(all))
}

fn of_memcg(report: &Report) -> (Vec<Holder>, Option<u64>) {
    let Some(memcg) = &report.memcg else { return (Vec::new(), None) };
    let stat = |name: &str| memcg.stat_kb(name);
    let mut found = Vec::new();
    let mut add = |what: &str, kb: Option<u64>| {
        if let Some(kb) = kb {
            found.push(Holder { what: what.to_owned(), kb });
        }
    };
    add("anonymous memory", stat("anon").or_else(|| stat("rss")));
    let shmem = stat("shmem");
    let cache = stat("file").or_else(|| stat("cache"));
    add("page cache", cache.map(|kb| kb.saturating_sub(shmem.unwrap_or(0))));
    add("shared memory and tmpfs (shmem)", shmem);
    add("slab", stat("slab"));
    add("kernel stacks", stat("kernel_stack"));
    add("page tables", stat("pagetables"));
    add("socket buffers", stat("sock"));
    (found, memcg.memory.map(|memory| memory.usage))
}
