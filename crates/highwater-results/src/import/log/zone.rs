//! Lines about nodes, zones and free lists.
//!
//! ```text
//! Node 0 active_anon:4kB inactive_anon:8kB ... all_unreclaimable? no
//! Node 0 DMA32 free:4kB boost:0kB min:4kB low:8kB high:12kB ... managed:64kB ... free_cma:0kB
//! lowmem_reserve[]: 0 0 12 12
//! Node 0 DMA32: 1*4kB (U) 0*8kB ... = 4kB
//! ```
//!
//! `Node 0` is absent on kernels without NUMA. Up to 4.7 the counters of the node line are part of
//! the zone line. Every number needs its unit: one that was cut at the right is left out.

use std::collections::BTreeMap;

use serde::Serialize;

/// Names of zones, in the kernel's order.
pub const ZONE_NAMES: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];

/// A zone of a report. Sizes are kB as printed; `None` is not in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// Node; `None` if the text does not name it (kernels without NUMA).
    pub node: Option<u32>,
    /// `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable` or `Device`.
    pub name: String,
    /// True if the text has the line of the zone, not only its free list.
    pub has_line: bool,
    /// Free memory, kB.
    pub free: Option<u64>,
    /// Min watermark with its boost, kB.
    pub min: Option<u64>,
    /// Low watermark, kB.
    pub low: Option<u64>,
    /// High watermark, kB.
    pub high: Option<u64>,
    /// Boost of the watermarks, kB (printed since 5.12).
    pub boost: Option<u64>,
    /// Size with holes, kB (old kernels).
    pub spanned: Option<u64>,
    /// Size without holes, kB.
    pub present: Option<u64>,
    /// Memory that the allocator has, kB (since 3.9).
    pub managed: Option<u64>,
    /// Reserve for atomic requests of higher orders, kB (since 5.5).
    pub reserved_highatomic: Option<u64>,
    /// Free part of that reserve, kB (since 6.12).
    pub free_highatomic: Option<u64>,
    /// Free memory in CMA areas, kB (since 3.7).
    pub free_cma: Option<u64>,
    /// `all_unreclaimable?` of the zone line (up to 4.7).
    pub all_unreclaimable: Option<bool>,
    /// Pages scanned since the last free page (up to 4.7).
    pub pages_scanned: Option<u64>,
    /// Other counters of the line by name, kB.
    pub counters: BTreeMap<String, u64>,
    /// Reserve against requests of each zone type, pages; one column per type.
    pub lowmem_reserve: Option<Vec<u64>>,
    /// The free list.
    pub list: Option<FreeList>,
}

impl Zone {
    /// Largest order with a free block of any type; `None` without a list or if all are empty. Of a
    /// list that is cut it is the largest seen: a larger one may be missing.
    #[must_use]
    pub fn largest_free_order(&self) -> Option<u32> {
        let blocks = &self.list.as_ref()?.blocks;
        blocks.iter().filter(|block| block.count > 0).map(|block| block.order).max()
    }

    /// True if the free list has no end, or a damaged part: blocks of its largest orders may be
    /// missing.
    #[must_use]
    pub fn has_cut_list(&self) -> bool {
        self.list.as_ref().is_some_and(|list| !list.is_empty && list.sum_kb.is_none())
    }

    /// Reserve against requests of a zone type, by its column, pages.
    #[must_use]
    pub fn reserve(&self, column: usize) -> Option<u64> {
        self.lowmem_reserve.as_ref()?.get(column).copied()
    }
}

/// The free list of a zone: `1*4kB (U) 0*8kB ... = 4kB`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeList {
    /// Blocks by size, in the order of the text.
    pub blocks: Vec<FreeBlocks>,
    /// The total that the kernel prints at the end, kB; `None` if the line is cut.
    pub total_kb: Option<u64>,
    /// Sum of the blocks, kB, if the whole line is there.
    pub sum_kb: Option<u64>,
    /// True if the kernel prints `empty` in place of the list.
    pub is_empty: bool,
}

