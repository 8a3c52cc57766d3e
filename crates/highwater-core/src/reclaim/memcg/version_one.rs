//! Settings and rules of version 1's groups (rules/memory-cgroups#v1).
//!
//! | rule | version 1 | version 2 |
//! |---|---|---|
//! | a limit below the usage | is refused unless reclaim makes room | is set; reclaim and kills follow |
//! | swap | counts with memory, in `memsw` | has a limit of its own |
//! | swappiness | each group has one | `vm.swappiness` |
//! | no room below the limit | a kill, or tasks wait (`memory.oom_control`) | a kill |
//! | a page under writeback that is met again | is waited for | is counted |
//! | dirty limits of groups, isolation throttle, sleep CONGESTED | none | yes |
//!
//! From: programs, [`super::super::folios`] · to: counters, [`super::limit`].

use super::GroupSetting;
use crate::config::NodePassWait;
use crate::host::{Cx, Devices, Phase};
use crate::kernel::Kernel;
use crate::memcg::Stocks;
use crate::page_alloc::Gfp;
use crate::reclaim::Control;
use crate::units::{Error, GroupId, NodeId, ThrottleReason};

/// The limits of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// `memory.limit_in_bytes`.
    Memory,
    /// `memory.memsw.limit_in_bytes`: memory and swap together.
    Memsw,
}

impl GroupSetting {
    /// True of a setting that only version 1 has; false: only version 2.
    pub const fn is_of_v1(self) -> bool {
        match self {
            GroupSetting::Limit(_)
            | GroupSetting::MemswLimit(_)
            | GroupSetting::SoftLimit(_)
            | GroupSetting::Swappiness(_)
            | GroupSetting::OomControl(_) => true,
            GroupSetting::Min(_)
            | GroupSetting::Low(_)
            | GroupSetting::High(_)
            | GroupSetting::Max(_)
            | GroupSetting::SwapHigh(_)
            | GroupSetting::SwapMax(_)
            | GroupSetting::OomGroup(_) => false,
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Sets a limit of version 1. Below the usage, reclaim makes room first: a batch at a time,
    /// until the limit fits or nothing comes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if memory could have more than memory and swap together;
    /// [`Error::Busy`] if reclaim got nothing: the old limit stays; [`Error::Killed`].
    #[doc(alias = "mem_cgroup_resize_max")]
    pub(super) fn set_group_limit(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        which: Limit,
        pages: u64,
    ) -> Result<(), Error> {
        let memory = &self.mem.groups.memory;
        let memsw = memory.memsw().ok_or(Error::Invalid)?;
        let (counters, is_possible) = match which {
            Limit::Memory => (memory, pages <= memsw[group].max()),
            Limit::Memsw => (memsw, memory[group].max() <= pages),
        };
        if !is_possible {
            return Err(Error::Invalid);
        }
        let mut is_drained = false;
        loop {
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            if counters.lower_max(group, pages) {
                self.oom_recover(cx, group);
                return Ok(());
            }
            if !is_drained {
                self.drain_group_stocks(cx, group, Stocks::Subtree);
                is_drained = true;
                continue;
            }
            let why = (Phase::LimitReclaim, group);
            let got = match which {
                Limit::Memory => self.reclaim_group(cx, why, 1, Gfp::GFP_KERNEL),
                Limit::Memsw => self.reclaim_group_without_swap(cx, why, 1, Gfp::GFP_KERNEL),
            };
            if got == 0 {
                return Err(Error::Busy);
            }
        }
    }

    /// Lets a group's tasks wait instead of a kill, or ends that.
    #[doc(alias = "mem_cgroup_oom_control_write")]
    pub(super) fn set_oom_control(&self, cx: &Cx<'_, H>, group: GroupId, disable: bool) {
        self.memcg.v1.set_oom_kill_disable(group, disable);
        if !disable {
            self.oom_recover(cx, group);
        }
    }

    /// True of a reclaim for a group of version 1. Its writers have no dirty limits of their own,
    /// so reclaim slows them down where it meets their pages.
    ///
    /// Linux: the opposite of `writeback_throttling_sane`.
    #[doc(alias = "writeback_throttling_sane")]
    #[inline]
    pub(in crate::reclaim) fn is_reclaim_of_v1(&self, sc: &Control) -> bool {
        sc.is_of_group() && self.mem.groups.is_v1()
    }

    /// All pages of a batch were dirty and nobody writes them yet. The flushers are awake now; the
    /// reclaimer of a version 1 group gives them time. Kernels before 5.16 have no such sleep.
    #[cold]
    pub(in crate::reclaim) fn wait_for_flushers(&self, cx: &Cx<'_, H>, node: NodeId) {
        match self.throttle_policy().node_pass {
            NodePassWait::BatchCongestion | NodePassWait::Congestion => {}
            NodePassWait::Writeback | NodePassWait::Congested => {
                self.reclaim_throttle(cx, node, ThrottleReason::Writeback);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_share_no_setting() {
        assert!(GroupSetting::Limit(1).is_of_v1() && GroupSetting::OomControl(true).is_of_v1());
        assert!(!GroupSetting::Max(1).is_of_v1() && !GroupSetting::OomGroup(true).is_of_v1());
    }
}
