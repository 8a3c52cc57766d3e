//! The answer in words: one sentence for the reason, one for how bad it is.

use highwater_results::import::log::{Report, ReportKind, ZONE_NAMES};

use super::cause::{Cause, Reasons, is_of_page_fault, may_hide_policy};
use super::judge::{Judge, ignores_marks, reclaims};
use super::remedy::first_of_zonelist;
use super::words::{kb_text, order_text, pages_text, total};
use super::zone::{ZoneRow, own_min, page_size};

/// The parts of a sentence.
struct Words<'a> {
    report: &'a Report,
    judge: &'a Judge,
    rows: &'a [ZoneRow<'a>],
    page: u64,
}

/// The reason in one sentence.
pub(super) fn of(
    report: &Report,
    judge: &Judge,
    rows: &[ZoneRow<'_>],
    reasons: &Reasons,
) -> String {
    let words = Words { report, judge, rows, page: page_size(report) };
    match reasons.cause {
        Cause::MemoryShort => words.memory_short(),
        Cause::Reserve => words.reserve(),
        Cause::Fragmented => words.fragmented(),
        Cause::HighatomicOnly => words.kept('H', "set aside for atomic requests (high-atomic)"),
        Cause::CmaOnly => words.cma(),
        Cause::NoZone => words.no_zone(),
        Cause::Bound => words.bound(),
        Cause::MemcgLimit => words.memcg(),
        Cause::AtMarkNowait => words.at_mark(),
        Cause::ServedAtDumpTime => words.served(),
        Cause::SwapFull => "Swap is used up.".to_owned(),
        Cause::UnreclaimableSlab => words.slab(),
        Cause::VmallocSpace => words.addresses(),
        Cause::Requested => words.requested(),
        Cause::CorruptMarks => words.corrupt(),
        Cause::CannotTell => words.cannot_tell(),
    }
}

impl<'a> Words<'a> {
    fn allowed(&self) -> impl Iterator<Item = &'a ZoneRow<'a>> {
        self.rows.iter().filter(|row| row.allowed == Some(true) && row.is_populated())
    }

    /// The zone that came nearest to serving the request.
    fn nearest(&self) -> Option<&'a ZoneRow<'a>> {
        let size = |row: &&ZoneRow<'_>| row.zone.managed.or(row.zone.present).or(row.zone.free);
        self.allowed().max_by_key(|row| (row.spare_pages, size(row)))
    }

    /// The zone that would serve the request if fragmentation had not boosted its marks.
    fn boosted(&self) -> Option<&'a ZoneRow<'a>> {
        if !self.judge.has_boost || self.allowed().any(ZoneRow::serves) {
            return None;
        }
        let mut judge = self.judge.clone();
        judge.has_boost = false;
        let without = super::zone::rows(self.report, &judge);
        let served = first_of_zonelist(&without)?.name();
        self.allowed().find(|row| row.name() == served)
    }

    /// The largest zone: where memory ran out.
    fn largest(&self) -> Option<&'a ZoneRow<'a>> {
        let size = |row: &&ZoneRow<'_>| row.zone.managed.or(row.zone.present);
        let last = self.allowed().max_by_key(|row| (size(row), row.spare_pages));
        last.filter(|row| size(row).is_some()).or_else(|| self.allowed().last())
    }

    fn free(&self, row: &ZoneRow<'_>) -> String {
        row.zone.free.map_or_else(|| "memory".to_owned(), kb_text)
    }

    /// `32 pages (128 kB) too few (mark 9856 kB, reserve 3780 kB, the block 16 kB)`.
    fn short_of(&self, row: &ZoneRow<'_>) -> String {
        let short = row.spare_pages.map(|spare| (1 - spare).max(1) as u64);
        let kb = |pages: u64| kb_text(pages.saturating_mul(self.page) / 1024);
        let mark = row.mark_pages.unwrap_or(0);
        let min = row.zone.min.map_or(0, |kb| super::zone::pages_of(self.report, kb));
        // High and atomic requests may use a part of min.
        let mut of_min = if mark < min { format!(" of min {}", kb(min)) } else { String::new() };
        if let Some((_, boost)) = own_min(row.zone).filter(|(_, boost)| *boost > 0) {
            of_min += &format!(" with a boost of {}", kb_text(boost));
        }
        let mut needs = vec![format!("mark {}{of_min}", kb(mark))];
        if let Some(pages) = row.reserve_pages.filter(|pages| *pages > 0) {
            needs.push(format!("lowmem_reserve {}", kb(pages)));
        }
        if self.order() > 0 {
            needs.push(format!("the block {}", kb(1 << self.order().min(30))));
        }
        let by = short.map_or_else(String::new, |short| pages_text(short, self.page) + " ");
        format!("{by}too few ({})", needs.join(", "))
    }

    /// `28 MiB free (4376 kB of it CMA)`.
    fn free_and_kept(&self, row: &ZoneRow<'_>) -> String {
        let mut kept = Vec::new();
        if let Some(kb) = row.unusable_cma.filter(|kb| *kb > 0) {
            kept.push(format!("{} of it CMA, which only movable pages may use", kb_text(kb)));
        }
        if let Some(kb) = row.highatomic_in_test().filter(|kb| *kb > 0) {
            kept.push(format!("{} set aside for atomic requests", kb_text(kb)));
        }
        let kept = if kept.is_empty() { String::new() } else { format!(" ({})", kept.join(", ")) };
        format!("{} free{kept}", self.free(row))
    }

    /// Swap is a reason of kills; other requests may be limited to a zone.
    fn swap(&self) -> &'static str {
        if !matches!(self.report.kind, ReportKind::Oom | ReportKind::Other) {
            return "";
        }
        let swap = &self.report.swap;
        match swap.total {
            Some(0) => ", and there is no swap",
            _ if swap.is_full() => ", and swap is used up",
            _ => "",
        }
    }

    fn memory_short(&self) -> String {
        let Some(row) = self.largest() else { return self.short_by_text() };
        if row.passes == Some(true) {
            let above = row.spare_pages.map_or(0, |spare| spare.max(0) as u64);
            return format!(
                "Memory ran out{}: {} has {}, only {} above its mark again when the dump was printed.",
                self.swap(),
                row.name(),
                self.free_and_kept(row),
                pages_text(above, self.page)
            );
        }
        format!(
            "{}: {} has {}, {}{}.",
            self.what_is_short(),
            row.name(),
            self.free_and_kept(row),
            self.short_of(row),
            self.swap()
        )
    }

    /// Memory, or the low zones that the request is bound to.
    fn what_is_short(&self) -> String {
        let highest = self.judge.rights.and_then(|rights| ZONE_NAMES.get(rights.highest));
        let has_more = self.rows.iter().any(|row| {
            row.allowed == Some(false) && row.zone.free > row.zone.high && row.zone.high.is_some()
        });
        match highest {
            Some(zone @ (&"DMA" | &"DMA32")) if has_more => {
                format!("Zone {zone} is short, and the request may use no higher one")
            }
            _ => "Memory is short".to_owned(),
        }
    }

    /// Without a request: free against min.
    fn short_by_text(&self) -> String {
        let is_below = |row: &&ZoneRow<'_>| {
            row.is_populated() && row.zone.free.zip(row.zone.min).is_some_and(|(f, m)| f < m)
        };
        match self.rows.iter().find(is_below) {
            Some(row) => format!(
                "Memory is short: {} has {} free, its min watermark is {}{}.",
                row.name(),
                self.free(row),
                kb_text(row.zone.min.unwrap_or(0)),
                self.swap()
            ),
            None if self.rows.is_empty() => {
                format!("Memory ran out{}; what was short is not in these lines.", self.swap())
            }
            None => format!("Memory ran out{}; the text has no zone below its mark.", self.swap()),
        }
    }

    fn reserve(&self) -> String {
        let Some(row) = self.nearest() else {
            return "Lower zones keep their memory.".to_owned();
        };
        format!(
            "{} has {} free, but keeps {} for requests that need this zone (lowmem_reserve).",
            row.name(),
            self.free(row),
            kb_text(row.reserve_pages.unwrap_or(0).saturating_mul(self.page) / 1024)
        )
    }

    fn order(&self) -> u32 {
        self.judge.rights.map_or(0, |rights| u32::from(rights.order))
    }

    fn fragmented(&self) -> String {
        let order = self.order();
        let short = |row: &&ZoneRow<'_>| row.has_block == Some(false) || row.passes == Some(false);
        let row = self.allowed().filter(short).max_by_key(|row| row.zone.free);
        let Some(row) = row.or_else(|| self.nearest()) else {
            return "Memory is fragmented.".to_owned();
        };
        let largest = row.zone.largest_free_order();
        if row.has_block == Some(true) {
            return format!(
                "Memory is fragmented: {} has {} free, nearly all of it in blocks below {}, which Linux before 4.4 \
                 does not count.",
                row.name(),
                self.free(row),
                order_text(order, self.page)
            );
        }
        format!(
            "Memory is fragmented: {} has {} free, but no block of {}; its largest is {}.",
            row.name(),
            self.free(row),
            order_text(order, self.page),
            largest.map_or_else(|| "none".to_owned(), |order| order_text(order, self.page))
        )
    }

    fn kept(&self, letter: char, what: &str) -> String {
        let has = |row: &&ZoneRow<'_>| row.kept_types.contains(letter);
        let Some(row) = self.allowed().find(has) else {
            return format!("The large free blocks are {what}.");
        };
        format!(
            "{} has {} free, but its blocks of {} or more are {what}.",
            row.name(),
            self.free(row),
            order_text(self.order(), self.page)
        )
    }

    fn cma(&self) -> String {
        let cma = |row: &ZoneRow<'_>| row.zone.free_cma.unwrap_or(0);
        let has_blocks = self.allowed().any(|row| row.kept_types.contains('C'));
        if has_blocks {
            return self.kept('C', "CMA, which only movable pages may use");
        }
        match self.allowed().max_by_key(|row| cma(row)) {
            Some(row) => format!(
                "{} has {} free, but {} of it is CMA, and without CMA it is below its mark.",
                row.name(),
                self.free(row),
                kb_text(cma(row))
            ),
            None => "What is free is CMA.".to_owned(),
        }
    }

    fn no_zone(&self) -> String {
        let zone = self.report.highest_zone.as_deref().or(self.report.zone_by_bits.as_deref());
        format!(
            "The request may use zone {} and lower ones only, and none of them has memory.",
            zone.unwrap_or("DMA")
        )
    }

    fn bound(&self) -> String {
        if may_hide_policy(self.report, self.rows)
            && super::zone::nodes_allowed(self.report).is_none()
        {
            return self.hidden_policy();
        }
        let by = match self.report.constraint.as_deref() {
            Some("MEMORY_POLICY") => "a memory policy",
            Some("CPUSET") => "its cpuset",
            _ => "its node mask",
        };
        let request = &self.report.request;
        let nodes = request.nodemask.as_deref().filter(|mask| *mask != "(null)");
        let nodes = nodes.or(request.mems_allowed.as_deref());
        let has_zone = self.allowed().next().is_some();
        let what = if has_zone || self.rows.is_empty() {
            "that is short"
        } else {
            "there is no zone there that this request may use"
        };
        format!(
            "The process may use {} only, by {by}, and {what}.",
            nodes.map_or_else(|| "some nodes".to_owned(), |nodes| format!("node {nodes}"))
        )
    }

    /// A node is short, another has plenty, and this kernel prints no policy.
    fn hidden_policy(&self) -> String {
        let short = self.allowed().filter(|row| !row.serves()).max_by_key(|row| row.zone.managed);
        let other = self.allowed().filter(|row| row.serves()).max_by_key(|row| row.spare_pages);
        let (Some(short), Some(other)) = (short, other) else {
            return "A node is short, and others have memory.".to_owned();
        };
        let version = self.report.kernel.as_ref().and_then(|kernel| kernel.version);
        let why = match version.map(|version| (version.major, version.minor)) {
            Some(version) if version < (4, 10) => "which this kernel does not print",
            _ => "and the line that says so (oom-kill:constraint=) is not in the text",
        };
        format!(
            "{} is short, and {} has {} free: probably a memory policy or cpuset binds the process, {why}.",
            short.name(),
            other.name(),
            self.free(other)
        )
    }

    fn memcg(&self) -> String {
        let memcg = self.report.memcg.as_ref();
        let kill = self.report.kill.as_ref();
        let path = memcg.and_then(|memcg| memcg.path.as_deref());
        let path = path.or_else(|| kill.and_then(|kill| kill.oom_memcg.as_deref()));
        let name = path.map_or_else(
            || "A memory cgroup".to_owned(),
            |path| format!("The memory cgroup {path}"),
        );
        let limits = memcg.map(|memcg| {
            let all = [
                ("", memcg.memory),
                ("memory+swap ", memcg.memory_and_swap),
                ("kernel memory ", memcg.kmem),
            ];
            let reached = |limit: &highwater_results::import::log::MemcgLimit| {
                !limit.is_unlimited()
                    && limit.usage >= limit.limit.saturating_sub(limit.limit / 100)
            };
            let found = all.into_iter().find(|(_, limit)| limit.as_ref().is_some_and(reached));
            found.or(all.into_iter().next()).and_then(|(what, limit)| Some((what, limit?)))
        });
        match limits.flatten() {
            Some((what, limit)) if !limit.is_unlimited() => {
                format!("{name} has reached its {what}limit of {}.", kb_text(limit.limit))
            }
            Some(_) => format!(
                "{name} has no limit of its own; which limit was reached is not in the text."
            ),
            None => format!("{name} has reached its limit."),
        }
    }

    fn at_mark(&self) -> String {
        let may = if reclaims(self.report) {
            "the caller itself is reclaiming memory, so it cannot wait for reclaim"
        } else {
            "the request may not wait for reclaim"
        };
        let Some(row) = self.boosted().or_else(|| self.nearest()) else {
            return format!("Free memory was at the mark, and {may}.");
        };
        if ignores_marks(self.report) && row.passes == Some(false) {
            return format!(
                "{} has {}, below its mark, and {may}. It may go below all marks, so even that was used up, or not to be \
                 had in such blocks.",
                row.name(),
                self.free_and_kept(row)
            );
        }
        let state = match (row.passes, row.spare_pages) {
            (Some(true), Some(spare)) => format!(
                "{} above its mark when the dump was printed",
                pages_text(spare.max(0) as u64, self.page)
            ),
            (None, _) => "at its mark".to_owned(),
            _ => self.short_of(row),
        };
        format!("{} has {}, {state}, and {may}.", row.name(), self.free_and_kept(row))
    }

    fn served(&self) -> String {
        if is_of_page_fault(self.report) {
            let free = total(self.rows.iter().filter_map(|row| row.zone.free));
            return format!(
                "A page fault asked for the kill, and the machine had {} free at the dump. Usually the limit of a memory \
                 cgroup was behind it.",
                kb_text(free)
            );
        }
        let serving = self.rows.iter().filter(|row| row.serves());
        let Some(row) = serving.max_by_key(|row| row.spare_pages) else {
            return "The dump shows enough memory.".to_owned();
        };
        if self.report.kind == ReportKind::Oom {
            return format!(
                "Memory ran out{}, and came free again before the dump: {} is {} above its mark there.",
                self.swap(),
                row.name(),
                pages_text(row.spare_pages.unwrap_or(0).max(0) as u64, self.page)
            );
        }
        let after = match self.report.kind {
            ReportKind::Stall => "the request waits for something else, or memory came free",
            _ => "memory was probably freed after the refusal",
        };
        format!(
            "{} would serve the request at the time of the dump, {} above its mark: {after}.",
            row.name(),
            pages_text(row.spare_pages.unwrap_or(0).max(0) as u64, self.page)
        )
    }

    fn slab(&self) -> String {
        let share = super::cause::slab_share(self.report, self.rows).unwrap_or(0.0);
        let pages = self.report.counters.get("slab_unreclaimable").copied();
        let of_rows =
            self.rows.iter().filter_map(|row| row.zone.counters.get("slab_unreclaimable"));
        let kb = pages.map_or_else(
            || total(of_rows.copied()),
            |pages| pages.saturating_mul(self.page) / 1024,
        );
        format!(
            "The kernel itself holds the memory: {} of unreclaimable slab, {:.0} % of what it can use{}.",
            kb_text(kb),
            share * 100.0,
            self.swap()
        )
    }

    /// RAM, kB.
    fn ram_kb(&self) -> Option<u64> {
        self.report.pages.ram.map(|pages| pages.saturating_mul(self.page) / 1024)
    }

    /// The kernel says that the size is above all pages.
    fn exceeds(&self) -> bool {
        let problem = self.report.vmalloc.as_ref().and_then(|vmalloc| vmalloc.problem.as_deref());
        problem.is_some_and(|problem| problem.contains("exceeds total pages"))
    }

    fn addresses(&self) -> String {
        let bytes = self.report.vmalloc.as_ref().and_then(|vmalloc| vmalloc.bytes);
        let free: Option<Vec<u64>> = self.rows.iter().map(|row| row.zone.free).collect();
        let free = free.map(total);
        let memory = match free.filter(|kb| *kb > 0) {
            Some(free) => format!("; memory is not the reason ({} are free)", kb_text(free)),
            None => String::new(),
        };
        match bytes {
            Some(0) => format!("vmalloc was asked for 0 bytes, which it refuses{memory}."),
            Some(bytes) if self.ram_kb().is_some_and(|kb| bytes / 1024 > kb) || self.exceeds() => {
                format!(
                    "vmalloc was asked for {}, more than the machine{}.",
                    kb_text(bytes.div_ceil(1024)),
                    self.ram_kb()
                        .map_or_else(|| " has".to_owned(), |kb| format!("'s {}", kb_text(kb)))
                )
            }
            Some(bytes) => format!(
                "vmalloc found no range of addresses for {}{memory}.",
                kb_text(bytes.div_ceil(1024))
            ),
            None => format!("vmalloc found no range of addresses{memory}."),
        }
    }

    fn requested(&self) -> String {
        let by = match self.report.constraint.as_deref() {
            Some(constraint) if constraint.starts_with("BPF") => "A BPF program",
            _ => "SysRq f",
        };
        format!("{by} asked for the kill: no request for memory failed.")
    }

    fn corrupt(&self) -> String {
        let is_wrong = |row: &&ZoneRow<'_>| {
            row.zone
                .managed
                .or(row.zone.present)
                .zip(row.zone.min)
                .is_some_and(|(size, min)| size > 0 && min > size)
        };
        match self.rows.iter().find(is_wrong) {
            Some(row) => format!(
                "The marks are impossible: min of {} is {}, and the zone has {}.",
                row.name(),
                kb_text(row.zone.min.unwrap_or(0)),
                kb_text(row.zone.managed.or(row.zone.present).unwrap_or(0))
            ),
            None => {
                "The reserves are impossible: lowmem_reserve is more than the machine's memory."
                    .to_owned()
            }
        }
    }

    fn cannot_tell(&self) -> String {
        let is_dump = self.report.kind == ReportKind::Other;
        let populated = || self.rows.iter().filter(|row| row.is_populated());
        let is_above = |row: &ZoneRow<'_>| {
            row.zone.free.zip(row.zone.min).is_some_and(|(free, min)| free >= min)
        };
        let what = if self.rows.is_empty() {
            "the text has no zones"
        } else if is_dump {
            "the text has no refused request"
        } else {
            "the text has no order and flags"
        };
        let zones = if populated().next().is_some() && populated().all(is_above) {
            "; all zones are above their min watermark"
        } else {
            ""
        };
        format!("The reason cannot be told: {what}{zones}.")
    }
}
