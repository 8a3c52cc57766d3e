//! The part of a report about a memory cgroup.
//!
//! ```text
//! Task in /a/b killed as a result of limit of /a            up to 4.18
//! memory: usage 4kB, limit 4kB, failcnt 0
//! memory+swap: usage 4kB, limit 4kB, failcnt 0              version 1 of the interface
//! swap: usage 4kB, limit 4kB, failcnt 0                     version 2
//! kmem: usage 4kB, limit 4kB, failcnt 0
//! Memory cgroup stats for /a: cache:4KB rss:4KB ...         up to 5.2
//! Memory cgroup stats for /a:                               since 5.3: rows of memory.stat, bytes
//! anon 4096
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

use super::zone::{is_counter_name, kb, number};

/// A memory cgroup at its limit. Sizes are kB as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memcg {
    /// Cgroup whose limit is reached.
    pub path: Option<String>,
    /// Cgroup of the process (up to 4.18).
    pub task_path: Option<String>,
    /// `memory`.
    pub memory: Option<MemcgLimit>,
    /// `swap` (version 2 of the interface).
    pub swap: Option<MemcgLimit>,
    /// `memory+swap` (version 1).
    pub memory_and_swap: Option<MemcgLimit>,
    /// `kmem` (version 1).
    pub kmem: Option<MemcgLimit>,
    /// Statistics by name, up to 5.2, kB.
    pub stats_kb: BTreeMap<String, u64>,
    /// Rows of `memory.stat` by name, since 5.3: bytes, and counts of events.
    pub stats: BTreeMap<String, u64>,
}

/// Usage and limit of one resource of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemcgLimit {
    /// Usage, kB.
    pub usage: u64,
    /// Limit, kB. 9007199254740988 or more means that there is none.
    pub limit: u64,
    /// How often the limit was reached.
    pub failcnt: Option<u64>,
}

impl MemcgLimit {
    /// True if the limit is the largest number that the interface knows.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        /// 2^53 kB less a page: the largest count of 4 KiB pages in 63 bits.
        const UNLIMITED_KB: u64 = 9_007_199_254_740_000;
        self.limit >= UNLIMITED_KB
    }
}

impl Memcg {
    /// A size of either form of the statistics, kB.
    #[must_use]
    pub fn stat_kb(&self, name: &str) -> Option<u64> {
        let bytes = self.stats.get(name);
        bytes.map(|bytes| bytes / 1024).or_else(|| self.stats_kb.get(name).copied())
    }

    /// Adds `memory: usage 4kB, limit 4kB, failcnt 0`.
    pub(super) fn usage(&mut self, tokens: &[String], is_open_ended: bool) {
        let after = |key: &str| {
            let at = tokens.iter().position(|token| token == key)?;
            tokens.get(at + 1).map(|token| token.trim_end_matches(','))
        };
        let (Some(usage), Some(limit)) = (after("usage").and_then(kb), after("limit").and_then(kb))
        else {
            return;
        };
        let is_whole = !is_open_ended || tokens.last().map(String::as_str) != after("failcnt");
        let failcnt = after("failcnt").and_then(number).filter(|_| is_whole);
        let read = MemcgLimit { usage, limit, failcnt };
        let field = match tokens[0].as_str() {
            "memory:" => &mut self.memory,
            "swap:" => &mut self.swap,
            "memory+swap:" => &mut self.memory_and_swap,
            _ => &mut self.kmem,
        };
        field.get_or_insert(read);
    }

    /// Adds `Task in /a/b killed as a result of limit of /a`.
    pub(super) fn task(&mut self, text: &str) {
        let Some((task, limit)) = text.split_once(" killed as a result of limit of ") else {
            return;
        };
        self.task_path = task.strip_prefix("Task in ").map(str::to_owned);
        self.path = Some(limit.trim().to_owned());
    }

    /// Adds `Memory cgroup stats for /a: cache:4KB ...`.
    pub(super) fn stats_line(&mut self, tokens: &[String]) {
        let at = tokens.iter().position(|token| token == "for").map_or(tokens.len(), |at| at + 1);
        if let Some(path) = tokens.get(at).and_then(|path| path.strip_suffix(':')) {
            self.path.get_or_insert_with(|| path.to_owned());
        }
        for token in tokens {
            let Some((name, value)) = token.split_once(':') else { continue };
            if let (true, Some(kb)) = (is_counter_name(name), kb(value)) {
                self.stats_kb.entry(name.to_owned()).or_insert(kb);
            }
        }
        // Rows of memory.stat that ran together.
        for pair in tokens[at.min(tokens.len())..].windows(2) {
            let is_name = pair[0].bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            if is_name {
                self.stat(pair);
            }
        }
    }

    /// Adds a row of `memory.stat`.
    pub(super) fn stat(&mut self, tokens: &[String]) {
        if let [name, value] = tokens
            && let Some(value) = number(value)
        {
            self.stats.entry(name.clone()).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn both_dialects() {
        let mut memcg = Memcg::default();
        memcg.task("Task in /a/b killed as a result of limit of /a");
        memcg.usage(&tokens("memory: usage 8kB, limit 12kB, failcnt 3"), false);
        memcg.usage(&tokens("memory+swap: usage 8kB, limit 9007199254740988kB, failcnt 0"), false);
        memcg.stats_line(&tokens("Memory cgroup stats for /a: cache:4KB rss:8KB"));
        assert_eq!(memcg.memory, Some(MemcgLimit { usage: 8, limit: 12, failcnt: Some(3) }));
        assert!(memcg.memory_and_swap.unwrap().is_unlimited());
        assert_eq!((memcg.path.as_deref(), memcg.task_path.as_deref()), (Some("/a"), Some("/a/b")));
        assert_eq!(memcg.stats_kb["rss"], 8);
        let mut memcg = Memcg::default();
        memcg.stats_line(&tokens("Memory cgroup stats for /c:"));
        memcg.stat(&tokens("anon 4096"));
        assert_eq!((memcg.path.as_deref(), memcg.stats["anon"]), (Some("/c"), 4096));
    }

    #[test]
    fn cut_numbers_are_left_out() {
        let mut memcg = Memcg::default();
        memcg.usage(&tokens("memory: usage 8kB, limit 12"), true);
        assert_eq!(memcg.memory, None);
        memcg.usage(&tokens("memory: usage 8kB, limit 12kB, failcnt 3"), true);
        assert_eq!(memcg.memory.unwrap().failcnt, None);
    }
}