/// Free blocks of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FreeBlocks {
    /// Order: log2 of the block size over that of the first block.
    pub order: u32,
    /// Size of a block, kB.
    pub kb: u64,
    /// Number of blocks.
    pub count: u64,
    /// Letters of the types that have blocks here: U unmovable, M movable, E reclaimable, C CMA, I
    /// isolated, R the reserve (before 4.4), H high-atomic (from 4.4). Empty without a block, and
    /// on kernels that print no letters (before 3.8).
    pub types: String,
}

/// A line of a node: `Node 0 active_anon:4kB ...` (since 4.8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Node.
    pub node: u32,
    /// Counters by name, kB.
    pub counters: BTreeMap<String, u64>,
    /// `all_unreclaimable?`.
    pub all_unreclaimable: Option<bool>,
}

/// Huge pages of one size on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Node; `None` if not printed.
    pub node: Option<u32>,
    /// Size, kB.
    pub size_kb: u64,
    /// Pages of the pool.
    pub total: Option<u64>,
    /// Free pages of the pool.
    pub free: Option<u64>,
    /// Surplus pages.
    pub surplus: Option<u64>,
}

/// A value of a counter with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// `4kB`.
    Kb(u64),
    /// `4`.
    Plain(u64),
    /// `yes`, `no`.
    Flag(bool),
}

/// Splits `name:4kB`; the value may be the next token.
pub(super) fn pairs<'a>(tokens: &'a [String], mut each: impl FnMut(&'a str, Value)) {
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        index += 1;
        if let Some(name) = token.strip_suffix('?') {
            let flag = match tokens.get(index).map(String::as_str) {
                Some("yes") => true,
                Some("no") => false,
                _ => continue,
            };
            each(name, Value::Flag(flag));
            index += 1;
            continue;
        }
        let Some((name, text)) = token.split_once(':') else { continue };
        if !is_counter_name(name) {
            continue;
        }
        let text = if text.is_empty() {
            match tokens.get(index) {
                Some(next) if next.starts_with(|c: char| c.is_ascii_digit()) => {
                    index += 1;
                    next
                }
                _ => continue,
            }
        } else {
            text
        };
        if let Some(value) = value(text) {
            each(name, value);
        }
    }
}

/// A name such as `isolated(anon)` or `free_pcp`.
pub(super) fn is_counter_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'(' | b')'))
}

/// `4kB`, `4KB` or `4`.
fn value(text: &str) -> Option<Value> {
    let text = text.trim_end_matches(',');
    match kb(text) {
        Some(kb) => Some(Value::Kb(kb)),
        None => number(text).map(Value::Plain),
    }
}

/// `4kB` or `4KB`. A terminal that does not wrap prints the end of a long line over its last
/// column: a second B.
pub(super) fn kb(text: &str) -> Option<u64> {
    let text = if text.ends_with("BB") { &text[..text.len() - 1] } else { text };
    number(text.strip_suffix("kB").or_else(|| text.strip_suffix("KB"))?)
}

/// Decimal digits and nothing else.
pub(super) fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Takes `Node 0` and the zone's name off the tokens of a line.
pub(super) fn place(tokens: &[String]) -> (Option<u32>, Option<&str>, usize) {
    let mut at = 0;
    let mut node = None;
    if tokens.first().is_some_and(|token| token == "Node") {
        node = tokens.get(1).and_then(|token| token.trim_end_matches(',').parse().ok());
        at = if node.is_some() { 2 } else { 1 };
    }
    let name = tokens.get(at).map(|token| token.trim_end_matches(':'));
    match name.filter(|name| ZONE_NAMES.contains(name)) {
        Some(name) => (node, Some(name), at + 1),
        None => (node, None, at),
    }
}

impl Zone {
    /// Reads the line of a zone. `is_open_ended`: its last token may be cut.
    pub(super) fn read(tokens: &[String], is_open_ended: bool) -> Option<Zone> {
        let (node, name, at) = place(tokens);
        let mut zone = Zone { node, name: name?.to_owned(), has_line: true, ..Zone::default() };
        let mut last_plain = None;
        pairs(&tokens[at..], |name, value| {
            last_plain = None;
            match value {
                Value::Kb(kb) => zone.set(name, kb),
                Value::Flag(flag) if name == "all_unreclaimable" => {
                    zone.all_unreclaimable = Some(flag)
                }
                Value::Plain(pages) if name == "pages_scanned" => {
                    zone.pages_scanned = Some(pages);
                    last_plain = Some(());
                }
                _ => {}
            }
        });
        if is_open_ended && last_plain.is_some() {
            zone.pages_scanned = None;
        }
        Some(zone)
    }

