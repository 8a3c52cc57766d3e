//! A CPU's stock of pages that are charged but not yet used.
//!
//! A charge that finds no stock takes a whole batch from the counters, which costs an atomic
//! operation per ancestor, and puts the rest here; the next 63 charges on this CPU touch no
//! counter. In return `memory.current` overstates by up to a batch per CPU, and close to the limit,
//! where a batch no longer fits, charges go page by page and there is no stock.
//!
//! Up to 6.12 a CPU has a stock for one group, so two groups that alternate on a CPU throw each
//! other's stock away at each switch. 7.2 has seven slots.
//!
//! Key types: [`Stock`]; [`Surplus`] (pages that a stock gives up, which the caller uncharges).
//!
//! Synchronisation: none; a stock belongs to its CPU.

use arrayvec::ArrayVec;

use crate::units::GroupId;
use crate::vmstat::{Counters, Over};

/// The most groups with a stock on one CPU (7.2).
pub(crate) const SLOTS_MAX: usize = 7;

/// Pages of a group that are to be uncharged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surplus {
    /// The group they are charged to.
    pub group: GroupId,
    /// At least one.
    pub pages: u64,
}

impl Surplus {
    fn of(group: GroupId, pages: u64) -> Option<Surplus> {
        (pages > 0).then_some(Surplus { group, pages })
    }

    /// Uncharges the pages.
    pub(crate) fn uncharge(self, counters: &Counters) {
        counters.uncharge(self.group, self.pages);
    }
}

/// A group's pages on a CPU. A group whose pages are used up keeps its slot until another group
/// needs it.
#[derive(Clone, Copy, Debug)]
struct Slot {
    group: GroupId,
    pages: u64,
}

/// The stock of a CPU.
#[doc(alias = "memcg_stock_pcp")]
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    /// The first `nr_slots` are in use; `None` is a free one.
    slots: [Option<Slot>; SLOTS_MAX],
    nr_slots: usize,
    /// The slot that the next group takes if none is free.
    hand: usize,
    /// The most pages of a group (policy `memcg.charge-batch`).
    batch: u64,
}

impl Stock {
    /// An empty stock of `nr_slots` groups, from 1 to [`SLOTS_MAX`].
    pub(crate) fn new(nr_slots: usize, batch: u64) -> Stock {
        assert!((1..=SLOTS_MAX).contains(&nr_slots), "{nr_slots} slots");
        Stock { slots: [None; SLOTS_MAX], nr_slots, hand: 0, batch }
    }

    /// Takes pages for a charge; false if the group's stock has not enough.
    #[doc(alias = "consume_stock")]
    #[inline]
    pub(crate) fn consume(&mut self, group: GroupId, pages: u64) -> bool {
        if pages > self.batch {
            return false;
        }
        let slot = self.slots[..self.nr_slots].iter_mut().flatten().find(|s| s.group == group);
        let Some(slot) = slot.filter(|slot| slot.pages >= pages) else { return false };
        slot.pages -= pages;
        true
    }

    /// Puts charged pages into the stock. Returns the pages that it cannot hold: those of a group
    /// that gives up its slot, and the whole of a slot above a batch.
    pub(crate) fn refill(&mut self, group: GroupId, pages: u64) -> ArrayVec<Surplus, 2> {
        let mut surplus = ArrayVec::new();
        // A refill above a batch would empty the slot; with several slots it passes them by.
        if self.nr_slots > 1 && pages > self.batch {
            surplus.extend(Surplus::of(group, pages));
            return surplus;
        }
        let at = self.slot_for(group, &mut surplus);
        let held = self.slots[at].map_or(0, |slot| slot.pages) + pages;
        self.slots[at] = if held > self.batch {
            surplus.extend(Surplus::of(group, held));
            None
        } else {
            Some(Slot { group, pages: held })
        };
        surplus
    }

