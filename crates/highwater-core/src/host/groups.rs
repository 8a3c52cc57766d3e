//! Changes of memory cgroups, for hosts that account by group (rules/pressure#groups).

use crate::units::GroupId;

/// A change of the tree of memory cgroups or of the running task's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// A group was made. Its number may be that of a group that is gone.
    Made {
        /// The group.
        group: GroupId,
        /// The group that it is part of.
        parent: GroupId,
    },
    /// The running task is in this group from now on.
    Joined {
        /// The group; the root for a task that leaves its group.
        group: GroupId,
    },
    /// A group without tasks was removed.
    Removed {
        /// The group.
        group: GroupId,
    },
}
