//! A list of frames in an array of its own: what one CPU keeps of a zone.
//!
//! Where a [`super::PageList`] links frames through their descriptors, a ring holds their numbers side by side. Who takes
//! a frame off an end touches no other frame's descriptor, and who is about to take many knows all of them before the
//! first has come from memory. The price: four bytes a frame, and no frame leaves from the middle. The array grows
//! under its lock until it has the room that its users' limit asks for, and keeps it.
//!
//! A frame is on at most one list. Every operation is O(1) and needs the lock that owns the ring.

use alloc::collections::VecDeque;

use super::Pfn;

/// A list of frames that grows and shrinks at its ends.
#[derive(Clone, Debug, Default)]
pub struct PageRing {
    /// Head first.
    frames: VecDeque<Pfn>,
}

impl PageRing {
    /// Number of frames (blocks) on the list.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True if there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// First frame.
    #[inline(always)]
    pub fn head(&self) -> Option<Pfn> {
        self.frames.front().copied()
    }

    /// Puts a frame at the front.
    #[inline(always)]
    pub fn push_head(&mut self, pfn: Pfn) {
        self.frames.push_front(pfn);
    }

    /// Puts a frame at the back.
    #[inline(always)]
    pub fn push_tail(&mut self, pfn: Pfn) {
        self.frames.push_back(pfn);
    }

    /// Takes the first frame.
    #[inline(always)]
    pub fn pop_head(&mut self) -> Option<Pfn> {
        self.frames.pop_front()
    }

    /// Takes the last frame.
    #[inline(always)]
    pub fn pop_tail(&mut self) -> Option<Pfn> {
        self.frames.pop_back()
    }

    /// The frame that has `n` others behind it: which one [`Self::pop_tail`] gives after `n` others.
    #[inline(always)]
    pub fn from_tail(&self, n: usize) -> Option<Pfn> {
        self.frames.get(self.frames.len().checked_sub(n + 1)?).copied()
    }

    /// The frames from head to tail.
    pub fn iter(&self) -> impl Iterator<Item = Pfn> + '_ {
        self.frames.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_at_both_ends() {
        let mut ring = PageRing::default();
        ring.push_head(Pfn(1));
        ring.push_head(Pfn(2));
        ring.push_tail(Pfn(3));
        assert!(ring.iter().eq([Pfn(2), Pfn(1), Pfn(3)]));
        let behind = [0, 1, 2, 3].map(|n| ring.from_tail(n));
        assert_eq!(behind, [Some(Pfn(3)), Some(Pfn(1)), Some(Pfn(2)), None]);
        assert_eq!((ring.head(), ring.pop_tail()), (Some(Pfn(2)), Some(Pfn(3))));
        assert_eq!((ring.pop_head(), ring.len()), (Some(Pfn(2)), 1));
        assert_eq!((ring.pop_tail(), ring.pop_head(), ring.is_empty()), (Some(Pfn(1)), None, true));
    }
}
