//! A file's pages by index, with marks and shadows.

use crate::lru::Shadow;
use crate::page::Pfn;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Empty,
    /// A page.
    Page(Pfn),
    /// What an evicted page left.
    Shadow(Shadow),
}

/// A mark on a page of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Dirty.
    Dirty = 0,
    /// Under writeback.
    Writeback = 1,
    /// To be written by a sync that is under way.
    ToWrite = 2,
}

/// Index to page or shadow: nodes of 64 slots.
///
/// The helper that owns this file fills in the representation: `Vec<Option<Box<Node>>>` by
/// `index >> 6`; slots of 4 bytes a page, shadows (8 bytes) allocated per node when needed.
#[derive(Debug, Default)]
pub struct Tree {
    nr_pages: u64,
}

impl Tree {
    /// Pages in the tree.
    pub fn nr_pages(&self) -> u64 {
        self.nr_pages
    }

    /// What an index holds.
    pub fn get(&self, index: u32) -> Entry {
        let _ = index;
        todo!()
    }

    /// Stores an entry and returns what was there; marks of the slot are cleared.
    pub fn set(&mut self, index: u32, entry: Entry) -> Entry {
        let _ = (index, entry);
        todo!()
    }

    /// Sets or clears a mark on a page.
    pub fn mark(&mut self, index: u32, mark: Mark, on: bool) {
        let _ = (index, mark, on);
        todo!()
    }

    /// True if the page at an index has the mark.
    pub fn is_marked(&self, index: u32, mark: Mark) -> bool {
        let _ = (index, mark);
        todo!()
    }

    /// True if any page has the mark.
    pub fn any_marked(&self, mark: Mark) -> bool {
        let _ = mark;
        todo!()
    }

    /// The first page at or after `from` that has the mark.
    pub fn next_marked(&self, from: u32, mark: Mark) -> Option<(u32, Pfn)> {
        let _ = (from, mark);
        todo!()
    }

    /// The first page at or after `from`.
    pub fn next_page(&self, from: u32) -> Option<(u32, Pfn)> {
        let _ = from;
        todo!()
    }

    /// Index of the first slot at or after `from` without a page, within `max` slots.
    pub fn next_missing(&self, from: u32, max: u32) -> Option<u32> {
        let _ = (from, max);
        todo!()
    }

    /// Number of pages that lie without a gap right before `index`, at most `max`.
    pub fn run_before(&self, index: u32, max: u32) -> u32 {
        let _ = (index, max);
        todo!()
    }

    /// Number of nodes that hold shadows only (`workingset_nodes`).
    pub fn shadow_nodes(&self) -> u64 {
        todo!()
    }

    /// Drops the shadows of up to `nr` shadow-only nodes, oldest first; the nodes freed.
    pub fn drop_shadow_nodes(&mut self, nr: u64) -> u64 {
        let _ = nr;
        todo!()
    }
}
