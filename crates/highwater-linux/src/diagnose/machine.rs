//! The machine of a report as a machine file, for jobs on such a machine.
//!
//! A report has sizes and marks of the zones. It has no frames, no CPUs and no disks: what the file
//! says of those is a guess, and says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use highwater_files::machine_file::{MachineFile, check_size};
use highwater_results::import::log::{Report, ZONE_NAMES, Zone};

use super::words::total;
use super::zone::page_size;

/// Frames below 16 MiB, and below 4 GiB: the ends of DMA and DMA32 on a PC.
const DMA_END: u64 = 4096;
const DMA32_END: u64 = 1 << 20;

/// The text of the machine file.
///
/// # Errors
/// Says in one line what the text lacks, or what the model does not have.
pub fn machine_file(report: &Report) -> Result<String, String> {
    if page_size(report) != 4096 {
        return Err("pages of the machine are larger than 4 kB; the model has 4 kB".to_owned());
    }
    let mut nodes: BTreeMap<u32, Vec<&Zone>> = BTreeMap::new();
    for zone in report.zones.iter().filter(|zone| size(zone) != Some(0)) {
        if zone.name == "HighMem" {
            return Err("the model has no HighMem, and the machine has".to_owned());
        }
        if size(zone).is_none() {
            return Err(format!("the sizes of zone {} are not in the text", zone.name));
        }
        nodes.entry(zone.node.unwrap_or(0)).or_default().push(zone);
    }
    if nodes.is_empty() {
        return Err("the text has no zones with their sizes".to_owned());
    }
    if nodes.keys().copied().ne(0..nodes.len() as u32) {
        return Err("zones of some nodes are not in the text".to_owned());
    }
    let mut text = String::new();
    // Writing to a string does not fail.
    let kernel = report.kernel.as_ref().map_or("a kernel", |kernel| kernel.release.as_str());
    let _ = writeln!(
        text,
        "# The machine of a memory report of {kernel}, by `highwater diagnose`. Of the text: sizes of zones and\n\
         # min_free_kbytes. Guesses: where zones begin, CPUs, costs; disks and swap are left out."
    );
    let all = total(nodes.values().flatten().filter_map(|zone| size(zone)));
    let _ = writeln!(text, "summary = \"of a report of {kernel}: {} MiB\"", all >> 8);
    // More than any kernel has is damage of the text.
    const CPUS_MAX: u32 = 8192;
    let cpu = report.task.cpu.filter(|cpu| *cpu < CPUS_MAX);
    let cpus = cpu.map_or(1, |cpu| cpu + 1).max(nodes.len() as u32);
    let mut next = 1;
    for (node, zones) in &mut nodes {
        let mut own: Vec<u32> = (0..cpus).filter(|cpu| cpu % all_nodes(report) == *node).collect();
        own.sort_unstable();
        let own: Vec<String> = own.iter().map(u32::to_string).collect();
        let _ = writeln!(text, "\n[[node]]\ncpus = \"{}\"\nzones = [", own.join(","));
        zones.sort_by_key(|zone| ZONE_NAMES.iter().position(|name| *name == zone.name));
        for zone in zones.iter() {
            next = place(zone, next, &mut text);
        }
        let _ = writeln!(text, "]");
    }
    let is_low = |zone: &&Zone| zone.name != "Movable";
    let mins = report
        .zones
        .iter()
        .filter(is_low)
        .map(|zone| Some(zone.min?.saturating_sub(zone.boost.unwrap_or(0))));
    if let Some(min) = mins.collect::<Option<Vec<u64>>>().map(total).filter(|min| *min > 0) {
        // Zones round their shares down.
        let _ = writeln!(text, "\n[tunables]\nmin_free_kbytes = {min}");
    }
    check(&text)?;
    Ok(text)
}

/// Refuses a file that no job could use. Its lines are not written yet, so the reason names none.
fn check(text: &str) -> Result<(), String> {
    let read = MachineFile::parse("machine", text).map_err(|error| match &error.field {
        Some(field) => format!("the model has no such machine: {field}: {}", error.reason),
        None => format!("the model has no such machine: {}", error.reason),
    })?;
    check_size(&read.machine).map_err(|why| format!("the model has no such machine: {why}"))
}

/// Number of nodes with memory.
fn all_nodes(report: &Report) -> u32 {
    let last =
        report.zones.iter().filter(|zone| size(zone) != Some(0)).filter_map(|z| z.node).max();
    last.map_or(1, |last| last + 1)
}

/// Managed pages.
pub(super) fn size(zone: &Zone) -> Option<u64> {
    Some(zone.managed.or(zone.present)? / 4)
}

/// The first frame that a zone may have behind the others, and its frames.
pub(super) fn frames(zone: &Zone, next: u64) -> (u64, u64) {
    let managed = size(zone).unwrap_or(0);
    let present = zone.present.map_or(managed, |kb| kb / 4).max(managed);
    // On a PC; a larger DMA or DMA32 zone is another architecture's.
    let start = match zone.name.as_str() {
        "DMA32" if present < DMA32_END - DMA_END => next.max(DMA_END),
        "Normal" if next > DMA_END && next <= DMA32_END => DMA32_END,
        _ => next,
    };
    (start, present)
}

/// Writes a zone; returns the frame after it.
fn place(zone: &Zone, next: u64, text: &mut String) -> u64 {
    let managed = size(zone).unwrap_or(0);
    let (start, present) = frames(zone, next);
    let _ = writeln!(
        text,
        "  {{ zone = \"{}\", start-pfn = {start}, spanned = {present}, present = {present}, managed = {managed}, \
         managed-at-boot = {managed} }},",
        zone.name
    );
    start + present
}
