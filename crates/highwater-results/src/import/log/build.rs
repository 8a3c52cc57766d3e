//! From records to reports: decides which report a record belongs to.
//!
//! A report begins with the line of its request, or with a dump that has none. It ends where the
//! next one begins. Two reports may alternate: then each caller has its own, and where the prefix
//! does not name callers, a record goes to the report that lacks it.

use std::collections::{HashMap, VecDeque};

use super::draft::{Draft, PART_LINES_MAX, counters, has, is_near};
use super::kernel::{self, KernelRelease};
use super::kind::Kind;
use super::late;
use super::lines::mark;
use super::memcg::Memcg;
use super::record::Record;
use super::report::Report;
use super::request::{Head, ReportKind, Task, cpuset_line};
use super::tables::{SiteRow, SlabRow};
use super::zone::{FreeList, HugePages, Node, Zone, lowmem_reserve, place};

/// Lines between the line about addresses of a `vmalloc` and the one about its request.
const PAIR_LINES_MAX: usize = 4;

/// Puts reports together.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) drafts: Vec<Draft>,
    pub(super) open: HashMap<Option<String>, usize>,
    last_caller: Option<String>,
    pending_cpu: Option<(usize, Task, Option<KernelRelease>)>,
    /// Zone lines whose `lowmem_reserve[]` is still to come.
    zones_open: VecDeque<(usize, usize)>,
    releases: Vec<KernelRelease>,
    /// That of the heading above.
    heading: Option<KernelRelease>,
    arch: Option<&'static str>,
    after_hex: bool,
}

/// Makes reports of records.
pub(super) fn build(records: &[Record]) -> Vec<Report> {
    let mut builder = Builder::default();
    for record in records {
        builder.take(record);
    }
    builder.finish()
}

impl Builder {
    fn take(&mut self, record: &Record) {
        let caller = record.prefix.caller.clone().or_else(|| self.last_caller.clone());
        self.last_caller.clone_from(&caller);
        let text = record.text();
        if self.arch.is_none() {
            self.arch = kernel::arch_of_trace(&text);
        }
        let release = KernelRelease::in_tainted(&text).or_else(|| KernelRelease::in_banner(&text));
        if let Some(release) = &release
            && self.releases.len() < 2
            && !self.releases.contains(release)
        {
            self.releases.push(release.clone());
        }
        let was_hex = std::mem::replace(&mut self.after_hex, is_hex(&text));
        match record.kind {
            // A run's reports begin anew.
            Kind::Heading => {
                self.heading = KernelRelease::in_heading(&text);
                self.open.clear();
            }
            Kind::Head => self.head(record, &text, caller),
            Kind::Cpu => self.cpu(record, &text, release, &caller),
            Kind::Kill | Kind::OomKill | Kind::OomGroup => self.kill(record, &text, caller),
            Kind::Gap => {
                if let Some(draft) = self.current(&caller).filter(|_| !was_hex) {
                    draft.has_gap = true;
                }
            }
            Kind::Trace | Kind::Other => self.trace(record, &text, &caller),
            _ => self.part(record, &text, caller),
        }
    }

    fn current(&mut self, caller: &Option<String>) -> Option<&mut Draft> {
        let index = *self.open.get(caller)?;
        self.drafts.get_mut(index)
    }

    pub(super) fn start(&mut self, record: &Record, caller: Option<String>) -> usize {
        let mut draft = Draft::default();
        draft.report.kernel.clone_from(&self.heading);
        draft.report.first_line = record.lines.0;
        draft.report.time = record.prefix.time;
        draft.report.clock.clone_from(&record.prefix.clock);
        self.drafts.push(draft);
        self.open.insert(caller, self.drafts.len() - 1);
        self.drafts.len() - 1
    }

