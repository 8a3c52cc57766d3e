//! The tree of groups, and walks over a part of it.
//!
//! A walk is pre-order, the root of the walk first, children in the order of their creation. Up to
//! 6.1 every reclaim visits the whole subtree. From 6.12 on direct reclaim and reclaim for a limit
//! stop as soon as they have enough, and the next one goes on with the next group, so that the
//! groups take turns: the walks from one root on one node share a [`Position`].
//!
//! Key types: [`Tree`], [`Walk`], [`Position`].
//!
//! Synchronisation: the caller serialises changes of the tree. Walks may run beside them: a removed
//! group keeps its links, so a walk that stands on it goes on. Shared positions move by
//! compare-and-swap, so two walks do not get the same group.

use alloc::boxed::Box;
use core::iter;

use crate::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use crate::units::GroupId;

/// A link that leads nowhere.
const NONE: u16 = u16::MAX;

/// A link of a group to another one.
#[derive(Debug)]
struct Link(AtomicU16);

impl Link {
    fn get(&self) -> Option<GroupId> {
        Some(self.0.load(Relaxed)).filter(|&link| link != NONE).map(GroupId)
    }

    fn set(&self, group: Option<GroupId>) {
        self.0.store(group.map_or(NONE, |group| group.0), Relaxed);
    }
}

/// The place of a group in the tree.
#[derive(Debug)]
struct Links {
    parent: Link,
    first_child: Link,
    last_child: Link,
    previous: Link,
    next: Link,
}

/// The groups that exist, by [`GroupId`]. The root always does.
#[derive(Debug)]
pub(crate) struct Tree {
    links: Box<[Links]>,
}

impl Tree {
    /// The root alone, with place for `capacity` groups, the root among them.
    pub(crate) fn new(capacity: usize) -> Tree {
        let link = || Link(AtomicU16::new(NONE));
        let links = || Links {
            parent: link(),
            first_child: link(),
            last_child: link(),
            previous: link(),
            next: link(),
        };
        Tree { links: iter::repeat_with(links).take(capacity).collect() }
    }

    fn of(&self, group: GroupId) -> &Links {
        &self.links[group.idx()]
    }

    /// Adds a group as the last child of another one.
    pub(crate) fn insert(&self, group: GroupId, parent: GroupId) {
        assert!(!group.is_root() && group != parent, "{group:?} below {parent:?}");
        let (new, above) = (self.of(group), self.of(parent));
        let previous = above.last_child.get();
        new.parent.set(Some(parent));
        new.first_child.set(None);
        new.last_child.set(None);
        new.previous.set(previous);
        new.next.set(None);
        match previous {
            Some(previous) => self.of(previous).next.set(Some(group)),
            None => above.first_child.set(Some(group)),
        }
        above.last_child.set(Some(group));
    }

    /// Takes out a group without children. Walks may still stand on it.
    pub(crate) fn remove(&self, group: GroupId) {
        let gone = self.of(group);
        assert!(gone.first_child.get().is_none(), "{group:?} has children");
        let parent = self.of(gone.parent.get().expect("the root stays"));
        let (previous, next) = (gone.previous.get(), gone.next.get());
        match previous {
            Some(previous) => self.of(previous).next.set(next),
            None => parent.first_child.set(next),
        }
        match next {
            Some(next) => self.of(next).previous.set(previous),
            None => parent.last_child.set(previous),
        }
    }

    /// The oldest child of a group.
    pub(crate) fn first_child(&self, group: GroupId) -> Option<GroupId> {
        self.of(group).first_child.get()
    }

    /// The child of the same parent that was created next.
    pub(crate) fn next_sibling(&self, group: GroupId) -> Option<GroupId> {
        self.of(group).next.get()
    }

    /// A group and all above it, the root last.
    pub(crate) fn ancestors(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        iter::successors(Some(group), |&at| self.of(at).parent.get())
    }

    /// The children of a group, oldest first.
    pub(crate) fn children(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        iter::successors(self.first_child(group), |&child| self.next_sibling(child))
    }

