//! The kernel's report of an OOM kill, as in a kernel log (rules/shrinkers-and-oom#oom-report).
//!
//! Two things are missing: the task's kernel stack (there is no real kernel), and user ids (all are
//! zero). A process has the number and the name of its address space.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use super::Candidate;
use crate::host::{CpuId, Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::{Order, PAGE_SIZE};
use crate::page_alloc::Gfp;
use crate::proc::{SwapSpace, mem_info};
use crate::units::{GroupId, NodeMask};
use crate::vm::Mm;

/// Most kills whose whole reports are kept; for later ones only the line about the victim.
const WHOLE_MAX: usize = 4;
/// Most kills of which anything is kept.
const REPORTS_MAX: usize = 256;
const KB_PER_PAGE: u64 = PAGE_SIZE as u64 / 1024;

/// Reports, kill by kill.
#[derive(Debug, Default)]
pub(super) struct Log {
    reports: Vec<OomReport>,
}

/// A kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomReport {
    /// When, nanoseconds since boot.
    pub at_ns: u64,
    /// Lines of the kernel log, each with its newline.
    pub text: String,
    /// The process that was chosen; none if the machine stopped instead.
    pub victim: Option<String>,
}

/// The allocating task, the candidates, and the victim.
pub(in crate::reclaim) struct Kill<'a, H: Tasks> {
    pub(in crate::reclaim) asked: (Gfp, Order),
    pub(in crate::reclaim) mms: &'a [Arc<Mm<H>>],
    pub(in crate::reclaim) candidates: &'a [Candidate],
    /// None: the machine stops.
    pub(in crate::reclaim) victim: Option<usize>,
    /// Nodes that the request is limited to, if it is.
    pub(in crate::reclaim) nodes: Option<NodeMask>,
    pub(in crate::reclaim) by_policy: bool,
    pub(in crate::reclaim) why: Why,
}

/// Why the victim was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::reclaim) enum Why {
    /// It has the most memory.
    Most,
    /// It asked (`vm.oom_kill_allocating_task`).
    Allocating,
    /// It has the most memory of those in a memory cgroup, whose limit is the reason.
    Group(GroupId),
    /// Its memory cgroup goes as a whole (`memory.oom.group`).
    Whole(GroupId),
    /// There is none: `vm.panic_on_oom` is 1.
    Panic,
    /// There is none: `vm.panic_on_oom` is 2.
    PanicAlways,
}

impl<H: Tasks> Mm<H> {
    /// Its name in reports; a task without a name is a "task".
    pub fn name(&self, cpu: CpuId) -> Arc<str> {
        let name = self.name.lock(cpu).clone();
        name.unwrap_or_else(|| Arc::from("task"))
    }

    /// From now on reports call it so.
    pub fn set_name(&self, cpu: CpuId, name: &str) {
        *self.name.lock(cpu) = Some(Arc::from(name));
    }
}

impl<H: Devices> Kernel<H> {
    /// The kernel log of kills, in order: full reports of the first few, the victim of later ones.
    pub fn oom_reports(&self, cpu: CpuId) -> Vec<OomReport> {
        self.oom.log.lock(cpu).reports.clone()
    }

    /// Takes a kill down.
    pub(in crate::reclaim) fn report_kill(&self, cx: &Cx<'_, H>, kill: &Kill<'_, H>) {
        let nr_before = self.oom.log.lock(cx.cpu()).reports.len();
        if nr_before >= REPORTS_MAX {
            return;
        }
        let mut text = String::new();
        // A string takes all that is written to it.
        let _ = match nr_before < WHOLE_MAX {
            // The report was about the one that was chosen first.
            true if !matches!(kill.why, Why::Whole(_)) => self.whole_report(&mut text, cx, kill),
            _ => killed(&mut text, cx.cpu(), kill),
        };
        let victim = kill.victim.map(|at| String::from(&*kill.mms[at].name(cx.cpu())));
        let report = OomReport { at_ns: cx.host.now_ns(), text, victim };
        self.oom.log.lock(cx.cpu()).reports.push(report);
    }

