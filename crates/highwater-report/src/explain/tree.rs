//! The slowest operations: for each a sentence with the main reasons, a tree of causes, and the
//! tasks that blocked it.
//!
//! ```text
//! 1. mmap-48 by latency, 12.3 s after the start: 3.21 s
//!    88.0 % throttled: no progress, 6.0 % waiting for a CPU, 2.4 % running in inactive list
//!               ns     time      %   times
//!    3,213,456,789   3.21 s  100.0       1  mmap-48
//!    3,113,456,789   3.11 s   96.9  32,768    page fault
//! ```
//!
//! At each level the largest cause comes first, and small causes are summed in one line. Every
//! level therefore still adds up to the line above it: nanoseconds exactly, percentages because
//! [`apportion`] shares them out.

use highwater_results::explain::{Cause, Chain, Operation};
use highwater_results::words::is;

use super::figures::{apportion, grouped, human, percent};
use super::reasons::reasons;

/// A cause is shown if it took at least this part of the operation, in thousandths ...
const SHOWN_THOUSANDTHS: u64 = 5;
/// ... and is among this many largest of its level.
const SHOWN_MAX: usize = 8;
/// Reasons in the sentence ...
const REASONS_MAX: usize = 3;
/// ... that are at least this many tenths of a percent.
const REASON_TENTHS: u64 = 5;
/// Time that a cause spends outside its inner causes. If it is the only child, the cause's name is
/// enough.
const OWN: [&str; 2] = ["running", "waiting"];
/// Columns of trees where there is no terminal.
pub const TREE_WIDTH: usize = 80;
/// Columns below which a level is one further in, not two.
const NARROW: usize = 72;

/// Indent of a level of a tree. Names keep a quarter of the width, so very deep levels stand below
/// each other.
fn indent(depth: usize, before: usize, width: usize) -> String {
    let step = if width < NARROW { 1 } else { 2 };
    " ".repeat((step * depth).min(width.saturating_sub(before + width / 4)))
}

/// Number of waits shown with the tasks that caused them.
const CHAINS_MAX: usize = 5;

/// One line of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Distance from the root.
    pub(super) depth: usize,
    /// Name of the cause.
    pub(super) name: String,
    /// Its time.
    pub(super) ns: u64,
    /// Tenths of a percent of the root's time.
    pub(super) tenths: u64,
    /// How often; none for a line that sums several causes.
    pub(super) count: Option<u64>,
}

/// The lines of a tree, with small causes summed.
pub(super) fn lines(root: &Cause) -> Vec<Line> {
    let mut lines = Vec::new();
    let least_ns = u128::from(root.ns) * u128::from(SHOWN_THOUSANDTHS);
    let is_shown = |cause: &Cause| cause.ns > 0 && u128::from(cause.ns) * 1000 >= least_ns;
    push(root, 0, 1000, &is_shown, &mut lines);
    lines
}

fn push(
    cause: &Cause,
    depth: usize,
    tenths: u64,
    is_shown: &dyn Fn(&Cause) -> bool,
    lines: &mut Vec<Line>,
) {
    // A cause with exactly one inner cause shares a line with it.
    let (mut inner, mut name) = (cause, cause.name.clone());
    while let [only] = inner.children.as_slice() {
        inner = only;
        if !OWN.contains(&inner.name.as_str()) {
            name = format!("{name} > {}", inner.name);
        }
    }
    lines.push(Line { depth, name, ns: cause.ns, tenths, count: Some(inner.count) });
    let mut children: Vec<&Cause> = inner.children.iter().filter(|child| child.ns > 0).collect();
    children.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    let nr_large = children.iter().take(SHOWN_MAX).take_while(|child| is_shown(child)).count();
    // A single small cause needs one line either way, so it keeps its name.
    let nr_shown = if children.len() == nr_large + 1 { children.len() } else { nr_large };
    let (shown, small) = children.split_at(nr_shown);
    let small_ns: u64 = small.iter().map(|child| child.ns).sum();
    let mut weights: Vec<u64> = shown.iter().map(|child| child.ns).collect();
    weights.push(small_ns);
    let shares = apportion(tenths, &weights);
    if shown.is_empty() {
        return;
    }
    for (child, &share) in shown.iter().zip(&shares) {
        push(child, depth + 1, share, is_shown, lines);
    }
    if !small.is_empty() {
        let name = format!("other ({} causes)", small.len());
        let tenths = shares[nr_shown];
        lines.push(Line { depth: depth + 1, name, ns: small_ns, tenths, count: None });
    }
}