    fn set(&mut self, name: &str, kb: u64) {
        let field = match name {
            "free" => &mut self.free,
            "min" => &mut self.min,
            "low" => &mut self.low,
            "high" => &mut self.high,
            "boost" => &mut self.boost,
            "spanned" => &mut self.spanned,
            "present" => &mut self.present,
            "managed" => &mut self.managed,
            "reserved_highatomic" => &mut self.reserved_highatomic,
            "free_highatomic" => &mut self.free_highatomic,
            "free_cma" => &mut self.free_cma,
            _ => {
                self.counters.entry(name.to_owned()).or_insert(kb);
                return;
            }
        };
        field.get_or_insert(kb);
    }
}

impl Node {
    /// Reads the line of a node.
    pub(super) fn read(tokens: &[String]) -> Option<Node> {
        let (node, _, at) = place(tokens);
        let mut read = Node { node: node?, ..Node::default() };
        pairs(&tokens[at..], |name, value| match value {
            Value::Kb(kb) => {
                read.counters.entry(name.to_owned()).or_insert(kb);
            }
            Value::Flag(flag) => read.all_unreclaimable = Some(flag),
            Value::Plain(_) => {}
        });
        Some(read)
    }
}

impl FreeList {
    /// Reads the blocks after the zone's name.
    pub(super) fn read(tokens: &[String]) -> FreeList {
        let mut list = FreeList::default();
        let mut is_total = false;
        let mut is_whole = true;
        for token in tokens {
            if token == "empty" {
                list.is_empty = true;
            } else if token == "=" {
                is_total = true;
            } else if let (true, Some(kb)) = (is_total, kb(token)) {
                list.total_kb = Some(kb);
                break;
            } else if let Some((count, size)) = token.split_once('*') {
                match (number(count), kb(size)) {
                    (Some(count), Some(kb)) if kb > 0 => {
                        list.blocks.push(FreeBlocks { order: 0, kb, count, types: String::new() });
                    }
                    _ => is_whole = false,
                }
            } else if let Some(types) = token.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
                let are_letters = types.bytes().all(|b| b.is_ascii_uppercase());
                if let (true, Some(block)) = (are_letters, list.blocks.last_mut()) {
                    types.clone_into(&mut block.types);
                }
            } else {
                is_whole = false;
            }
        }
        list.blocks.dedup_by_key(|block| block.kb);
        let first = list.blocks.first().map_or(1, |block| block.kb);
        // Sizes double from order to order; anything else is damage and ends the list.
        let mut is_sound = true;
        list.blocks.retain_mut(|block| {
            let ratio = block.kb / first;
            is_sound &= block.kb.is_multiple_of(first) && ratio.is_power_of_two();
            block.order = ratio.max(1).ilog2();
            is_sound
        });
        is_whole &=
            list.blocks.iter().enumerate().all(|(index, block)| block.order as usize == index);
        if is_whole && is_sound && list.total_kb.is_some() && !list.blocks.is_empty() {
            list.sum_kb = list
                .blocks
                .iter()
                .try_fold(0u64, |sum, block| sum.checked_add(block.count.checked_mul(block.kb)?));
        }
        list
    }
}

impl HugePages {
    /// Reads `Node 0 hugepages_total=0 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB`.
    pub(super) fn read(tokens: &[String]) -> Option<HugePages> {
        let (node, _, at) = place(tokens);
        let mut pages = HugePages { node, ..HugePages::default() };
        let mut size = None;
        for token in &tokens[at..] {
            match token.split_once('=') {
                Some(("hugepages_total", value)) => pages.total = number(value),
                Some(("hugepages_free", value)) => pages.free = number(value),
                Some(("hugepages_surp", value)) => pages.surplus = number(value),
                Some(("hugepages_size", value)) => size = kb(value),
                _ => {}
            }
        }
        pages.size_kb = size?;
        Some(pages)
    }
}

