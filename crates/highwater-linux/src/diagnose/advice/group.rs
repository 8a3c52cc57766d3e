//! Advice about a memory cgroup at its limit.

use super::super::group::{Group, Owner, killed_kb};
use super::super::holder::{SHMEM, victim};
use super::super::words::{kb_text, total};
use super::Known;

/// Shared memory above this share of the group is named.
const SHMEM_SHARE: f64 = 0.3;

/// A process with this share of the group explains why it is full.
const LARGE: f64 = 0.25;
/// Kernel memory above this share of the group is named.
const KERNEL_SHARE: f64 = 0.5;

pub(super) fn advice(known: &Known<'_>) -> Vec<String> {
    let group = Group::of(known.report);
    let mut found = Vec::new();
    if group.is_held_by_writes() {
        let (unwritten, cache) = (group.unwritten_kb(), group.cache_kb());
        let idle = if group.waits_for_flusher() { ", none of it under writeback," } else { "" };
        found.push(format!(
            "{} of {} page cache are dirty{idle} and cannot be freed before they are written. Check the disk. Then lower \
             vm.dirty_background_ratio, call fsync more often, or raise the limit.",
            kb_text(unwritten.unwrap_or(0).min(cache.unwrap_or(0))),
            kb_text(cache.unwrap_or(0)),
        ));
    }
    let shmem = known.held(SHMEM);
    if known.share(shmem) >= SHMEM_SHARE {
        found.push(format!(
            "Look for files on tmpfs (/dev/shm, /tmp): {} of the group are shared memory, which only swap or deleting \
             can free.",
            kb_text(shmem)
        ));
    }
    let kernel = group.kernel_kb().unwrap_or(0);
    if known.share(kernel) >= KERNEL_SHARE {
        let parts = group.kernel_parts();
        let named = parts.iter().map(|(name, kb)| format!("{} {name}", kb_text(*kb)));
        let mut words: Vec<String> = named.collect();
        if total(parts.iter().map(|(_, kb)| *kb)) < kernel / 2 {
            words.push("the statistics do not show the rest".to_owned());
        }
        // Page tables and stacks end with their processes.
        let of_tasks = parts.iter().filter(|(name, _)| matches!(*name, "page tables" | "stacks"));
        let frees = if total(of_tasks.map(|(_, kb)| *kb)) < kernel / 2 {
            " Killing processes frees little of it."
        } else {
            ""
        };
        found.push(format!(
            "{} are kernel memory of the group: {}.{frees}",
            kb_text(kernel),
            words.join(", ")
        ));
    }
    found.push(limit(known, &group));
    if let Some(path) = group.path.filter(|path| *path != "/") {
        let which = match Owner::of(path) {
            Owner::Unit(unit) => format!("--unit {unit}"),
            _ => format!("--cgroup {path}"),
        };
        found.push(format!(
            "To see how large it has to be: highwater capture {which} while it runs, then highwater fit (book: How \
             large must the container be?)."
        ));
    }
    found
}

/// Its limit, with the setting.
fn limit(known: &Known<'_>, group: &Group<'_>) -> String {
    // A small victim does not explain the group.
    let is_large = |kb: u64| known.share(kb) >= LARGE;
    let killed = known.report.kill.as_ref().filter(|kill| {
        let by_table = victim(known.report).map_or(0, |holder| holder.all_kb());
        is_large(killed_kb(kill).max(by_table))
    });
    let killed = killed.and_then(|kill| kill.name.as_deref());
    let leak = killed.map_or_else(String::new, |name| {
        format!(" If {name} should not be that large, it leaks, and no limit helps.")
    });
    // The least size that is not known to be too small.
    let had = group.had_kb().map(|kb| match kb > known.memory_kb.unwrap_or(kb) {
        true => format!(" It had {} in memory and swap together.", kb_text(kb)),
        false => format!(" {} was not enough.", kb_text(kb)),
    });
    let had = had.unwrap_or_default();
    if let Some(what) = group.other_limit() {
        let path = group.path.unwrap_or("the cgroup");
        return format!("Raise {what} of {path}, or limit what it counts.{had}{leak}");
    }
    match group.path {
        Some(path) => {
            let setting = Owner::of(path).limit(path, group.interface(), known.report);
            format!("Raise the limit: {setting}.{had}{leak}")
        }
        None => format!("Raise the limit of the cgroup, whose name is not in the text.{had}{leak}"),
    }
}
