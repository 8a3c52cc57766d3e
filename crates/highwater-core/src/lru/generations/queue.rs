//! The lists of a generation: a page may leave one whose number it no longer carries.
//!
//! A page that was used gets the number of the youngest generation, without the lock of the lists.
//! It stays on its list until reclaim comes to it. So a page that leaves does not know its list:
//! only at an end of one does it matter which, and the ends are compared.

use super::{End, GENERATIONS};
use crate::page::{Page, PageList, Pfn};
use crate::units::PageType;
use crate::zone::ZoneType;

/// Lists by the place of the generation, type and zone.
#[derive(Debug, Default)]
pub(crate) struct Queues([[[Ends; ZoneType::COUNT]; 2]; GENERATIONS]);

/// The ends of a list; empty: none.
#[derive(Clone, Copy, Debug, Default)]
struct Ends(Option<(Pfn, Pfn)>);

impl Queues {
    /// True if a generation has no page of a type on its lists.
    pub(crate) fn is_empty(&self, slot: usize, page_type: PageType) -> bool {
        self.0[slot][page_type as usize].iter().all(|ends| ends.0.is_none())
    }

    /// The page that reclaim comes to next.
    pub(super) fn tail(&self, slot: usize, page_type: PageType, zone: ZoneType) -> Option<Pfn> {
        self.0[slot][page_type as usize][zone.idx()].0.map(|(_, tail)| tail)
    }

    /// Pages of a list, newest first.
    pub(crate) fn pages<'a>(
        &self,
        map: &'a [Page],
        (slot, page_type, zone): (usize, PageType, ZoneType),
    ) -> impl Iterator<Item = Pfn> + use<'a> {
        let head = self.0[slot][page_type as usize][zone.idx()].0.map(|(head, _)| head);
        core::iter::successors(head, |&pfn| PageList::neighbours(map, pfn).1)
    }

    /// Pages of a type in a generation, newest first.
    pub(crate) fn of_generation<'a>(
        &self,
        map: &'a [Page],
        (slot, page_type): (usize, PageType),
    ) -> impl Iterator<Item = Pfn> + use<'_, 'a> {
        ZoneType::ALL.into_iter().flat_map(move |zone| self.pages(map, (slot, page_type, zone)))
    }

    /// A page on no list joins one.
    pub(super) fn join(
        &mut self,
        map: &[Page],
        (slot, page_type, zone): (usize, PageType, ZoneType),
        pfn: Pfn,
        end: End,
    ) {
        let ends = &mut self.0[slot][page_type as usize][zone.idx()].0;
        let links = match (*ends, end) {
            (None, _) => (None, None),
            (Some((head, _)), End::Head) => (None, Some(head)),
            (Some((_, tail)), End::Tail) => (Some(tail), None),
        };
        PageList::link_between(map, pfn, links);
        *ends = Some(match (*ends, end) {
            (None, _) => (pfn, pfn),
            (Some((_, tail)), End::Head) => (pfn, tail),
            (Some((head, _)), End::Tail) => (head, pfn),
        });
    }

    /// A page leaves its list, whichever of its zone's that is.
    pub(super) fn leave(&mut self, map: &[Page], zone: ZoneType, pfn: Pfn) {
        let (prev, next) = PageList::neighbours(map, pfn);
        PageList::unlink_between(map, (prev, next));
        if prev.is_some() && next.is_some() {
            return;
        }
        let lists = self.0.iter_mut().flatten().map(|zones| &mut zones[zone.idx()].0);
        for ends in lists {
            let Some((head, tail)) = ends else { continue };
            match (*head == pfn, *tail == pfn) {
                (true, true) => *ends = None,
                (true, false) => *head = next.unwrap_or(*head),
                (false, true) => *tail = prev.unwrap_or(*tail),
                (false, false) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::config::ZoneSpec;
    use crate::host::Solo;
    use crate::lru::testing::{FILE, Stage};

    #[test]
    fn pages_leave_lists_that_they_do_not_name() {
        let host = Solo::default();
        let zone = ZoneSpec::full(ZoneType::Normal, 4096, 4096);
        let stage = Stage::with(&host, [zone].into(), |_| {});
        let map: &[Page] = &stage.kernel.mem.map;
        let pages: Vec<Pfn> = (0..6).map(|_| stage.page(FILE).pfn()).collect();
        let mut queues = Queues::default();
        let (a, b) = ((1, PageType::File, ZoneType::Normal), (2, PageType::Anon, ZoneType::Normal));
        for &pfn in &pages[..4] {
            queues.join(map, a, pfn, End::Head);
        }
        queues.join(map, b, pages[4], End::Tail);
        queues.join(map, a, pages[5], End::Tail);
        let on = |queues: &Queues, list| queues.pages(map, list).collect::<Vec<_>>();
        assert_eq!(on(&queues, a), [pages[3], pages[2], pages[1], pages[0], pages[5]]);
        assert_eq!(queues.tail(1, PageType::File, ZoneType::Normal), Some(pages[5]));
        for at in [1, 3, 5, 4] {
            queues.leave(map, ZoneType::Normal, pages[at]);
        }
        assert_eq!(on(&queues, a), [pages[2], pages[0]]);
        assert!(queues.is_empty(2, PageType::Anon) && !queues.is_empty(1, PageType::File));
        queues.leave(map, ZoneType::Normal, pages[0]);
        queues.leave(map, ZoneType::Normal, pages[2]);
        assert!(queues.is_empty(1, PageType::File));
    }
}