/// One operation as text, in lines of this width; `rank` starts at 1. The seed is printed if there
/// are several.
pub(super) fn operation(
    rank: usize,
    operation: &Operation,
    seed: Option<u64>,
    width: usize,
) -> String {
    let Operation { name, task, start_ns, ns, causes, waits, chains } = operation;
    let seed = seed.map_or_else(String::new, |seed| format!(" with seed {seed}"));
    let (start, took) = (human(*start_ns), human(*ns));
    let heading = format!("{name} by {task}{seed}, {start} after the start: {took}");
    let mut text = folded(&format!("{rank}. "), "   ", &heading, SEPARATOR, width);
    text += &folded("   ", "   ", &sentence(causes), ", ", width);
    text += &table(&lines(causes), width);
    text += &chains_heading(chains.len() as u64, *waits);
    let alike = alike(chains);
    for chains in alike.iter().take(CHAINS_MAX) {
        text += &chain_text(chains, width);
    }
    let nr_left: usize = alike.iter().skip(CHAINS_MAX).map(Vec::len).sum();
    if nr_left > 0 {
        let (all, are) = (chains.len(), is(nr_left));
        text += &format!("   {nr_left} of these {all} {are} left out\n");
    }
    text
}

/// Heading that says how many waits there are and that the longest follow.
fn chains_heading(shown: u64, all: u64) -> String {
    match shown {
        0 => String::new(),
        1 if all <= 1 => "   its only wait, and who held it up\n".to_owned(),
        shown if shown >= all => format!("   its {shown} waits, and who held them up\n"),
        1 => format!("   the longest of {} waits, and who held it up\n", grouped(all)),
        shown => {
            format!("   the {shown} longest of {} waits, and who held them up\n", grouped(all))
        }
    }
}

/// Groups waits for the same thing that the same tasks held up in the same way, at the place of the
/// longest.
fn alike(chains: &[Chain]) -> Vec<Vec<&Chain>> {
    let mut groups: Vec<Vec<&Chain>> = Vec::new();
    for chain in chains {
        let same = |group: &&mut Vec<&Chain>| {
            group
                .first()
                .is_some_and(|first| (&first.what, &first.links) == (&chain.what, &chain.links))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(chain),
            None => groups.push(vec![chain]),
        }
    }
    groups
}

/// The largest reasons as a sentence.
pub(super) fn sentence(causes: &Cause) -> String {
    let all = reasons(causes);
    let weights: Vec<u64> = all.iter().map(|reason| reason.ns).collect();
    let shares = apportion(1000, &weights);
    let parts = all.iter().zip(&shares).take(REASONS_MAX);
    let parts = parts.filter(|&(_, &share)| share >= REASON_TENTHS);
    let words: Vec<String> =
        parts.map(|(reason, &share)| format!("{} % {}", percent(share), reason.name)).collect();
    words.join(", ")
}

fn table(lines: &[Line], width: usize) -> String {
    let ns: Vec<String> = lines.iter().map(|line| grouped(line.ns)).collect();
    let times: Vec<String> =
        lines.iter().map(|line| line.count.map_or_else(String::new, grouped)).collect();
    let widest =
        |texts: &[String], least: usize| texts.iter().map(String::len).fold(least, usize::max);
    let (ns_width, times_width) = (widest(&ns, 2), widest(&times, 5));
    let mut text =
        format!("   {:>ns_width$}  {:>7}      %  {:>times_width$}\n", "ns", "time", "times");
    for ((line, ns), times) in lines.iter().zip(&ns).zip(&times) {
        let time = human(line.ns);
        let percent = percent(line.tenths);
        let figures =
            format!("   {ns:>ns_width$}  {time:>7}  {percent:>5}  {times:>times_width$}  ");
        let indent = indent(line.depth, figures.chars().count(), width);
        let begin = figures + &indent;
        let further = " ".repeat(begin.chars().count() + 2);
        text += &folded(&begin, &further, &line.name, SEPARATOR, width);
    }
    text
}

