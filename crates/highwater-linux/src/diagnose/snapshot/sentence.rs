//! The answer in one sentence: is the machine fragmented, or would the kernel get a block?

use std::collections::BTreeMap;

use highwater_results::words::count;

use super::super::words::{block_text, kb_text};
use super::sums::{Sums, Verdict, by_node, is_served};
use super::{Contradiction, Snapshot, Wanted};

/// Most nodes that a sentence names.
const NODES_MAX: usize = 8;

/// The sentence. If the texts contradict each other, that comes first.
pub(super) fn of(snapshot: &Snapshot) -> String {
    let sentence = match snapshot.wanted {
        Wanted::Movable => fragmented(snapshot),
        Wanted::Kernel => request(snapshot),
    };
    let sizes = Sizes(snapshot);
    match snapshot.contradiction {
        None => sentence,
        Some(Contradiction { texts, free }) => format!(
            "The texts contradict each other: {} has {} free, {lists} {}. By {lists}: {}",
            texts[0],
            sizes.text(free[0]),
            sizes.text(free[1]),
            lower(&sentence),
            lists = texts[1],
        ),
    }
}

/// The sentence with a small first letter.
fn lower(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_ascii_lowercase(), chars.as_str())
    })
}

/// Sizes in words.
struct Sizes<'a>(&'a Snapshot);

impl Sizes<'_> {
    fn text(&self, pages: u64) -> String {
        kb_text(pages.saturating_mul(self.0.sizes.page >> 10))
    }

    fn block(&self) -> String {
        block_text(self.0.order, self.0.sizes.page)
    }

    /// `7 huge pages`, `7 blocks of 64 kB`.
    fn blocks(&self, nr: u64) -> String {
        match self.0.sizes.is_huge_page && self.0.wanted == Wanted::Movable {
            true => count(nr, "huge page"),
            false => format!("{} of {}", count(nr, "block"), self.block()),
        }
    }
}

/// Compaction and reclaim, as far as they could help.
fn help(snapshot: &Snapshot, sums: &Sums, is_first: bool) -> String {
    let verb = if is_first { "make" } else { "add" };
    let compaction = match sums.could_add {
        0 => format!("compaction could {verb} none"),
        nr => format!("compaction could {verb} at most {nr}"),
    };
    let cache = cache(snapshot);
    match cache.checked_shr(snapshot.order).unwrap_or(0) {
        0 => compaction,
        nr => format!(
            "{compaction}, reclaim of the {} of page cache at most {nr} more",
            Sizes(snapshot).text(cache)
        ),
    }
}

/// Pages of page cache.
fn cache(snapshot: &Snapshot) -> u64 {
    snapshot.page_cache.iter().fold(0, |sum: u64, (_, pages)| sum.saturating_add(*pages))
}

fn fragmented(snapshot: &Snapshot) -> String {
    let sizes = Sizes(snapshot);
    let free = snapshot.free().map_or_else(|| "Memory".to_owned(), |free| sizes.text(free));
    let Some(sums) = Sums::of(snapshot, None) else {
        return format!(
            "Cannot tell whether memory is fragmented: {free} is free, but the text has no free blocks by \
             order (/proc/buddyinfo has)."
        );
    };
    let block = match sums.kept {
        0 => format!("block of {}", sizes.block()),
        _ => format!("block of {} outside HighAtomic pageblocks", sizes.block()),
    };
    let now = now(snapshot, &sums);
    let percent = (sums.unusable as f64 / 10.0).round();
    match super::sums::verdict(snapshot) {
        Verdict::NodesDiffer => nodes(snapshot, &sums),
        Verdict::NotFragmented => format!(
            "Not fragmented: {now}, {:.0}% of the {free} that is free; {}.",
            100.0 - percent,
            help(snapshot, &sums, false)
        ),
        Verdict::PartlyFragmented => format!(
            "Partly fragmented: {now}, but {percent:.0}% of the {free} that is free is in smaller \
             blocks; {}.",
            help(snapshot, &sums, false)
        ),
        Verdict::Fragmented if sums.now > 0 => {
            format!("Fragmented: {free} is free, but only {now}; {}.", help(snapshot, &sums, false))
        }
        Verdict::Fragmented if sums.could_add > 0 => {
            format!("Fragmented: {free} is free, but no {block}; {}.", help(snapshot, &sums, true))
        }
        Verdict::Fragmented => format!(
            "Fragmented: {free} is free, but no {block}; {}: {}.",
            help(snapshot, &sums, true),
            match sums.gathered {
                0 => "too little of it lies in movable pageblocks",
                _ => "too little of it is above the watermarks and the room that compaction needs",
            }
        ),
        _ => {
            let now = if sums.now > 0 { format!("; {now}") } else { format!(", and no {block}") };
            let help = match cache(snapshot).checked_shr(snapshot.order) {
                None | Some(0) => String::new(),
                Some(_) => format!("; {}", help(snapshot, &sums, sums.now == 0)),
            };
            format!("Short of memory: only {free} is free{now}{help}.")
        }
    }
}

