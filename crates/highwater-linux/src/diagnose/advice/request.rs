//! Advice about a refused request, by its reason.

use highwater_results::import::log::ReportKind;

use super::super::cause::{Cause, has_much_slab};
use super::super::remedy::Trial;
use super::super::words::order_text;
use super::super::zone::page_size;
use super::{Known, kill};

pub(super) fn advice(known: &Known<'_>) -> Vec<String> {
    let report = known.report;
    let order = report.request.order.and_then(|order| u32::try_from(order).ok()).unwrap_or(0);
    let falls_back = report.kind == ReportKind::Vmalloc && order > 0;
    match known.reasons.cause {
        Cause::Fragmented | Cause::HighatomicOnly if falls_back => vec![
            "Nothing: vmalloc goes on with single pages. The message is only a warning.".to_owned(),
        ],
        Cause::AtMarkNowait if has_much_slab(report, known.rows) => {
            vec![kill::slab(report), at_mark(known)]
        }
        Cause::AtMarkNowait => vec![at_mark(known)],
        Cause::Fragmented | Cause::HighatomicOnly => blocks(known, order),
        Cause::CmaOnly if is_movable(known) => vec![
            "Ask the vendor of this kernel: Linux itself gives CMA memory to such requests. A smaller CMA area (cma= on \
             the kernel's command line) leaves more to all."
                .to_owned(),
        ],
        Cause::CmaOnly => {
            let smaller = "Make the CMA area smaller: cma= on the kernel's command line, or the device tree. Only movable \
                           pages may use it.";
            compaction(known).into_iter().chain([smaller.to_owned()]).collect()
        }
        Cause::Reserve => vec![
            "Free memory in the higher zones, which are short. Lower zones keep a reserve from such requests \
             (vm.lowmem_reserve_ratio: a larger number keeps less)."
                .to_owned(),
        ],
        Cause::NoZone => vec![
            "Ask the author of the driver for another DMA mask: no zone that this request may use has memory here \
             (in a crash kernel: crashkernel=SIZE,low)."
                .to_owned(),
        ],
        Cause::Bound => vec![
            "Let the process use other nodes (cpuset.mems, numactl), or make it smaller there.".to_owned(),
        ],
        Cause::VmallocSpace => vec![
            "Look at the size and the caller (in the call trace): an absurd size is an error of the caller. Only a \
             32-bit kernel lacks addresses for usual sizes: vmalloc=SIZE on its command line gives more."
                .to_owned(),
        ],
        Cause::Requested => vec!["Ask who pressed SysRq f, or which BPF program runs.".to_owned()],
        Cause::CorruptMarks => vec![
            "Look at what wrote vm.min_free_kbytes or vm.lowmem_reserve_ratio, and set them back.".to_owned(),
        ],
        Cause::ServedAtDumpTime if report.kind == ReportKind::Stall => vec![
            "Look at what it waits for: the disk, or writeback (a trace: highwater diagnose reads it).".to_owned(),
        ],
        Cause::ServedAtDumpTime => vec![
            "Nothing, if it happened once. If it repeats, something takes much memory for moments: log vmstat 1 and \
             read it with highwater diagnose."
                .to_owned(),
        ],
        Cause::CannotTell | Cause::MemcgLimit => vec![known.whole_report()],
        Cause::MemoryShort | Cause::SwapFull | Cause::UnreclaimableSlab if is_bound_to_low_zone(known) => {
            vec![
                "Look at the driver's DMA mask: it asks for the lowest zones only, and these are small on every \
                 machine."
                    .to_owned(),
            ]
        }
        Cause::MemoryShort | Cause::SwapFull | Cause::UnreclaimableSlab => kill::advice(known),
    }
}

/// A request that may not wait found too little.
fn at_mark(known: &Known<'_>) -> String {
    let only_boost =
        known.remedies.iter().any(|it| it.trial == Trial::NoBoost && it.helps == Some(true));
    if only_boost {
        return "Nothing, if it is rare. If packets or requests are lost: sysctl vm.watermark_boost_factor=0, because \
                only the boost of the marks refused it."
            .to_owned();
    }
    let setting = known.remedies.iter().find_map(|remedy| match &remedy.trial {
        Trial::MinFree(setting) => Some((setting.clone(), remedy.helps)),
        _ => None,
    });
    match setting {
        Some((Some(setting), _)) => {
            format!("Nothing, if it is rare. If packets or requests are lost: {setting}.")
        }
        Some((None, Some(false))) => {
            "Nothing, if it is rare. If packets or requests are lost: smaller bursts, or more memory.".to_owned()
        }
        _ => "Nothing, if it is rare. If packets or requests are lost: raise vm.min_free_kbytes, so that kswapd \
              starts earlier."
            .to_owned(),
    }
}

/// Memory is free, but not in blocks of the order.
fn blocks(known: &Known<'_>, order: u32) -> Vec<String> {
    let size = order_text(order, page_size(known.report));
    let mut found = vec![format!(
        "Avoid {size}: find the caller in the call trace of the log, and ask it for smaller buffers (in its settings), or \
         kvmalloc (in its code)."
    )];
    found.extend(compaction(known));
    found
}

/// Blocks that compaction may make, now and later.
fn compaction(known: &Known<'_>) -> Option<String> {
    let mut trials = known
        .remedies
        .iter()
        .filter(|remedy| remedy.change.starts_with("compaction of"))
        .peekable();
    trials.peek()?;
    if trials.all(|remedy| remedy.helps == Some(false)) {
        return Some(
            "Compaction cannot make such blocks here: free memory first, or restart what holds it."
                .to_owned(),
        );
    }
    // With much free memory a larger reserve changes nothing.
    let is_near = known.rows.iter().any(|row| {
        row.allowed == Some(true) && row.zone.free < row.zone.high.map(|kb| kb.saturating_mul(2))
    });
    let lasting = if is_near {
        " Lasting: a larger vm.min_free_kbytes, so that more blocks stay whole."
    } else {
        ""
    };
    Some(format!(
        "For now: echo 1 > /proc/sys/vm/compact_memory makes blocks of pages that can be moved.{lasting}"
    ))
}

/// The request may use low zones only, and higher ones have memory.
fn is_bound_to_low_zone(known: &Known<'_>) -> bool {
    let rules = known.report.request.gfp.as_ref().and_then(|gfp| gfp.rules);
    let has_more = known.rows.iter().any(|row| {
        row.allowed == Some(false) && row.zone.high.is_some() && row.zone.free > row.zone.high
    });
    rules.is_some_and(|rules| rules.dma || rules.dma32) && has_more
}

/// May the request have CMA pages, as memory of processes may?
fn is_movable(known: &Known<'_>) -> bool {
    let gfp = known.report.request.gfp.as_ref();
    gfp.and_then(|gfp| gfp.rules).is_some_and(|rules| rules.movable)
}
