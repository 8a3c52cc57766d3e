//! A list of frames in a separate array: one CPU's pages of a zone.
//!
//! A [`super::PageList`] links frames through their descriptors; a ring holds their numbers side by
//! side. Taking a frame off an end touches no other descriptor. A drain of many frames knows all of
//! them before the first descriptor has arrived from memory. The cost: four bytes per frame, and no
//! removal from the middle. The array grows under its lock up to its users' limit, and never
//! shrinks.
//!
//! A frame is on at most one list. Every operation needs the ring's lock, and is O(1) per frame.
//!
//! From: `page_alloc::pcp` and its drains.

use alloc::boxed::Box;
use alloc::vec;

use super::Pfn;

/// A list of frames that grows and shrinks at its ends.
///
/// It replaces `alloc`'s deque, which tests for room and for the array's end twice. This array's
/// size is a power of two, so a mask finds the next place, and one test is left.
#[derive(Clone, Debug, Default)]
pub struct PageRing {
    /// None, or a power of two of them.
    frames: Box<[Pfn]>,
    /// Place of the head, before the mask.
    head: usize,
    len: usize,
}

/// Places of the first array.
const FIRST: usize = 4;

impl PageRing {
    /// Number of frames (blocks) on the list.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First frame.
    #[inline(always)]
    pub fn head(&self) -> Option<Pfn> {
        (self.len != 0).then(|| self.frames[self.place(0)])
    }

    /// Puts a frame at the front.
    #[inline(always)]
    pub fn push_head(&mut self, pfn: Pfn) {
        if self.len == self.frames.len() {
            self.grow();
        }
        self.head = self.head.wrapping_sub(1);
        self.len += 1;
        self.frames[self.place(0)] = pfn;
    }

    /// Puts frames at the front, one before the other: the last one is the head.
    #[inline]
    pub fn push_heads(&mut self, pfns: &[Pfn]) {
        while self.frames.len() - self.len < pfns.len() {
            self.grow();
        }
        // Down to the first place, and on from the last one.
        let head = self.place(0);
        let (now, later) = pfns.split_at(pfns.len().min(head));
        let put = |places: &mut [Pfn], pfns: &[Pfn]| {
            places.iter_mut().rev().zip(pfns).for_each(|(place, &pfn)| *place = pfn);
        };
        put(&mut self.frames[..head], now);
        put(&mut self.frames, later);
        self.head = self.head.wrapping_sub(pfns.len());
        self.len += pfns.len();
    }

    /// Puts a frame at the back.
    #[inline(always)]
    pub fn push_tail(&mut self, pfn: Pfn) {
        if self.len == self.frames.len() {
            self.grow();
        }
        self.frames[self.place(self.len)] = pfn;
        self.len += 1;
    }

    /// Takes the first frame.
    #[inline(always)]
    pub fn pop_head(&mut self) -> Option<Pfn> {
        let pfn = self.head()?;
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
        Some(pfn)
    }

    /// Takes the last frame.
    #[inline(always)]
    pub fn pop_tail(&mut self) -> Option<Pfn> {
        let pfn = self.frames[self.place(self.len.checked_sub(1)?)];
        self.len -= 1;
        Some(pfn)
    }

    /// Removes `nr` frames from the tail, or all if there are fewer.
    #[inline(always)]
    pub fn drop_tail(&mut self, nr: usize) {
        self.len = self.len.saturating_sub(nr);
    }

    /// The frames in two parts, each from head to tail: first the part at the tail, then the one at the head.
    #[inline(always)]
    pub fn parts_from_tail(&self) -> [&[Pfn]; 2] {
        let (head, end) = (self.place(0), self.place(0) + self.len);
        match end.checked_sub(self.frames.len()) {
            Some(wrapped) => [&self.frames[..wrapped], &self.frames[head..]],
            None => [&self.frames[head..end], &[]],
        }
    }

    /// The frames from head to tail.
    pub fn iter(&self) -> impl Iterator<Item = Pfn> + '_ {
        (0..self.len).map(|n| self.frames[self.place(n)])
    }

    /// Where the frame is that has `n` others before it.
    #[inline(always)]
    fn place(&self, n: usize) -> usize {
        self.head.wrapping_add(n) & self.frames.len().wrapping_sub(1)
    }

    /// Twice the places; the head is at the first of them.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut frames =
            vec![Pfn::default(); (self.frames.len() * 2).max(FIRST)].into_boxed_slice();
        for (place, pfn) in frames.iter_mut().zip(self.iter()) {
            *place = pfn;
        }
        (self.frames, self.head) = (frames, 0);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn order_is_kept_at_both_ends() {
        let mut ring = PageRing::default();
        ring.push_head(Pfn(1));
        ring.push_head(Pfn(2));
        ring.push_tail(Pfn(3));
        assert!(ring.iter().eq([Pfn(2), Pfn(1), Pfn(3)]));
        assert_eq!(ring.parts_from_tail().concat(), [Pfn(3), Pfn(2), Pfn(1)]);
        assert_eq!((ring.head(), ring.pop_tail()), (Some(Pfn(2)), Some(Pfn(3))));
        assert_eq!((ring.pop_head(), ring.len()), (Some(Pfn(2)), 1));
        assert_eq!((ring.pop_tail(), ring.pop_head(), ring.is_empty()), (Some(Pfn(1)), None, true));
    }

    proptest! {
        /// Compared with the standard library's deque, for any sequence of operations.
        #[test]
        fn a_ring_is_a_deque(ops in prop::collection::vec((0..7, any::<u16>()), 0..600)) {
            let (mut ring, mut deque) = (PageRing::default(), VecDeque::new());
            for (op, pfn) in ops {
                let pfn = Pfn(u32::from(pfn));
                match op {
                    0 => {
                        ring.push_head(pfn);
                        deque.push_front(pfn);
                    }
                    1 => {
                        ring.push_tail(pfn);
                        deque.push_back(pfn);
                    }
                    2 => {
                        let pfns: Vec<_> = (0..pfn.0 % 9).map(|n| Pfn(pfn.0 ^ n)).collect();
                        ring.push_heads(&pfns);
                        pfns.into_iter().for_each(|pfn| deque.push_front(pfn));
                    }
                    3 => prop_assert_eq!(ring.pop_head(), deque.pop_front()),
                    4 => {
                        let nr = pfn.0 as usize % 5;
                        ring.drop_tail(nr);
                        deque.truncate(deque.len().saturating_sub(nr));
                    }
                    _ => prop_assert_eq!(ring.pop_tail(), deque.pop_back()),
                }
                prop_assert_eq!((ring.len(), ring.head()), (deque.len(), deque.front().copied()));
                let [behind, before] = ring.parts_from_tail();
                prop_assert!(before.iter().chain(behind).eq(&deque));
            }
            let (ring, deque): (Vec<_>, Vec<_>) = (ring.iter().collect(), deque.into());
            prop_assert_eq!(ring, deque);
        }
    }
}
