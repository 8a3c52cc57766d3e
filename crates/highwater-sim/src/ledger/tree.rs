//! Trees of causes.

use highwater_core::host::Phase;
use highwater_core::units::GroupId;

/// The cause that a node represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKey {
    /// The root.
    Root,
    /// A phase. Its own time is in its leaves.
    Phase(Phase),
    /// A phase for a memory cgroup: `memory.high` of it. As [`NodeKey::Phase`].
    GroupPhase(Phase, GroupId),
    /// Waiting for a lock of a class, by name. Its time is the waiting (spinning or asleep) and the
    /// hand-over.
    Lock(&'static str),
    /// Running in the kernel. A leaf.
    Kernel,
    /// Running in user mode. A leaf.
    User,
    /// Timer ticks. A leaf.
    Tick,
    /// Interrupts and work that other CPUs requested. A leaf.
    Interrupt,
    /// Waiting until other CPUs have answered an interrupt. A leaf.
    Answers,
    /// Waiting for an event, by the name of the wait. A leaf.
    Wait(&'static str),
    /// The part of such a wait in which its transfer waited in the device's queue. A leaf.
    Queued(&'static str),
    /// The part in which the device served its transfer. A leaf.
    Served(&'static str),
    /// Sleeping voluntarily. A leaf.
    Sleep,
    /// Runnable without running: other tasks have the CPU, it wakes up, or it switches. A leaf.
    Cpu,
}

impl NodeKey {
    /// The phase that it represents, for a group or not.
    pub const fn phase(self) -> Option<Phase> {
        match self {
            NodeKey::Phase(phase) | NodeKey::GroupPhase(phase, _) => Some(phase),
            _ => None,
        }
    }
}

/// A node: cause, parent, time, count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its cause.
    pub key: NodeKey,
    /// Index of its parent; the root is its own parent.
    pub parent: u32,
    /// Time of the node itself, without its children.
    pub self_ns: u64,
    /// Number of times that it was entered (phases, locks) or waited for; 0 for time that is not a
    /// wait.
    pub count: u64,
    /// The child made last, and the sibling made before this one; 0 for none.
    first_child: u32,
    next_sibling: u32,
}

/// Nodes; the first is the root, parents come before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// Index of the root.
pub const ROOT: u32 = 0;

impl Default for Tree {
    fn default() -> Self {
        let mut tree = Tree::empty();
        tree.nodes[0].count = 1;
        tree
    }
}

impl Tree {
    /// A tree with an empty root.
    pub fn empty() -> Tree {
        let mut tree = Tree { nodes: Vec::new() };
        tree.push(NodeKey::Root, ROOT);
        tree
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// All the time in it.
    pub fn total_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.self_ns).sum()
    }

    /// The path to a node, outermost first, ending with itself; the root is left out.
    pub fn path(&self, node: u32) -> Vec<NodeKey> {
        let mut path = Vec::new();
        let mut at = node;
        while at != ROOT {
            path.push(self.node(at).key);
            at = self.node(at).parent;
        }
        path.reverse();
        path
    }

    /// The child of a node for `key`; created if there is none.
    pub fn child(&mut self, parent: u32, key: NodeKey) -> u32 {
        let mut at = self.node(parent).first_child;
        while at != ROOT {
            let node = self.node(at);
            if node.key == key {
                return at;
            }
            at = node.next_sibling;
        }
        self.push(key, parent)
    }

    /// Adds time and entries to a node.
    pub fn add(&mut self, at: u32, ns: u64, count: u64) {
        let node = &mut self.nodes[at as usize];
        node.self_ns += ns;
        node.count += count;
    }

    /// The node of this tree that corresponds to `node` of the tree `from`, relative to `root`
    /// there; created if there is none.
    pub fn graft(&mut self, from: &Tree, root: u32, node: u32) -> u32 {
        if node == root || node == ROOT {
            return ROOT;
        }
        let parent = self.graft(from, root, from.node(node).parent);
        self.child(parent, from.node(node).key)
    }

    /// Adds another tree; `part` scales every figure of it.
    pub fn merge(&mut self, other: &Tree, part: impl Fn(u64) -> u64) {
        // Parents come before children.
        let mut here: Vec<u32> = Vec::with_capacity(other.nodes.len());
        for (at, node) in other.nodes.iter().enumerate() {
            let mine = match at {
                0 => ROOT,
                _ => self.child(here[node.parent as usize], node.key),
            };
            self.add(mine, part(node.self_ns), part(node.count));
            here.push(mine);
        }
    }

    fn push(&mut self, key: NodeKey, parent: u32) -> u32 {
        let at = self.nodes.len() as u32;
        let next_sibling = match self.nodes.get_mut(parent as usize) {
            Some(parent) => std::mem::replace(&mut parent.first_child, at),
            None => ROOT,
        };
        self.nodes.push(Node { key, parent, self_ns: 0, count: 0, first_child: 0, next_sibling });
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_added_node_by_node() {
        let mut one = Tree::default();
        let fault = one.child(ROOT, NodeKey::Lock("lru"));
        one.add(fault, 10, 4);
        let mut sum = Tree::empty();
        sum.child(ROOT, NodeKey::User);
        sum.merge(&one, |figure| figure);
        sum.merge(&one, |figure| figure / 2);
        assert_eq!(sum.node(ROOT).count, 1);
        let lock = sum.child(ROOT, NodeKey::Lock("lru"));
        assert_eq!((sum.node(lock).self_ns, sum.node(lock).count), (15, 6));
        assert_eq!((sum.nodes().len(), sum.total_ns()), (3, 15));
    }

    #[test]
    fn children_are_made_once() {
        let mut tree = Tree::default();
        let lock = tree.child(ROOT, NodeKey::Lock("lru"));
        let other = tree.child(ROOT, NodeKey::Lock("zone"));
        let wait = tree.child(lock, NodeKey::Wait("x"));
        tree.add(wait, 7, 1);
        assert_eq!(tree.child(ROOT, NodeKey::Lock("lru")), lock);
        assert_eq!(tree.child(ROOT, NodeKey::Lock("zone")), other);
        assert_eq!(tree.child(lock, NodeKey::Wait("x")), wait);
        assert_eq!(tree.total_ns(), 7);
        assert_eq!(tree.nodes().len(), 4);
        assert_eq!(tree.path(wait), [NodeKey::Lock("lru"), NodeKey::Wait("x")]);
        assert_eq!(tree.path(ROOT), []);
    }
}
