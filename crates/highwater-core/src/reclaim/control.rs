//! State of one reclaim (`struct scan_control`, rules/node-pass#scan-control).
//!
//! Key types: [`Control`], made by the task that needs memory and passed down to every batch;
//! [`PassSums`], the figures for the end of a node pass. Neither depends on the reclaim algorithm,
//! which keeps its own state of a pass.
//!
//! From: [`super::direct`], [`super::kswapd`], [`super::node_reclaim`] · to: all of reclaim.

use super::algorithm::{Inputs, MglruRun};
use super::budget::DEF_PRIORITY;
use crate::page_alloc::Gfp;
use crate::units::GroupId;
use crate::zone::{NodeMask, ZoneType};

/// Sums over one node pass, or one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassSums {
    /// File pages that are dirty or under writeback.
    pub dirty: u64,
    /// File pages that are dirty, not under writeback.
    pub unqueued_dirty: u64,
    /// File pages under writeback that were already marked, or on a congested device (up to 4.20).
    pub congested: u64,
    /// Under writeback and not `immediate`; marked now if not before.
    pub writeback: u64,
    /// Under writeback and already marked, met by kswapd while the lists are full of writeback.
    pub immediate: u64,
    /// File pages isolated.
    pub file_taken: u64,
    /// Pages isolated.
    pub taken: u64,
}

impl PassSums {
    /// Adds a batch's.
    pub(super) fn add(&mut self, batch: &PassSums) {
        self.dirty += batch.dirty;
        self.unqueued_dirty += batch.unqueued_dirty;
        self.congested += batch.congested;
        self.writeback += batch.writeback;
        self.immediate += batch.immediate;
        self.file_taken += batch.file_taken;
        self.taken += batch.taken;
    }
}

/// One reclaim request: its target, priority, gfp, and what it may do (`struct scan_control`).
#[doc(alias = "scan_control")]
#[derive(Clone, Debug)]
pub struct Control {
    /// Pages wanted.
    pub nr_to_reclaim: u64,
    /// Order it is for.
    pub order: u8,
    /// 12 (gentle) to 0.
    pub priority: u8,
    /// Highest zone that counts.
    pub reclaim_idx: ZoneType,
    /// Request flags.
    pub gfp: Gfp,
    /// Nodes allowed.
    pub nodes: Option<NodeMask>,
    /// Only of this memory cgroup and those below it, for its limit; the root: of the machine.
    #[doc(alias = "target_mem_cgroup")]
    pub target: GroupId,
    /// A protected group (`memory.low`) was left alone.
    pub memcg_low_skipped: bool,
    /// Nothing else was found: `memory.low` does not count any more.
    pub memcg_low_reclaim: bool,
    /// Inputs of the scan mode that all groups of this pass share.
    pub(super) inputs: Option<Inputs>,
    /// A partial walk over the groups found nothing: visit them all.
    pub full_walk: bool,
    /// kswapd's own.
    pub is_kswapd: bool,
    /// A program asked for it (`memory.reclaim`): no memory is short.
    pub is_proactive: bool,
    /// May write pages.
    pub may_writepage: bool,
    /// May unmap pages.
    pub may_unmap: bool,
    /// May swap pages out.
    pub may_swap: bool,
    /// The algorithm left pages alone that it might have taken.
    pub spared: bool,
    /// It is not to do so again: nothing else was found.
    pub spare_nothing: bool,
    /// This pass takes idle page cache only.
    #[doc(alias = "cache_trim_mode")]
    pub trims_cache: bool,
    /// Such a pass freed nothing.
    #[doc(alias = "cache_trim_mode_failed")]
    pub trimmed_in_vain: bool,
    /// No pass may be such a one.
    #[doc(alias = "no_cache_trim_mode")]
    pub trims_no_more: bool,
    /// Compaction could go ahead.
    pub compaction_ready: bool,
    /// State of MGLRU.
    pub(super) mglru: MglruRun,
    /// Pages judged.
    pub nr_scanned: u64,
    /// Pages freed.
    pub nr_reclaimed: u64,
    /// Of those, pages for which sleepers were woken already: `nr_reclaimed` runs on over the
    /// priorities, and a page wakes one sleeper's worth once.
    pub nr_announced: u64,
    /// Sums of the pass.
    pub sums: PassSums,
}

impl Control {
    /// A reclaim that may unmap, write and swap, at the gentlest priority.
    pub(super) fn new(nr_to_reclaim: u64, order: u8, gfp: Gfp, reclaim_idx: ZoneType) -> Self {
        Control {
            nr_to_reclaim,
            order,
            priority: DEF_PRIORITY,
            reclaim_idx,
            gfp,
            nodes: None,
            target: GroupId::ROOT,
            inputs: None,
            full_walk: false,
            memcg_low_skipped: false,
            memcg_low_reclaim: false,
            is_kswapd: false,
            is_proactive: false,
            may_writepage: true,
            may_unmap: true,
            may_swap: true,
            spared: false,
            spare_nothing: false,
            trims_cache: false,
            trimmed_in_vain: false,
            trims_no_more: false,
            compaction_ready: false,
            mglru: MglruRun::default(),
            nr_scanned: 0,
            nr_reclaimed: 0,
            nr_announced: 0,
            sums: PassSums::default(),
        }
    }

    /// True if this is reclaim for the limit of a memory cgroup.
    ///
    /// Linux: same name.
    #[doc(alias = "cgroup_reclaim")]
    #[inline]
    pub(super) const fn is_of_group(&self) -> bool {
        !self.target.is_root()
    }

    /// True if the target does not end a scan: in the first pass of direct reclaim. With small
    /// targets, each of many reclaimers would stop at the first lists, and always the same lists
    /// would be reclaimed.
    pub(super) fn scans_all(&self) -> bool {
        !self.is_kswapd && self.priority == DEF_PRIORITY && !self.is_of_group()
    }

    /// After an attempt that got nothing: prepares another one that takes what it spared; false if
    /// there was nothing. Each kind comes once, because with its flag set nothing is spared that
    /// way.
    pub(super) fn takes_what_it_spared(&mut self) -> bool {
        if self.spared && !self.spare_nothing {
            // The algorithm left active pages alone: that was too kind.
            self.spare_nothing = true;
            self.spared = false;
            return true;
        }
        if self.memcg_low_skipped && !self.memcg_low_reclaim {
            // All that is left is protected. `memory.min` still holds.
            self.memcg_low_reclaim = true;
            self.memcg_low_skipped = false;
            return true;
        }
        false
    }

    /// Reports whether reclaim may enter the filesystem to write a page. Swap needs no filesystem,
    /// only I/O.
    ///
    /// Linux: same name.
    pub(super) const fn may_enter_fs(&self, is_swap_cache: bool) -> bool {
        self.gfp.contains(Gfp::FS) || (is_swap_cache && self.gfp.contains(Gfp::IO))
    }
}
