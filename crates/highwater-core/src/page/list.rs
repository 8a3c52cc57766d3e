//! Doubly linked lists through the page array: 12 bytes a list, no allocation, no unsafe.
//!
//! A frame is on at most one list. Every operation is O(1) and needs the lock that owns the list.

use super::{Page, Pfn};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

const NIL: u32 = u32::MAX;

/// A list of frames.
#[derive(Clone, Copy, Debug)]
pub struct PageList {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for PageList {
    fn default() -> Self {
        PageList { head: NIL, tail: NIL, len: 0 }
    }
}

impl PageList {
    /// Number of frames (blocks) on the list.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// True if there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// First frame.
    #[inline(always)]
    pub fn head(&self) -> Option<Pfn> {
        (self.head != NIL).then_some(Pfn(self.head))
    }

    /// Last frame.
    #[inline(always)]
    pub fn tail(&self) -> Option<Pfn> {
        (self.tail != NIL).then_some(Pfn(self.tail))
    }

    /// Puts a frame at the front.
    ///
    /// # Panics
    /// If a frame is outside the array.
    #[inline(always)]
    pub fn push_head(&mut self, map: &[Page], page: impl Into<Pfn>) {
        let pfn = page.into();
        let page = &map[pfn.idx()];
        page.prev.store(NIL, Relaxed);
        page.next.store(self.head, Relaxed);
        if self.head == NIL {
            self.tail = pfn.0;
        } else {
            map[self.head as usize].prev.store(pfn.0, Relaxed);
        }
        self.head = pfn.0;
        self.len += 1;
    }

    /// Puts a frame at the back.
    ///
    /// # Panics
    /// If a frame is outside the array.
    #[inline]
    pub fn push_tail(&mut self, map: &[Page], page: impl Into<Pfn>) {
        let pfn = page.into();
        let page = &map[pfn.idx()];
        page.next.store(NIL, Relaxed);
        page.prev.store(self.tail, Relaxed);
        if self.tail == NIL {
            self.head = pfn.0;
        } else {
            map[self.tail as usize].next.store(pfn.0, Relaxed);
        }
        self.tail = pfn.0;
        self.len += 1;
    }

    /// Puts a frame behind one that is on the list.
    ///
    /// # Panics
    /// If a frame is outside the array.
    pub fn insert_after(&mut self, map: &[Page], before: Pfn, page: Pfn) {
        let after = map[before.idx()].next.load(Relaxed);
        map[page.idx()].prev.store(before.0, Relaxed);
        map[page.idx()].next.store(after, Relaxed);
        map[before.idx()].next.store(page.0, Relaxed);
        if after == NIL {
            self.tail = page.0;
        } else {
            map[after as usize].prev.store(page.0, Relaxed);
        }
        self.len += 1;
    }

    /// Takes the first frame.
    ///
    /// # Panics
    /// If the array is not the one whose frames are on the list, and too short.
    #[inline(always)]
    pub fn pop_head(&mut self, map: &[Page]) -> Option<Pfn> {
        let pfn = self.head()?;
        let next = map[pfn.idx()].next.load(Relaxed);
        self.head = next;
        if next == NIL {
            self.tail = NIL;
        } else {
            map[next as usize].prev.store(NIL, Relaxed);
        }
        self.len -= 1;
        Some(pfn)
    }

    /// Takes the last frame.
    ///
    /// # Panics
    /// As [`Self::pop_head`].
    #[inline]
    pub fn pop_tail(&mut self, map: &[Page]) -> Option<Pfn> {
        let pfn = self.tail()?;
        self.remove(map, pfn);
        Some(pfn)
    }

