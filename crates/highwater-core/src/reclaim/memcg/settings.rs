//! Writes to a group's settings (rules/memory-cgroups#settings).

use super::version_one::Limit;
use crate::config::ReclaimBatch;
use crate::host::{Cx, Devices, Phase};
use crate::kernel::Kernel;
use crate::lru::balance::SWAPPINESS_MAX;
use crate::memcg::{GroupEvent, Stocks};
use crate::page_alloc::Gfp;
use crate::units::{Error, GroupId};

/// Rounds without a page (`MAX_RECLAIM_RETRIES`).
const RETRIES: u32 = 16;

/// A setting of a group, in pages; `u64::MAX` = `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSetting {
    /// `memory.min`: never reclaimed below it.
    Min(u64),
    /// `memory.low`: not reclaimed below it while anything else is left.
    Low(u64),
    /// `memory.high`: tasks that charge above it reclaim and sleep.
    High(u64),
    /// `memory.max`: the limit.
    Max(u64),
    /// `memory.swap.high`: tasks sleep above it.
    SwapHigh(u64),
    /// `memory.swap.max`: the limit of swap.
    SwapMax(u64),
    /// `memory.oom.group`: an OOM kill takes all tasks.
    OomGroup(bool),
    /// `memory.limit_in_bytes` of version 1: the limit.
    Limit(u64),
    /// `memory.memsw.limit_in_bytes` of version 1: the limit of memory and swap together.
    MemswLimit(u64),
    /// `memory.soft_limit_in_bytes` of version 1: global reclaim takes the excess first.
    SoftLimit(u64),
    /// `memory.swappiness` of version 1, 0 to 200. Not in pages.
    Swappiness(u64),
    /// `memory.oom_control` of version 1: tasks wait instead of an OOM kill.
    OomControl(bool),
}

/// A write to `memory.reclaim` that got less than it asked for (EAGAIN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReclaimed {
    /// Pages reclaimed.
    pub got: u64,
    /// Pages asked for.
    pub wanted: u64,
}

impl<H: Devices> Kernel<H> {
    /// Writes a setting of a group. Lowering `max` or `high` below the usage reclaims, and `max`
    /// may kill.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such group, if it is the root, which has no settings, or
    /// if the hierarchy is not of the setting's version. Limits of version 1 also fail with
    /// [`Error::Invalid`] if memory alone could have more than memory and swap together, and with
    /// [`Error::Busy`] if they are below the usage and reclaim cannot make room.
    pub fn set_group(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        setting: GroupSetting,
    ) -> Result<(), Error> {
        self.check_write(group, setting)?;
        match setting {
            GroupSetting::High(pages) => self.set_group_high(cx, group, capped(pages)),
            GroupSetting::Max(pages) => self.set_group_max(cx, group, capped(pages)),
            GroupSetting::Limit(pages) => {
                return self.set_group_limit(cx, group, Limit::Memory, capped(pages));
            }
            GroupSetting::MemswLimit(pages) => {
                return self.set_group_limit(cx, group, Limit::Memsw, capped(pages));
            }
            GroupSetting::SoftLimit(pages) => self.memcg.v1.set_soft_limit(group, capped(pages)),
            GroupSetting::Swappiness(value) if value > SWAPPINESS_MAX => {
                return Err(Error::Invalid);
            }
            GroupSetting::Swappiness(value) => self.memcg.v1.set_swappiness(group, value),
            GroupSetting::OomControl(disable) => self.set_oom_control(cx, group, disable),
            GroupSetting::Min(_)
            | GroupSetting::Low(_)
            | GroupSetting::SwapHigh(_)
            | GroupSetting::SwapMax(_)
            | GroupSetting::OomGroup(_) => self.store_setting(group, setting),
        }
        Ok(())
    }

    /// Writes a setting of a group of version 2 and reclaims nothing: the group's next charges
    /// meet the limit. So does a write to a file that was opened with `O_NONBLOCK` (7.2;
    /// rules/memory-cgroups#settings). It needs no task, so whoever observes a kernel of any
    /// version can change limits by it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such group, if it is the root, or if the setting or the
    /// hierarchy is of version 1.
    pub fn set_group_without_reclaim(
        &self,
        group: GroupId,
        setting: GroupSetting,
    ) -> Result<(), Error> {
        if setting.is_of_v1() {
            return Err(Error::Invalid);
        }
        self.check_write(group, setting)?;
        self.store_setting(group, setting);
        Ok(())
    }

    fn check_write(&self, group: GroupId, setting: GroupSetting) -> Result<(), Error> {
        let is_there = !group.is_root() && self.memcg.has_directory(group);
        let has_setting = setting.is_of_v1() == self.mem.groups.is_v1();
        if is_there && has_setting { Ok(()) } else { Err(Error::Invalid) }
    }

