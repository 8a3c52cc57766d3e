//! Sums over zones in blocks of the order that is asked about, and the verdict that follows: for
//! the machine, and for each node.

use std::collections::BTreeMap;

use serde::Serialize;

use super::gather::pages;
use super::zone::Meaning;
use super::{Snapshot, Wanted};

/// Share of free memory in smaller blocks, thousandths, from which on memory counts as fragmented
/// although some large blocks are free.
const MOSTLY: u64 = 500;
/// Share of free memory in usable large blocks, thousandths, below which they do not count.
const FEW: u64 = 50;

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Most of free memory is in blocks of the order.
    NotFragmented,
    /// Some blocks are free, but most of free memory is in smaller ones.
    PartlyFragmented,
    /// Memory is free, but no block of the order, or only blocks that watermarks and reserves keep,
    /// or next to none.
    Fragmented,
    /// Too little memory is free for a block.
    ShortOfMemory,
    /// The nodes have different verdicts.
    NodesDiffer,
    /// The texts have no free blocks by order.
    CannotTell,
}

/// Sums over zones, in blocks of the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) now: u64,
    /// None if a zone has no watermarks.
    pub(super) above_mark: Option<u64>,
    /// Blocks that count: see `OrderRow::usable`.
    pub(super) usable: u64,
    pub(super) could_add: u64,
    pub(super) gathered: u64,
    pub(super) kept: u64,
    /// Share of free memory in smaller blocks, thousandths.
    pub(super) unusable: u64,
    /// Free pages.
    pub(super) free: u64,
    is_lack: bool,
    order: u32,
}

impl Sums {
    /// The sums of all nodes, or of one; `None` if the text has no free blocks by order.
    pub(super) fn of(snapshot: &Snapshot, node: Option<u32>) -> Option<Sums> {
        let mut sums = Sums {
            now: 0,
            above_mark: Some(0),
            usable: 0,
            could_add: 0,
            gathered: 0,
            kept: 0,
            unusable: 0,
            free: 0,
            is_lack: true,
            order: snapshot.order,
        };
        let (mut unusable, mut nr_rows) = (0u128, 0);
        let has_higher =
            snapshot.zones.iter().any(|own| matches!(own.zone.name.as_str(), "DMA32" | "Normal"));
        for (zone, row) in snapshot.rows().filter(|(zone, _)| node.is_none_or(|it| it == zone.node))
        {
            nr_rows += 1;
            let add = |sum: u64, own: u64| sum.saturating_add(own);
            sums.now = add(sums.now, row.now);
            sums.above_mark = sums.above_mark.zip(row.above_mark).map(|(a, b)| add(a, b));
            sums.usable = add(sums.usable, row.usable(zone, has_higher));
            sums.could_add = add(sums.could_add, row.could_add);
            sums.gathered = add(sums.gathered, row.gathered);
            sums.kept = add(sums.kept, row.kept.unwrap_or(0));
            let own = zone.blocks.as_deref().map_or(0, pages);
            // Less than a block is free, or pieces would not help either.
            sums.is_lack &= row.meaning != Meaning::Fragmentation;
            unusable += u128::from(own) * u128::from(row.unusable);
            sums.free = add(sums.free, own);
        }
        let share = unusable.checked_div(u128::from(sums.free));
        sums.unusable = share.map_or(1000, |share| share as u64);
        (nr_rows > 0).then_some(sums)
    }

    pub(super) fn verdict(&self) -> Verdict {
        // Free pages are below 2^44 a zone, and zones are few.
        let usable = u128::from(self.usable) << self.order;
        let is_few = usable * 1000 < u128::from(self.free) * u128::from(FEW);
        match self {
            _ if self.usable > 0 && self.unusable < MOSTLY && !is_few => Verdict::NotFragmented,
            _ if self.usable > 0 && !is_few => Verdict::PartlyFragmented,
            _ if self.is_lack && self.could_add == 0 => Verdict::ShortOfMemory,
            _ => Verdict::Fragmented,
        }
    }
}

/// The sums of each node that has free blocks by order.
pub(super) fn by_node(snapshot: &Snapshot) -> BTreeMap<u32, Sums> {
    let mut nodes: BTreeMap<u32, Sums> = BTreeMap::new();
    for (zone, _) in snapshot.rows() {
        if !nodes.contains_key(&zone.node) && nodes.len() < NODES_MAX {
            nodes.extend(Sums::of(snapshot, Some(zone.node)).map(|sums| (zone.node, sums)));
        }
    }
    nodes
}

/// Most nodes that are looked at one by one; each takes a walk over all zones.
const NODES_MAX: usize = 1024;

/// The verdict of the machine.
pub(super) fn verdict(snapshot: &Snapshot) -> Verdict {
    let Some(sums) = Sums::of(snapshot, None) else { return Verdict::CannotTell };
    let nodes = by_node(snapshot);
    let mut verdicts = nodes.values().map(Sums::verdict);
    let first = verdicts.next();
    match verdicts.any(|other| Some(other) != first) {
        true => Verdict::NodesDiffer,
        false => sums.verdict(),
    }
}

/// Would the kernel's request be served from free memory? `None` if the texts do not say.
pub(super) fn is_served(snapshot: &Snapshot) -> Option<bool> {
    if snapshot.wanted != Wanted::Kernel {
        return None;
    }
    let sums = Sums::of(snapshot, None)?;
    let mut above = snapshot.rows().filter_map(|(_, row)| row.above_mark);
    match above.any(|nr| nr > 0) {
        true => Some(true),
        false if sums.now == 0 || sums.above_mark == Some(0) => Some(false),
        false => None,
    }
}