    /// Notes that a record is part of a report.
    pub(super) fn cover(&mut self, index: usize, record: &Record) -> &mut Draft {
        let draft = &mut self.drafts[index];
        draft.report.last_line = draft.report.last_line.max(record.lines.1);
        draft.report.first_line = draft.report.first_line.min(record.lines.0);
        draft.marks |= record.marks;
        draft.is_wrapped |= record.is_wrapped && !record.has_broken_number();
        draft.is_last = record.marks & mark::LAST != 0 && record.is_unfinished();
        draft.has_broken_number |= record.has_broken_number();
        draft.has_gap |= record.parts.iter().any(|part| part.ends_with(" ..."));
        *draft.forms.entry(record.prefix.form).or_default() += 1;
        draft
    }

    fn head(&mut self, record: &Record, text: &str, caller: Option<String>) {
        let Some(mut head) = Head::read(text, record.is_open_ended) else { return };
        if let Some(&index) = self.open.get(&caller)
            && is_near(&self.drafts[index], record)
            && self.continues_head(index, record, &mut head)
        {
            let draft = self.cover(index, record);
            draft.report.task.comm.clone_from(&head.comm);
            draft.head = Some(head);
            return;
        }
        let index = self.start(record, caller);
        let draft = self.cover(index, record);
        draft.report.task.comm.clone_from(&head.comm);
        draft.report.task.pid = head.pid;
        if let Some(pid) = record.prefix.caller.as_deref().and_then(|c| c.strip_prefix('T')) {
            draft.report.task.pid = draft.report.task.pid.or(pid.parse().ok());
        }
        draft.report.task.cpu = record.prefix.cpu;
        draft.head = Some(head);
        self.pending_cpu = None;
    }

    /// True if a head is about the same request as the open report: the line about addresses comes
    /// before that about the request. Up to 4.8 the second one reads as a page allocation failure.
    fn continues_head(&self, index: usize, record: &Record, head: &mut Head) -> bool {
        let draft = &self.drafts[index];
        let is_open = |before: &&Head| !draft.has_dump() && before.is_about_addresses();
        let Some(before) = draft.head.as_ref().filter(is_open) else { return false };
        let is_next = record.lines.0.saturating_sub(draft.report.last_line) <= PAIR_LINES_MAX;
        let is_old_pair =
            head.kind == ReportKind::PageAllocationFailure && head.order == Some(0) && is_next;
        if is_old_pair {
            head.kind = ReportKind::Vmalloc;
            head.vmalloc.clone_from(&before.vmalloc);
        } else if let Some(vmalloc) = &mut head.vmalloc {
            let bytes = before.vmalloc.as_ref().and_then(|vmalloc| vmalloc.bytes);
            vmalloc.bytes = vmalloc.bytes.or(bytes);
        }
        head.kind == ReportKind::Vmalloc
    }

    fn cpu(
        &mut self,
        record: &Record,
        text: &str,
        release: Option<KernelRelease>,
        caller: &Option<String>,
    ) {
        let task = Task::read(text);
        let Some(&index) = self.open.get(caller) else {
            self.pending_cpu = Some((record.lines.0, task, release));
            return;
        };
        let draft = &self.drafts[index];
        let is_other = match (&draft.report.task.comm, &task.comm) {
            (Some(mine), Some(other)) => !other.starts_with(mine.as_str()),
            _ => false,
        };
        if draft.head.is_none() || draft.has_dump() || is_other || !is_near(draft, record) {
            // A process that is not that of the newest request: of one before it, if two mix.
            let before = (index.saturating_sub(3)..index).rev().find(|&before| {
                let draft = &self.drafts[before];
                draft.head.is_some()
                    && !draft.has_dump()
                    && draft.report.kernel.is_none()
                    && draft.report.task.comm == task.comm
                    && is_near(draft, record)
            });
            match before {
                Some(before) => {
                    self.drafts[index].mixed_with = Some(before);
                    self.set_cpu(before, record, task, release);
                }
                None => self.pending_cpu = Some((record.lines.0, task, release)),
            }
            return;
        }
        self.set_cpu(index, record, task, release);
    }

    fn set_cpu(
        &mut self,
        index: usize,
        record: &Record,
        task: Task,
        release: Option<KernelRelease>,
    ) {
        let draft = self.cover(index, record);
        let mine = &mut draft.report.task;
        mine.pid = task.pid.or(mine.pid);
        mine.uid = task.uid.or(mine.uid);
        mine.cpu = task.cpu.or(mine.cpu);
        if mine.comm.is_none() {
            mine.comm = task.comm;
        }
        draft.report.kernel = release.or(draft.report.kernel.take());
    }