    /// Stores a setting of version 2.
    fn store_setting(&self, group: GroupId, setting: GroupSetting) {
        let groups = &self.mem.groups;
        match setting {
            GroupSetting::Min(pages) => groups.memory.set_min(group, capped(pages)),
            GroupSetting::Low(pages) => groups.memory.set_low(group, capped(pages)),
            GroupSetting::High(pages) => groups.memory.set_high(group, capped(pages)),
            GroupSetting::Max(pages) => groups.memory.set_max(group, capped(pages)),
            GroupSetting::SwapHigh(pages) => groups.swap.set_high(group, capped(pages)),
            GroupSetting::SwapMax(pages) => groups.swap.set_max(group, capped(pages)),
            GroupSetting::OomGroup(all) => self.memcg.set_oom_group(group, all),
            GroupSetting::Limit(_)
            | GroupSetting::MemswLimit(_)
            | GroupSetting::SoftLimit(_)
            | GroupSetting::Swappiness(_)
            | GroupSetting::OomControl(_) => unreachable!("a setting of version 1"),
        }
    }

    /// Sets the limit, and reclaims or kills until the usage is below it.
    #[doc(alias = "memory_max_write")]
    fn set_group_max(&self, cx: &Cx<'_, H>, group: GroupId, max: u64) {
        let counters = &self.mem.groups.memory;
        counters.set_max(group, max);
        let (mut is_drained, mut left) = (false, RETRIES);
        loop {
            let usage = counters[group].usage();
            // Another task may have set the limit meanwhile, which then is its to reach.
            if usage <= max || counters[group].max() != max || cx.is_dying() {
                return;
            }
            if !is_drained {
                self.drain_group_stocks(cx, group, Stocks::Subtree);
                is_drained = true;
                continue;
            }
            if left > 0 {
                let why = (Phase::LimitReclaim, group);
                if self.reclaim_group(cx, why, usage - max, Gfp::GFP_KERNEL) == 0 {
                    left -= 1;
                }
                continue;
            }
            self.memcg.event(group, GroupEvent::Oom);
            if !self.kill_in_group(cx, group, Gfp::GFP_KERNEL, 1) {
                return;
            }
            // A victim frees its memory when it runs.
            cx.host.park_jiffies("a victim in a group to end", 1);
        }
    }

    /// Sets `memory.high`, and reclaims until the usage is below it or nothing comes any more.
    #[doc(alias = "memory_high_write")]
    fn set_group_high(&self, cx: &Cx<'_, H>, group: GroupId, high: u64) {
        let counters = &self.mem.groups.memory;
        counters.set_high(group, high);
        let (mut is_drained, mut left) = (false, RETRIES);
        loop {
            let usage = counters[group].usage();
            if usage <= high || cx.is_dying() {
                return;
            }
            if !is_drained {
                self.drain_group_stocks(cx, group, Stocks::Subtree);
                is_drained = true;
                continue;
            }
            let why = (Phase::GroupReclaim, group);
            if self.reclaim_group(cx, why, usage - high, Gfp::GFP_KERNEL) == 0 {
                if left == 0 {
                    return;
                }
                left -= 1;
            }
        }
    }

    /// Reclaims pages of a group and those below it on demand (`memory.reclaim`, 5.19). Returns the
    /// pages reclaimed, which may be more than asked for.
    ///
    /// # Errors
    /// If sixteen rounds got nothing; what was reclaimed before stays so. Version 1 has no such
    /// file.
    #[doc(alias = "memory_reclaim")]
    pub fn reclaim_from_group(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        wanted: u64,
    ) -> Result<u64, NotReclaimed> {
        if self.mem.groups.is_v1() {
            return Err(NotReclaimed { got: 0, wanted });
        }
        let (mut got, mut left) = (0, RETRIES);
        while got < wanted {
            if cx.is_dying() {
                return Err(NotReclaimed { got, wanted });
            }
            // Before the last try: pages in other CPUs' batches are on no list.
            if left == 0 {
                self.lru_add_drain_all(cx);
            }
            let missing = wanted - got;
            let ask = match self.mem.policy.memcg.reclaim_batch {
                ReclaimBatch::All => missing,
                ReclaimBatch::Quarter => missing / 4,
            };
            let freed = self.reclaim_group_proactively(cx, group, ask);
            if freed == 0 {
                if left == 0 {
                    return Err(NotReclaimed { got, wanted });
                }
                left -= 1;
            }
            got += freed;
        }
        Ok(got)
    }
}

/// `max` as counters keep it.
fn capped(pages: u64) -> u64 {
    pages.min(crate::vmstat::UNLIMITED)
}
