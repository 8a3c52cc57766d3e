//! Two halves of a line: which tokens a line end broke.

use super::kind::Kind;
use super::zone::{is_counter_name, kb, number};

/// Columns of the table of processes, in all versions.
const TASK_COLUMNS: [&str; 16] = [
    "uid",
    "tgid",
    "total_vm",
    "rss",
    "rss_anon",
    "rss_file",
    "rss_shmem",
    "nr_ptes",
    "nr_pmds",
    "nr_puds",
    "pgtables_bytes",
    "swapents",
    "cpu",
    "oom_adj",
    "oom_score_adj",
    "name",
];

/// True if a token is the first half of a counter's name, and the next has its second.
pub(super) fn is_half_name(last: &str, next: &str) -> bool {
    last.ends_with('_')
        && last.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        && next.starts_with(|c: char| c.is_ascii_lowercase())
        && next.contains([':', '?'])
}

/// How two tokens belong together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joint {
    /// They are one token.
    Glue,
    /// They are one number, and digits between them may be lost.
    Drop,
    /// They are two tokens.
    Apart,
}

/// How the last token of a line and the first of the next belong together.
pub(super) fn joint(last: &str, first: &str, kind: Kind) -> Joint {
    let value = last.rsplit([':', '*']).next().unwrap_or_default();
    let ends_in_number = number(value).is_some() && last.len() > value.len();
    let is_word = |s: &str| s.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let has_units = matches!(kind, Kind::Zone | Kind::Node | Kind::List);
    let is_number_apart = kind == Kind::List && number(last).is_some() && first.contains('*');
    let are_two_numbers =
        has_units && ends_in_number && kb(first).is_some() && !last.starts_with("pages_scanned");
    if is_number_apart || are_two_numbers {
        return Joint::Drop;
    }
    if kind == Kind::TaskHeader {
        let is_half = !TASK_COLUMNS.contains(&last) || !TASK_COLUMNS.contains(&first);
        let is_whole = is_half && TASK_COLUMNS.contains(&format!("{last}{first}").as_str());
        return if is_whole { Joint::Glue } else { Joint::Apart };
    }
    // `oom-kill:constraint=...` has no blank, but in the name of the process.
    if kind == Kind::OomKill {
        let is_in_name = last.contains(",task=") && !last.contains(",pid=");
        return if is_in_name { Joint::Apart } else { Joint::Glue };
    }
    let is_half_counter = kind == Kind::Kill && is_half_of_kill(last, first);
    let is_tail = first.starts_with([':', '*', ')']) && first.len() > 1;
    let is_unit = has_units && ends_in_number && matches!(first, "kB" | "KB");
    let is_half_unit = last.ends_with('k') && matches!(first, "B" | "B,");
    let is_open = last.contains('(') && !last.contains(')') && last.len() > 1;
    let is_half_name = matches!(kind, Kind::Zone | Kind::Node)
        && is_word(last)
        && !matches!(last, "yes" | "no")
        && first.split_once(':').is_some_and(|(name, _)| is_counter_name(name));
    if is_tail || is_half_counter || is_unit || is_half_unit || is_open || is_half_name {
        Joint::Glue
    } else {
        Joint::Apart
    }
}

/// True if a line about a killed process was broken in the name of a counter: `sh`, `mem-rss:4kB`.
fn is_half_of_kill(last: &str, first: &str) -> bool {
    const NAMES: [&str; 6] =
        ["total-vm", "anon-rss", "file-rss", "shmem-rss", "pgtables", "oom_score_adj"];
    let name = first.split_once(':').map_or("", |(name, _)| name);
    !NAMES.contains(&name) && NAMES.contains(&format!("{last}{name}").as_str())
}

/// A column of the table of processes, or a half of its name.
pub(super) fn is_column_part(token: &str) -> bool {
    TASK_COLUMNS.iter().any(|column| column.starts_with(token) || column.ends_with(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_lines_about_kills() {
        let of = |last, first| joint(last, first, Kind::OomKill);
        assert_eq!(of("oom-kill:constraint=A,oom_memcg=/loom-a", "b,task_memcg=/"), Joint::Glue);
        assert_eq!(of("oom-kill:constraint=A,task_memcg=/a,task=a", "b,pid=1"), Joint::Apart);
        assert_eq!(of("oom-kill:constraint=A,task=a,pid=1", "2,uid=0"), Joint::Glue);
        let of = |last, first| joint(last, first, Kind::Kill);
        assert_eq!(of("file-rss:4k", "B,"), Joint::Glue);
        assert_eq!(of("sh", "mem-rss:4kB,"), Joint::Glue);
        assert_eq!(of("of", "memory:"), Joint::Apart);
        assert_eq!(of("(weaver)", "total-vm:4kB,"), Joint::Apart);
    }
}