    /// Traces tell of interrupts and reclaim.
    fn trace(&mut self, record: &Record, text: &str, caller: &Option<String>) {
        const RECLAIM: [&str; 8] = [
            "try_to_free_pages",
            "try_to_free_mem_cgroup_pages",
            "shrink_node",
            "shrink_zone",
            "shrink_lruvec",
            "shrink_slab",
            "balance_pgdat",
            "do_try_to_free",
        ];
        let Some(draft) = self.current(caller) else { return };
        if draft.head.is_none() || draft.has_dump() || !is_near(draft, record) {
            return;
        }
        draft.has_fault_trace |= text.contains("pagefault_out_of_memory");
        draft.has_reclaim_trace |= RECLAIM.iter().any(|name| text.contains(name));
        let in_reclaim = RECLAIM.iter().any(|name| text.contains(name) && !text.contains("? "));
        draft.report.context.in_reclaim |= in_reclaim;
        draft.report.context.in_interrupt |= ["<IRQ>", "<SOFTIRQ>", "__do_softirq", "irq_exit"]
            .iter()
            .any(|word| text.contains(word));
    }

    /// A part of a dump or of an OOM report.
    fn part(&mut self, record: &Record, text: &str, caller: Option<String>) {
        let tokens = record.tokens();
        let Some(index) = self.owner(record, &tokens, &caller) else { return };
        let is_first = !self.drafts[index].has_dump();
        if is_first && record.kind != Kind::MemInfo {
            self.drafts[index].begins_inside = is_dump(record.kind) && record.kind != Kind::PerCpu;
        }
        if is_first
            && self.drafts[index].head.is_none()
            && let Some((line, task, release)) = self.pending_cpu.take()
            && record.lines.0.saturating_sub(line) <= PART_LINES_MAX
        {
            let report = &mut self.drafts[index].report;
            (report.task, report.kernel) = (task, release);
            report.first_line = report.first_line.min(line);
        }
        if record.kind == Kind::Lowmem {
            self.lowmem(index, record, &tokens);
            return;
        }
        if is_dump(record.kind) && record.kind != Kind::Zone {
            self.zones_open.retain(|(draft, _)| *draft != index);
        }
        let draft = self.cover(index, record);
        draft.in_stats &= record.kind == Kind::MemcgStat;
        draft.in_slabs &= matches!(record.kind, Kind::SlabRow);
        let report = &mut draft.report;
        match record.kind {
            Kind::MemInfo => {
                draft.has_mem_info = true;
                counters(report, &tokens, record.is_open_ended);
            }
            Kind::Counters => counters(report, &tokens, record.is_open_ended),
            Kind::PerCpu => {
                if let (_, Some(name), _) = place(&tokens) {
                    draft.names.push(name.to_owned());
                }
            }
            Kind::Node => report.nodes.extend(Node::read(&tokens)),
            Kind::Zone => {
                let Some(zone) = Zone::read(&tokens, record.is_open_ended) else { return };
                let at = match draft.zone(zone.node, &zone.name) {
                    // The free list came before the line.
                    Some(at) => {
                        let list = draft.report.zones[at].list.take();
                        draft.report.zones[at] = Zone { list, ..zone };
                        at
                    }
                    None => {
                        draft.report.zones.push(zone);
                        draft.report.zones.len() - 1
                    }
                };
                self.zones_open.push_back((index, at));
            }
            Kind::List => {
                let (node, Some(name), at) = place(&tokens) else { return };
                let list = FreeList::read(&tokens[at..]);
                let name = name.to_owned();
                match draft.zone(node, &name) {
                    Some(at) => drop(draft.report.zones[at].list.get_or_insert(list)),
                    None => {
                        draft.report.zones.push(Zone {
                            node,
                            name,
                            list: Some(list),
                            ..Zone::default()
                        });
                    }
                }
            }
            Kind::HugePages => report.hugepages.extend(HugePages::read(&tokens)),
            Kind::Pages => {
                let cache = report.pages.line(&tokens);
                report.swap.cache_pages = report.swap.cache_pages.or(cache);
                draft.is_complete |= report.pages.ram.is_some();
            }
            Kind::Swap => {
                let kb =
                    tokens.iter().find_map(|token| super::zone::kb(token.trim_start_matches('=')));
                let field = if tokens[0] == "Free" {
                    &mut report.swap.free
                } else {
                    &mut report.swap.total
                };
                *field = field.or(kb);
            }
            Kind::TaskHeader => report.tasks.header(text),
            Kind::TaskRow => report.tasks.row(text, record.is_open_ended),
            Kind::SlabHead => draft.in_slabs = true,
            Kind::SlabRow => report.slabs.extend(SlabRow::read(&tokens)),
            Kind::SiteRow => report.sites.extend(SiteRow::read(&tokens)),
            Kind::Cpuset => {
                let (cpuset, mems) = cpuset_line(text, record.is_open_ended);
                report.request.cpuset = report.request.cpuset.take().or(cpuset);
                report.request.mems_allowed = report.request.mems_allowed.take().or(mems);
            }
            Kind::MemcgUsage => {
                report
                    .memcg
                    .get_or_insert_with(Memcg::default)
                    .usage(&tokens, record.is_open_ended);
            }
            Kind::MemcgTask => report.memcg.get_or_insert_with(Memcg::default).task(text),
            Kind::MemcgStats => {
                report.memcg.get_or_insert_with(Memcg::default).stats_line(&tokens);
                draft.in_stats = true;
            }
            Kind::MemcgStat if !record.is_open_ended => {
                report.memcg.get_or_insert_with(Memcg::default).stat(&tokens);
            }
            _ => {}
        }
    }

