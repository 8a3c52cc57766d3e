//! In which order the zones of which nodes are tried (rules/zones#zonelists).
//!
//! Each node has a FALLBACK list (all nodes, nearest first) and a NOFALLBACK list (itself).

use alloc::vec;
use alloc::vec::Vec;

use super::{NodeId, NodeMask, ZoneId, ZoneType};
use crate::config::NodeLoad;

/// Weight of distance against node load when nodes are ordered.
const MAX_NUMNODES: u64 = 1024;

/// An entry of a zonelist: a zone, its type and its node.
#[doc(alias = "zoneref")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRef {
    /// The zone.
    pub zone: ZoneId,
    /// Zone type, the entry's rank.
    pub kind: ZoneType,
    /// Node.
    pub node: NodeId,
}

/// A list of zones to try, with the start for each highest zone.
#[doc(alias = "zonelist")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zonelist {
    entries: Vec<ZoneRef>,
    /// Position of the first entry for each highest zone.
    first: [usize; ZoneType::COUNT],
    /// That entry.
    preferred: [Option<ZoneRef>; ZoneType::COUNT],
}

impl Zonelist {
    fn new(entries: Vec<ZoneRef>) -> Zonelist {
        let first: [usize; ZoneType::COUNT] = core::array::from_fn(|highest| {
            let fits = |z: &ZoneRef| z.kind.idx() <= highest;
            entries.iter().position(fits).unwrap_or(entries.len())
        });
        let preferred = first.map(|at| entries.get(at).copied());
        Zonelist { entries, first, preferred }
    }

    /// All entries.
    #[inline(always)]
    pub fn entries(&self) -> &[ZoneRef] {
        &self.entries
    }

    /// The first entry that a request without a node mask may use.
    #[inline(always)]
    pub fn first(&self, highest: ZoneType) -> Option<ZoneRef> {
        self.preferred[highest.idx()]
    }

    /// Returns the position of the first entry at or after `from` that a request may use.
    #[doc(alias = "next_zones_zonelist")]
    #[inline(always)]
    pub fn next(&self, from: usize, highest: ZoneType, nodes: Option<NodeMask>) -> Option<usize> {
        if from == 0 && nodes.is_none() {
            let first = self.first[highest.idx()];
            return (first < self.entries.len()).then_some(first);
        }
        self.entries[from..].iter().position(|z| eligible(z, highest, nodes)).map(|i| from + i)
    }
}

#[inline(always)]
fn eligible(z: &ZoneRef, highest: ZoneType, nodes: Option<NodeMask>) -> bool {
    z.kind <= highest && nodes.is_none_or(|mask| mask.contains(z.node))
}

/// The two lists of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zonelists {
    /// All nodes, nearest first.
    pub fallback: Zonelist,
    /// This node only (`__GFP_THISNODE`).
    pub nofallback: Zonelist,
}

/// What ordering needs to know of a node.
#[derive(Clone, Debug)]
pub struct NodeSummary {
    /// Has CPUs.
    pub has_cpus: bool,
    /// Populated zones, ascending.
    pub zones: Vec<ZoneType>,
}

/// Builds every node's lists: near nodes first, equally far ones spread by load
/// (rules/zones#node-order).
#[doc(alias = "build_zonelists")]
pub fn build(nodes: &[NodeSummary], distances: &[Vec<u16>], load_rule: NodeLoad) -> Vec<Zonelists> {
    let orders = node_orders(nodes, distances, load_rule);
    let of_node = |n: usize| {
        nodes[n].zones.iter().rev().map(move |&kind| ZoneRef {
            zone: ZoneId::new(NodeId(n as u16), kind),
            kind,
            node: NodeId(n as u16),
        })
    };
    orders
        .iter()
        .enumerate()
        .map(|(local, order)| Zonelists {
            fallback: Zonelist::new(order.iter().flat_map(|&n| of_node(n)).collect()),
            nofallback: Zonelist::new(of_node(local).collect()),
        })
        .collect()
}

/// Orders the nodes with memory for each node, the nearest first.
#[doc(alias = "node_order")]
pub fn node_orders(
    nodes: &[NodeSummary],
    distances: &[Vec<u16>],
    load_rule: NodeLoad,
) -> Vec<Vec<usize>> {
    let mut load = vec![0u64; nodes.len()];
    let nr_online = nodes.len() as u64;
    let mut orders = Vec::with_capacity(nodes.len());
    for local in 0..nodes.len() {
        let mut used = vec![false; nodes.len()];
        let mut order = Vec::new();
        let mut prev = local;
        let mut load_left = nr_online;
        while let Some(node) = find_next(local, nodes, distances, &load, &used) {
            used[node] = true;
            if distances[local][node] != distances[local][prev] {
                load[node] = match load_rule {
                    NodeLoad::NodesLeft => load_left,
                    NodeLoad::OneMore => load[node] + 1,
                };
            }
            load_left = load_left.saturating_sub(1);
            order.push(node);
            prev = node;
        }
        orders.push(order);
    }
    orders
}

/// Finds the nearest node not used yet, with the load as tie-break.
#[doc(alias = "find_next_best_node")]
fn find_next(
    local: usize,
    nodes: &[NodeSummary],
    distances: &[Vec<u16>],
    load: &[u64],
    used: &[bool],
) -> Option<usize> {
    if !used[local] && !nodes[local].zones.is_empty() {
        return Some(local);
    }
    let weight = |n: usize| {
        let distance =
            u64::from(distances[local][n]) + u64::from(n < local) + u64::from(nodes[n].has_cpus);
        distance * MAX_NUMNODES + load[n]
    };
    let candidates = (0..nodes.len()).filter(|&n| !used[n] && !nodes[n].zones.is_empty());
    candidates.min_by_key(|&n| weight(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;

    fn four(distances: &[Vec<u16>], cpuless: Option<usize>) -> Vec<Vec<usize>> {
        let nodes: Vec<_> = (0..4)
            .map(|n| NodeSummary { has_cpus: Some(n) != cpuless, zones: vec![ZoneType::Normal] })
            .collect();
        node_orders(&nodes, distances, NodeLoad::OneMore)
    }

    #[test]
    fn node_order() {
        let m = Machine::from_sizes("m", &[1u16, 2, 3, 4].map(|c| (1 << 30, vec![c - 1]))).unwrap();
        let uniform = m.distances;
        let expect = |rows: [[usize; 4]; 4]| rows.map(Vec::from).to_vec();
        assert_eq!(
            four(&uniform, None),
            expect([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]])
        );
        assert_eq!(
            four(&uniform, Some(3)),
            expect([[0, 3, 1, 2], [1, 3, 2, 0], [2, 3, 0, 1], [3, 0, 1, 2]])
        );
        let ring = |i: usize, j: usize| [10, 16, 22, 16][(4 + j - i) % 4];
        let ring: Vec<Vec<u16>> = (0..4).map(|i| (0..4).map(|j| ring(i, j)).collect()).collect();
        assert_eq!(
            four(&ring, None),
            expect([[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]])
        );
    }
}
