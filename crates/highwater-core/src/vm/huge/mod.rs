//! Transparent huge pages (rules/huge-pages#what): anonymous memory of 2 MiB at a time.
//!
//! A huge page is a folio of order 9. While all of it is mapped at one aligned place it is mapped by a leaf
//! ([`super::page_table`]), and one fault, one entry and one place on a list stand for 512 pages. Nothing is
//! decided for good: an operation on a part of it splits the leaf, and the folio itself may be split later.
//!
//! ```text
//!  no table --- fault ---> leaf over a folio of 512 --- whole range unmapped ---> one block of order 9
//!     ^                    |            |
//!     |                    |            +--- part unmapped, flags of a part changed, written (zero page)
//!     |                    v                        |
//!     +--- fallback: 512 single faults              v
//!                                          512 entries over the same folio
//! ```
//!
//! | file | does |
//! |---|---|
//! | [`mod@fault`] | eligibility, allocation, the leaf of a fault |
//! | [`zero`] | the huge page of zeros that reads of untouched memory map |
//! | [`leaf`] | counts leaves, splits them |
//! | [`fork`] | gives a child the leaf that its parent has |
//! | [`khugepaged`], [`collapse`] | the daemon that makes huge pages of single ones |
//! | [`split`], [`apart`] | splits folios, works off the queue of those that wait for it |
//!
//! Key type: [`Huge`], what the kernel keeps of all this.
//!
//! Synchronisation: a leaf changes under its table's lock. The page of zeros is behind a `Table` lock.
//!
//! From: `vm::fault`, `vm::zap`, `vm::mapping` · to: `page_alloc`, `lru`.

mod apart;
mod collapse;
mod fault;
mod fork;
mod khugepaged;
mod leaf;
mod split;
mod zero;

#[cfg(test)]
mod collapse_tests;
#[cfg(test)]
mod fork_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod tests;

pub(super) use fault::Attempt;
use khugepaged::Khugepaged;
pub(crate) use zero::ZeroPage;

use alloc::collections::VecDeque;

use super::{Backing, PTES, Vma, VmaFlags};
use crate::config::{DefragDefault, Thp, ThpDefrag, ThpEffort};
use crate::host::{Host, Tasks};
use crate::page::Order;
use crate::page_alloc::{Gfp, PageAllocator};
use crate::sync::atomic::AtomicU32;
use crate::sync::order::LockClass;
use crate::wait::WaitQueue;

/// Order of a huge page.
pub(crate) const HUGE: Order = Order(9);
/// Its pages.
pub(crate) const NR: u32 = PTES as u32;

/// What the kernel keeps for huge pages.
pub(crate) struct Huge<H: Tasks> {
    /// Who gets them; [`Thp::Never`] also where memory is too small for them.
    enabled: Thp,
    defrag: ThpDefrag,
    effort: ThpEffort,
    /// The huge page of zeros; `Table` class.
    pub(crate) zero: H::Lock<ZeroPage>,
    /// Its number as a block of its size: to tell its frames without a lock.
    zero_block: AtomicU32,
    pub(crate) khugepaged: Khugepaged<H>,
}

impl<H: Tasks> Huge<H> {
    pub(crate) fn new(host: &H, mem: &PageAllocator<H>) -> Self
    where
        H: Host,
    {
        let enabled = mem.thp();
        let defrag = match (mem.tunables.thp_defrag, mem.policy.thp.defrag) {
            (ThpDefrag::Kernel, DefragDefault::Always) => ThpDefrag::Always,
            (ThpDefrag::Kernel, DefragDefault::Madvise) => ThpDefrag::Madvise,
            (said, _) => said,
        };
        Huge {
            enabled,
            defrag,
            effort: mem.policy.thp.effort,
            zero: host.new_lock(LockClass::Table, ZeroPage::default()),
            zero_block: AtomicU32::new(zero::NO_BLOCK),
            khugepaged: Khugepaged {
                spaces: host.new_lock(LockClass::Table, VecDeque::new()),
                wait: WaitQueue::new(host),
            },
        }
    }

    /// Returns the first page of the aligned range around a page that may be mapped by a huge page,
    /// if the VMA lets it be (rules/huge-pages#eligible).
    #[doc(alias = "transhuge_vma_suitable")]
    pub(super) fn range(&self, vma: &Vma<H>, vpn: u32) -> Option<u32> {
        let wanted = match self.enabled {
            Thp::Never => false,
            Thp::Madvise => vma.flags.contains(VmaFlags::HUGEPAGE),
            Thp::Always => true,
        };
        let suits = wanted
            && !vma.flags.contains(VmaFlags::NOHUGEPAGE)
            && matches!(vma.backing, Backing::Anon);
        let start = vpn & !(NR - 1);
        let fits = vma.start <= start && vma.end - start >= NR;
        (suits && fits).then_some(start)
    }

    /// What a fault asks the allocator for.
    pub(super) fn fault_gfp(&self, vma: &Vma<H>) -> Gfp {
        gfp_of(self.defrag, self.effort, vma.flags.contains(VmaFlags::HUGEPAGE))
    }
}

/// Returns the gfp flags with which a fault asks for a huge page (rules/huge-pages#defrag).
/// `is_advised`: the program asked for huge pages.
#[doc(alias = "vma_thp_gfp_mask")]
#[doc(alias = "alloc_hugepage_direct_gfpmask")]
fn gfp_of(defrag: ThpDefrag, effort: ThpEffort, is_advised: bool) -> Gfp {
    let light = Gfp::GFP_TRANSHUGE_LIGHT;
    let once = match effort {
        ThpEffort::ByAdvice if is_advised => Gfp::empty(),
        ThpEffort::ByAdvice | ThpEffort::Once => Gfp::NORETRY,
    };
    match defrag {
        ThpDefrag::Always => Gfp::GFP_TRANSHUGE | once,
        ThpDefrag::Madvise | ThpDefrag::DeferMadvise if is_advised => Gfp::GFP_TRANSHUGE | once,
        ThpDefrag::Defer | ThpDefrag::DeferMadvise => light | Gfp::KSWAPD_RECLAIM,
        // The kernel's own word is resolved when it boots.
        ThpDefrag::Madvise | ThpDefrag::Never | ThpDefrag::Kernel => light,
    }
}
