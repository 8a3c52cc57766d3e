//! Memory cgroups of a job: which there are, and how many tasks are in each.
//!
//! The kernel's groups do not know their tasks, so the rule that a group with tasks cannot be
//! removed (EBUSY) is kept here.
//!
//! Key types: [`GroupHow`] (a group as the job describes it), [`Groups`].

use std::cell::Cell;

use highwater_core::config::KernelVersion;
use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::reclaim::{GroupSetting, NotReclaimed};
use highwater_core::units::GroupId;
use highwater_core::vm::Mm;

use super::Task;
use super::run::{Ground, Inherited, Why};
use crate::process;

/// A group before the first task runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupHow {
    /// The number of the group above it; `None`: the root.
    pub parent: Option<usize>,
    /// Its settings, in the order in which they are written.
    pub settings: Vec<GroupSetting>,
}

/// The kernel that has `memory.reclaim` first.
pub const RECLAIM_SINCE: KernelVersion = KernelVersion::new(5, 19);

/// Errors of actions on groups, in the words of messages.
pub(super) const GONE: Error = Error::Limit("it was removed before");
const HAS_TASKS: Error = Error::Limit("tasks are in it (EBUSY)");
const HAS_GROUPS: Error = Error::Limit("there are groups below it (EBUSY)");

/// The groups of a job, by number.
#[derive(Debug, Default)]
pub struct Groups {
    all: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    id: GroupId,
    parent: Option<usize>,
    nr_tasks: Cell<u32>,
    is_removed: Cell<bool>,
}

impl Groups {
    /// Makes groups, and writes their settings. A parent stands before the groups below it.
    ///
    /// # Errors
    /// If the kernel has no room for them.
    pub fn create<H: Devices>(
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        all: &[GroupHow],
    ) -> Result<Groups, Error> {
        let mut groups = Groups::default();
        for GroupHow { parent, settings } in all {
            let above = parent.map_or(GroupId::ROOT, |parent| groups.id(parent));
            let id = kernel.make_group(cx, above)?;
            for &setting in settings {
                kernel.set_group(cx, id, setting)?;
            }
            let (nr_tasks, is_removed) = (Cell::new(0), Cell::new(false));
            groups.all.push(Group { id, parent: *parent, nr_tasks, is_removed });
        }
        Ok(groups)
    }

    /// The kernel's name of a group.
    pub fn id(&self, group: usize) -> GroupId {
        self.all[group].id
    }

    /// The kernel's names of all groups, in their order.
    pub fn ids(&self) -> Vec<GroupId> {
        self.all.iter().map(|group| group.id).collect()
    }

    fn known(&self, group: usize) -> Result<&Group, Error> {
        Some(&self.all[group]).filter(|group| !group.is_removed.get()).ok_or(GONE)
    }

    /// Counts a task that is about to be in a group; of the root nothing is counted.
    pub(super) fn enter(&self, group: Option<usize>) -> Result<(), Error> {
        let Some(group) = group else { return Ok(()) };
        let nr_tasks = &self.known(group)?.nr_tasks;
        nr_tasks.set(nr_tasks.get() + 1);
        Ok(())
    }

    /// A task that was counted has left.
    pub(super) fn leave(&self, group: Option<usize>) {
        if let Some(group) = group {
            let nr_tasks = &self.all[group].nr_tasks;
            nr_tasks.set(nr_tasks.get() - 1);
        }
    }

    /// The running task, which is counted, and its address space are charged to a group.
    pub(super) fn join<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        (mm, group): (Option<&Mm<H>>, Option<usize>),
    ) -> Result<(), Error> {
        match group {
            Some(group) => kernel.join_group(cx, mm, self.id(group)),
            None => Ok(()),
        }
    }

    /// Writes a setting.
    pub(super) fn set<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        (group, setting): (usize, GroupSetting),
    ) -> Result<(), Error> {
        kernel.set_group(cx, self.known(group)?.id, setting)
    }

    /// Writes to `memory.reclaim`. Returns the pages that it got less than it asked for.
    pub(super) fn reclaim<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        (group, pages): (usize, u64),
    ) -> Result<u64, Error> {
        let id = self.known(group)?.id;
        if kernel.mem.policy.kernel < RECLAIM_SINCE {
            return Ok(pages);
        }
        Ok(match kernel.reclaim_from_group(cx, id, pages) {
            Ok(_) => 0,
            Err(NotReclaimed { got, wanted }) => wanted.saturating_sub(got),
        })
    }

    /// Removes a group without tasks, and without groups below it.
    pub(super) fn remove<H: Devices>(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        group: usize,
    ) -> Result<(), Error> {
        let known = self.known(group)?;
        let is_below = |other: &&Group| other.parent == Some(group) && !other.is_removed.get();
        if known.nr_tasks.get() > 0 {
            return Err(HAS_TASKS);
        }
        if self.all.iter().any(|other| is_below(&other)) {
            return Err(HAS_GROUPS);
        }
        kernel.remove_group(cx, known.id)?;
        known.is_removed.set(true);
        Ok(())
    }
}

/// The memory of a task, its VMAs, and its group, which it joins first: an address space belongs to
/// the group of the task that makes it. On an error, with the group in which the task is counted.
#[allow(clippy::type_complexity, reason = "it is taken apart where it is called")]
pub(super) fn begin<H: Devices>(
    task: &Task,
    ground: &Ground<'_, H>,
    cx: &Cx<'_, H>,
    inherited: Option<Inherited<H>>,
) -> Result<Inherited<H>, (Why, Option<usize>)> {
    let Ground { kernel, groups, .. } = *ground;
    let of_parent = inherited.as_ref().and_then(|(.., group)| *group);
    let group = match task.group {
        Some(_) if groups.enter(task.group).is_err() => {
            if let Some((mm, ..)) = inherited {
                mm.add_task(cx);
                process::end(kernel, cx, &mm);
            }
            return Err((Why::NoGroup, of_parent));
        }
        Some(_) => {
            groups.leave(of_parent);
            task.group
        }
        None => of_parent,
    };
    let mm = inherited.as_ref().map(|(mm, ..)| &**mm);
    groups.join(kernel, cx, (mm, group)).map_err(|error| (Why::Call(error), group))?;
    match inherited {
        Some((mm, mut areas, _)) => {
            mm.add_task(cx);
            areas.resize(task.nr_areas, None);
            Ok((mm, areas, group))
        }
        None => {
            let mm = process::start(kernel, cx).map_err(|error| (Why::Call(error), group))?;
            Ok((mm, vec![None; task.nr_areas], group))
        }
    }
}
