//! Lines that hold more or less than one message: tokens on lines of their own, and messages that
//! run together on one line.

use super::lines::{Line, mark};
use super::zone::{ZONE_NAMES, number};

/// The start of a record whose rest is on the next line: tokens on lines of their own.
pub(super) fn is_partial(text: &str) -> bool {
    let tokens: Vec<&str> = text.split_whitespace().collect();
    match tokens.as_slice() {
        ["Node"] | ["Free" | "Total"] | ["Free" | "Total", "swap"] | ["Swap"] => true,
        ["Free" | "Total", "swap", "="] => true,
        ["Node", node] => number(node).is_some(),
        ["Node", node, zone] => number(node).is_some() && ZONE_NAMES.contains(zone),
        [zone] if ZONE_NAMES.contains(zone) => true,
        [count] => number(count).is_some(),
        [count, "pages" | "total"] => number(count).is_some(),
        [count, "pages", "in" | "cma"] => number(count).is_some(),
        [count, "total", "pagecache"] => number(count).is_some(),
        _ => false,
    }
}

/// The start of the line of a request, broken within the words that it is recognised by.
pub(super) fn is_partial_head(text: &str) -> bool {
    const ENDS: [&str; 5] =
        [" invoked", ": page", ": page allocation", ": page alloction", ": vmalloc"];
    ENDS.iter().any(|end| text.ends_with(end)) && text.len() < 200
}

/// Joins the lines of a text that has each of its tokens on a line of its own.
pub(super) fn joined_tokens(lines: Vec<Line>) -> Vec<Line> {
    const LINES_MIN: usize = 12;
    let written = lines.iter().filter(|line| !line.text.is_empty());
    let single = written.clone().filter(|line| !line.text.contains(' ')).count();
    let is_counted = single >= LINES_MIN && single * 10 > written.count() * 8;
    let (true, Some(first)) = (is_counted, lines.first().cloned()) else { return lines };
    let mut text = String::new();
    for line in &lines {
        text.push_str(&line.text);
        text.push(' ');
    }
    let last = lines.last().map_or(0, |line| line.marks & mark::LAST);
    vec![Line {
        text: text.trim_end().to_owned(),
        marks: first.marks | last | mark::TOKENS,
        ..first
    }]
}

/// Splits a line in which several records run together.
pub(super) fn unjoined(line: Line) -> Vec<Line> {
    const STRONG: [&str; 14] = [
        "lowmem_reserve[]:",
        "Node ",
        " pages RAM",
        "Free swap",
        "Total swap",
        "Mem-Info:",
        " total pagecache pages",
        "hugepages_total=",
        "CPU: ",
        "memory: usage",
        "Memory cgroup stats",
        "oom-kill:constraint",
        "Killed process",
        "oom-killer:",
    ];
    let hits: usize = STRONG.iter().map(|word| line.text.matches(word).count()).sum();
    if hits < 2 {
        return vec![line];
    }
    let tokens: Vec<&str> = line.text.split_whitespace().collect();
    let mut cuts = vec![0];
    for at in 1..tokens.len() {
        if starts_inside(tokens[at - 1], &tokens[at..]) && *cuts.last().unwrap_or(&0) < at {
            let joins_node = tokens[at - 1] == "Node" || (at > 1 && tokens[at - 2] == "Node");
            if !joins_node {
                cuts.push(at);
            }
        }
    }
    if cuts.len() == 1 {
        return vec![line];
    }
    cuts.push(tokens.len());
    let pieces = cuts.windows(2).enumerate();
    let last = cuts.len() - 2;
    pieces
        .map(|(index, range)| Line {
            number: line.number,
            prefix: line.prefix.clone(),
            text: tokens[range[0]..range[1]].join(" "),
            marks: if index == last { line.marks } else { line.marks & !(mark::LAST | mark::CUT) },
        })
        .collect()
}

/// True if a record starts here, inside of a line.
fn starts_inside(before: &str, tokens: &[&str]) -> bool {
    match tokens {
        ["Mem-Info:" | "Mem-info:" | "lowmem_reserve[]:", ..]
        | ["Free" | "Total", "swap", ..]
        | ["Swap", "cache", ..]
        | ["Call", "Trace:", ..]
        | ["memory:" | "swap:" | "memory+swap:" | "kmem:", "usage", ..]
        | ["Memory", "cgroup", "stats" | "out", ..]
        | ["Tasks", "state", ..]
        | ["Task", "in", ..]
        | ["oom_reaper:", ..]
        | ["Unreclaimable", "slab", ..]
        | ["Kernel", "panic", ..]
        | ["vmalloc:", "allocation", ..]
        | [_, "invoked", "oom-killer:", ..]
        | ["[", "pid", "]", "uid", ..] => true,
        ["Out", "of", "memory:" | "memory", ..] => before != "syncing:",
        ["Killed", "process", ..] => !before.ends_with(':'),
        ["CPU:", cpu, "PID:" | "UID:", ..] => number(cpu).is_some(),
        [comm, "page", "allocation", failure, ..] => {
            comm.ends_with(':') && failure.starts_with("failure")
        }
        ["[", pid, uid, tgid, ..] => {
            pid.strip_suffix(']').is_some_and(|pid| number(pid).is_some())
                && number(uid).is_some()
                && number(tgid).is_some()
        }
        [first, ..] if first.starts_with("oom-kill:constraint") => true,
        ["Node", node, rest, ..] => {
            let is_place = ZONE_NAMES.contains(&rest.trim_end_matches(':'));
            number(node).is_some() && (is_place || rest.contains([':', '=']))
        }
        [zone, free, ..] if ZONE_NAMES.contains(zone) => free.starts_with("free:"),
        [zone, block, ..] if zone.strip_suffix(':').is_some_and(|z| ZONE_NAMES.contains(&z)) => {
            block.contains('*') || *block == "empty"
        }
        [count, "pages", what, ..] => {
            let is_known = matches!(*what, "RAM" | "in" | "reserved" | "cma" | "hwpoisoned");
            (is_known || what.starts_with("HighMem")) && number(count).is_some()
        }
        [count, "total", "pagecache", ..] => number(count).is_some(),
        _ => false,
    }
}
