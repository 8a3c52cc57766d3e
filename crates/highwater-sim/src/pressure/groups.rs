//! The pressure of memory cgroups: each has a [`Level`] of the tasks in it and in all groups below
//! (rules/pressure#groups).
//!
//! ```text
//!  a task in c changes:   c ─▶ b ─▶ a        each group's account of the task's CPU
//! ```
//!
//! The kernel reports groups as they come and go ([`GroupChange`]). A removed group keeps its totals
//! until another one gets its number.

use highwater_core::host::GroupChange;
use highwater_core::units::GroupId;

use super::level::Level;
use super::{Pressure, Reading, Standing};
use crate::engine::Sim;
use crate::engine::task::{Placement, TaskIndex};

/// The groups below the root.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// By number; `None`: there was never one, or pressure was not measured when it was made.
    all: Vec<Option<Group>>,
}

#[derive(Debug)]
struct Group {
    parent: GroupId,
    is_removed: bool,
    level: Level,
}

impl Groups {
    fn get(&self, group: GroupId) -> Option<&Group> {
        self.all.get(group.idx())?.as_ref()
    }

    /// Calls `each` with a group and all above it, without the root.
    fn upwards(&mut self, group: GroupId, mut each: impl FnMut(&mut Level)) {
        let mut at = group;
        while !at.is_root()
            && let Some(Some(group)) = self.all.get_mut(at.idx())
        {
            each(&mut group.level);
            at = group.parent;
        }
    }

    /// Measures a new group, with its own accounts, from now on.
    #[doc(alias = "psi_cgroup_alloc")]
    fn made(&mut self, group: GroupId, parent: GroupId, level: Level) {
        if self.all.len() <= group.idx() {
            self.all.resize_with(group.idx() + 1, || None);
        }
        self.all[group.idx()] = Some(Group { parent, is_removed: false, level });
    }

    /// Ends the measuring of a group; its totals stay.
    #[doc(alias = "psi_cgroup_free")]
    fn removed(&mut self, group: GroupId) {
        if let Some(Some(group)) = self.all.get_mut(group.idx()) {
            group.is_removed = true;
        }
    }

    /// A task changes its state, its CPU or its group.
    #[cold]
    #[inline(never)]
    pub(super) fn stand(&mut self, old: Standing, new: Standing, now_ns: u64) {
        self.upwards(old.group, |level| level.leave(old));
        self.upwards(new.group, |level| level.join(new));
        // Groups above both get this twice; the second time changes nothing.
        self.upwards(old.group, |level| level.change_by_tasks(old.cpu, now_ns));
        self.upwards(new.group, |level| level.change_by_tasks(new.cpu, now_ns));
    }

    /// Ends the period of all groups that were not removed.
    pub(super) fn collect(&mut self) {
        let all = self.all.iter_mut().flatten();
        all.filter(|group| !group.is_removed).for_each(|group| group.level.collect());
    }
}

impl Pressure {
    fn change_groups(&mut self, task: Option<TaskIndex>, change: GroupChange, now_ns: u64) {
        match (change, task) {
            (GroupChange::Made { group, parent }, _) => {
                let machine = &self.machine;
                let level = Level::new(machine.nr_cpus(), now_ns, machine.due_at_ns());
                self.groups.made(group, parent, level);
            }
            (GroupChange::Removed { group }, _) => self.groups.removed(group),
            (GroupChange::Joined { group }, Some(task)) => self.move_task(task, group, now_ns),
            (GroupChange::Joined { .. }, None) => {}
        }
    }

    /// Moves the running task to a group, with its state.
    #[doc(alias = "cgroup_move_task")]
    fn move_task(&mut self, task: TaskIndex, group: GroupId, now_ns: u64) {
        // It has a state since it got its CPU.
        let Some(standing) = self.standings.get_mut(task.idx()) else { return };
        if standing.group != group {
            let old = *standing;
            standing.group = group;
            self.groups.stand(old, Standing { group, ..old }, now_ns);
        }
    }

    /// Content of the files of a group at a time; none of the root, and of a group that was made
    /// before pressure was measured.
    pub(crate) fn read_group(&self, group: GroupId, now_ns: u64) -> Option<Reading> {
        Some(self.groups.get(group)?.level.read(now_ns))
    }
}

/// Pressure of memory cgroups.
impl Sim {
    /// Content of a group's `cpu.pressure`, `io.pressure` and `memory.pressure` now: totals and
    /// averages of the tasks in the group and in all groups below it. A removed group has its last
    /// totals until another one gets its number.
    ///
    /// None of the root, which has [the machine's](Sim::pressure), of an unknown group, and if
    /// pressure was not [measured](Sim::measure_pressure) when the group was made.
    pub fn group_pressure(&self, group: GroupId) -> Option<Reading> {
        let state = self.inner.state.borrow();
        state.pressure.as_ref()?.read_group(group, self.now_ns())
    }

    /// The kernel reports a change of groups.
    #[cold]
    #[inline(never)]
    pub(crate) fn group_changed(&self, change: GroupChange) {
        let inner = &*self.inner;
        let now_ns = self.now_ns();
        let state = &mut *inner.state.borrow_mut();
        let is_interrupt =
            |task: &TaskIndex| matches!(state.tasks[*task].placement, Placement::Interrupt(_));
        // Interrupts have no state in a CPU's account.
        let task = inner.current().filter(|task| !is_interrupt(task));
        if let Some(pressure) = &mut state.pressure {
            pressure.change_groups(task, change, now_ns);
        }
    }
}
