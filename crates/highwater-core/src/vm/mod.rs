//! Virtual memory: address spaces (rules/faults#areas), page tables (rules/faults#page-tables),
//! faults (rules/faults#frame), unmap (rules/unmap#pipeline), rmap (rules/rmap#places).
//!
//! Key types: [`Mm`] (an mm), [`Vma`] (`vm_area_struct`), [`PageTable`] and [`Pte`].
//!
//! [`mm`] creates and ends address spaces. [`mapping`] has their VMAs ([`grow`] extends one,
//! [`commit`] limits them). [`tables`] finds VMAs and page tables. [`fault`] fills the tables,
//! [`unmap`] and [`zap`] empty them, [`rmap`] finds entries from a page, and [`moving`] has
//! migration entries. For MGLRU, [`mm_list`] lists the mms that ran, [`aging`] walks the
//! tables of one, and [`look_around`] looks at the neighbours of an entry.
//!
//! Synchronisation: VMAs and the set of tables behind the mm's lock (read for faults, write for
//! mmap and munmap, which downgrades before it unmaps); entries behind their table's lock.
//!
//! | operation | holds |
//! |---|---|
//! | access | nothing: it sets bits of a present entry atomically, as a processor does |
//! | fault | `mmap_lock` read; table lock for the entry; page lock while a file or swap page is mapped |
//! | munmap | `mmap_lock` write to take VMAs out, then read to unmap and free tables |
//! | reclaim's walk | page lock; table lock per mapping; no mm lock: it finds the table by number |
//! | aging's walk | `mmap_lock` read and table lock, both by trylock |
//! | fork | write on the parent; the table locks of the parent; none of the child, in which no task runs |
//! | exit | no other task uses the mm |
//!
//! From: `syscall` · to: `page_cache`, `swap`, `lru`.

mod aging;
mod commit;
mod contents;
mod family;
mod fault;
mod fork;
mod gather;
mod grow;
mod hot_entries;
mod huge;
mod look_around;
mod mapping;
mod mlock;
mod mm;
mod mm_list;
mod moving;
mod page_table;
mod peek;
mod process;
mod pte;
mod recency;
mod rmap;
mod rmap_folio;
mod rmap_owner;
mod tables;
mod task;
mod tlb;
mod unmap;
mod vma;
mod zap;

#[cfg(test)]
mod tests;

pub(crate) use aging::{AgingScope, AgingVisitor, PagesToAge};
pub(crate) use family::Families;
pub use fault::{Access, Fault, Touched};
pub use gather::Gather;
pub(crate) use huge::{HUGE, Huge};
pub(crate) use look_around::Around;
pub use mm::{Mm, Rss};
pub use page_table::{PTES, PageTable, Ptes};
pub use peek::Process;
pub(crate) use process::{STACK_KIB, STACK_ORDER};
pub use pte::Pte;
use rmap::LastWalk;
pub(crate) use rmap::Trail;
pub use rmap::{Referenced, UnmapBatch};
pub use tables::MmTables;
pub use task::MmTask;
pub use tlb::FlushRange;
pub use vma::{Backing, Vma, VmaFlags};