    /// Returns the group after `previous` in the pre-order of the subtree of `root`; the root
    /// itself after none.
    #[doc(alias = "css_next_descendant_pre")]
    pub(crate) fn next(&self, root: GroupId, previous: Option<GroupId>) -> Option<GroupId> {
        let Some(mut at) = previous else { return Some(root) };
        if let Some(child) = self.first_child(at) {
            return Some(child);
        }
        while at != root {
            if let Some(next) = self.next_sibling(at) {
                return Some(next);
            }
            at = self.of(at).parent.get()?;
        }
        None
    }
}

/// The position that walks from one root on one node share.
///
/// ```text
///  63                             16 15        0
/// +---------------------------------+-----------+
/// | generation: rounds that ended   | last group|
/// +---------------------------------+-----------+
/// ```
#[doc(alias = "mem_cgroup_reclaim_iter")]
#[derive(Debug)]
pub(crate) struct Position(AtomicU64);

/// A [`Position`] at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    generation: u64,
    /// The group that a walk got last; none at the start of a round.
    group: Option<GroupId>,
}

impl At {
    fn of(word: u64) -> At {
        let group = Some(word as u16).filter(|&group| group != NONE).map(GroupId);
        At { generation: word >> 16, group }
    }

    fn word(self) -> u64 {
        self.generation << 16 | u64::from(self.group.map_or(NONE, |group| group.0))
    }
}

impl Position {
    /// The start of the first round.
    pub(crate) fn new() -> Position {
        Position(AtomicU64::new(At { generation: 0, group: None }.word()))
    }

    fn get(&self) -> At {
        At::of(self.0.load(Relaxed))
    }

    /// Moves on from `old`; false if another walk did.
    fn step(&self, old: At, new: At) -> bool {
        self.0.compare_exchange(old.word(), new.word(), Relaxed, Relaxed).is_ok()
    }

    /// Forgets a group that is removed: the round starts again if it stood there.
    #[doc(alias = "invalidate_reclaim_iterators")]
    pub(crate) fn forget(&self, group: GroupId) {
        loop {
            let at = self.get();
            if at.group != Some(group) || self.step(at, At { group: None, ..at }) {
                return;
            }
        }
    }
}

/// A walk over a subtree.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    tree: &'a Tree,
    root: GroupId,
    /// The position that the walk moves; none: it visits every group by itself.
    shared: Option<&'a Position>,
    /// The group that the walk got last.
    previous: Option<GroupId>,
    /// The generation in which the walk began.
    generation: u64,
    has_ended: bool,
}

impl<'a> Walk<'a> {
    /// A walk over the whole subtree.
    pub(crate) fn full(tree: &'a Tree, root: GroupId) -> Walk<'a> {
        Walk { tree, root, shared: None, previous: None, generation: 0, has_ended: false }
    }

    /// A walk that goes on where the last one stopped, to the end of that round. It gets at least
    /// one group.
    pub(crate) fn partial(tree: &'a Tree, root: GroupId, shared: &'a Position) -> Walk<'a> {
        Walk { shared: Some(shared), ..Walk::full(tree, root) }
    }

