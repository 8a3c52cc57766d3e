//! New generations (rules/mglru#aging).

use super::{
    ALL_MARKS, End, GENERATIONS, Generations, LockedLru, slot_flags, slot_of, slot_of_page,
};
use crate::config::OldestRule;
use crate::host::{Devices, Tasks};
use crate::lru::bloom::BloomFilter;
use crate::page::{MmId, PageFlags};
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::{LruKind, PageType};
use crate::zone::{ZoneId, ZoneType};

/// The walk over the address spaces of some lists, which all tasks share that age them.
#[doc(alias = "lru_gen_mm_state")]
#[derive(Debug)]
pub(crate) struct WalkState {
    /// The generation for which the last walk was made.
    seq: u64,
    /// The address space that was handed out last; they go by number.
    last: Option<MmId>,
    /// Spaces with higher numbers were created since the last walk.
    known: Option<MmId>,
    /// Tasks that walk now.
    walkers: u32,
    /// An address space was walked for this generation.
    has_begun: bool,
    /// Page tables worth a look, for generations with even and odd numbers.
    filters: [Option<BloomFilter>; 2],
}

impl Default for WalkState {
    fn default() -> Self {
        let seq = GENERATIONS as u64 - 2;
        WalkState {
            seq,
            last: None,
            known: None,
            walkers: 0,
            has_begun: false,
            filters: [None, None],
        }
    }
}

/// A task's part in a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Iteration {
    /// Another task has walked for this generation, or is about to end.
    Over,
    /// This one takes part.
    Joined,
}

impl WalkState {
    /// The lists go to another memory cgroup; tasks that walk for the old one end their walk.
    pub(super) fn start_again(&mut self, max: u64) {
        let (seq, walkers) = (max - 1, self.walkers);
        *self = WalkState { seq, walkers, ..WalkState::default() };
    }

    /// A task wants a generation after `seq`.
    pub(crate) fn join(&mut self, seq: u64) -> Iteration {
        if seq <= self.seq {
            return Iteration::Over;
        }
        if self.walkers == 0 {
            self.last = None;
            self.has_begun = false;
        }
        self.walkers += 1;
        Iteration::Joined
    }

    /// An address space will be walked: the first one of a walk clears the filter for the next
    /// generation. A walk that finds none leaves it as it is, so if there was no filter, the next
    /// walk looks at every table.
    pub(crate) fn begin(&mut self, seq: u64) {
        if !self.has_begun {
            self.has_begun = true;
            let next = &mut self.filters[(seq as usize + 1) % 2];
            next.get_or_insert_with(BloomFilter::new).clear();
        }
    }

    /// Nothing is walked for this generation; true if it is this task that makes the next one.
    #[doc(alias = "iterate_mm_list_nowalk")]
    pub(crate) fn skip(&mut self, seq: u64) -> bool {
        let is_first = seq > self.seq && self.walkers == 0;
        if is_first {
            self.seq += 1;
        }
        is_first
    }

    /// The address space after which the next one is looked for.
    pub(crate) fn last(&self) -> Option<MmId> {
        self.last
    }

    /// An address space was handed out; true if it was created since the last walk.
    pub(crate) fn take(&mut self, mm: MmId) -> bool {
        self.last = Some(mm);
        self.known.is_none_or(|known| mm > known)
    }

    /// A task walks.
    pub(crate) fn is_walked(&self) -> bool {
        self.walkers != 0
    }

    /// There are no more address spaces. True for the last walker: it makes the generation.
    pub(crate) fn leave(&mut self, seq: u64) -> bool {
        self.walkers -= 1;
        let is_last = self.walkers == 0 && self.seq < seq;
        if is_last {
            self.seq = seq;
            self.known = self.known.max(self.last);
        }
        is_last
    }

    /// A page table is worth a look in a walk for a generation: all are without a filter.
    pub(crate) fn wants(&self, seq: u64, table: u64) -> bool {
        self.filters[seq as usize % 2].as_ref().is_none_or(|filter| filter.has(table))
    }

    /// A page table was dense: the walk for a generation will look at it.
    pub(crate) fn note(&mut self, seq: u64, table: u64) {
        if let Some(filter) = &mut self.filters[seq as usize % 2] {
            filter.add(table);
        }
    }
}

/// The oldest generations of both types after those without pages are gone, from the first with
/// pages of each.
#[doc(alias = "try_to_inc_min_seq")]
fn advanced(
    rule: OldestRule,
    min: [u64; 2],
    found: [u64; 2],
    max: u64,
    has_swap: bool,
) -> [u64; 2] {
    let [anon, file] = found;
    if !has_swap {
        return [min[0], file];
    }
    match rule {
        OldestRule::Together => {
            let anon = anon.min(file);
            [anon, anon.max(min[1])]
        }
        OldestRule::OneApart => {
            let bound = max.saturating_sub(2);
            let held = |own: u64, other: u64| {
                if own > bound && other < bound { bound } else { own }
            };
            [held(anon, file).max(min[0]), held(file, anon).max(min[1])]
        }
    }
}

impl<H: Tasks> Generations<H> {
    fn set_min(&self, page_type: PageType, seq: u64) {
        let min = &self.min[page_type as usize];
        if min.load(Relaxed) != seq {
            self.feedback.smooth(page_type);
            min.store(seq, Relaxed);
        }
    }
}

