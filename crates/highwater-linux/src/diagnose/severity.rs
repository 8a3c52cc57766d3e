//! How bad a report is: harmless, a warning, or a process lost.

use highwater_results::import::log::{Report, ReportKind};

use super::cause::{Cause, Reasons};
use super::group::{Owner, killed_kb};
use super::holder::victim;
use super::judge::{Judge, reclaims};
use super::words::kb_text;

/// Orders above this are costly: their requests are expected to fail.
const COSTLY: i32 = 3;

/// One sentence.
pub(super) fn of(report: &Report, judge: &Judge, reasons: &Reasons) -> Option<String> {
    let rules = report.request.gfp.as_ref().and_then(|gfp| gfp.rules);
    let order = report.request.order.unwrap_or(0);
    if reasons.cause == Cause::Requested {
        return Some("Not a fault of memory: look at what asked for it.".to_owned());
    }
    match report.kind {
        ReportKind::Oom | ReportKind::MemcgOom => Some(killed(report)),
        ReportKind::Vmalloc if order > 0 => Some(
            "Harmless: vmalloc asks for huge pages first, and takes single pages instead."
                .to_owned(),
        ),
        ReportKind::Vmalloc => {
            Some("The caller gets no memory; its own messages say how serious that is.".to_owned())
        }
        ReportKind::Stall => Some(match report.task.comm.as_deref() {
            Some(name) if name.starts_with("khugepaged") || name.starts_with("kcompactd") => {
                format!("Harmless: {name} works in the background.")
            }
            _ => "A warning: the request still waits, and was not refused.".to_owned(),
        }),
        ReportKind::PageAllocationFailure => {
            let rules = rules?;
            let waits = judge.rights.is_some_and(|rights| rights.may_wait);
            Some(if rules.nofail {
                "Serious: this request must not fail (__GFP_NOFAIL).".to_owned()
            } else if reclaims(report) {
                "Serious if it repeats: reclaim itself lacks the memory it needs to free more."
                    .to_owned()
            } else if !waits && is_at_boot(report) {
                "At boot: what asked for it lacks this memory until the next boot. The lines around may say what that \
                 is."
                    .to_owned()
            } else if !waits {
                "Usually harmless: such requests may fail, and the caller drops a packet or tries again. Many in a \
                 short time mean lost work."
                    .to_owned()
            } else if rules.noretry || rules.retry_mayfail {
                "Usually harmless: the caller asked not to try hard, and has something else to fall back to.".to_owned()
            } else if order > COSTLY {
                "Costly order (above 3): the caller has to expect this; whether it falls back is not in the text."
                    .to_owned()
            } else if rules.dma || rules.dma32 {
                "Serious if it repeats: the kernel kills nothing for a request of low zones only, so it can fail."
                    .to_owned()
            } else {
                "Serious: such small requests normally wait until they are served.".to_owned()
            })
        }
        _ => None,
    }
}

/// The first process, before there are others.
fn is_at_boot(report: &Report) -> bool {
    report.task.comm.as_deref().is_some_and(|comm| comm.starts_with("swapper"))
        && report.task.pid == Some(1)
}

fn killed(report: &Report) -> String {
    let Some(kill) = &report.kill else {
        return "The OOM killer ran; which process it killed is not in the text.".to_owned();
    };
    match (kill.has_panicked, kill.has_no_victim) {
        (true, true) => {
            return "The kernel panicked: there was no process that could be killed.".to_owned();
        }
        (true, false) => {
            return "The kernel panicked in place of a kill, because vm.panic_on_oom is set."
                .to_owned();
        }
        (false, true) => return "There was no process that could be killed.".to_owned(),
        (false, false) => {}
    }
    let name = kill.name.as_deref().unwrap_or("a process");
    let pid = kill.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let owner = kill.task_memcg.as_deref().and_then(|path| Owner::of(path).name());
    let of = owner.map_or_else(String::new, |owner| format!(" of {owner}"));
    // The table has what lies in swap; the line of the kill has not.
    let swap = victim(report).and_then(|holder| holder.swap_kb);
    let swap = swap.map_or_else(String::new, |kb| format!(" and {} in swap", kb_text(kb)));
    let size = match killed_kb(kill) {
        0 if swap.is_empty() => String::new(),
        kb => format!(" with {}{swap}", kb_text(kb)),
    };
    let only = match report.kind {
        ReportKind::MemcgOom => {
            " The group was at its limit; nothing in the text says that the machine is short."
        }
        _ => "",
    };
    let group = match kill.nr_group_kills {
        _ if !kill.is_group => String::new(),
        0 => " Its whole group was to be killed with it (memory.oom.group).".to_owned(),
        nr => format!(" Its whole group was killed with it, {nr} more (memory.oom.group)."),
    };
    format!("A process was killed: {name}{pid}{of}{size}.{group}{only}")
}
