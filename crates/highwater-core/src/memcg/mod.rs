//! Memory cgroups: who pays for memory, and how much they may have (rules/memory-cgroups).
//!
//! A group's memory is what its tasks brought in: anonymous memory at the fault, page cache at the
//! insertion, kernel objects at the allocation. Limits bound it, protection shields it from
//! reclaim, and a group over its limits reclaims from itself.
//!
//! | module | is |
//! |---|---|
//! | [`group`] | all state: life, ids and events of groups |
//! | [`life`] | the end of groups; they are made and removed in `syscall::groups` |
//! | [`removed`] | removed groups that wait for their offline step |
//! | [`owner`] | charging pages of users |
//! | [`kernel_memory`] | charging pages and objects of the kernel |
//! | [`sockets`] | charging buffers of sockets |
//! | [`stat`], [`stat_v1`] | what the files of a group show |
//! | [`stock`], [`objects`] | a CPU's charged pages, and bytes of objects, that nobody uses yet |
//! | [`protection`] | `memory.min` and `memory.low`: who is protected, and list sizes under protection |
//! | [`high`] | `memory.high`: how long a task sleeps |
//! | [`version_one`] | what only groups of version 1 have: soft limits, swappiness, tasks that wait |
//! | [`turns`] | the order of groups in reclaim for the machine, under MGLRU |
//! | [`walk`] | the tree of groups, and the order in which reclaim visits them |
//! | [`dirty`] | dirty limits of a group |
//!
//! Usage and limits are `vmstat::groups`', slots are `swap::charge`'s. Charging reclaims, so this
//! module declares [`Charge`] and `reclaim::memcg` has the work. The differences between kernels
//! are switches of [`crate::config::MemcgPolicy`].
//!
//! Nothing is allocated, and no branch but one is taken, if a kernel is made without groups.
//!
//! From: `vm`, `page_cache`, `slab`, `swap`, `net` (charges), `reclaim` · to: `vmstat`.

pub(crate) mod dirty;
mod group;
pub(crate) mod high;
mod kernel_memory;
mod life;
pub(crate) mod objects;
mod owner;
pub(crate) mod protection;
mod removed;
mod sockets;
mod stat;
mod stat_v1;
pub(crate) mod stock;
pub(crate) mod turns;
mod version_one;
pub(crate) mod walk;

pub use group::{GroupEvent, GroupLife, Memcg, Throttled};
pub(crate) use group::{Kept, TaskGroup};
pub(crate) use kernel_memory::Uncharge;
pub(crate) use life::Stocks;
pub(crate) use sockets::{Must, Side};
pub use stat::{GroupLimits, StatLine, stat_not_modelled};
pub use stat_v1::{CounterV1, limit_in_bytes};
pub(crate) use stock::Surplus;
pub use version_one::OomControl;

use crate::host::{Cx, Devices};
use crate::page_alloc::Gfp;
use crate::units::GroupId;

/// Charging as far as it needs reclaim; `reclaim::memcg` implements it.
pub(crate) trait Charge<H: Devices> {
    /// Charges pages to a group, which may reclaim from the group that has too much, sleep, and
    /// kill; false if the limit refuses.
    fn try_charge(&self, cx: &Cx<'_, H>, group: GroupId, gfp: Gfp, pages: u64) -> bool;

    /// The running task goes back to its program: it pays for what it charged above `memory.high`.
    fn return_to_user(&self, cx: &Cx<'_, H>);
}