    /// The slot of a group: its own, a free one, or that of another group, whose pages go.
    fn slot_for(&mut self, group: GroupId, surplus: &mut ArrayVec<Surplus, 2>) -> usize {
        let slots = &self.slots[..self.nr_slots];
        let own = slots.iter().position(|slot| slot.is_some_and(|slot| slot.group == group));
        if let Some(at) = own.or_else(|| slots.iter().position(Option::is_none)) {
            return at;
        }
        let at = self.hand;
        self.hand = (at + 1) % self.nr_slots;
        if let Some(slot) = self.slots[at].take() {
            surplus.extend(Surplus::of(slot.group, slot.pages));
        }
        at
    }

    /// Reports whether a drain of the chosen groups would find pages.
    pub(crate) fn has_pages(&self, mut is_chosen: impl FnMut(GroupId) -> bool) -> bool {
        self.slots.iter().flatten().any(|slot| slot.pages > 0 && is_chosen(slot.group))
    }

    /// Gives up the pages of the chosen groups. A group without pages keeps its slot.
    #[doc(alias = "drain_stock")]
    pub(crate) fn drain(
        &mut self,
        mut is_chosen: impl FnMut(GroupId) -> bool,
    ) -> ArrayVec<Surplus, SLOTS_MAX> {
        let mut surplus = ArrayVec::new();
        for place in &mut self.slots {
            if let Some(slot) = place.filter(|slot| slot.pages > 0 && is_chosen(slot.group)) {
                surplus.extend(Surplus::of(slot.group, slot.pages));
                *place = None;
            }
        }
        surplus
    }

