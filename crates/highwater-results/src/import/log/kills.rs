//! Lines about kills: the report of each, and the kill of several that it is about.
//!
//! The OOM killer prints the process that it chose, the one that it killed (before 5.1 perhaps a
//! child of the first), and with `memory.oom.group` all tasks of the cgroup. A line that names yet
//! another process begins a report of its own.

use super::build::Builder;
use super::draft::{Draft, is_near};
use super::kill::Kill;
use super::kind::Kind;
use super::memcg::Memcg;
use super::record::Record;
use super::request::{cpuset_line, value_after};

/// Seconds between two tasks that are killed because of `memory.oom.group`.
const GROUP_SECONDS_MAX: f64 = 2.0;
/// Reports before the last one that a line may still belong to.
const RECENT_MAX: usize = 4;

impl Builder {
    pub(super) fn kill(&mut self, record: &Record, text: &str, caller: Option<String>) {
        // Before 4.6 each process that shares the memory has a line; the victim stays the first.
        if text.contains("sharing same memory") {
            return;
        }
        let is_reaper = text.contains("oom_reaper:");
        let victim = Kill::victim(text, record.is_open_ended);
        let own = self.open.get(&caller).copied();
        let index = if is_reaper {
            self.of_reaper(record, own, victim)
        } else {
            let fits = |&index: &usize| is_of_kill(&self.drafts[index], record);
            let recent = self.drafts.len().saturating_sub(RECENT_MAX)..self.drafts.len();
            own.filter(fits)
                .or_else(|| recent.rev().find(fits))
                .filter(|&index| !is_next_kill(&self.drafts[index], record, text, victim))
        };
        // Words about a group are a message only behind a kill, or if the whole line is there.
        let is_said = record.kind == Kind::OomGroup
            && !(text.starts_with("Tasks in /") && text.contains("going to be killed due"));
        let index = match index {
            Some(index) if is_said && self.drafts[index].report.kill.is_none() => return,
            Some(index) => index,
            None if is_reaper || is_said => return,
            None => self.start(record, caller),
        };
        let draft = self.cover(index, record);
        (draft.in_stats, draft.in_slabs) = (false, false);
        if !is_reaper {
            draft.kill_time = record.prefix.time.or(draft.kill_time);
        }
        let kill = draft.report.kill.get_or_insert_with(Kill::default);
        let is_killed = text.contains("Killed process");
        match record.kind {
            Kind::OomGroup => kill.is_group = true,
            Kind::OomKill => {
                let constraint = kill.oom_kill(text, record.is_open_ended);
                draft.report.constraint = constraint.or(draft.report.constraint.take());
                let (cpuset, mems) =
                    cpuset_line(&text.replace(",cpuset=", " cpuset="), record.is_open_ended);
                let nodemask = value_after(text, "nodemask=", record.is_open_ended);
                let request = &mut draft.report.request;
                // Since 5.0 an OOM kill prints it here only.
                request.nodemask = request.nodemask.take().or(nodemask.map(str::to_owned));
                request.cpuset = request.cpuset.take().or(cpuset);
                request.mems_allowed = request.mems_allowed.take().or(mems);
            }
            _ if kill.is_group && is_killed => {
                draft.group.extend(victim.filter(|_| victim != kill.pid));
                kill.nr_group_kills = draft.group.len() as u64;
            }
            _ => kill.line(text, record.is_open_ended),
        }
        draft.has_killed |= is_killed;
        if text.contains("Memory cgroup out of memory") {
            draft.report.memcg.get_or_insert_with(Memcg::default);
        }
    }

    /// The report of the kill whose victim the OOM reaper names.
    fn of_reaper(&self, record: &Record, own: Option<usize>, pid: Option<i64>) -> Option<usize> {
        let recent = self.drafts.len().saturating_sub(RECENT_MAX)..self.drafts.len();
        let kill = |index: usize| self.drafts[index].report.kill.as_ref();
        let named = recent
            .clone()
            .rev()
            .find(|&index| pid.is_some() && kill(index).is_some_and(|kill| kill.pid == pid));
        let fits =
            |&index: &usize| is_of_kill(&self.drafts[index], record) || kill(index).is_some();
        named.or_else(|| own.filter(fits)).or_else(|| recent.rev().find(fits))
    }
}

/// True if a report may have the line of a kill.
fn is_of_kill(draft: &Draft, record: &Record) -> bool {
    (draft.is_oom() || draft.head.is_none()) && is_near(draft, record)
}

/// True if a line is about the kill after the one of the report.
fn is_next_kill(draft: &Draft, record: &Record, text: &str, victim: Option<i64>) -> bool {
    let Some(kill) = &draft.report.kill else { return false };
    if victim.is_none() || kill.pid == victim {
        return false;
    }
    let is_killed = text.contains("Killed process");
    if kill.is_group && is_killed {
        let (before, after) = (draft.kill_time, record.prefix.time);
        return before.zip(after).is_some_and(|(a, b)| (b - a).abs() > GROUP_SECONDS_MAX);
    }
    // The process that was chosen has a line before the one that is killed.
    draft.has_killed || (kill.pid.is_some() && !is_killed)
}

