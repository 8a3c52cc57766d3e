//! Page faults (rules/faults#frame).
//!
//! [`touch`] acts as the processor: it sets bits in entries that allow the access, and faults on
//! others. [`frame`] has the common part of all faults: the lock, the VMA, the counts, retries. The
//! entry and the VMA decide the kind:
//!
//! | entry | VMA | handled by |
//! |---|---|---|
//! | none | anonymous | [`anon`] |
//! | none | file | [`mod@file`] |
//! | swap slot | anonymous, or private file (a copied page) | [`swap`] |
//! | present, read-only, to be written | any | [`cow`], [`cow_leaf`] (shared file pages: [`mod@file`]) |
//!
//! Key types: [`Access`], [`Fault`], [`Pass`] (one run of the handler).
//!
//! Synchronisation: a fault holds `mmap_lock` for reading, so its VMA stays. The first run of a
//! fault drops the lock to wait for a read, then starts over; a retry, and memory files, wait with
//! it held. Entries are checked again under their table's lock before they change.
//!
//! From: programs · to: `page_alloc`, `page_cache`, `swap`, `lru`.

mod anon;
mod cow;
mod cow_leaf;
mod file;
mod frame;
mod swap;
mod swap_readahead;
#[cfg(test)]
mod tests;
mod touch;

use alloc::sync::Arc;

use super::{Mm, PageTable, Vma};
use crate::host::{Cx, Devices};
use crate::wait::ReadGuard;

/// A program's access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// How an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// No fault: the entry already allowed the access.
    None,
    /// A fault without I/O.
    Minor,
    /// A fault that had to wait for I/O.
    Major,
}

/// How accesses to a range went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Faults without I/O.
    pub minor: u64,
    /// Faults that had to wait for I/O.
    pub major: u64,
}

/// One run of the fault handler.
struct Pass<'a, 'h, H: Devices> {
    cx: &'a Cx<'h, H>,
    mm: &'a Mm<H>,
    vma: Arc<Vma<H>>,
    /// The lowest table, if it exists and was not taken out of this field yet.
    table: Option<Arc<PageTable<H>>>,
    vpn: u32,
    is_write: bool,
    /// The fault waited already: from now on it waits with the lock held.
    is_retry: bool,
    /// Something had to be read.
    is_major: bool,
    lock: Option<ReadGuard<'a, 'h, H>>,
}

/// How a run of the handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The entry was changed, by this fault or another task's: the access is tried again.
    Done,
    /// The fault waited without the mm's lock: everything is looked up again.
    Retry,
}

impl<H: Devices> Pass<'_, '_, H> {
    /// Lets the mm's lock go, before a wait; false if this run must not. From then on the run can
    /// only end in [`Step::Retry`].
    fn let_go(&mut self) -> bool {
        if self.is_retry {
            return false;
        }
        self.lock = None;
        true
    }

    fn has_let_go(&self) -> bool {
        self.lock.is_none()
    }
}
