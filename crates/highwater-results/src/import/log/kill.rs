//! The kill that followed a request.
//!
//! ```text
//! oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,...,task=name,pid=12,uid=0
//! Out of memory: Killed process 12 (name) total-vm:4kB, anon-rss:4kB, file-rss:4kB, ...
//! Tasks in /a are going to be killed due to memory.oom.group set
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

use super::request::{number_after, value_after};
use super::zone::{is_counter_name, kb};

/// The process that the OOM killer chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kill {
    /// Process id.
    pub pid: Option<i64>,
    /// Name.
    pub name: Option<String>,
    /// User.
    pub uid: Option<u32>,
    /// Badness, where printed (before 5.1).
    pub score: Option<u64>,
    /// `total-vm`, `anon-rss`, `file-rss`, `shmem-rss`, `pgtables` and their like, kB.
    pub memory_kb: BTreeMap<String, u64>,
    /// `oom_score_adj`.
    pub oom_score_adj: Option<i32>,
    /// Cgroup whose limit is reached.
    pub oom_memcg: Option<String>,
    /// Cgroup of the process.
    pub task_memcg: Option<String>,
    /// True if the line says `global_oom`.
    pub is_global: bool,
    /// True if the OOM reaper freed its memory.
    pub is_reaped: bool,
    /// True if there was nobody to kill.
    pub has_no_victim: bool,
    /// True if the kernel panicked instead.
    pub has_panicked: bool,
    /// True if all tasks of its cgroup die with it (`memory.oom.group`, since 4.19).
    pub is_group: bool,
    /// Tasks killed with it because of `memory.oom.group`, as far as the text lists them; the
    /// process itself does not count.
    pub nr_group_kills: u64,
}

/// A name in brackets, which may have brackets itself: `(sd-pam)` in `((sd-pam)) total-vm:4kB`.
fn name_in_brackets(text: &str) -> Option<&str> {
    let (_, name) = text.split_once('(')?;
    let is_end = |at: usize| name[at + 1..].chars().next().is_none_or(|next| next != ')');
    let end = name.match_indices(')').map(|(at, _)| at).find(|at| is_end(*at))?;
    Some(&name[..end])
}

impl Kill {
    /// Adds what `oom-kill:constraint=...` says. Returns the constraint, as printed after
    /// `CONSTRAINT_`.
    pub(super) fn oom_kill(&mut self, text: &str, is_open_ended: bool) -> Option<String> {
        let path = |key| value_after(text, key, is_open_ended).map(str::to_owned);
        self.oom_memcg = path(",oom_memcg=").or(self.oom_memcg.take());
        self.task_memcg = path(",task_memcg=").or(self.task_memcg.take());
        self.is_global |= text.contains(",global_oom");
        // A name may have blanks.
        let named = text.split_once(",task=").and_then(|(_, rest)| rest.split_once(",pid="));
        let named = named.map(|(name, _)| name.to_owned());
        self.name = named.or_else(|| path(",task=")).or(self.name.take());
        self.pid = number_after(text, ",pid=", is_open_ended).or(self.pid);
        self.uid = number_after(text, ",uid=", is_open_ended).or(self.uid);
        path("constraint=CONSTRAINT_").or_else(|| path("constraint="))
    }

    /// The process that a line about a kill names.
    pub(super) fn victim(text: &str, is_open_ended: bool) -> Option<i64> {
        if let Some((_, rest)) = text.split_once("oom_reaper: reaped process ") {
            return rest.split(' ').next()?.parse().ok();
        }
        let pid = ["Killed process ", "Kill process ", "kill process "].iter().find_map(|key| {
            let rest = &text[text.find(key)? + key.len()..];
            // Without the name behind it the number may be cut.
            rest.split([' ', ',']).next()?.parse().ok().filter(|_| rest.contains('('))
        });
        pid.or_else(|| number_after(text, ",pid=", is_open_ended))
    }

