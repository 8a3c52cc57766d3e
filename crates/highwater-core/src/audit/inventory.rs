//! A map of a zone: one block after another, from its first frame to its last.
//!
//! For drawing a map of memory. It reads descriptors and takes no lock. If other tasks allocate and
//! free meanwhile, it may report an old state of a block. A block whose state is changing is
//! reported as [`Content::Moving`].

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
    /// Its content.
    pub content: Content,
    /// The descriptor of its first frame; zeros if the block is free since boot.
    pub page: &'a Page,
}

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Free, on a buddy list.
    Free,
    /// Free, on a list of a CPU.
    PerCpu,
    /// In use by programs and files: movable pages, and huge pages, which compaction leaves alone.
    Movable,
    /// In use and unmovable: the kernel's own pages, and pages held from outside.
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

/// On an LRU list or on its way there, or movable by its owner (rules/compaction#sources).
fn is_movable(page: &Page) -> bool {
    let flags = page.flags();
    let is_used_by_programs = flags.contains(PageFlags::LRU) || page.mapping() != PageMapping::None;
    !flags.contains(PageFlags::PINNED) && (is_used_by_programs || page.has(BlockFlags::MOVABLE_OPS))
}
