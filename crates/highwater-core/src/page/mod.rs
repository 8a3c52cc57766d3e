//! Page frames: numbers, descriptors, and lists linked through descriptors.
//!
//! [`Pfn`] and [`Order`] are the field's units; [`PageMap`] is the page array (32 bytes a
//! frame, once something is done to it); [`PageList`] links frames through it; [`PageRing`] holds them
//! in an array. Neighbours: [`crate::zone`] owns ranges of frames,
//! [`crate::page_alloc`] moves them between lists.

mod descriptor;
mod folio;
mod frozen;
mod list;
pub(crate) mod map;
mod ring;
pub mod usage;
pub(crate) mod zeroed;

pub use crate::units::{
    MAX_ORDER, MigrateType, Order, PAGE_SHIFT, PAGE_SIZE, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pfn,
};
pub use descriptor::{BlockFlags, BlockWord, Page};
pub use folio::Folio;
pub use frozen::Frozen;
pub(crate) use list::Chain;
pub use list::PageList;
pub use map::PageMap;
pub use ring::PageRing;
pub use usage::{FileId, MmId, PageFlags, PageMapping};