/// The numbers after `lowmem_reserve[]:`.
pub(super) fn lowmem_reserve(tokens: &[String], is_open_ended: bool) -> Option<Vec<u64>> {
    let mut columns: Vec<u64> = tokens.iter().skip(1).map_while(|token| number(token)).collect();
    if is_open_ended && columns.len() + 1 == tokens.len() {
        columns.pop();
    }
    (!columns.is_empty()).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn zone_lines_of_several_kernels() {
        let old = "Normal free:2884kB min:3012kB low:3764kB high:4516kB active:70220kB \
                   inactive:61348kB present:712344kB pages_scanned:40177 all_unreclaimable? yes";
        let zone = Zone::read(&tokens(old), false).unwrap();
        assert_eq!((zone.node, zone.name.as_str()), (None, "Normal"));
        assert_eq!((zone.free, zone.managed, zone.present), (Some(2884), None, Some(712_344)));
        assert_eq!((zone.pages_scanned, zone.all_unreclaimable), (Some(40_177), Some(true)));
        assert_eq!(zone.counters["inactive"], 61_348);
        let new = "Node 1 DMA32 free:4kB boost:8kB min:12kB low:16kB high:20kB \
                   reserved_highatomic:24KB free_highatomic:28KB isolated(anon):32kB free_cma:36kB";
        let zone = Zone::read(&tokens(new), false).unwrap();
        assert_eq!((zone.node, zone.boost, zone.reserved_highatomic), (Some(1), Some(8), Some(24)));
        assert_eq!((zone.free_highatomic, zone.free_cma), (Some(28), Some(36)));
        assert_eq!(zone.counters["isolated(anon)"], 32);
    }

    #[test]
    fn a_number_without_its_unit_is_left_out() {
        let zone = Zone::read(&tokens("Normal free:2884kB min:30"), true).unwrap();
        assert_eq!((zone.free, zone.min), (Some(2884), None));
        let zone = Zone::read(&tokens("Normal free:2884kB min:304kBB"), true).unwrap();
        assert_eq!(zone.min, Some(304), "a terminal printed over its last column");
        let zone = Zone::read(&tokens("Normal free:2884kB pages_scanned:12"), true).unwrap();
        assert_eq!(zone.pages_scanned, None);
    }

    #[test]
    fn node_lines_with_detached_values() {
        let text = "Node 0 shmem_thp: 0kB anon_thp: 6144kB all_unreclaimable? no Balloon:0kB";
        let node = Node::read(&tokens(text)).unwrap();
        assert_eq!(node.counters["anon_thp"], 6_144);
        assert_eq!((node.all_unreclaimable, node.counters["Balloon"]), (Some(false), 0));
    }

    #[test]
    fn free_lists() {
        let list = FreeList::read(&tokens("3*4kB (UM) 0*8kB 1*16kB (C) = 28kB"));
        assert_eq!((list.total_kb, list.sum_kb), (Some(28), Some(28)));
        assert_eq!(list.blocks[2], FreeBlocks { order: 2, kb: 16, count: 1, types: "C".into() });
        let large = FreeList::read(&tokens("12*64kB (UM) 10*128kB = 2048kB"));
        assert_eq!((large.blocks[1].order, large.sum_kb), (1, Some(2048)));
        let cut = FreeList::read(&tokens("3*4kB (UM) 0*8kB 1*1"));
        assert_eq!((cut.blocks.len(), cut.total_kb, cut.sum_kb), (2, None, None));
        assert!(FreeList::read(&tokens("empty")).is_empty);
    }

    #[test]
    fn reserves_and_huge_pages() {
        assert_eq!(
            lowmem_reserve(&tokens("lowmem_reserve[]: 0 12 34"), false),
            Some(vec![0, 12, 34])
        );
        assert_eq!(lowmem_reserve(&tokens("lowmem_reserve[]: 0 12 3"), true), Some(vec![0, 12]));
        let text =
            "Node 0 hugepages_total=1 hugepages_free=2 hugepages_surp=0 hugepages_size=2048kB";
        let pages = HugePages::read(&tokens(text)).unwrap();
        assert_eq!((pages.node, pages.size_kb, pages.free), (Some(0), 2048, Some(2)));
    }
}