    /// Walks frames from the back to the front. They stay on the list until [`PageList::cut_back`]
    /// removes the visited ones.
    #[inline(always)]
    pub(crate) fn walk_back<'a>(&self, map: &'a [Page]) -> BackWalk<'a> {
        BackWalk { map, at: self.tail, nr: 0 }
    }

    /// Takes all frames that a walk has looked at: as many times [`PageList::pop_tail`], with half
    /// of the stores. The list has not changed since the walk began; links of frames that were
    /// looked at may have.
    #[inline(always)]
    pub(crate) fn cut_back(&mut self, walk: BackWalk<'_>) {
        if walk.nr == 0 {
            return;
        }
        self.len -= walk.nr;
        self.tail = walk.at;
        if walk.at == NIL {
            self.head = NIL;
        } else {
            walk.map[walk.at as usize].next.store(NIL, Relaxed);
        }
    }

    /// Unlinks a frame that is on this list.
    ///
    /// # Panics
    /// If the frame is outside the array. With checks on, also if it is not on the list.
    #[inline]
    pub fn remove(&mut self, map: &[Page], page: impl Into<Pfn>) {
        let pfn = page.into();
        let page = &map[pfn.idx()];
        let (prev, next) = (page.prev.load(Relaxed), page.next.load(Relaxed));
        if prev == NIL {
            debug_assert_eq!(self.head, pfn.0, "frame is the head of another list");
            self.head = next;
        } else {
            map[prev as usize].next.store(next, Relaxed);
        }
        if next == NIL {
            debug_assert_eq!(self.tail, pfn.0, "frame is the tail of another list");
            self.tail = prev;
        } else {
            map[next as usize].prev.store(prev, Relaxed);
        }
        self.len -= 1;
    }

    /// The frames before and behind one that is on some list.
    ///
    /// # Panics
    /// If the frame is outside the array.
    pub(crate) fn neighbours(map: &[Page], pfn: Pfn) -> (Option<Pfn>, Option<Pfn>) {
        let page = &map[pfn.idx()];
        let of = |link: &AtomicU32| {
            let link = link.load(Relaxed);
            (link != NIL).then_some(Pfn(link))
        };
        (of(&page.prev), of(&page.next))
    }

    /// Links a frame to its neighbours-to-be. The caller keeps the ends of the list.
    ///
    /// # Panics
    /// If a frame is outside the array.
    pub(crate) fn link_between(map: &[Page], pfn: Pfn, (prev, next): (Option<Pfn>, Option<Pfn>)) {
        let page = &map[pfn.idx()];
        let link = |pfn: Option<Pfn>| pfn.map_or(NIL, |pfn| pfn.0);
        page.prev.store(link(prev), Relaxed);
        page.next.store(link(next), Relaxed);
        if let Some(prev) = prev {
            map[prev.idx()].next.store(pfn.0, Relaxed);
        }
        if let Some(next) = next {
            map[next.idx()].prev.store(pfn.0, Relaxed);
        }
    }

    /// Links the neighbours of a frame that leaves to each other.
    ///
    /// # Panics
    /// If a frame is outside the array.
    pub(crate) fn unlink_between(map: &[Page], (prev, next): (Option<Pfn>, Option<Pfn>)) {
        let link = |pfn: Option<Pfn>| pfn.map_or(NIL, |pfn| pfn.0);
        if let Some(prev) = prev {
            map[prev.idx()].next.store(link(next), Relaxed);
        }
        if let Some(next) = next {
            map[next.idx()].prev.store(link(prev), Relaxed);
        }
    }

    /// Puts a whole list in front of this one, its order kept.
    ///
    /// # Panics
    /// As [`Self::pop_head`].
    pub fn splice_head(&mut self, map: &[Page], other: PageList) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other;
            return;
        }
        map[other.tail as usize].next.store(self.head, Relaxed);
        map[self.head as usize].prev.store(other.tail, Relaxed);
        self.head = other.head;
        self.len += other.len;
    }

    /// Puts the frames up to `pfn`, which is on the list, behind the others.
    ///
    /// # Panics
    /// If a frame is outside the array.
    pub fn rotate_after(&mut self, map: &[Page], pfn: Pfn) {
        if self.tail != pfn.0 {
            let next = map[pfn.idx()].next.load(Relaxed);
            self.cut_before(map, next);
        }
    }

    /// Puts the frames before `pfn`, which is on the list, behind the others.
    ///
    /// # Panics
    /// If a frame is outside the array.
    pub fn rotate_to(&mut self, map: &[Page], pfn: Pfn) {
        if self.head != pfn.0 {
            self.cut_before(map, pfn.0);
        }
    }

    /// `head` becomes the head: it is on the list and is not the head.
    fn cut_before(&mut self, map: &[Page], head: u32) {
        let tail = map[head as usize].prev.load(Relaxed);
        map[self.tail as usize].next.store(self.head, Relaxed);
        map[self.head as usize].prev.store(self.tail, Relaxed);
        map[tail as usize].next.store(NIL, Relaxed);
        map[head as usize].prev.store(NIL, Relaxed);
        (self.head, self.tail) = (head, tail);
    }

    /// The frames from tail to head. The caller holds the list's lock.
    ///
    /// # Panics
    /// As [`Self::pop_head`].
    pub fn iter_back<'a>(&self, map: &'a [Page]) -> impl Iterator<Item = Pfn> + use<'a> {
        let mut at = self.tail;
        let mut left = self.len;
        core::iter::from_fn(move || {
            if at == NIL || left == 0 {
                return None;
            }
            let pfn = Pfn(at);
            at = map[pfn.idx()].prev.load(Relaxed);
            left -= 1;
            Some(pfn)
        })
    }

    /// The frames from head to tail. The caller holds the list's lock.
    ///
    /// # Panics
    /// As [`Self::pop_head`].
    pub fn iter<'a>(&self, map: &'a [Page]) -> impl Iterator<Item = Pfn> + use<'a> {
        let mut at = self.head;
        let mut left = self.len;
        core::iter::from_fn(move || {
            if at == NIL || left == 0 {
                return None;
            }
            let pfn = Pfn(at);
            at = map[pfn.idx()].next.load(Relaxed);
            left -= 1;
            Some(pfn)
        })
    }
}