    /// The groups that the stock holds a reference to.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.slots.iter().flatten().map(|slot| slot.group)
    }

    /// Pages of a group.
    pub(crate) fn pages(&self, group: GroupId) -> u64 {
        let own = self.slots.iter().flatten().filter(|slot| slot.group == group);
        own.map(|slot| slot.pages).sum()
    }

    /// Charges pages by the stock, or a batch by the counters, or only the pages. Returns the pages
    /// that went through the counters, which count for `memory.high`; 0 = from the stock.
    ///
    /// # Errors
    /// The group whose limit refused. The caller reclaims from it and tries again without a batch.
    ///
    /// Linux: the function's part before it reclaims.
    pub(crate) fn charge(
        &mut self,
        counters: &Counters,
        group: GroupId,
        pages: u64,
    ) -> Result<u64, Over> {
        if self.consume(group, pages) {
            return Ok(0);
        }
        let batch = self.batch.max(pages);
        if counters.try_charge(group, batch).is_ok() {
            if batch > pages {
                let surplus = self.refill(group, batch - pages);
                surplus.into_iter().for_each(|surplus| surplus.uncharge(counters));
            }
            return Ok(batch);
        }
        // Somebody else's uncharge may have made room since, so the batch of one is tried too.
        counters.try_charge(group, pages).map(|()| pages)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const A: GroupId = GroupId(1);
    const B: GroupId = GroupId(2);

    fn counters() -> Counters {
        let counters = Counters::new(20);
        for group in (1..20).map(GroupId) {
            counters.reset(group, GroupId::ROOT);
        }
        counters
    }

    fn surplus(group: GroupId, pages: u64) -> Surplus {
        Surplus { group, pages }
    }

    #[test]
    fn counters_move_in_batches() {
        let (counters, mut stock) = (counters(), Stock::new(1, 64));
        counters.set_max(A, 1000);
        let mut charge = |pages| {
            let result = stock.charge(&counters, A, pages);
            (result, counters[A].usage(), stock.pages(A))
        };
        assert_eq!(charge(1), (Ok(64), 64, 63));
        for left in (0..63).rev() {
            assert_eq!(charge(1), (Ok(0), 64, left));
        }
        assert_eq!(charge(1), (Ok(64), 128, 63));
        assert_eq!(charge(63), (Ok(0), 128, 0));
        assert_eq!(charge(100), (Ok(100), 228, 0));
        let old = Stock::new(1, 32).charge(&counters, A, 1);
        assert_eq!((old, counters[A].usage()), (Ok(32), 260));
    }

    #[test]
    fn near_the_limit_there_is_no_stock() {
        let (counters, mut stock) = (counters(), Stock::new(1, 64));
        counters.set_max(A, 1000);
        counters.charge(A, 960);
        assert_eq!(stock.charge(&counters, A, 1), Ok(1));
        assert_eq!((counters[A].usage(), stock.pages(A), counters[A].failcnt()), (961, 0, 1));
        counters.uncharge(A, 1);
        assert_eq!(counters[A].usage(), 960);
        counters.charge(A, 40);
        assert_eq!(stock.charge(&counters, A, 1), Err(Over { group: A, is_memsw: false }));
        assert_eq!((counters[A].usage(), counters[A].failcnt()), (1000, 3));
    }

    #[test]
    fn groups_that_share_a_cpu_throw_out_each_others_stock() {
        let (counters, mut stock) = (counters(), Stock::new(1, 64));
        assert_eq!(stock.charge(&counters, A, 34), Ok(64));
        assert_eq!((counters[A].usage(), stock.pages(A)), (64, 30));
        assert_eq!(stock.charge(&counters, B, 1), Ok(64));
        assert_eq!((counters[A].usage(), stock.pages(A), stock.pages(B)), (34, 0, 63));
        assert_eq!(stock.groups().collect::<Vec<_>>(), [B]);
    }

    #[test]
    fn a_stock_above_a_batch_is_given_up_whole() {
        let mut stock = Stock::new(1, 64);
        assert!(stock.refill(A, 60).is_empty());
        assert!(stock.refill(A, 1).is_empty());
        assert_eq!(stock.pages(A), 61);
        assert_eq!(stock.refill(A, 4).as_slice(), [surplus(A, 65)]);
        assert_eq!((stock.pages(A), stock.groups().count()), (0, 0));
        stock.refill(A, 10);
        assert_eq!(stock.refill(B, 65).as_slice(), [surplus(A, 10), surplus(B, 65)]);
    }

    #[test]
    fn a_drain_takes_the_chosen_groups() {
        let mut stock = Stock::new(7, 64);
        stock.refill(A, 10);
        stock.refill(B, 20);
        assert!(stock.has_pages(|group| group == A));
        assert_eq!(stock.drain(|group| group == A).as_slice(), [surplus(A, 10)]);
        assert!(!stock.has_pages(|group| group == A) && stock.pages(B) == 20);
        assert!(stock.consume(B, 20) && !stock.has_pages(|_| true));
        assert!(stock.drain(|_| true).is_empty());
        assert_eq!(stock.groups().collect::<Vec<_>>(), [B]);
    }

    #[test]
    fn seven_groups_keep_their_stock() {
        let (counters, mut stock) = (counters(), Stock::new(7, 64));
        for group in (1..=7).map(GroupId) {
            assert_eq!(stock.charge(&counters, group, 1), Ok(64));
        }
        assert!((1..=7).all(|group| stock.consume(GroupId(group), 1)));
        // Further groups take the slots in turn.
        for (evicted, group) in [(1, 8), (2, 9), (3, 10)] {
            assert_eq!(stock.refill(GroupId(group), 5).as_slice(), [surplus(GroupId(evicted), 62)]);
        }
        // A freed slot comes before another group's.
        assert_eq!(stock.refill(GroupId(9), 60).as_slice(), [surplus(GroupId(9), 65)]);
        assert!(stock.refill(GroupId(11), 5).is_empty());
        // More than a batch is not put in, and leaves the stock as it is.
        assert_eq!(stock.refill(GroupId(8), 65).as_slice(), [surplus(GroupId(8), 65)]);
        assert_eq!(stock.pages(GroupId(8)), 5);
        assert!(!stock.consume(GroupId(4), 65));
    }
}
