//! Dirty limits of memory cgroups (rules/memory-cgroups#writeback).
//!
//! A writer is held up by the stricter of two domains: the machine, and its own group, which has
//! the same ratios of the memory that it could dirty. The flusher works while any domain is over
//! its background limit.
//!
//! Linux keeps a separate queue of dirty inodes for each group and device, and moves an inode to
//! the queue of the group that dirties most of it. Here a device has one queue, and each file of it
//! names the group whose pages of it became dirty since it was clean. While only groups are over
//! their background limits, the flusher passes by the files of the others. A file that several
//! groups dirtied is written for each of them.
//!
//! From: [`super::throttle`], [`super::flusher`] · to: `memcg`.

use alloc::sync::Arc;

use super::limits::DirtyLimits;
use super::position::Position;
use crate::config::WbThreshFloor;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::memcg::dirty::{GroupPages, headroom};
use crate::page::Folio;
use crate::page_cache::File;
use crate::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::units::GroupId;
use crate::vmstat::{NodeStat, Reader};

/// Several groups dirtied a file.
const SHARED: u16 = u16::MAX;

/// Files that background writeback is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of a device.
    All,
    /// Files of groups that are over their background limits.
    GroupsOver,
}

/// One look at a group's dirty pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupLook {
    pub(super) limits: DirtyLimits,
    /// Dirty, writeback not counted.
    pub(super) nr_dirty: u64,
    /// Dirty and under writeback.
    pub(super) dirty: u64,
}

impl GroupLook {
    /// Where the group stands on a device with `of_device` dirty pages. As many of them are the
    /// group's as can be; a device with few does not hold the group's writers up for another one.
    pub(super) fn position(&self, of_device: u64, avg_bandwidth: u64) -> Position {
        let thresh = self.limits.thresh;
        Position {
            freerun: self.limits.freerun(),
            thresh,
            limit: thresh,
            dirty: self.dirty,
            wb_thresh: thresh,
            wb_dirty: self.dirty.min(of_device),
            avg_bandwidth,
            // A share of everything needs none.
            floor: WbThreshFloor::Share,
        }
    }

    fn is_over_background(&self) -> bool {
        self.nr_dirty > self.limits.background
    }
}

impl<H: Devices> Kernel<H> {
    /// A clean file became dirty with a folio: it is the group's that pays for the folio.
    #[doc(alias = "inode_attach_wb")]
    pub(crate) fn set_dirty_owner(&self, file: &File<H>, folio: Folio) {
        if let Some(owner) = self.mem.groups.owner_if_on(folio) {
            file.dirtied_by.store(owner.0, Relaxed);
        }
    }

    /// A folio of a file became dirty. The file is shared from the second group on.
    #[doc(alias = "mem_cgroup_track_foreign_dirty")]
    pub(crate) fn note_dirty_owner(&self, file: &File<H>, folio: Folio) {
        let Some(owner) = self.mem.groups.owner_if_on(folio) else { return };
        let known = file.dirtied_by.load(Relaxed);
        if file.is_queued.load(SeqCst) && known != owner.0 && known != SHARED {
            file.dirtied_by.store(SHARED, Relaxed);
        }
    }

    /// True if background writeback is for this file.
    pub(super) fn is_in_scope(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>, scope: Scope) -> bool {
        if scope == Scope::All {
            return true;
        }
        match file.dirtied_by.load(Relaxed) {
            SHARED => true,
            // Files of a removed group are its parent's.
            group => {
                let group = self.memcg.online(GroupId(group));
                !group.is_root() && self.group_look(cx, group).is_over_background()
            }
        }
    }

    /// The dirty pages and limits of the running task's group; none for the root's tasks.
    pub(super) fn look_at_group(&self, cx: &Cx<'_, H>) -> Option<GroupLook> {
        let group = self.group_of_task(cx);
        if self.mem.groups.is_v1() {
            // Version 1 has no dirty limits of groups.
            return None;
        }
        (!group.is_root()).then(|| self.group_look(cx, group))
    }

    /// Looks at a group's dirty pages, and computes its limits.
    #[doc(alias = "mem_cgroup_wb_stats")]
    fn group_look(&self, cx: &Cx<'_, H>, group: GroupId) -> GroupLook {
        self.flush_group_stats(cx, Reader::DirtyLimits, group);
        let groups = &self.mem.groups;
        let pages = |item| groups.seen_all(group, item);
        let nr_dirty = pages(NodeStat::Dirty);
        let dirty = nr_dirty + pages(NodeStat::Writeback);
        let of_group = GroupPages {
            file: pages(NodeStat::InactiveFile) + pages(NodeStat::ActiveFile),
            dirty,
            headroom: headroom(&groups.memory, group),
            global_avail: self.mem.dirtyable_pages() + 1,
            global_dirty: self.nr_dirty_pages() + self.nr_writeback_pages(),
        };
        let limits = DirtyLimits::of_group(&of_group, &self.mem.tunables);
        GroupLook { limits, nr_dirty, dirty }
    }

    /// True if any group has more dirty pages than its background limit.
    pub(super) fn is_group_over_background(&self, cx: &Cx<'_, H>) -> bool {
        if !self.mem.groups.is_on() || self.mem.groups.is_v1() {
            return false;
        }
        // Limits cost a walk to the root: most groups have nothing dirty.
        self.flush_group_stats(cx, Reader::DirtyLimits, GroupId::ROOT);
        let has_dirty = |group: &GroupId| self.mem.groups.seen_all(*group, NodeStat::Dirty) > 0;
        let mut groups = self.memcg.all().filter(|group| !group.is_root()).filter(has_dirty);
        groups.any(|group| self.group_look(cx, group).is_over_background())
    }
}
