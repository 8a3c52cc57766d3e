//! Holders of the memory: counters of the machine or the cgroup, and the largest tasks.

use highwater_results::import::log::{Kill, Report, ReportKind, TaskRow};
use serde::Serialize;

use super::group::Group;
use super::words::total;
use super::zone::page_size;

/// A holder of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Kind of memory, or a task.
    pub what: String,
    /// kB; of a task those that are resident.
    pub kb: u64,
    /// Swap that a task uses besides, kB; `None` if the table does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_kb: Option<u64>,
}

impl Holder {
    fn new(what: impl Into<String>, kb: u64) -> Holder {
        Holder { what: what.into(), kb, swap_kb: None }
    }

    /// Resident and in swap.
    pub(super) fn all_kb(&self) -> u64 {
        self.kb.saturating_add(self.swap_kb.unwrap_or(0))
    }
}

/// Kinds of memory by name.
pub(super) const ANON: &str = "anonymous memory of processes";
pub(super) const SHMEM: &str = "shared memory and tmpfs (shmem)";
pub(super) const LOCKED: &str = "unevictable (mlocked)";
pub(super) const SLAB: &str = "slab that cannot be reclaimed";
pub(super) const HUGE: &str = "huge pages of hugetlbfs";
pub(super) const KERNEL: &str = "other kernel memory";
pub(super) const UNCOUNTED: &str = "in no counter (drivers, vmalloc, zswap, CMA users, a balloon)";

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

/// The largest tasks by what they hold, resident or in swap.
pub(super) fn tasks(report: &Report) -> Vec<Holder> {
    let mut all = all_tasks(report);
    all.truncate(TASKS_MAX);
    all.into_iter().map(|(_, holder)| holder).collect()
}

/// Is the row of the killed process?
pub(super) fn is_of(row: &TaskRow, kill: &Kill) -> bool {
    kill.pid.is_some_and(|pid| u64::try_from(pid).is_ok_and(|pid| pid == row.pid))
}

/// The killed process as the table has it, with its swap.
pub(super) fn victim(report: &Report) -> Option<Holder> {
    let kill = report.kill.as_ref()?;
    all_tasks(report).into_iter().find(|(row, _)| is_of(row, kill)).map(|(_, holder)| holder)
}

/// Tasks with memory and the rows of the table, the largest first.
pub(super) fn all_tasks(report: &Report) -> Vec<(&TaskRow, Holder)> {
    let page_kb = page_size(report) / 1024;
    let kb = |row: &TaskRow, column: &str| {
        let pages = row.values.get(column)?;
        Some(((*pages).max(0) as u64).saturating_mul(page_kb))
    };
    let of = |row: &TaskRow| Holder {
        what: format!("{} (pid {})", row.name, row.pid),
        kb: kb(row, "rss").unwrap_or(0),
        swap_kb: kb(row, "swapents").filter(|kb| *kb > 0),
    };
    let mut rows: Vec<(&TaskRow, Holder)> =
        report.tasks.rows.iter().map(|row| (row, of(row))).collect();
    rows.retain(|(_, holder)| holder.all_kb() > 0);
    rows.sort_by_key(|(row, holder)| (std::cmp::Reverse(holder.all_kb()), row.pid));
    rows
}

fn of_machine(report: &Report) -> (Vec<Holder>, Option<u64>) {
    let page_kb = page_size(report) / 1024;
    // Damage may have taken the counters of the machine: those of its nodes or zones add up to them.
    let pages = |name: &str| {
        let of_machine = report.counters.get(name).copied();
        of_machine.or_else(|| of_nodes(report, name).map(|kb| kb / page_kb.max(1)))
    };
    let sum = |names: &[&str]| -> Option<u64> {
        let all: Option<Vec<u64>> = names.iter().map(|name| pages(name)).collect();
        all.map(total)
    };
    let mut found = Vec::new();
    let mut add = |what: &str, nr: Option<u64>| {
        if let Some(nr) = nr {
            found.push(Holder::new(what, nr.saturating_mul(page_kb)));
        }
    };
    let anon = sum(&["active_anon", "inactive_anon"]);
    let shmem = pages("shmem");
    // Shared memory is on the anonymous lists.
    let alone = anon.map(|anon| anon.saturating_sub(shmem.unwrap_or(0)));
    // Locked shared memory is unevictable, and not on these lists.
    let locked = anon.map_or(0, |anon| shmem.unwrap_or(0).saturating_sub(anon));
    add(ANON, alone);
    add(SHMEM, shmem);
    add("page cache of files", sum(&["active_file", "inactive_file"]));
    add(LOCKED, pages("unevictable").map(|all| all.saturating_sub(locked)));
    add(SLAB, pages("slab_unreclaimable"));
    add("slab that can be reclaimed", pages("slab_reclaimable"));
    add("page tables", pages("pagetables"));
    add("kernel stacks", of_nodes(report, "kernel_stack").map(|kb| kb / page_kb.max(1)));
    add("free", pages("free"));
    let sizes = report.hugepages.iter();
    let huge = total(sizes.map(|huge| huge.total.unwrap_or(0).saturating_mul(huge.size_kb)));
    add(HUGE, Some(huge / page_kb.max(1)));
    // Kernels leave out zones that the request may not use: then the machine's pages count.
    let managed: Option<Vec<u64>> = report.zones.iter().map(|zone| zone.managed).collect();
    let managed = managed.map_or(0, total);
    let ram = report
        .pages
        .ram
        .map(|ram| ram.saturating_sub(report.pages.reserved.unwrap_or(0)).saturating_mul(page_kb));
    let all = Some(managed.max(ram.unwrap_or(0))).filter(|kb| *kb > 0);
    let known = total(found.iter().map(|holder| holder.kb));
    // Zones are missing if more is held than they have.
    let all = all.filter(|all| known <= all.saturating_add(all / 10));
    if let (Some(all), true) = (all, anon.is_some() && pages("free").is_some()) {
        found.push(Holder::new(UNCOUNTED, all.saturating_sub(known)));
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
            found.push(Holder::new(what, kb));
        }
    };
    add("anonymous memory", stat("anon").or_else(|| stat("rss")));
    let shmem = stat("shmem");
    let cache = stat("file").or_else(|| stat("cache"));
    add("page cache", cache.map(|kb| kb.saturating_sub(shmem.unwrap_or(0))));
    add(SHMEM, shmem);
    add("slab", stat("slab"));
    add("kernel stacks", stat("kernel_stack"));
    add("page tables", stat("pagetables"));
    add("socket buffers", stat("sock"));
    let parts = ["slab", "kernel_stack", "pagetables"].map(|name| stat(name).unwrap_or(0));
    add(KERNEL, Group::of(report).kernel_kb().map(|kb| kb.saturating_sub(total(parts))));
    let all = memcg.memory.map(|memory| memory.usage);
    let known = total(found.iter().map(|holder| holder.kb));
    // Statistics may be up to two seconds old, and stocks of CPUs are in none of them.
    if let Some(all) = all.filter(|_| stat("anon").or_else(|| stat("rss")).is_some()) {
        found.push(Holder::new("in none of its statistics", all.saturating_sub(known)));
    }
    (found, all)
}