/// A list that one task builds from its back to its front: equal to repeated
/// [`PageList::push_head`], with fewer lookups and stores.
///
/// It cannot be copied, because both copies would link to one list.
#[derive(Default)]
pub(crate) struct Chain<'a> {
    list: PageList,
    head: Option<&'a Page>,
}

impl<'a> Chain<'a> {
    /// Puts a frame at the front.
    #[inline(always)]
    pub(crate) fn push_head(&mut self, pfn: Pfn, page: &'a Page) {
        page.next.store(self.list.head, Relaxed);
        match self.head {
            Some(head) => head.prev.store(pfn.0, Relaxed),
            None => self.list.tail = pfn.0,
        }
        self.head = Some(page);
        self.list.head = pfn.0;
        self.list.len += 1;
    }

    /// The list.
    #[inline]
    pub(crate) fn into_list(self) -> PageList {
        if let Some(head) = self.head {
            head.prev.store(NIL, Relaxed);
        }
        self.list
    }
}

/// A walk from the back of a list ([`PageList::walk_back`]).
pub(crate) struct BackWalk<'a> {
    map: &'a [Page],
    at: u32,
    nr: u32,
}

impl<'a> Iterator for BackWalk<'a> {
    type Item = (Pfn, &'a Page);

    #[inline(always)]
    fn next(&mut self) -> Option<(Pfn, &'a Page)> {
        if self.at == NIL {
            return None;
        }
        let pfn = Pfn(self.at);
        let page = &self.map[pfn.idx()];
        self.at = page.prev.load(Relaxed);
        self.nr += 1;
        Some((pfn, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageMap;

    #[test]
    fn order_is_kept_at_both_ends() {
        let map = PageMap::new(8);
        let mut list = PageList::default();
        list.push_head(&map, Pfn(1));
        list.push_head(&map, Pfn(2));
        list.push_tail(&map, Pfn(3));
        assert!(list.iter(&map).eq([Pfn(2), Pfn(1), Pfn(3)]));
        list.remove(&map, Pfn(1));
        assert_eq!(list.pop_tail(&map), Some(Pfn(3)));
        assert_eq!(list.pop_head(&map), Some(Pfn(2)));
        assert_eq!((list.pop_head(&map), list.len(), list.tail()), (None, 0, None));
    }

    #[test]
    fn a_chain_is_the_list_that_it_would_have_been_made_by_single_steps() {
        let map = PageMap::new(8);
        assert!(Chain::default().into_list().is_empty());
        let mut chain = Chain::default();
        for pfn in [3, 1, 4].map(Pfn) {
            chain.push_head(pfn, &map[pfn.idx()]);
        }
        let mut list = chain.into_list();
        assert!(list.iter(&map).eq([4, 1, 3].map(Pfn)));
        assert!(list.iter_back(&map).eq([3, 1, 4].map(Pfn)));
        assert_eq!(
            (list.len(), list.pop_head(&map), list.pop_tail(&map)),
            (3, Some(Pfn(4)), Some(Pfn(3)))
        );
        assert_eq!((list.pop_tail(&map), list.head()), (Some(Pfn(1)), None));
    }

    #[test]
    fn a_walk_takes_what_it_passed() {
        let map = PageMap::new(8);
        let mut list = PageList::default();
        for pfn in [1, 2, 3, 4] {
            list.push_head(&map, Pfn(pfn));
        }
        let untouched = list.walk_back(&map);
        list.cut_back(untouched);
        assert_eq!(list.len(), 4);
        let mut walk = list.walk_back(&map);
        let mut other = PageList::default();
        for (pfn, _) in walk.by_ref().take(2) {
            other.push_head(&map, pfn);
        }
        list.cut_back(walk);
        assert!(list.iter(&map).eq([4, 3].map(Pfn)));
        assert_eq!((list.len(), list.tail()), (2, Some(Pfn(3))));
        assert!(other.iter(&map).eq([2, 1].map(Pfn)));
        let mut walk = list.walk_back(&map);
        assert_eq!(walk.by_ref().count(), 2);
        list.cut_back(walk);
        assert!(list.is_empty() && list.tail().is_none());
        list.push_tail(&map, Pfn(5));
        assert_eq!((list.len(), list.head()), (1, Some(Pfn(5))));
    }

    #[test]
    fn a_frame_goes_behind_another() {
        let map = PageMap::new(8);
        let mut list = PageList::default();
        list.push_tail(&map, Pfn(1));
        list.insert_after(&map, Pfn(1), Pfn(2));
        list.insert_after(&map, Pfn(1), Pfn(3));
        assert!(list.iter(&map).eq([1, 3, 2].map(Pfn)));
        assert!(list.iter_back(&map).eq([2, 3, 1].map(Pfn)));
        assert_eq!(list.tail(), Some(Pfn(2)));
    }

    #[test]
    fn a_rotated_list_begins_elsewhere() {
        let map = PageMap::new(8);
        let mut list = PageList::default();
        for pfn in [1, 2, 3, 4] {
            list.push_tail(&map, Pfn(pfn));
        }
        list.rotate_after(&map, Pfn(2));
        assert!(list.iter(&map).eq([3, 4, 1, 2].map(Pfn)));
        list.rotate_after(&map, Pfn(2));
        assert!(list.iter(&map).eq([3, 4, 1, 2].map(Pfn)), "the last: nothing is behind it");
        list.rotate_to(&map, Pfn(1));
        assert!(list.iter(&map).eq([1, 2, 3, 4].map(Pfn)));
        list.rotate_to(&map, Pfn(1));
        assert!(list.iter_back(&map).eq([4, 3, 2, 1].map(Pfn)));
        list.remove(&map, Pfn(1));
        assert_eq!((list.pop_tail(&map), list.len()), (Some(Pfn(4)), 2));
    }

    #[test]
    fn a_spliced_list_comes_first() {
        let map = PageMap::new(8);
        let (mut list, mut front) = (PageList::default(), PageList::default());
        list.splice_head(&map, front);
        assert!(list.is_empty());
        front.push_tail(&map, Pfn(1));
        front.push_tail(&map, Pfn(2));
        list.splice_head(&map, front);
        assert!(list.iter(&map).eq([Pfn(1), Pfn(2)]));
        let mut again = PageList::default();
        again.push_tail(&map, Pfn(3));
        again.push_tail(&map, Pfn(4));
        list.splice_head(&map, again);
        assert!(list.iter(&map).eq([Pfn(3), Pfn(4), Pfn(1), Pfn(2)]));
        assert_eq!((list.len(), list.pop_tail(&map)), (4, Some(Pfn(2))));
        list.remove(&map, Pfn(4));
        assert!(list.iter(&map).eq([Pfn(3), Pfn(1)]));
    }
}
