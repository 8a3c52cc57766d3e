//! Trees of causes.

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeKey {
    /// The root.
    Root,
    /// A phase, by [`highwater_core::host::Phase`].
    Phase(highwater_core::host::Phase),
    /// Waiting for a lock of a class, by name.
    Lock(&'static str),
    /// Running in the kernel. A leaf.
    Kernel,
    /// Running in user mode. A leaf.
    User,
    /// Timer ticks. A leaf.
    Tick,
    /// Interrupts and work that other CPUs asked for. A leaf.
    Interrupt,
    /// Waiting for something, as the wait names it. A leaf.
    Wait(&'static str),
    /// Sleeping of its own will. A leaf.
    Sleep,
    /// Runnable, but the CPU has other things to do. A leaf.
    Cpu,
}

/// A node: what, under what, how long, how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What.
    pub key: NodeKey,
    /// Index of the node it is in; the root's own.
    pub parent: u32,
    /// Time of the node itself, its children's apart.
    pub self_ns: u64,
    /// How often it was entered.
    pub count: u32,
}

/// Nodes; the first is the root, parents come before children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The nodes.
    pub nodes: Vec<Node>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { nodes: vec![Node { key: NodeKey::Root, parent: 0, self_ns: 0, count: 1 }] }
    }
}

impl Tree {
    /// All the time in it.
    pub fn total_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.self_ns).sum()
    }

    /// The child of a node that stands for `key`, made if there is none.
    pub fn child(&mut self, parent: u32, key: NodeKey) -> u32 {
        let known = self.nodes.iter().position(|node| node.parent == parent && node.key == key);
        match known.filter(|&at| at != 0) {
            Some(at) => at as u32,
            None => {
                self.nodes.push(Node { key, parent, self_ns: 0, count: 0 });
                (self.nodes.len() - 1) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_made_once() {
        let mut tree = Tree::default();
        let lock = tree.child(0, NodeKey::Lock("lru"));
        let wait = tree.child(lock, NodeKey::Wait("x"));
        tree.nodes[wait as usize].self_ns = 7;
        assert_eq!(tree.child(0, NodeKey::Lock("lru")), lock);
        assert_eq!(tree.total_ns(), 7);
        assert_eq!(tree.nodes.len(), 3);
    }
}