/// `7 huge pages are free now (none of them above the low watermarks and reserves)`.
fn now(snapshot: &Snapshot, sums: &Sums) -> String {
    let be = if sums.now == 1 { "is" } else { "are" };
    let of_them = match (sums.above_mark, sums.usable) {
        (Some(above), _) if above < sums.now => {
            let above = if above == 0 { "none".to_owned() } else { above.to_string() };
            format!(" ({above} of them above the low watermarks and reserves)")
        }
        (None, usable) if usable < sums.now => format!(
            " ({} of them in zone DMA, which its reserve usually keeps: zoneinfo would say)",
            if usable == 0 { "all".to_owned() } else { (sums.now - usable).to_string() }
        ),
        _ => String::new(),
    };
    format!("{} {be} free now{of_them}", Sizes(snapshot).blocks(sums.now))
}

/// The nodes by verdict, the worst first.
fn nodes(snapshot: &Snapshot, sums: &Sums) -> String {
    let sizes = Sizes(snapshot);
    let mut groups: BTreeMap<std::cmp::Reverse<Verdict>, Vec<(u32, Sums)>> = BTreeMap::new();
    for (node, own) in by_node(snapshot) {
        groups.entry(std::cmp::Reverse(own.verdict())).or_default().push((node, own));
    }
    let groups = groups.iter().map(|(verdict, nodes)| {
        let words = match verdict.0 {
            Verdict::NotFragmented => "not fragmented",
            Verdict::PartlyFragmented => "partly fragmented",
            Verdict::Fragmented => "fragmented",
            _ => "short of memory",
        };
        let names: Vec<String> =
            nodes.iter().take(NODES_MAX).map(|(node, _)| node.to_string()).collect();
        let more = match nodes.len() - names.len() {
            0 => String::new(),
            nr => format!(" and {nr} more"),
        };
        let sum = |of: fn(&Sums) -> u64| {
            nodes.iter().fold(0u64, |sum, (_, own)| sum.saturating_add(of(own)))
        };
        let (noun, verb) = if nodes.len() == 1 { ("node", "is") } else { ("nodes", "are") };
        format!(
            "{noun} {}{more} {verb} {words} ({} free, {})",
            names.join(", "),
            sizes.text(sum(|own| own.free)),
            sizes.blocks(sum(|own| own.usable))
        )
    });
    let groups: Vec<String> = groups.collect();
    format!("Nodes differ: {}; {}.", groups.join(", "), help(snapshot, sums, false))
}

/// Would the kernel get a block of the order?
fn request(snapshot: &Snapshot) -> String {
    let sizes = Sizes(snapshot);
    let what =
        format!("a request of order {} ({}, GFP_KERNEL, unmovable)", snapshot.order, sizes.block());
    let free = snapshot.free().map_or_else(|| "memory".to_owned(), |free| sizes.text(free));
    let (Some(sums), Some(nr_orders)) = (Sums::of(snapshot, None), snapshot.nr_orders()) else {
        return format!(
            "Cannot tell whether {what} would be served: {free} is free, but the text has no free blocks by \
             order (/proc/buddyinfo has)."
        );
    };
    if snapshot.order as usize >= nr_orders {
        return format!("No: {what} always fails here: the largest order is {}.", nr_orders - 1);
    }
    let most = snapshot.rows().max_by_key(|(zone, row)| {
        (row.above_mark.unwrap_or(row.now), std::cmp::Reverse(zone.node))
    });
    let place = most.map_or_else(String::new, |(zone, row)| {
        let nr = row.above_mark.unwrap_or(row.now);
        format!("{nr} in node {} {}", zone.node, zone.name)
    });
    let be = |nr: u64| if nr == 1 { "is" } else { "are" };
    let help = help(snapshot, &sums, sums.now == 0);
    match is_served(snapshot) {
        Some(true) => {
            let above = snapshot.rows().filter_map(|(_, row)| row.above_mark);
            let above = above.fold(0, u64::saturating_add);
            format!(
                "Yes: {what} would be served: {} {} free above the min watermarks and reserves, {place}.",
                sizes.blocks(above),
                be(above)
            )
        }
        None if sums.usable == 0 => format!(
            "Probably not: {what} finds {} free, but only in zone DMA, which its reserve usually keeps \
             (zoneinfo would say); {help}.",
            sizes.blocks(sums.now)
        ),
        None => format!(
            "Probably: {what} finds {} free, {place}; watermarks and reserves, which zoneinfo would \
             say, may keep them.",
            sizes.blocks(sums.now)
        ),
        Some(false) if sums.now > 0 => format!(
            "No: {what} would not be served at once: {} {} free, but min watermarks and reserves keep \
             {}; {help}.",
            sizes.blocks(sums.now),
            be(sums.now),
            if sums.now == 1 { "it" } else { "them" }
        ),
        Some(false) => format!(
            "No: {what} would not be served at once: {free} is free, but {}; {help}.",
            match (sums.kept, sums.free >> snapshot.order) {
                (0, 0) => "that is less than the block".to_owned(),
                (0, _) => "no block of this size".to_owned(),
                (kept, _) => format!(
                    "its {} of this size {} not for such requests",
                    count(kept, "block"),
                    be(kept)
                ),
            }
        ),
    }
}