    /// Writes the whole report of an OOM kill: the request, the memory, the tasks, the victim.
    #[doc(alias = "dump_header")]
    #[doc(alias = "dump_tasks")]
    fn whole_report(&self, w: &mut String, cx: &Cx<'_, H>, kill: &Kill<'_, H>) -> fmt::Result {
        let cpu = cx.cpu();
        let asking = kill.mms.iter().position(|mm| mm.has_task(cx));
        let adj = asking.map_or(0, |at| kill.candidates[at].adj);
        let name = asking.map_or_else(|| Arc::from("kthread"), |at| kill.mms[at].name(cpu));
        let (gfp, order) = (kill.asked.0, kill.asked.1.0);
        let bits = gfp.bits();
        writeln!(
            w,
            "{name} invoked oom-killer: gfp_mask={bits:#x}({gfp}), order={order}, oom_score_adj={adj}"
        )?;
        if let Why::Group(group) = kill.why {
            self.group_info(w, cx, group)?;
        } else {
            writeln!(w, "Mem-Info:")?;
            let swap = SwapSpace { free: self.swap.nr_free(), total: self.swap.nr_total() };
            let is_hopeless = |node| self.mem.node(node).is_hopeless();
            mem_info(w, &self.mem, cpu, is_hopeless, swap)?;
        }
        writeln!(w, "Tasks state (memory values in pages):")?;
        writeln!(
            w,
            "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name"
        )?;
        for (mm, seen) in kill.mms.iter().zip(kill.candidates) {
            let (id, name) = (mm.pid(), mm.name(cpu));
            let (total, tables) = (mm.total_pages(cpu), seen.tables * PAGE_SIZE as u64);
            let Candidate { rss, swap, adj, .. } = *seen;
            writeln!(
                w,
                "[{id:>7}] {:>5} {id:>5} {total:>8} {rss:>8} {tables:>8} {swap:>8}         {adj:>5} {name}",
                0
            )?;
        }
        let Some(victim) = kill.victim.map(|at| &kill.mms[at]) else {
            return killed(w, cpu, kill);
        };
        let constraint = match (kill.nodes, kill.by_policy) {
            _ if matches!(kill.why, Why::Group(_)) => "CONSTRAINT_MEMCG",
            (None, _) => "CONSTRAINT_NONE",
            (Some(_), true) => "CONSTRAINT_MEMORY_POLICY",
            (Some(_), false) => "CONSTRAINT_CPUSET",
        };
        write!(w, "oom-kill:constraint={constraint},nodemask=")?;
        match kill.nodes {
            None => w.write_str("(null)")?,
            Some(nodes) => listed(w, nodes)?,
        }
        w.write_str(",cpuset=/,mems_allowed=")?;
        listed(w, cx.mems_allowed().and(self.mem.nodes_with_memory()))?;
        match kill.why {
            Why::Group(group) => write!(w, ",oom_memcg={}", self.memcg.path(cpu, group))?,
            _ => w.write_str(",global_oom")?,
        }
        let (id, name) = (victim.pid(), victim.name(cpu));
        let of = self.memcg.path(cpu, victim.group());
        writeln!(w, ",task_memcg={of},task={name},pid={id},uid=0")?;
        killed(w, cpu, kill)
    }

    /// Writes what a report says of a group whose limit is the reason.
    #[doc(alias = "mem_cgroup_print_oom_meminfo")]
    fn group_info(&self, w: &mut String, cx: &Cx<'_, H>, group: GroupId) -> fmt::Result {
        let groups = &self.mem.groups;
        let second = match groups.memory.memsw() {
            None => ("swap", &groups.swap),
            Some(memsw) => ("memory+swap", memsw),
        };
        let counters = [("memory", &groups.memory), second];
        for (name, counters) in counters {
            let counter = &counters[group];
            let (usage, limit) = (counter.usage() * KB_PER_PAGE, counter.max() * KB_PER_PAGE);
            let failcnt = counter.failcnt();
            writeln!(w, "{name}: usage {usage}kB, limit {limit}kB, failcnt {failcnt}")?;
        }
        writeln!(w, "Memory cgroup stats for {}:", self.memcg.path(cx.cpu(), group))?;
        w.write_str(&self.group_stat_text(cx, group))
    }
}

/// Nodes by number.
fn listed(w: &mut String, nodes: NodeMask) -> fmt::Result {
    let mut is_first = true;
    let mut next = nodes.first();
    while let Some(node) = next {
        write!(w, "{}{}", if is_first { "" } else { "," }, node.0)?;
        is_first = false;
        next = nodes.after(node).filter(|after| after.0 > node.0);
    }
    Ok(())
}

/// The line about the victim, or about the stopped machine.
fn killed<H: Tasks>(w: &mut String, cpu: CpuId, kill: &Kill<'_, H>) -> fmt::Result {
    let why = match kill.why {
        Why::Most => "Out of memory",
        Why::Allocating => "Out of memory (oom_kill_allocating_task)",
        Why::Group(_) | Why::Whole(_) => "Memory cgroup out of memory",
        Why::Panic | Why::PanicAlways => {
            let kind = if kill.why == Why::PanicAlways { "compulsory" } else { "system-wide" };
            let text = "Kernel panic - not syncing: Out of memory";
            return writeln!(w, "{text}: {kind} panic_on_oom is enabled");
        }
    };
    let Some((mm, seen)) = kill.victim.map(|at| (&kill.mms[at], &kill.candidates[at])) else {
        return Ok(());
    };
    let kb = |pages: u64| pages * KB_PER_PAGE;
    let (id, name, total) = (mm.pid(), mm.name(cpu), kb(mm.total_pages(cpu)));
    let (anon, file) = (kb(seen.anon), kb(seen.rss - seen.anon));
    let (tables, adj) = (kb(seen.tables), seen.adj);
    writeln!(
        w,
        "{why}: Killed process {id} ({name}) total-vm:{total}kB, anon-rss:{anon}kB, file-rss:{file}kB, \
         shmem-rss:0kB, UID:0 pgtables:{tables}kB oom_score_adj:{adj}"
    )
}
