//! Prefetches descriptors at the tail of a list, so that they are in the cache when reclaim takes
//! them.
//!
//! LRU order is random in memory, so popping from the tail is a chain of dependent cache misses:
//! the next descriptor is known only when the last one has arrived from memory. Walking ahead does
//! not help, because that chain is as long. So every second page added to a list is recorded as a
//! *milestone*. Each batch taken off the tail also prefetches some descriptors of milestones
//! further on, all at once. They arrive while the batch is judged. The link in each names the page
//! in between, which is prefetched then ([`Walk::step`]). A later batch, [`LEAD`] milestones on,
//! finds its descriptors in the cache.
//!
//! ```text
//! head                                         tail
//!  o M o M o M o M o M o M ... o M o M o M o M o
//!          └─<─┴─<─┴─<─┘                 first
//!          a batch's walk, LEAD milestones on
//! ```
//!
//! All of it is a guess. A milestone may have left the list. Links are read without the list's
//! lock, so they may belong to another list by then. A wrong guess prefetches a useless line and
//! has no other effect.
//!
//! Synchronisation: milestones belong to the holder of `lru_lock`, a walk to its batch.

use alloc::collections::VecDeque;
use core::iter;

use crate::host::Host;
use crate::page::{Folio, PageMap, Pfn};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::prefetch::prefetch_read;
use crate::units::SWAP_CLUSTER_MAX;

/// Pages from one milestone to the next. Each costs four bytes.
const SEGMENT: usize = 2;
/// Milestones that are asked for before they are taken: the batches of a dozen CPUs may be taken one after
/// the other before the first of them is judged.
const LEAD: usize = 256;
/// Milestones that a batch asks for at most: twice as many as it passes, until it has that lead.
const SHARE: usize = SWAP_CLUSTER_MAX as usize;
/// Milestones among which the last pages of a batch are looked for,
const NEXT: usize = 64;
/// and for this many batches.
const PATIENCE: usize = 8;
/// Milestones that a short list may have more of than pages.
const FEW: usize = 64;

/// Milestones of a list.
#[derive(Debug, Default)]
pub(super) struct Milestones {
    /// The nearest to the tail first.
    pages: VecDeque<u32>,
    /// So many of them have been asked for.
    nr_asked: usize,
    /// Pages that came onto the list since the last one.
    since: usize,
    /// Batches since one of them was met.
    missed: usize,
}

/// Milestones that a batch asked for.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    at: [u32; SHARE],
    nr: usize,
    nr_seen: usize,
}

impl Milestones {
    /// A page came to the head of the list, which is so long now.
    #[inline(always)]
    pub(super) fn joined(&mut self, pfn: Pfn, len: u32) {
        self.all_joined(iter::once(pfn), len);
    }

    /// The same of several, one after the other; the list is so long after the last.
    #[inline(always)]
    pub(super) fn all_joined(&mut self, pages: impl Iterator<Item = Pfn>, len: u32) {
        let mut since = self.since;
        for pfn in pages {
            since += 1;
            if since == SEGMENT {
                since = 0;
                if self.pages.len() == self.pages.capacity() {
                    self.make_room(len as usize);
                }
                self.pages.push_back(pfn.0);
            }
        }
        self.since = since;
    }

    /// Removes a quarter, because milestones take room for nearly all pages of a machine. If there
    /// are many more than the list has segments, most belong to pages that left it.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, len: usize) {
        if self.pages.len() * 4 > len * 3 + FEW * 4 {
            self.pages.clear();
            self.nr_asked = 0;
        } else {
            self.pages.reserve_exact(self.pages.len() / 4 + FEW);
        }
    }

    /// `nr` pages were looked at from the tail on; those of them that were taken are the batch.
    #[inline]
    pub(super) fn taken(&mut self, nr: usize, batch: &[Folio]) {
        let last = match *batch {
            [.., before, last] => [before.pfn(), last.pfn()],
            [last] => [last.pfn(); 2],
            [] => return self.pass(nr / SEGMENT),
        };
        let is_last = |nr: usize| {
            nr != 0 && self.pages.get(nr - 1).is_some_and(|&pfn| last.contains(&Pfn(pfn)))
        };
        let expected = nr / SEGMENT;
        match [expected, expected + 1].into_iter().find(|&nr| is_last(nr)) {
            Some(nr) => self.pass(nr),
            None => self.find(last),
        }
    }

    /// Milestones in between left the list, or pages came to its tail.
    #[cold]
    #[inline(never)]
    fn find(&mut self, last: [Pfn; 2]) {
        let is_last = |&pfn: &u32| last.contains(&Pfn(pfn));
        self.missed += 1;
        match self.pages.iter().take(NEXT).rposition(is_last) {
            Some(at) => self.pass(at + 1),
            None if self.missed == PATIENCE => self.pass(NEXT),
            None => {}
        }
    }

    fn pass(&mut self, nr: usize) {
        self.pages.drain(..nr.min(self.pages.len()));
        self.nr_asked = self.nr_asked.saturating_sub(nr);
        self.missed = 0;
    }

    /// Asks for milestones, after a batch of `nr` pages was taken.
    #[inline]
    pub(super) fn ask(&mut self, nr: usize, map: &PageMap) -> Walk {
        let mut walk = Walk::default();
        let end = (self.nr_asked + nr.min(SHARE)).min(LEAD).min(self.pages.len());
        let begin = self.nr_asked.min(end);
        for (at, &pfn) in walk.at.iter_mut().zip(self.pages.range(begin..end)) {
            if let Some(page) = map.get(Pfn(pfn)) {
                prefetch_read(page);
            }
            *at = pfn;
        }
        walk.nr = end - begin;
        self.nr_asked = self.nr_asked.max(end);
        walk
    }
}