    /// The report that a part belongs to; none if it belongs to nothing.
    fn owner(
        &mut self,
        record: &Record,
        tokens: &[String],
        caller: &Option<String>,
    ) -> Option<usize> {
        let own =
            self.open.get(caller).copied().filter(|&index| is_near(&self.drafts[index], record));
        // These are short lines that other texts have, too.
        let is_weak = |draft: &Draft| match record.kind {
            Kind::MemcgStat => draft.in_stats,
            Kind::SlabRow | Kind::SlabHead => draft.in_slabs || record.kind == Kind::SlabHead,
            Kind::TaskRow => !draft.report.tasks.columns.is_empty() || draft.is_oom(),
            Kind::Cpuset => draft.head.is_some() && !draft.has_dump(),
            _ => true,
        };
        if !is_dump(record.kind) {
            let is_start = matches!(
                record.kind,
                Kind::MemcgUsage | Kind::MemcgTask | Kind::MemcgStats | Kind::TaskHeader
            );
            let goes_on = |draft: &Draft| {
                let is_next = draft.has_killed || draft.has_other_usage(record.kind, tokens);
                !is_start || ((draft.is_oom() || draft.head.is_none()) && !is_next)
            };
            return match own.filter(|&index| is_weak(&self.drafts[index])) {
                Some(index) if goes_on(&self.drafts[index]) => Some(index),
                _ if is_start => Some(self.start(record, caller.clone())),
                _ => None,
            };
        }
        // Of two reports that alternate, the earlier one is ahead.
        if let Some(own) = own
            && let Some(first) = self.drafts[own].mixed_with.filter(|_| caller.is_none())
            && record.kind != Kind::List
            && !has(&self.drafts[first], record.kind, tokens)
        {
            (self.drafts[own].is_mixed, self.drafts[first].is_mixed) = (true, true);
            return Some(first);
        }
        let own_lacks = own.filter(|&index| !has(&self.drafts[index], record.kind, tokens));
        if own_lacks.is_some() && record.kind != Kind::List {
            return own_lacks;
        }
        // Two reports that alternate: one of the last ones lacks this part.
        let recent = self.drafts.len().saturating_sub(3)..self.drafts.len();
        let mut others = recent.rev().filter(|&index| {
            let draft = &self.drafts[index];
            Some(index) != own
                && caller.is_none()
                && draft.head.is_some()
                && !draft.is_complete
                && is_near(draft, record)
                && !has(draft, record.kind, tokens)
        });
        // A free list belongs to the zone line whose free memory it has.
        let other = match record.kind {
            Kind::List => {
                let fitting =
                    others.chain(own_lacks).min_by_key(|&index| self.distance(index, tokens));
                if fitting == own_lacks && own_lacks.is_some() {
                    return own_lacks;
                }
                fitting
            }
            _ => others.next_back(),
        };
        if let Some(index) = other {
            self.drafts[index].is_mixed = true;
            if let Some(own) = own {
                self.drafts[own].is_mixed = true;
            }
            return Some(index);
        }
        match record.kind {
            Kind::MemInfo | Kind::Counters | Kind::Node | Kind::Zone => {
                Some(self.start(record, caller.clone()))
            }
            _ if own.is_none() => Some(self.start(record, caller.clone())),
            _ => None,
        }
    }

