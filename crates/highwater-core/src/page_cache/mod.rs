//! The page cache (rules/page-cache#tree, rules/readahead#state): files and their pages.
//!
//! Key types: [`File`] (an inode with its tree of pages), [`Tree`] (index to page or shadow, with
//! marks), [`ShadowNodes`] (which nodes of trees hold shadows only), [`OpenFile`] (a descriptor:
//! position of the last read, [`ReadAhead`] state).
//!
//! ```text
//! file_read -> tree -> hit: mark accessed, copy
//!                   -> miss: readahead -> create_page -> tree, LRU add batch -> bios -> device
//! file_write -> tree, or create_page -> copy -> dirty -> flusher
//! fault -> map_pages (around), or tree / readahead_mmap_miss
//! reclaim -> remove_mapping_file (leaves a shadow); truncate, invalidate (leave nothing)
//! ```
//!
//! Synchronisation: the tree itself is behind a `Table` lock, held for single steps, which stands
//! for the kernel's lock-free lookups. Every change also holds `xa_lock`, which is the lock that
//! contends. (The end of writeback, an interrupt, clears its mark without it.) The tree holds one
//! reference to each of its pages.
//!
//! | | against | is ordered by |
//! |---|---|---|
//! | lookup | removal | the reference is taken under the tree's lock; a page whose references are frozen is not found |
//! | insertion | insertion | `xa_lock`; the second one finds the page |
//! | insertion | deletion of the file | `is_deleted`, set and read under `xa_lock` |
//! | read, fault, write | truncation | the page lock; its holder checks that the page still belongs to the file |
//! | fault-around | truncation | the page lock, or nothing runs in between ([`crate::host::Host::THREADED`]) |
//! | reclaim | any task with a reference | freezing the references at 2 fails |
//! | writers, truncation | each other | the file's `rwsem` |
//! | shadow shrinker | insertion, removal | `xa_lock`; the node is dropped if it is still the listed one |
//!
//! From: `syscall`, `vm::fault` · to: `lru`, `block`.

mod buffers;
mod complete;
mod dirty;
mod file;
mod filesystem;
mod folio_split;
mod folios;
mod freed_nodes;
mod held;
mod inode;
mod lookup;
mod map_ranges;
mod node;
mod node_memory;
mod owners;
mod page_lock;
mod page_waits;
mod read;
mod readahead;
#[cfg(test)]
mod tests;
mod tree;
mod truncate;

pub(crate) use buffers::PageBuffers;
pub use file::{File, FileSpec, OpenFile, ReadMode};
pub use filesystem::{Buffers, Filesystem};
pub(crate) use folios::{Maker, step_of_write};
pub(crate) use freed_nodes::FreedNodes;
pub(crate) use held::HeldPage;
pub use inode::InodeMemory;
pub(crate) use inode::Inodes;
pub use lookup::{AddError, FILE_GFP};
pub use map_ranges::MapRange;
pub(crate) use map_ranges::MapRanges;
pub use node_memory::{Objects, ShadowNodes};
pub use owners::{DirtyAccount, Mappings, MemoryFiles, MemoryPage};
pub use page_waits::PageWaits;
pub use readahead::{ReadAhead, Window};
pub use tree::{Entry, Mark, NodeInfo, Stored, Tree};