    /// Moves the shared position on to the next group; none at the end of the round.
    fn next_shared(&mut self, shared: &Position) -> Option<GroupId> {
        loop {
            let at = shared.get();
            match self.previous {
                None => self.generation = at.generation,
                Some(_) if self.generation != at.generation => return None,
                Some(_) => {}
            }
            let group = self.tree.next(self.root, at.group);
            let generation = at.generation + u64::from(group.is_none());
            // After a lost race, look again. A walk that begins at the very end begins the next
            // round.
            if shared.step(at, At { generation, group })
                && (group.is_some() || self.previous.is_some())
            {
                return group;
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = GroupId;

    /// Moves on to the next group.
    #[doc(alias = "mem_cgroup_iter")]
    fn next(&mut self) -> Option<GroupId> {
        if self.has_ended {
            return None;
        }
        let next = match self.shared {
            Some(shared) => self.next_shared(shared),
            None => self.tree.next(self.root, self.previous),
        };
        self.has_ended = next.is_none();
        self.previous = next.or(self.previous);
        next
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const R: GroupId = GroupId(1);
    const A: GroupId = GroupId(2);
    const B: GroupId = GroupId(3);
    const C: GroupId = GroupId(4);
    const OTHER: GroupId = GroupId(5);

    /// R with children A, B, C; beside it another group.
    fn family() -> Tree {
        let tree = Tree::new(10);
        for (group, parent) in [(R, GroupId::ROOT), (A, R), (OTHER, GroupId::ROOT), (B, R), (C, R)]
        {
            tree.insert(group, parent);
        }
        tree
    }

    fn full(tree: &Tree, root: GroupId) -> Vec<GroupId> {
        Walk::full(tree, root).collect()
    }

    #[test]
    fn walks_are_in_pre_order_and_stay_in_the_subtree() {
        let tree = family();
        assert_eq!(full(&tree, GroupId::ROOT), [GroupId::ROOT, R, A, B, C, OTHER]);
        assert_eq!(full(&tree, R), [R, A, B, C]);
        assert_eq!(full(&tree, B), [B]);
        let (low, lower) = (GroupId(6), GroupId(7));
        tree.insert(low, A);
        tree.insert(lower, low);
        assert_eq!(full(&tree, R), [R, A, low, lower, B, C]);
        assert_eq!(full(&tree, A), [A, low, lower]);
    }

    #[test]
    fn removed_groups_are_left_out() {
        let tree = family();
        tree.remove(B);
        assert_eq!(tree.children(R).collect::<Vec<_>>(), [A, C]);
        // A walk that stands on it goes on.
        assert_eq!(tree.next(R, Some(B)), Some(C));
        tree.remove(C);
        tree.remove(A);
        assert_eq!(full(&tree, R), [R]);
        tree.insert(B, R);
        tree.insert(A, R);
        assert_eq!(full(&tree, R), [R, B, A]);
    }

    /// A caller that wants 32 pages of a walk; each group but R has 32 per visit.
    fn caller(walk: Walk<'_>) -> Vec<GroupId> {
        let mut got = 0;
        let mut visited = Vec::new();
        for group in walk {
            visited.push(group);
            got += if group == R { 0 } else { 32 };
            if got >= 32 {
                break;
            }
        }
        visited
    }

    #[test]
    fn partial_walks_take_turns() {
        let (tree, shared) = (family(), Position::new());
        let turns: Vec<_> = (0..5).map(|_| caller(Walk::partial(&tree, R, &shared))).collect();
        let expected: [&[GroupId]; 5] = [&[R, A], &[B], &[C], &[R, A], &[B]];
        assert_eq!(turns, expected);
        assert_eq!(shared.get(), At { generation: 1, group: Some(B) });
        // Without a target, a walk ends with the round.
        assert_eq!(Walk::partial(&tree, R, &shared).collect::<Vec<_>>(), [C]);
        assert_eq!(shared.get(), At { generation: 2, group: None });
        assert_eq!(Walk::partial(&tree, R, &shared).collect::<Vec<_>>(), [R, A, B, C]);
        assert_eq!(Walk::partial(&tree, OTHER, &Position::new()).count(), 1);
    }

    #[test]
    fn two_walks_share_a_round() {
        let (tree, shared) = (family(), Position::new());
        let mut first = Walk::partial(&tree, R, &shared);
        let mut second = Walk::partial(&tree, R, &shared);
        assert_eq!((first.next(), second.next()), (Some(R), Some(A)));
        assert_eq!((first.next(), second.next()), (Some(B), Some(C)));
        // The second ends the round, the first notices.
        assert_eq!((second.next(), first.next()), (None, None));
        assert_eq!((second.next(), first.next()), (None, None));
        assert_eq!(shared.get(), At { generation: 1, group: None });
    }

    #[test]
    fn a_removed_group_is_no_position() {
        let (tree, shared) = (family(), Position::new());
        let mut walk = Walk::partial(&tree, R, &shared);
        assert_eq!(walk.by_ref().take(3).collect::<Vec<_>>(), [R, A, B]);
        tree.remove(B);
        shared.forget(A);
        assert_eq!(shared.get().group, Some(B));
        shared.forget(B);
        assert_eq!(shared.get(), At { generation: 0, group: None });
        assert_eq!(walk.collect::<Vec<_>>(), [R, A, C], "the round starts again");
    }
}