    /// Adds what a line about the victim says.
    pub(super) fn line(&mut self, text: &str, is_open_ended: bool) {
        // The kernel says that it is deadlocked where it finds nobody to kill.
        let is_deadlocked = text.contains("deadlocked on memory");
        self.has_no_victim |= text.contains("no killable process") || is_deadlocked;
        self.has_panicked |= text.contains("Kernel panic") || text.contains("panic_on_oom");
        if let Some(rest) = text.split("oom_reaper: reaped process ").nth(1) {
            let pid = rest.split(' ').next().and_then(|pid| pid.parse().ok());
            self.is_reaped |= pid.is_some() && (self.pid == pid || self.pid.is_none());
            return;
        }
        let Some(at) = ["Killed process ", "Kill process ", "kill process "]
            .iter()
            .find_map(|key| Some(text.find(key)? + key.len()))
        else {
            return;
        };
        let rest = &text[at..];
        self.pid = Kill::victim(text, is_open_ended).or(self.pid);
        self.name = name_in_brackets(rest).map(str::to_owned).or(self.name.take());
        self.score = number_after(rest, ") score ", true).or(self.score);
        self.uid =
            number_after(rest, "UID:", true).or(number_after(rest, ", UID ", true)).or(self.uid);
        let last = rest.split([' ', ',']).next_back();
        for token in rest.split([' ', ',']) {
            let Some((name, value)) = token.split_once(':') else { continue };
            let is_name = is_counter_name(&name.replace('-', "_"));
            if let (true, Some(kb)) = (is_name, kb(value)) {
                self.memory_kb.insert(name.to_owned(), kb);
            } else if name == "oom_score_adj" && !(is_open_ended && last == Some(token)) {
                self.oom_score_adj = value.parse().ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kill() {
        let mut kill = Kill::default();
        let constraint = kill.oom_kill(
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
             oom_memcg=/a,task_memcg=/a/b,task=x,pid=12,uid=5",
            false,
        );
        assert_eq!(constraint.as_deref(), Some("MEMCG"));
        kill.line(
            "Memory cgroup out of memory: Killed process 12 (x) total-vm:40kB, anon-rss:8kB, \
             UID:5 pgtables:4kB oom_score_adj:-7",
            false,
        );
        assert_eq!(
            (kill.pid, kill.name.as_deref(), kill.oom_score_adj),
            (Some(12), Some("x"), Some(-7))
        );
        assert_eq!((kill.memory_kb["anon-rss"], kill.memory_kb["pgtables"]), (8, 4));
        kill.line("oom_reaper: reaped process 12 (x), now anon-rss:0kB, file-rss:0kB", false);
        assert!(kill.is_reaped && kill.memory_kb["anon-rss"] == 8);
        let mut old = Kill::default();
        old.line("Out of memory: Kill process 12 (x) score 612 or sacrifice child", false);
        old.line("Killed process 12, UID 5, (x) total-vm:40kB, anon-rss:8kB, file-rss:4kB", false);
        assert_eq!((old.score, old.uid, old.memory_kb["file-rss"]), (Some(612), Some(5), 4));
    }

    #[test]
    fn a_number_at_a_cut_end_is_left_out() {
        let mut kill = Kill::default();
        kill.line("Out of memory: Killed process 12 (x) anon-rss:59", true);
        kill.line("Out of memory: Killed process 12 (x) anon-rss:", true);
        assert!(kill.memory_kb.is_empty());
        kill.line("Out of memory: Killed process 12 (x) pgtables:4kB oom_score_adj:30", true);
        assert_eq!(kill.oom_score_adj, None);
        kill.line("Out of memory: Killed process 12 (x) pgtables:4kB oom_score_adj:30", false);
        assert_eq!(kill.oom_score_adj, Some(30));
        assert_eq!(Kill::victim("Out of memory: Killed process 12", true), None);
    }

    #[test]
    fn a_machine_without_a_victim_panics() {
        let mut kill = Kill::default();
        kill.line("Kernel panic - not syncing: System is deadlocked on memory", false);
        assert!(kill.has_panicked && kill.has_no_victim);
        let mut kill = Kill::default();
        let text = "Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled";
        kill.line(text, false);
        assert!(kill.has_panicked && !kill.has_no_victim);
    }

    #[test]
    fn names_with_brackets_blanks_and_words_of_the_kernel() {
        let named = |text: &str| {
            let mut kill = Kill::default();
            kill.line(text, false);
            (kill.name, kill.has_panicked)
        };
        let line = |name: &str| format!("Killed process 9 ({name}) total-vm:4kB, anon-rss:4kB");
        for name in ["(sd-pam)", "panic-mon", "a b"] {
            assert_eq!(named(&line(name)), (Some(name.to_owned()), false));
        }
        let mut kill = Kill::default();
        kill.oom_kill("oom-kill:constraint=CONSTRAINT_NONE,task=Web Content,pid=9,uid=0", false);
        assert_eq!((kill.name.as_deref(), kill.pid), (Some("Web Content"), Some(9)));
        assert!(named("Kernel panic - not syncing: Out of memory: system-wide panic_on_oom").1);
    }
}