/// Between a cause and what is in it.
const SEPARATOR: &str = " > ";

/// Text in lines of this width, after `begin`. Lines break after a separator if they can, else
/// between words, and `further` begins each continuation.
pub(super) fn folded(
    begin: &str,
    further: &str,
    words: &str,
    separator: &str,
    width: usize,
) -> String {
    let length = |text: &str| text.chars().count();
    let mut text = String::new();
    let mut line = begin.to_owned();
    let mut is_empty = true;
    let mut parts = words.split(separator).peekable();
    while let Some(part) = parts.next() {
        let end = if parts.peek().is_some() { separator.trim_end() } else { "" };
        let part = format!("{part}{end}");
        let mut next = |line: &mut String, is_empty: &mut bool| {
            text += line.trim_end();
            text.push('\n');
            further.clone_into(line);
            *is_empty = true;
        };
        if !is_empty && length(&line) + 1 + length(&part) > width {
            next(&mut line, &mut is_empty);
        }
        // One that is longer than a line.
        for word in part.split(' ') {
            if !is_empty && length(&line) + 1 + length(word) > width {
                next(&mut line, &mut is_empty);
            }
            if !is_empty {
                line.push(' ');
            }
            line += word;
            is_empty = false;
        }
    }
    text + line.trim_end() + "\n"
}

