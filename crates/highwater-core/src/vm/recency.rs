//! VMAs without recency: their uses of a page say nothing about uses to come (rules/rmap#recency).
//!
//! A program that reads sequentially does not read a page again. One that reads at random, or that
//! declared the file of no further use, may do so by accident only. Unmapping and the reference
//! check ask about a VMA here.
//!
//! | policy `reclaim.recency-guard` | VMAs without recency | the reference check |
//! |---|---|---|
//! | `seq` | SEQ_READ | clears their young bits and does not count them |
//! | `seq-rand-noreuse` | SEQ_READ, RAND_READ, a descriptor with NOREUSE advice | passes them over |
//!
//! From: `unmap`, `rmap`, `syscall::madvise`.

use super::rmap::Place;
use super::{Backing, Vma, VmaFlags};
use crate::config::RecencyGuard;
use crate::host::Devices;
use crate::kernel::Kernel;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;

/// The VMAs that a reference check passes over: neither are their young bits cleared nor do they
/// count.
#[derive(Clone, Copy)]
pub(super) struct PassedOver {
    /// VMAs of tasks outside this memory cgroup; with the root, none.
    group: GroupId,
    /// VMAs with one of these flags.
    flags: VmaFlags,
}

impl PassedOver {
    /// True if it passes over any VMA at all.
    pub(super) fn is_any(self) -> bool {
        !self.group.is_root() || !self.flags.is_empty()
    }
}

impl<H: Devices> Kernel<H> {
    /// The flags of VMAs without recency.
    fn flags_without_recency(&self) -> VmaFlags {
        match self.mem.policy.reclaim.recency_guard {
            RecencyGuard::Seq => VmaFlags::SEQ_READ,
            RecencyGuard::SeqRandNoreuse => {
                VmaFlags::SEQ_READ | VmaFlags::RAND_READ | VmaFlags::NO_REUSE
            }
        }
    }

    /// True if the uses of a VMA with these flags ([`Self::flags_of_walk`]) count.
    #[doc(alias = "vma_has_recency")]
    pub(crate) fn has_recency(&self, flags: VmaFlags) -> bool {
        !flags.intersects(self.flags_without_recency())
    }

    /// The flags of a VMA, with [`VmaFlags::NO_REUSE`] if its descriptor has that advice now and
    /// the policy looks at it.
    pub(crate) fn flags_of_walk(&self, vma: &Vma<H>) -> VmaFlags {
        match (&vma.backing, self.mem.policy.reclaim.recency_guard) {
            (Backing::File { open, .. }, RecencyGuard::SeqRandNoreuse)
                if open.no_reuse.load(Relaxed) =>
            {
                vma.flags | VmaFlags::NO_REUSE
            }
            _ => vma.flags,
        }
    }

    /// VMAs that a reference check for a memory cgroup passes over; the root stands for the
    /// machine.
    pub(super) fn passed_over(&self, group: GroupId) -> PassedOver {
        let flags = match self.mem.policy.reclaim.recency_guard {
            RecencyGuard::Seq => VmaFlags::empty(),
            RecencyGuard::SeqRandNoreuse => self.flags_without_recency(),
        };
        PassedOver { group, flags }
    }

    /// True if a reference check passes over this place.
    #[doc(alias = "invalid_folio_referenced_vma")]
    pub(super) fn passes_over(&self, over: PassedOver, place: &Place<'_, H>) -> bool {
        let PassedOver { group, flags } = over;
        place.flags.intersects(flags)
            || (!group.is_root() && !self.mem.groups.memory.is_within(place.mm.group(), group))
    }
}
