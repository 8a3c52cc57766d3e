//! The contents of the captured machine's memory before the work.
//!
//! The machines traced themselves. A trace buffer is a ring of single unmovable pages for each CPU.
//! It takes 64 MiB per CPU in the stutterp captures, half of the memory, and 8 MiB in those of the
//! storm. No counter lists these pages; they only reduce free memory. The model holds them as
//! single pages that cannot be moved, reclaimed or freed (see `Baseline`). A smaller machine
//! instead would have other watermarks.

use highwater_core::page::PAGE_SIZE;
use highwater_results::import::linux61::Throttling;

/// Counters that the file has, with pages of each unit. Stacks are in KiB.
const NAMED: [(&str, &str, i64); 6] = [
    ("nr_shmem", "boot files", 1),
    ("nr_anon_pages", "anonymous", 1),
    ("nr_slab_reclaimable", "slab", 1),
    ("nr_slab_unreclaimable", "slab", 1),
    ("nr_kernel_stack", "stacks", PAGE_SIZE as i64 / 1024),
    ("nr_page_table_pages", "page tables", 1),
];

/// A note about the memory that was taken away.
pub(super) fn note(captured: &Throttling) -> String {
    let managed: u64 = captured.zones.iter().map(|zone| zone.managed).sum();
    let free: u64 = captured.zones.iter().map(|zone| zone.free).sum();
    let level = |name: &str| -> i64 {
        captured.zones.iter().filter_map(|zone| zone.baseline.get(name)).sum()
    };
    let mut named = 0;
    let mut parts: Vec<(&str, u64)> = Vec::new();
    for (name, words, unit) in NAMED {
        let pages = (level(name) / unit).max(0) as u64;
        named += pages;
        match parts.iter_mut().find(|(known, _)| *known == words) {
            Some((_, sum)) => *sum += pages,
            None => parts.push((words, pages)),
        }
    }
    let parts: Vec<String> =
        parts.iter().map(|(words, pages)| format!("{words} {pages}")).collect();
    let unnamed = managed.saturating_sub(free).saturating_sub(named);
    format!(
        "memory before the work: {managed} pages, {free} free; {}; {unnamed} that no counter names (trace buffers of \
         {} CPUs, the kernel's own), held as single unmovable pages",
        parts.join(", "),
        captured.cpus
    )
}
