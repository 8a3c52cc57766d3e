//! VMAs of an address space.

use alloc::sync::Arc;

use bitflags::bitflags;

use crate::host::Tasks;
use crate::page::MmId;
use crate::page_alloc::Wish;
use crate::page_cache::{MapRange, OpenFile};
use crate::swap::VmaSwapState;
use crate::units::MemoryPolicy;

bitflags! {
    /// Access rights and use of a VMA (rules/faults#areas).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct VmaFlags: u32 {
        /// May be read.
        const READ = 1 << 0;
        /// May be written.
        const WRITE = 1 << 1;
        /// May be executed: its file pages are kept longer.
        const EXEC = 1 << 2;
        /// Writes reach the file.
        const SHARED = 1 << 3;
        /// Locked in memory.
        const LOCKED = 1 << 4;
        /// MADV_SEQUENTIAL.
        const SEQ_READ = 1 << 5;
        /// MADV_RANDOM.
        const RAND_READ = 1 << 6;
        /// MADV_HUGEPAGE.
        const HUGEPAGE = 1 << 7;
        /// MADV_NOHUGEPAGE.
        const NOHUGEPAGE = 1 << 8;
        /// Its descriptor has NOREUSE advice: only in flags that a walk of mappings looks up, in
        /// none of a VMA.
        const NO_REUSE = 1 << 9;
        /// Its program stores only zeros there (rules/swap#zero-pages). The kernel does not see this
        /// flag; it sees zeros.
        const ZEROS = 1 << 10;
    }
}

/// Memory or file that a VMA maps.
pub enum Backing<H: Tasks> {
    /// Anonymous memory.
    Anon,
    /// A file, from a page on.
    File {
        /// The descriptor that was mapped (its readahead state is used).
        open: Arc<OpenFile<H>>,
        /// Page of the file at the start of the VMA.
        page: u32,
    },
}

impl<H: Tasks> Clone for Backing<H> {
    fn clone(&self) -> Self {
        match self {
            Backing::Anon => Backing::Anon,
            Backing::File { open, page } => Backing::File { open: Arc::clone(open), page: *page },
        }
    }
}

/// A VMA: a range of virtual pages with one backing and one set of flags. A change of a range puts
/// other VMAs in its place, and a fault goes on with the one it found.
///
/// Linux: changes VMAs in place and merges neighbours; here a change replaces them.
#[doc(alias = "vm_area_struct")]
pub struct Vma<H: Tasks> {
    /// First virtual page.
    pub start: u32,
    /// Virtual page after the last.
    pub end: u32,
    /// Its access rights and flags.
    pub flags: VmaFlags,
    /// Its backing.
    pub backing: Backing<H>,
    /// Where its memory is to come from; the default: as the task's policy says.
    pub policy: MemoryPolicy,
    /// Swap readahead history; `Table` class, shared by copies.
    pub(crate) swap: Arc<H::Lock<VmaSwapState>>,
}

impl<H: Tasks> Clone for Vma<H> {
    fn clone(&self) -> Self {
        Vma {
            start: self.start,
            end: self.end,
            flags: self.flags,
            backing: self.backing.clone(),
            policy: self.policy,
            swap: Arc::clone(&self.swap),
        }
    }
}

impl<H: Tasks> Vma<H> {
    /// Pages.
    pub fn pages(&self) -> u32 {
        self.end - self.start
    }

    /// True if the VMA allows an access. Writing includes reading, as on x86.
    #[inline]
    pub(super) fn allows(&self, is_write: bool) -> bool {
        let any = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::EXEC;
        self.flags.intersects(if is_write { VmaFlags::WRITE } else { any })
    }

    /// A part of the VMA, with its own flags.
    pub(super) fn part(&self, start: u32, end: u32, flags: VmaFlags) -> Vma<H> {
        debug_assert!(self.start <= start && start < end && end <= self.end);
        let backing = match &self.backing {
            Backing::Anon => Backing::Anon,
            Backing::File { open, page } => {
                Backing::File { open: Arc::clone(open), page: page + (start - self.start) }
            }
        };
        Vma { start, end, flags, backing, policy: self.policy, swap: Arc::clone(&self.swap) }
    }

    /// The preferred nodes for a page of it (rules/memory-policies#allocation).
    pub(crate) fn wish(&self, vpn: u32) -> Wish {
        Wish::Vma { policy: self.policy, page: self.file_page(vpn).unwrap_or(vpn) }
    }

    /// Its entry in the file's list of mappings.
    pub(crate) fn map_range(&self, mm: MmId) -> Option<(&OpenFile<H>, MapRange)> {
        match &self.backing {
            Backing::Anon => None,
            Backing::File { open, page } => {
                let range = MapRange { mm, start: self.start, end: self.end, file_page: *page };
                Some((open, range))
            }
        }
    }

    /// Page of the file at a virtual page; none for anonymous memory.
    pub fn file_page(&self, vpn: u32) -> Option<u32> {
        match &self.backing {
            Backing::Anon => None,
            Backing::File { page, .. } => Some(page + (vpn - self.start)),
        }
    }
}
