//! Transparent huge pages (rules/huge-pages#what): anonymous memory of 2 MiB at a time.
//!
//! A huge page is a folio of order 9. While all of it is mapped at one aligned address, a leaf maps
//! it ([`super::page_table`]). Then one fault, one entry and one place on a list stand for 512
//! pages. This is not final: an operation on a part of it splits the leaf, and the folio itself may
//! be split later.
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
//! | [`zero`] | the huge zero page, which reads of untouched memory map |
//! | [`leaf`] | counts leaves, splits them |
//! | [`fork`] | copies the parent's leaf to a child |
//! | [`khugepaged`], [`collapse`] | the daemon that collapses single pages into huge ones |
//! | [`split`], [`apart`] | splits folios, including those on the deferred split queue |
//!
//! Key type: [`Huge`], the kernel's state of huge pages.
//!
//! Synchronisation: a leaf changes under its table's lock. The huge zero page is behind a `Table`
//! lock.
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

/// The kernel's state of huge pages.
pub(crate) struct Huge<H: Tasks> {
    /// The setting; [`Thp::Never`] also if memory is too small for huge pages.
    enabled: Thp,
    /// How hard a fault tries where the setting leaves it to the kernel.
    by_default: DefragDefault,
    effort: ThpEffort,
    /// The huge page of zeros; `Table` class.
    pub(crate) zero: H::Lock<ZeroPage>,
    /// Its number as a block of its size, to recognise its frames without a lock.
    zero_block: AtomicU32,
    pub(crate) khugepaged: Khugepaged<H>,
}

impl<H: Tasks> Huge<H> {
    pub(crate) fn new(host: &H, mem: &PageAllocator<H>) -> Self
    where
        H: Host,
    {
        let enabled = mem.thp();
        Huge {
            enabled,
            by_default: mem.policy.thp.defrag,
            effort: mem.policy.thp.effort,
            zero: host.new_lock(LockClass::Table, ZeroPage::default()),
            zero_block: AtomicU32::new(zero::NO_BLOCK),
            khugepaged: Khugepaged {
                mms: host.new_lock(LockClass::Table, VecDeque::new()),
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

    /// How hard a fault tries: the setting, or the kernel's default.
    fn defrag(&self, setting: ThpDefrag) -> ThpDefrag {
        match (setting, self.by_default) {
            (ThpDefrag::Kernel, DefragDefault::Always) => ThpDefrag::Always,
            (ThpDefrag::Kernel, DefragDefault::Madvise) => ThpDefrag::Madvise,
            (said, _) => said,
        }
    }

    /// The gfp flags of a fault for the allocator, with the setting in force.
    pub(super) fn fault_gfp(&self, setting: ThpDefrag, vma: &Vma<H>) -> Gfp {
        let is_advised = vma.flags.contains(VmaFlags::HUGEPAGE);
        gfp_of(self.defrag(setting), self.effort, is_advised)
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
        // The kernel's own word is resolved before.
        ThpDefrag::Madvise | ThpDefrag::Never | ThpDefrag::Kernel => light,
    }
}