impl<H: Devices> LockedLru<'_, '_, H> {
    /// Gives up oldest generations that have no pages any more; true if one is gone.
    pub(crate) fn advance_oldest(&mut self, has_swap: bool) -> bool {
        let Some(gens) = self.kernel.generations(self.id) else { return false };
        let windows = PageType::ALL.map(|page_type| gens.window(page_type));
        let max = windows[0].max;
        let first_with_pages = |page_type: PageType| {
            let min = windows[page_type as usize].min;
            let is_empty = |&seq: &u64| {
                let queues = self.lists.queues.as_ref();
                queues.is_some_and(|queues| queues.is_empty(slot_of(seq), page_type))
            };
            let gone = (min..max.saturating_sub(1)).take_while(is_empty).count();
            min + gone as u64
        };
        let min = windows.map(|window| window.min);
        let found = PageType::ALL.map(first_with_pages);
        let rule = self.kernel.mglru_policy().oldest;
        let now = advanced(rule, min, found, max, has_swap);
        for page_type in PageType::ALL {
            gens.set_min(page_type, now[page_type as usize]);
        }
        now != min
    }

    /// Makes a generation after `seq`; false if another task did.
    #[doc(alias = "inc_max_seq")]
    pub(crate) fn make_generation(&mut self, seq: u64, has_swap: bool) -> bool {
        let kernel = self.kernel;
        let Some(gens) = kernel.generations(self.id) else { return false };
        if gens.max() != seq {
            return false;
        }
        for page_type in PageType::ALL {
            let window = gens.window(page_type);
            if window.len() < GENERATIONS as u64 {
                continue;
            }
            if page_type == PageType::File || has_swap {
                self.empty_oldest(page_type);
            }
            gens.set_min(page_type, window.min + 1);
        }
        // The youngest but one is no longer active, the new one is.
        let node = kernel.lru.node_of(self.id);
        for (slot, becomes_active) in [(slot_of(seq - 1), false), (slot_of(seq + 1), true)] {
            for (page_type, zone) in
                PageType::ALL.into_iter().flat_map(|t| ZoneType::ALL.map(|zone| (t, zone)))
            {
                let pages = gens.exact_size(slot, page_type, zone.idx());
                if pages == 0 {
                    continue;
                }
                let sign = if becomes_active { 1 } else { -1 };
                for (is_active, delta) in [(true, sign * pages), (false, -sign * pages)] {
                    let (zone, list) =
                        (ZoneId::new(node, zone), LruKind::new(page_type, is_active));
                    kernel.lru_count(self.cx, self.id, zone, list, delta);
                }
            }
        }
        gens.max.store(seq + 1, Relaxed);
        true
    }

    /// Moves the pages of the oldest generation of a type to the end of the next.
    #[doc(alias = "inc_min_seq")]
    fn empty_oldest(&mut self, page_type: PageType) {
        let kernel = self.kernel;
        let Some(gens) = kernel.generations(self.id) else { return };
        let min = gens.window(page_type).min;
        let (from, to) = (slot_of(min), slot_of(min + 1));
        for zone in ZoneType::ALL {
            while let Some(pfn) =
                self.lists.queues.as_ref().and_then(|queues| queues.tail(from, page_type, zone))
            {
                let (folio, page) = kernel.mem.map.lookup(pfn);
                let before = page.flag_update::<H>(|flags| {
                    let is_here = slot_of_page(flags) == Some(from);
                    is_here.then(|| (flags - ALL_MARKS - PageFlags::GENERATION) | slot_flags(to))
                });
                let at = match slot_of_page(before) {
                    Some(slot) if slot != from => slot,
                    _ => {
                        kernel.recount(
                            self.cx,
                            self.id,
                            (folio, page),
                            before,
                            [Some(from), Some(to)],
                        );
                        to
                    }
                };
                self.add_work(1);
                if let Some(queues) = &mut self.lists.queues {
                    queues.leave(&kernel.mem.map, zone, pfn);
                    queues.join(&kernel.mem.map, (at, page_type, zone), pfn, End::Tail);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oldest generations (rules/mglru#oldest, vector 6).
    #[test]
    fn the_oldest_generations_go_together() {
        let together = |min, found| advanced(OldestRule::Together, min, found, 5, true);
        assert_eq!(together([2, 2], [3, 2]), [2, 2]);
        assert_eq!(together([2, 2], [2, 4]), [2, 2]);
        assert_eq!(together([2, 2], [3, 3]), [3, 3]);
        assert_eq!(together([2, 2], [3, 4]), [3, 3]);
        assert_eq!(together([2, 2], [4, 4]), [4, 4]);
        assert_eq!(together([2, 3], [4, 4]), [4, 4]);
        assert_eq!(advanced(OldestRule::Together, [2, 2], [2, 4], 5, false), [2, 4]);
        let apart = |min, found| advanced(OldestRule::OneApart, min, found, 5, true);
        assert_eq!(apart([2, 2], [2, 4]), [2, 3]);
        assert_eq!(apart([2, 4], [2, 4]), [2, 4], "never back");
    }

    #[test]
    fn the_last_walker_makes_the_generation() {
        let mut walk = WalkState::default();
        assert_eq!(walk.join(2), Iteration::Over, "made at boot");
        assert_eq!(walk.join(3), Iteration::Joined);
        assert!(walk.take(MmId(1)), "new");
        walk.begin(3);
        assert!(walk.wants(3, 77), "no filter yet");
        walk.note(4, 77);
        assert_eq!(walk.join(3), Iteration::Joined);
        assert!(!walk.leave(3) && walk.leave(3));
        assert_eq!(walk.join(3), Iteration::Over);
        assert_eq!(walk.join(4), Iteration::Joined);
        walk.begin(4);
        assert!(walk.wants(4, 77) && !walk.wants(4, 78));
        assert!(!walk.take(MmId(1)) && walk.take(MmId(2)));
        assert!(walk.leave(4) && walk.skip(5) && !walk.skip(5));
    }
}
