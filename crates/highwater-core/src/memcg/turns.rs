//! The order in which reclaim for the machine takes groups under MGLRU (6.4 on;
//! rules/mglru#groups).
//!
//! A pass over a node does not visit every group. The groups are in two generations, *old* and
//! *young*, with eight lists each, the bins. A pass takes groups of the old generation, bin after
//! bin, from a random one on, until it has enough. A group that was aged, or is protected, goes to
//! the young generation. Once the old one is empty, the young one takes its place. A group gets a
//! random bin each time it moves, so that groups of equal age have equal chances.
//!
//! Each node has its own sequence of random bins. It is the same in every run.
//!
//! Synchronisation: one lock a node (`Table` class), held for single steps.
//!
//! From: `syscall::groups`, `reclaim::memcg::turns`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::units::{GroupId, SPLITMIX_STEP, splitmix};

/// Lists of a generation of groups.
#[doc(alias = "MEMCG_NR_BINS")]
const BINS: usize = 8;

/// Where a group goes.
#[doc(alias = "lru_gen_rotate_memcg")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// To the end of the old generation: a new group.
    New,
    /// The same, once: a group that gets a second chance.
    Last,
    /// To the front of the old generation: a removed group.
    Next,
    /// To the young generation.
    Young,
}

/// The place of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// The generation, by its list.
    list: usize,
    bin: usize,
    /// It went to the end of this generation.
    was_last: bool,
}

/// The groups of a node.
#[doc(alias = "lru_gen_memcg")]
#[derive(Debug)]
pub(crate) struct Turns {
    /// Which of the lists is the old generation.
    old: usize,
    lists: [[VecDeque<GroupId>; BINS]; 2],
    /// By group.
    places: Vec<Option<Place>>,
    chance: u64,
}

impl Turns {
    /// Without groups; `seed`: the node.
    pub(crate) fn new(capacity: usize, seed: u64) -> Turns {
        let (lists, places) = (Default::default(), core::iter::repeat_n(None, capacity).collect());
        Turns { old: 0, lists, places, chance: seed }
    }

    /// A random bin.
    pub(crate) fn draw(&mut self) -> usize {
        let drawn = splitmix(self.chance);
        self.chance = self.chance.wrapping_add(SPLITMIX_STEP);
        drawn as usize % BINS
    }

    /// Moves a group, or adds it.
    pub(crate) fn put(&mut self, group: GroupId, turn: Turn) {
        self.take_out(group);
        let (list, bin) = (if turn == Turn::Young { 1 - self.old } else { self.old }, self.draw());
        let queue = &mut self.lists[list][bin];
        match turn {
            Turn::Next => queue.push_front(group),
            Turn::New | Turn::Last | Turn::Young => queue.push_back(group),
        }
        self.places[group.idx()] = Some(Place { list, bin, was_last: turn == Turn::Last });
        self.begin_generation();
    }

    /// A group is gone.
    pub(crate) fn remove(&mut self, group: GroupId) {
        self.take_out(group);
        self.begin_generation();
    }

    /// The young generation takes the place of an empty old one.
    fn begin_generation(&mut self) {
        if self.lists[self.old].iter().all(VecDeque::is_empty) {
            self.old = 1 - self.old;
        }
    }

    /// True if the group has a place: it was made, and is not gone.
    pub(crate) fn has(&self, group: GroupId) -> bool {
        self.places[group.idx()].is_some()
    }

    fn take_out(&mut self, group: GroupId) {
        if let Some(Place { list, bin, .. }) = self.places[group.idx()].take() {
            self.lists[list][bin].retain(|&other| other != group);
        }
    }

    /// A group went to the end of its generation already.
    pub(crate) fn was_last(&self, group: GroupId) -> bool {
        self.places[group.idx()].is_some_and(|place| place.was_last)
    }

    /// The groups of the old generation, from a bin on.
    pub(crate) fn old_from(&self, first: usize) -> impl Iterator<Item = GroupId> {
        (0..BINS).flat_map(move |bin| self.lists[self.old][(first + bin) % BINS].iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_round_once_all_had_their_turn() {
        let mut turns = Turns::new(8, 0);
        let groups: Vec<GroupId> = (0..8).map(GroupId).collect();
        groups.iter().for_each(|&group| turns.put(group, Turn::New));
        let old = |turns: &Turns| turns.old_from(3).collect::<Vec<_>>();
        assert_eq!(old(&turns).len(), 8);
        for round in 0..3 {
            for left in (1..=8).rev() {
                assert_eq!(old(&turns).len(), left, "round {round}");
                let group = old(&turns)[0];
                turns.put(group, Turn::Young);
            }
        }
        assert!(groups.iter().all(|&group| !turns.was_last(group)));
        turns.remove(GroupId(5));
        // The last of the old generation is removed: the others have their turn.
        (0..7).filter(|&at| at != 5).for_each(|at| turns.put(GroupId(at), Turn::Young));
        assert_eq!(old(&turns), [GroupId(7)]);
        turns.remove(GroupId(7));
        assert_eq!(old(&turns).len(), 6);
        assert!(!turns.has(GroupId(7)) && turns.has(GroupId(6)));
        turns.put(GroupId(2), Turn::Last);
        assert!(turns.was_last(GroupId(2)));
        assert_eq!(old(&turns).len(), 6);
        let bins: Vec<usize> = (0..800).map(|_| turns.draw()).collect();
        let fullest = (0..BINS).map(|bin| bins.iter().filter(|&&b| b == bin).count()).max();
        assert!((100..140).contains(&fullest.unwrap()), "{fullest:?}");
    }
}
