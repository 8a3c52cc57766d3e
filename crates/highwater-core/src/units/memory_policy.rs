//! The nodes from which a task or a VMA prefers its memory (rules/memory-policies#kinds).
//!
//! A policy is about places, not amounts. It sets where an allocation starts to search and which
//! nodes it may use; the allocator does the rest. Its effect is in [`crate::page_alloc`]'s
//! `by_policy`.

use super::{NodeId, NodeMask};

/// A NUMA memory policy and its nodes.
#[doc(alias = "mempolicy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryPolicy {
    /// Near the CPU of the request; for a VMA: the task's policy.
    #[default]
    Default,
    /// From these nodes only, the nearest first.
    Bind(NodeMask),
    /// From this node first, then as near to it as can be.
    Preferred(NodeId),
    /// From these nodes first, without reclaim for it; then from all.
    PreferredMany(NodeMask),
    /// From these nodes in turn.
    Interleave(NodeMask),
}

impl MemoryPolicy {
    /// The nodes that it names; none for the default.
    pub const fn nodes(self) -> Option<NodeMask> {
        match self {
            MemoryPolicy::Default => None,
            MemoryPolicy::Preferred(node) => Some(NodeMask::of(node)),
            MemoryPolicy::Bind(nodes)
            | MemoryPolicy::PreferredMany(nodes)
            | MemoryPolicy::Interleave(nodes) => Some(nodes),
        }
    }

    /// The same kind of policy about as much of its nodes as a machine has and a cpuset allows; none if that is
    /// nothing.
    #[must_use]
    pub fn within(self, allowed: NodeMask) -> Option<MemoryPolicy> {
        let Some(nodes) = self.nodes() else { return Some(self) };
        let left = nodes.and(allowed);
        (!left.is_empty()).then(|| self.about(left))
    }

    /// The policy after a change of the task's allowed nodes (rules/memory-policies#rebind): each
    /// node is replaced by the one of the same rank.
    #[must_use]
    pub fn rebound(self, old: NodeMask, new: NodeMask) -> MemoryPolicy {
        match self {
            // A node that is out of reach is passed over like one that is full.
            MemoryPolicy::Default | MemoryPolicy::Preferred(_) => self,
            _ if new.is_empty() => self,
            _ => self.about(self.nodes().unwrap_or(NodeMask::EMPTY).remapped(old, new)),
        }
    }

    fn about(self, nodes: NodeMask) -> MemoryPolicy {
        match self {
            MemoryPolicy::Default => self,
            MemoryPolicy::Preferred(_) => nodes.first().map_or(self, MemoryPolicy::Preferred),
            MemoryPolicy::Bind(_) => MemoryPolicy::Bind(nodes),
            MemoryPolicy::PreferredMany(_) => MemoryPolicy::PreferredMany(nodes),
            MemoryPolicy::Interleave(_) => MemoryPolicy::Interleave(nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(nodes: &[u16]) -> NodeMask {
        nodes.iter().fold(NodeMask::EMPTY, |mask, &node| mask.with(NodeId(node)))
    }

    #[test]
    fn nodes_that_are_not_allowed_are_left_out() {
        let bind = MemoryPolicy::Bind(mask(&[0, 2, 5]));
        assert_eq!(bind.within(mask(&[2, 3, 5])), Some(MemoryPolicy::Bind(mask(&[2, 5]))));
        assert_eq!(bind.within(mask(&[1, 3])), None);
        let one = MemoryPolicy::Preferred(NodeId(1));
        assert_eq!((one.within(mask(&[1])), one.within(mask(&[0]))), (Some(one), None));
        assert_eq!(MemoryPolicy::Default.within(NodeMask::EMPTY), Some(MemoryPolicy::Default));
    }

    /// The table of rules/memory-policies#rebind.
    #[test]
    fn a_policy_follows_its_cpuset() {
        let moved = |nodes: &[u16], old: &[u16], new: &[u16]| {
            MemoryPolicy::Interleave(mask(nodes)).rebound(mask(old), mask(new)).nodes()
        };
        assert_eq!(moved(&[0, 1], &[0, 1], &[2, 3]), Some(mask(&[2, 3])));
        assert_eq!(moved(&[1], &[0, 1, 2], &[4, 6]), Some(mask(&[6])));
        assert_eq!(moved(&[0, 1, 2], &[0, 1, 2], &[4, 6]), Some(mask(&[4, 6])));
        assert_eq!(moved(&[7], &[0, 1], &[2, 3]), Some(mask(&[7])), "what was not in it stays");
        let one = MemoryPolicy::Preferred(NodeId(1));
        assert_eq!(one.rebound(mask(&[0, 1]), mask(&[2])), one);
        assert_eq!(
            MemoryPolicy::Bind(mask(&[1])).rebound(mask(&[0, 1]), NodeMask::EMPTY),
            MemoryPolicy::Bind(mask(&[1]))
        );
    }
}