#[cfg(test)]
mod tests {
    use super::super::ReportKind;
    use super::super::tests::{MEMCG, one, read};

    /// The lines of one kill of a memory cgroup, at a time.
    fn kill_of(seconds: u32, pid: u32, name: &str) -> String {
        format!(
            "[  {seconds}.000001] Memory cgroup out of memory: Killed process {pid} ({name}) \
         total-vm:40kB, anon-rss:8kB\n"
        )
    }

    #[test]
    fn each_kill_is_a_report() {
        let two = kill_of(500, 71, "weaver") + &kill_of(525, 72, "dyer");
        let log = read(&two);
        let pids: Vec<_> = log.reports.iter().map(|r| r.kill.as_ref().unwrap().pid).collect();
        assert_eq!(pids, [Some(71), Some(72)]);
        // Without its head, and with a clock that goes back.
        let later =
            MEMCG.split_once('\n').unwrap().1.replace("6021", "6022").replace("500.", "480.");
        let log = read(&format!("{}{later}", MEMCG.split_once('\n').unwrap().1));
        let pids: Vec<_> = log.reports.iter().map(|r| r.kill.as_ref().unwrap().pid).collect();
        assert_eq!(pids, [Some(6021), Some(6022)]);
        let rows: Vec<_> = log.reports.iter().map(|r| r.tasks.rows.len()).collect();
        assert_eq!(rows, [1, 1]);
        // A head and a kill are missing, and the usage of the next one differs.
        let usage = |failcnt: u32| format!("memory: usage 8kB, limit 8kB, failcnt {failcnt}\n");
        assert_eq!(read(&format!("{}swap: off\n{}", usage(3), usage(5))).reports.len(), 2);
        assert_eq!(read(&format!("{}swap: off\n{}", usage(3), usage(3))).reports.len(), 1, "twice");
        let wrapped = kill_of(500, 71, "weaver")
            + "[  501.000001] Memory cgroup out of memory: Kill process 72 \n(dyer) score 9 or \
           sacrifice child\n[  501.000002] Killed process 72 (dyer) anon-rss:8kB\n";
        let log = read(&wrapped);
        assert_eq!((log.reports.len(), log.reports[1].kind), (2, ReportKind::MemcgOom));
        // A child dies in place of the process that was chosen, and shares its memory.
        let child = "Out of memory: Kill process 71 (weaver) score 9 or sacrifice child\n\
                 Killed process 72 (dyer) total-vm:40kB, anon-rss:8kB, file-rss:4kB\n\
                 Kill process 73 (carder) sharing same memory\n";
        let kill = one(child).kill.unwrap();
        assert_eq!((kill.pid, kill.name.as_deref()), (Some(72), Some("dyer")));
    }

    #[test]
    fn a_broken_line_of_a_kill() {
        let text = MEMCG
            .replace("task_memcg=/loom/warp", "task_memcg=/loom/w\narp")
            .replace("300 weaver", "300 wea\nver")
            .replace("shmem-rss:0kB, UID", "sh\nmem-rss:0k\nB, UID");
        let (report, right) = (one(&text), one(MEMCG));
        assert_eq!((report.kill, report.tasks), (right.kill, right.tasks));
    }

    #[test]
    fn a_group_that_dies_together() {
        let group = format!(
            "{}[  500.000002] Tasks in /loom are going to be killed due to memory.oom.group \
             set\n{}{}",
            kill_of(500, 71, "weaver"),
            kill_of(500, 72, "dyer"),
            kill_of(501, 73, "carder")
        );
        let kill = one(&group).kill.unwrap();
        assert_eq!((kill.pid, kill.name.as_deref()), (Some(71), Some("weaver")));
        assert!(kill.is_group && kill.nr_group_kills == 2);
        let log = read(&format!("{group}{}", kill_of(520, 74, "spinner")));
        assert_eq!(log.reports[1].kill.as_ref().unwrap().pid, Some(74), "another kill");
        assert!(read("I had memory.oom.group set for all of them\n").reports.is_empty());
    }

    #[test]
    fn a_page_fault_without_memory() {
        let fault = "weaver invoked oom-killer: gfp_mask=0x0(), order=0, oom_score_adj=0\n\
                 CPU: 2 PID: 71 Comm: weaver Not tainted 5.15.0 #5\n\
                 \x20pagefault_out_of_memory+0x46/0x60\n";
        assert_eq!(one(fault).kind, ReportKind::Oom);
        let panic =
            "Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled\n";
        let asked = fault.replace("pagefault_", "ordered_");
        assert_eq!(one(&asked).kind, ReportKind::Other);
        let report = one(&format!("{asked}{panic}"));
        assert_eq!(report.kind, ReportKind::Oom);
        assert!(report.kill.unwrap().has_panicked);
    }
}