    /// Difference between a free list and the free memory of its zone's line, kB.
    fn distance(&self, index: usize, tokens: &[String]) -> u64 {
        let (node, Some(name), at) = place(tokens) else { return u64::MAX };
        let draft = &self.drafts[index];
        let free = draft.zone(node, name).and_then(|zone| draft.report.zones[zone].free);
        match (free, FreeList::read(&tokens[at..]).total_kb) {
            (Some(free), Some(total)) => free.abs_diff(total),
            _ => u64::MAX,
        }
    }

    /// `lowmem_reserve[]` belongs to the zone line before it.
    fn lowmem(&mut self, index: usize, record: &Record, tokens: &[String]) {
        let same = |a: &Zone, b: &Zone| a.node == b.node && a.name == b.name;
        let zone = |at: (usize, usize)| &self.drafts[at.0].report.zones[at.1];
        // The lines of two reports alternate if the same zone waits twice: the first one first.
        let alternate = match (self.zones_open.front(), self.zones_open.back()) {
            (Some(&first), Some(&last)) => {
                first != last && record.prefix.caller.is_none() && same(zone(first), zone(last))
            }
            _ => false,
        };
        let found = if alternate {
            self.zones_open.pop_front()
        } else {
            let own = self.zones_open.iter().rev().find(|(draft, _)| *draft == index).copied();
            self.zones_open.retain(|(draft, _)| *draft != index);
            own
        };
        let draft = self.cover(index, record);
        let columns = lowmem_reserve(tokens, record.is_open_ended);
        if let (Some((owner, at)), Some(columns)) = (found, columns) {
            draft.is_mixed |= alternate;
            let zone = &mut self.drafts[owner].report.zones[at];
            zone.lowmem_reserve.get_or_insert(columns);
        }
    }

    fn finish(self) -> Vec<Report> {
        let drafts = late::joined(self.drafts);
        let only_release = (self.releases.len() == 1).then(|| self.releases[0].clone());
        let arch = self.arch;
        let kept = drafts.into_iter().filter(|draft| match &draft.head {
            Some(head) => !head.is_hung_task || draft.has_reclaim_trace,
            None => draft.has_dump() || draft.report.kill.is_some() || draft.report.memcg.is_some(),
        });
        kept.map(|draft| draft.finish(only_release.as_ref(), arch)).collect()
    }
}

/// True for lines of the memory dump.
fn is_dump(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MemInfo
            | Kind::PerCpu
            | Kind::Counters
            | Kind::Node
            | Kind::Zone
            | Kind::Lowmem
            | Kind::List
            | Kind::HugePages
            | Kind::Pages
            | Kind::Swap
    )
}

/// A line of a stack: hexadecimal words only.
fn is_hex(text: &str) -> bool {
    let words = text.split(|c: char| c.is_whitespace() || c == ':').filter(|word| !word.is_empty());
    let hex = words.filter(|w| *w != "Stack");
    let mut count = 0;
    let all = hex
        .inspect(|_| count += 1)
        .all(|w| w.len() >= 8 && w.bytes().all(|b| b.is_ascii_hexdigit()));
    all && count > 1
}