fn chain_text(chains: &[&Chain], width: usize) -> String {
    let Some((Chain { start_ns, ns, what, links, is_cut }, others)) = chains.split_first() else {
        return String::new();
    };
    let also = match others {
        [] => String::new(),
        [other] => format!(" (and one like it, {})", human(other.ns)),
        others => {
            let sum: u64 = others.iter().map(|chain| chain.ns).sum();
            format!(" (and {} like it, {} together)", others.len(), human(sum))
        }
    };
    let margin = " ".repeat(12);
    let first = format!("{what}, at {}{also}", human(*start_ns));
    let mut text = folded(
        &format!("   {:>7}  ", human(*ns)),
        &format!("{margin}  "),
        &first,
        SEPARATOR,
        width,
    );
    let indent = |depth: usize| margin.clone() + &indent(depth, margin.len(), width);
    for (depth, link) in links.iter().enumerate() {
        let doing =
            if link.doing.is_empty() { String::new() } else { format!(", in {}", link.doing) };
        let (begin, link) = (indent(depth), format!("{} {}{doing}", link.how, link.task));
        text += &folded(&begin, &format!("{begin}    "), &link, SEPARATOR, width);
    }
    if *is_cut {
        text += &format!("{}and so on: not followed any further\n", indent(links.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cause, leaf, mmap};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_operation_as_text() {
        let expected = "\
1. mmap-48 by latency, 12.3 s after the start: 3.21 s
   88.0 % throttled: no progress, 6.0 % waiting for a CPU,
   2.4 % running in inactive list
              ns     time      %   times
   3,213,456,789   3.21 s  100.0       1  mmap-48
   3,113,456,789   3.11 s   96.9  32,768    page fault
   2,999,456,789   3.00 s   93.4     120      slow allocation > direct reclaim
   2,828,000,000   2.83 s   88.1      12        throttle >
                                                  throttled: no progress
      97,000,000  97.0 ms    3.0     440        inactive list
      77,000,000  77.0 ms    2.4     440          running
      20,000,000  20.0 ms    0.6      31          lock lru
      74,456,789  74.5 ms    2.3     120        running
     114,000,000   114 ms    3.5       9      waiting for a CPU
      78,900,000  78.9 ms    2.4       4    waiting for a CPU
      21,100,000  21.1 ms    0.7            other (2 causes)
   the 2 longest of 36 waits, and who held them up
    1.20 s  throttled: no progress, at 13.0 s (and one like it, 900 ms)
            woken by kswapd0, in balance node > inactive list
              held by hog/3
";
        let text = operation(1, &mmap(), None, TREE_WIDTH);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn long_paths_go_on_below() {
        let names: Vec<String> = (0..9).map(|at| format!("phase number {at}")).collect();
        let deep = names
            .iter()
            .rev()
            .fold(leaf("waiting", 5, 1), |inner, name| cause(name, 1, vec![inner]));
        let lines = lines(&cause("mmap-48", 1, vec![deep, leaf("running", 5, 1)]));
        for width in [60, TREE_WIDTH, 200] {
            let text = table(&lines, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(names.iter().all(|name| text.contains(name)), "{text}");
        }
        assert_eq!(folded("  ", "    ", "short", " > ", 80), "  short\n");
        let long = folded("1  ", "     ", "waiting: writes to be fewer > running", " > ", 20);
        assert_eq!(long, "1  waiting: writes\n     to be fewer >\n     running\n");
    }

    #[test]
    fn waits_that_are_not_shown_are_counted() {
        let mut mmap = mmap();
        let first = mmap.chains[0].clone();
        mmap.chains =
            (0..8).map(|at| Chain { what: format!("wait {at}"), ..first.clone() }).collect();
        mmap.chains[0].is_cut = true;
        let text = operation(1, &mmap, None, TREE_WIDTH);
        let shown = text.lines().skip_while(|line| !line.contains("who held")).collect::<Vec<_>>();
        assert_eq!(shown[0].trim(), "the 8 longest of 36 waits, and who held them up");
        assert_eq!(shown[4].trim(), "and so on: not followed any further");
        assert_eq!(shown.last().map(|line| line.trim()), Some("3 of these 8 are left out"));
        mmap.chains.truncate(6);
        assert!(operation(1, &mmap, None, TREE_WIDTH).ends_with("   1 of these 6 is left out\n"));
        assert_eq!(chains_heading(0, 0), "");
        assert_eq!(chains_heading(1, 1).trim(), "its only wait, and who held it up");
        assert_eq!(chains_heading(3, 3).trim(), "its 3 waits, and who held them up");
    }

    #[test]
    fn nothing_took_no_time() {
        let lines = lines(&Cause::new("mmap"));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].ns, 0);
        assert_eq!(sentence(&Cause::new("mmap")), "");
    }

    #[test]
    fn many_equal_causes_leave_some_for_the_last_line() {
        let children = (0..20).map(|i| leaf(&format!("c{i:02}"), 5, 1)).collect();
        let lines = lines(&cause("all", 1, children));
        assert_eq!(lines.len(), 1 + SHOWN_MAX + 1);
        assert_eq!(lines[SHOWN_MAX + 1].name, "other (12 causes)");
        assert_eq!(lines[SHOWN_MAX + 1].ns, 60);
    }

    fn any_cause() -> impl Strategy<Value = Cause> {
        let leaf =
            (0u64..1000, "[a-c]").prop_map(|(ns, name)| super::super::tests::leaf(&name, ns, 1));
        leaf.prop_recursive(4, 60, 12, |inner| {
            (proptest::collection::vec(inner, 1..12), "[a-c]")
                .prop_map(|(children, name)| cause(&name, 1, children))
        })
    }

    #[test]
    fn however_deep_a_tree_is_its_lines_fit_and_its_numbers_stand_below_each_other() {
        let name = "waiting: a request of the device to be served by the disk that is slow";
        let pair = |inner: Cause| cause(name, 1, vec![inner, leaf("running", 1, 1)]);
        let deep = (0..40).fold(leaf(name, 5, 1), |inner, _| pair(inner));
        for width in [60, TREE_WIDTH, 132] {
            let text = table(&lines(&deep), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let end = text.find("times").unwrap() + "times".len();
            for line in text.lines().skip(1) {
                // Figures, or the rest of a name.
                let figures = line[..end].trim();
                assert!(figures.is_empty() || line[end..].starts_with("  "), "{text}");
                assert!(
                    figures.chars().all(|c| c.is_ascii_digit() || " ,.ns".contains(c)),
                    "{text}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn every_level_adds_up_to_the_line_above(root in any_cause()) {
            let lines = lines(&root);
            prop_assert_eq!(lines[0].ns, root.ns);
            for (at, line) in lines.iter().enumerate() {
                let below = lines[at + 1..].iter().take_while(|l| l.depth > line.depth);
                let inside: Vec<&Line> = below.filter(|l| l.depth == line.depth + 1).collect();
                if !inside.is_empty() {
                    prop_assert_eq!(inside.iter().map(|l| l.ns).sum::<u64>(), line.ns);
                    prop_assert_eq!(inside.iter().map(|l| l.tenths).sum::<u64>(), line.tenths);
                }
            }
        }
    }
}
