//! Memory cgroups of a swarm: programs make, enter, limit and remove them.

use highwater_core::host::Cx;
use highwater_core::reclaim::GroupSetting;
use highwater_core::units::GroupId;

use super::draw::Draw;
use super::shared::Shared;
use super::worker::Worker;
use crate::host::SimHost;

/// Groups below each other, at most.
const DEPTH_MAX: usize = 4;
/// One limit in so many is so low that tasks die of it.
const TIGHT_RARITY: u64 = 6;
/// The least of such limits, in pages, and of the others.
const TIGHT_MIN: u64 = 1;
const USUAL_MIN: u64 = 200;

/// Lifts the limits of all groups. A group that may have a page or two lets its tasks get on by a
/// page a second, or not at all, so such limits end with the other faults.
pub(super) fn lift_limits(cx: &Cx<'_, SimHost>, shared: &Shared) {
    let kernel = &shared.machine.kernel;
    let all: Vec<GroupId> = kernel.memcg.all().filter(|group| !group.is_root()).collect();
    // Memory may not have more than memory and swap together, so that comes first.
    let settings = [
        GroupSetting::Max(u64::MAX),
        GroupSetting::High(u64::MAX),
        GroupSetting::SwapMax(u64::MAX),
        GroupSetting::SwapHigh(u64::MAX),
        GroupSetting::MemswLimit(u64::MAX),
        GroupSetting::Limit(u64::MAX),
        GroupSetting::OomControl(false),
    ];
    let is_v1 = kernel.mem.groups.is_v1();
    for group in all {
        for setting in settings.into_iter().filter(|setting| setting.is_of_v1() == is_v1) {
            // A removed group's limits cannot be written; no task is in it.
            let _ = kernel.set_group(cx, group, setting);
        }
    }
}

impl Worker<'_, '_> {
    /// Changes something about groups. Refusals are part of the game: a group with tasks cannot be
    /// removed, and one that is gone cannot be entered.
    pub(super) fn change_groups(&mut self) {
        self.shared.spend(5);
        let (kernel, cx) = (self.kernel, self.cx);
        match self.groups.below(10) {
            0 | 1 => {
                let parent = self.any_group();
                if self.depth(parent) < DEPTH_MAX {
                    let _ = kernel.make_group(cx, parent);
                }
            }
            2..=4 => {
                let group = self.any_group();
                let _ = kernel.join_group(cx, Some(&self.group.mm), group);
            }
            5..=7 => {
                let (group, setting) = (self.any_group(), self.setting());
                let _ = kernel.set_group(cx, group, setting);
            }
            8 => {
                let group = self.any_group();
                let pages = self.groups.magnitude(1, self.shared.options.reach);
                let _ = kernel.reclaim_from_group(cx, group, pages);
            }
            _ => {
                let group = self.any_group();
                let _ = kernel.remove_group(cx, group);
            }
        }
    }

    /// A group that exists, the root among them.
    fn any_group(&mut self) -> GroupId {
        let memcg = &self.kernel.memcg;
        let all: Vec<GroupId> = memcg.all().filter(|&group| memcg.has_directory(group)).collect();
        self.groups.pick(&all)
    }

    fn depth(&self, group: GroupId) -> usize {
        self.kernel.memcg.ancestors(group).count()
    }

    fn setting(&mut self) -> GroupSetting {
        let reach = self.shared.options.reach * 2;
        let least = if self.groups.one_in(TIGHT_RARITY) { TIGHT_MIN } else { USUAL_MIN };
        let pages = match self.shared.is_live() || self.groups.one_in(4) {
            true => u64::MAX,
            false => self.groups.magnitude(least, reach.max(least + 1)),
        };
        if self.kernel.mem.groups.is_v1() {
            return self.setting_of_v1(pages);
        }
        match self.groups.below(9) {
            0..=2 => GroupSetting::Max(pages),
            3 | 4 => GroupSetting::High(pages),
            5 => GroupSetting::Low(pages),
            6 => GroupSetting::Min(pages.min(reach / 4)),
            7 if self.groups.one_in(2) => GroupSetting::SwapHigh(pages),
            7 => GroupSetting::SwapMax(pages),
            _ => GroupSetting::OomGroup(self.groups.one_in(2)),
        }
    }

    /// A limit below the usage may be refused, and memory may not have more than memory and swap
    /// together: both are part of the game.
    fn setting_of_v1(&mut self, pages: u64) -> GroupSetting {
        match self.groups.below(9) {
            0..=2 => GroupSetting::Limit(pages),
            3 | 4 => GroupSetting::MemswLimit(pages),
            5 | 6 => GroupSetting::SoftLimit(pages),
            7 => GroupSetting::Swappiness(self.groups.below(201)),
            _ => GroupSetting::OomControl(!self.shared.is_live() && self.groups.one_in(2)),
        }
    }
}
