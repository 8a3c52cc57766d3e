//! The page cache (spec 04 §5, §6): files and their pages.
//!
//! Key types: [`File`] (an inode with its tree of pages), [`Tree`] (index to page or shadow, with
//! marks), [`OpenFile`] (a descriptor: position of the last read, readahead state).
//!
//! Synchronisation: the tree itself sits behind a `Table` lock, held for single steps, which stands
//! for the kernel's lock-free lookups; whoever changes it holds `xa_lock` around that, which is the
//! lock that contends. A page in the tree holds one reference.
//!
//! From: `syscall`, `vm::fault` · to: `lru`, `block`.

mod dirty;
mod fadvise;
mod file;
mod lookup;
mod node;
mod node_memory;
mod page_lock;
mod read;
mod readahead;
#[cfg(test)]
mod tests;
mod tree;
mod truncate;
mod write;

pub use fadvise::Advice;
pub use file::{File, FileSpec, MapRange, OpenFile, ReadMode};
pub use lookup::{AddError, FILE_GFP};
pub use node_memory::{NodeMemory, ObjectId, Objects};
pub use page_lock::PageWaits;
pub use readahead::{ReadAhead, Window};
pub use tree::{Entry, Mark, NodeInfo, Stored, Tree};