impl Walk {
    /// While a page of the batch is judged: reads a milestone and prefetches the page after it.
    #[inline(always)]
    pub(crate) fn step<H: Host>(&mut self, host: &H, map: &PageMap) {
        if self.nr_seen == self.nr {
            return;
        }
        let pfn = Pfn(self.at[self.nr_seen % SHARE]);
        self.nr_seen += 1;
        host.descriptor_soon(pfn);
        let Some(page) = map.get(pfn) else { return };
        let next = Pfn(page.prev.load(Relaxed));
        if let Some(page) = map.get(next) {
            prefetch_read(page);
            host.descriptor_soon(next);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::host::Solo;
    use crate::page::{Order, PageList};

    /// A list of pages in an order of nothing, as it lies in memory.
    struct Stage {
        map: PageMap,
        list: PageList,
        milestones: Milestones,
        /// Oldest first.
        order: Vec<Pfn>,
    }

    impl Stage {
        fn new(nr: u32) -> Stage {
            let order = (0..nr).map(|at| Pfn(at * 37 % nr)).collect();
            let (list, milestones) = Default::default();
            let mut stage = Stage { map: PageMap::new(nr), list, milestones, order };
            (0..nr as usize).for_each(|at| stage.join(stage.order[at]));
            stage
        }

        fn join(&mut self, pfn: Pfn) {
            self.list.push_head(&self.map, pfn);
            self.milestones.joined(pfn, self.list.len());
        }

        fn leave(&mut self, place: usize) {
            self.list.remove(&self.map, self.order[place]);
        }

        /// A batch, as an isolation takes it.
        fn take(&mut self, nr: usize) -> Walk {
            let mut pop = || Folio::new(self.list.pop_tail(&self.map).unwrap(), Order::ZERO);
            let batch: Vec<_> = (0..nr).map(|_| pop()).collect();
            self.milestones.taken(nr, &batch);
            self.milestones.ask(nr, &self.map)
        }

        /// Places of the milestones of a batch's walk.
        fn places(&self, mut walk: Walk) -> Vec<usize> {
            (0..40).for_each(|_| walk.step(&Solo::default(), &self.map));
            assert_eq!(walk.nr_seen, walk.nr);
            walk.at[..walk.nr].iter().map(|&pfn| self.place(Pfn(pfn))).collect()
        }

        fn place(&self, pfn: Pfn) -> usize {
            self.order.iter().position(|&at| at == pfn).unwrap()
        }

        /// Where the first milestone lies.
        fn first(&self) -> Option<usize> {
            self.milestones.pages.front().map(|&pfn| self.place(Pfn(pfn)))
        }
    }

    #[test]
    fn batches_ask_for_every_milestone_once_and_gain_a_lead() {
        let mut stage = Stage::new(4000);
        let mut found = Vec::new();
        for batch in 1..=40 {
            let walk = stage.take(32);
            found.extend(stage.places(walk));
            assert_eq!(stage.first(), Some(32 * batch + 1));
        }
        let milestones = (33..).step_by(SEGMENT).take(39 * 16 + LEAD);
        assert!(found.into_iter().eq(milestones));
    }

    #[test]
    fn a_milestone_that_left_is_passed_over() {
        let mut stage = Stage::new(1000);
        assert_eq!(stage.first(), Some(1));
        stage.leave(31);
        stage.take(31);
        assert_eq!(stage.first(), Some(31), "the next to last was none, and not met");
        stage.take(32);
        assert_eq!(stage.first(), Some(65));
        // If none of many milestones is in place, batches continue for a while without effect, and
        // then the milestones are dropped.
        (65..300).for_each(|at| stage.leave(at));
        for _ in 0..8 {
            stage.take(32);
        }
        assert_eq!(stage.first(), Some(65 + 2 * NEXT));
    }

    #[test]
    fn milestones_do_not_outgrow_their_list() {
        let mut stage = Stage::new(1000);
        for _ in 0..20 {
            for at in 0..1000 {
                stage.leave(at);
                stage.join(stage.order[at]);
            }
        }
        assert!(stage.milestones.pages.capacity() <= 1000);
        for _ in 0..100 {
            stage.take(10);
        }
        assert!(stage.list.is_empty());
    }
}
