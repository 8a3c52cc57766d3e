//! What lies where in a zone: one block after another, from its first frame to its last.
//!
//! For those who draw a map of memory. Reads descriptors and takes no lock: while others allocate and free, a block may
//! be told as it was a moment before, and one that is changing hands as [`Content::Moving`].

use crate::host::Host;
use crate::page::{BlockFlags, BlockWord, Page, PageFlags, PageMapping, Pfn};
use crate::page_alloc::PageAllocator;
use crate::zone::Zone;

/// A block of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its first frame.
    pub first: Pfn,
    /// How many frames it has.
    pub pages: u32,
    /// What it is.
    pub content: Content,
    /// The descriptor of its first frame; zeros if the block is free since boot.
    pub page: &'a Page,
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Free, on a buddy list.
    Free,
    /// Free, on a list of a CPU.
    PerCpu,
    /// In use by programs and files: what compaction can move, and huge pages, which it leaves alone.
    Movable,
    /// In use by what stays where it is: the kernel's own, and what something outside holds.
    Unmovable,
    /// Never the allocator's.
    Reserved,
    /// Between a list and a user.
    Moving,
}

/// The blocks of a zone, in order of their frames.
pub fn inventory<'a, H: Host>(
    memory: &'a PageAllocator<H>,
    zone: &Zone<H>,
) -> impl Iterator<Item = Piece<'a>> {
    let (mut at, end) = (zone.start.0, zone.end.0);
    core::iter::from_fn(move || {
        let first = Pfn(at);
        let page = (at < end).then(|| memory.map.page(first))?;
        let word = memory.map.block(first);
        let content = content(word, page);
        let pages = match content {
            Content::Reserved | Content::Moving => 1,
            _ => (1 << word.order().0).min(end - at),
        };
        at += pages;
        Some(Piece { first, pages, content, page })
    })
}

fn content(word: BlockWord, page: &Page) -> Content {
    if word.is_reserved() {
        Content::Reserved
    } else if word.has(BlockFlags::BUDDY) {
        Content::Free
    } else if word.has(BlockFlags::PCP) {
        Content::PerCpu
    } else if !word.has(BlockFlags::USED) {
        Content::Moving
    } else if is_movable(page) {
        Content::Movable
    } else {
        Content::Unmovable
    }
}

/// On an LRU list or on its way there, or moved by whoever has it (rules/compaction#sources).
fn is_movable(page: &Page) -> bool {
    let flags = page.flags();
    let is_used_by_programs = flags.contains(PageFlags::LRU) || page.mapping() != PageMapping::None;
    !flags.contains(PageFlags::PINNED) && (is_used_by_programs || page.has(BlockFlags::MOVABLE_OPS))
}
