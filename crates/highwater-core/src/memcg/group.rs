//! Groups: their life, their ids, their events, and all state of memory cgroups.
//!
//! A group is named by two numbers. Its [`GroupId`] is the place of its state, which stays until
//! nothing is charged to it. Its *id* is what shadows and swap slots name: it is free for the next
//! group as soon as the group is removed and no slot names it, so a shadow may meet a new group
//! with the old id (rules/memory-cgroups#state).
//!
//! | life | means |
//! |---|---|
//! | free | no group has this place |
//! | online | made, not removed |
//! | offline | removed; pages or slots are still charged to it ("dying") |
//! | hollow | removed; only memory of the kernel names it, which its parent pays for |

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt::Write as _;

use super::objects::{ObjectStock, TokenId, Tokens};
use super::removed::Removed;
use super::stock::Stock;
use super::turns::{Turn, Turns};
use super::version_one::VersionOne;
use super::walk::{Position, Tree};
use crate::config::Algorithm;
use crate::host::{CpuId, Lock, TaskLocal, Tasks};
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::{GroupId, NodeId};
use crate::wait::WaitQueue;

/// Events of a group, as `memory.events` and `memory.swap.events` count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum GroupEvent {
    /// It was reclaimed although its usage was below `memory.low`.
    Low,
    /// It was reclaimed because it was over `memory.high`.
    High,
    /// A charge hit its `memory.max`.
    Max,
    /// Reclaim for its limit failed.
    Oom,
    /// A process of it was killed.
    OomKill,
    /// All its processes were killed together.
    OomGroupKill,
    /// A charge of a socket was refused, so its sender waits (7.2).
    SockThrottled,
    /// A charge found it over `memory.swap.high`.
    SwapHigh,
    /// A page was refused a slot by `memory.swap.max`.
    SwapMax,
    /// A page got no slot.
    SwapFail,
}

impl GroupEvent {
    /// Every event.
    pub const ALL: [GroupEvent; 10] = [
        GroupEvent::Low,
        GroupEvent::High,
        GroupEvent::Max,
        GroupEvent::Oom,
        GroupEvent::OomKill,
        GroupEvent::OomGroupKill,
        GroupEvent::SockThrottled,
        GroupEvent::SwapHigh,
        GroupEvent::SwapMax,
        GroupEvent::SwapFail,
    ];

    /// The file that counts it, and its name there.
    pub const fn file_and_name(self) -> (&'static str, &'static str) {
        match self {
            GroupEvent::Low => ("memory.events", "low"),
            GroupEvent::High => ("memory.events", "high"),
            GroupEvent::Max => ("memory.events", "max"),
            GroupEvent::Oom => ("memory.events", "oom"),
            GroupEvent::OomKill => ("memory.events", "oom_kill"),
            GroupEvent::OomGroupKill => ("memory.events", "oom_group_kill"),
            GroupEvent::SockThrottled => ("memory.events", "sock_throttled"),
            GroupEvent::SwapHigh => ("memory.swap.events", "high"),
            GroupEvent::SwapMax => ("memory.swap.events", "max"),
            GroupEvent::SwapFail => ("memory.swap.events", "fail"),
        }
    }
}

/// The life of a group in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupLife {
    /// No group.
    Free,
    /// Made, not removed.
    Online,
    /// Removed, but the offline step has not come yet: it goes on as before, without a directory.
    Removed,
    /// After the offline step; pages or slots are still charged to it.
    Offline,
    /// No page or slot is left; the kernel still has memory from its time, which its parent pays
    /// for.
    Hollow,
}

/// State of one group besides its counters.
struct Group {
    life: AtomicU8,
    /// The number that shadows and slots keep.
    id: AtomicU16,
    oom_group: AtomicBool,
    /// Tasks that are in it.
    nr_tasks: AtomicU64,
    /// With all groups below, and its own, by [`GroupEvent`].
    events: [[AtomicU64; GroupEvent::ALL.len()]; 2],
    /// Pages of the kernel and bytes of objects that are charged to it: they keep it.
    kernel_pages: AtomicU64,
    object_bytes: AtomicU64,
    /// Pages of users that are charged to it.
    user_pages: AtomicU64,
    /// Sockets that name it, which keep it, and pages that are charged for their buffers.
    nr_sockets: AtomicU64,
    socket_pages: AtomicU64,
    /// Sleeps of its tasks and those below for `memory.high`: number, nanoseconds.
    sleeps: [AtomicU64; 2],
}

/// Time that tasks slept because a group was over its `memory.high` or `memory.swap.high`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Number of sleeps.
    pub nr_sleeps: u64,
    /// Their time, nanoseconds.
    pub ns: u64,
}

/// An id, and what keeps it.
#[derive(Default)]
struct Id {
    /// Place of the group + 1; 0 = nobody's.
    group: AtomicU16,
    /// Swap slots that name it.
    nr_slots: AtomicU64,
}

/// The charges that a CPU holds back. One lock, because giving back objects gives back pages.
pub(crate) struct CpuStock {
    pub(crate) pages: Stock,
    pub(crate) objects: ObjectStock,
}

/// The group of a task, and its debt to `memory.high`.
#[derive(Default)]
pub(crate) struct TaskGroup {
    /// The group that it is in.
    pub(crate) group: Cell<GroupId>,
    /// Pages charged while a group on the path was over `memory.high` (`memcg_nr_pages_over_high`).
    pub(crate) over_high: Cell<u64>,
    /// The group without OOM kills (version 1) whose limit refused the task's last charge.
    pub(crate) in_oom: Cell<Option<GroupId>>,
}

impl TaskLocal for TaskGroup {}

/// All groups of a kernel.
pub struct Memcg<H: Tasks> {
    pub(crate) tokens: Tokens,
    /// Order of the groups.
    pub(crate) tree: Tree,
    /// Held while groups come and go; `Table` class.
    pub(crate) changes: H::Lock<()>,
    /// By group, then node: where walks are that take turns.
    positions: Box<[Position]>,
    nr_nodes: usize,
    groups: Box<[Group]>,
    /// Names within their parents, for reports; `Table` class.
    names: H::Lock<BTreeMap<GroupId, Arc<str>>>,
    ids: Box<[Id]>,
    /// By CPU; `Table` class.
    pub(crate) stocks: Box<[H::Lock<CpuStock>]>,
    /// Pages that a group's charge takes through the counters at a time.
    pub(crate) batch: u64,
    /// The worker that adds up statistics sleeps here.
    pub(crate) flusher_wait: WaitQueue<H>,
    /// Removed groups whose offline step is to come.
    pub(crate) removed: Removed<H>,
    /// Settings and waiting tasks of version 1.
    pub(crate) v1: VersionOne<H>,
    /// By node: the order in which reclaim takes groups that take turns; none if they do not.
    pub(crate) turns: Box<[H::Lock<Turns>]>,
}

impl<H: Tasks> Memcg<H> {
    /// The root, and room for as many groups as `mem.groups` has; of a kernel without groups,
    /// nothing.
    pub(crate) fn new(host: &H, mem: &PageAllocator<H>) -> Self {
        let policy = &mem.policy.memcg;
        let (capacity, batch) = (mem.groups.capacity(), policy.charge_batch.into());
        let nr_slots = policy.stock_slots.into();
        let stock =
            || CpuStock { pages: Stock::new(nr_slots, batch), objects: ObjectStock::default() };
        let nr_stocks = if capacity == 0 { 0 } else { mem.nr_cpus() };
        let reclaim = &mem.policy.reclaim;
        let takes_turns = reclaim.algorithm == Algorithm::Mglru && reclaim.mglru.group_turns;
        let nr_turns = if takes_turns && capacity != 0 { mem.nr_nodes() } else { 0 };
        let all = Memcg {
            tokens: Tokens::new(capacity),
            tree: Tree::new(capacity),
            changes: host.new_lock(LockClass::Table, ()),
            positions: (0..capacity * mem.nr_nodes()).map(|_| Position::new()).collect(),
            nr_nodes: mem.nr_nodes(),
            groups: (0..capacity).map(|_| Group::free()).collect(),
            names: host.new_lock(LockClass::Table, BTreeMap::new()),
            ids: (0..capacity).map(|_| Id::default()).collect(),
            stocks: (0..nr_stocks).map(|_| host.new_lock(LockClass::Table, stock())).collect(),
            batch,
            flusher_wait: WaitQueue::new(host),
            removed: Removed::new(host),
            turns: (0..nr_turns as u64)
                .map(|node| host.new_lock(LockClass::Table, Turns::new(capacity, node)))
                .collect(),
            v1: VersionOne::new(host, if mem.groups.is_v1() { capacity } else { 0 }),
        };
        if let Some(root) = all.groups.first() {
            root.life.store(GroupLife::Online as u8, Relaxed);
            all.ids[0].group.store(1, Relaxed);
            all.take_turns(CpuId(0), GroupId::ROOT, Turn::New);
        }
        all
    }

    /// The life of a group.
    pub fn life(&self, group: GroupId) -> GroupLife {
        match self.groups.get(group.idx()).map(|group| group.life.load(Relaxed)) {
            Some(1) => GroupLife::Online,
            Some(2) => GroupLife::Removed,
            Some(3) => GroupLife::Offline,
            Some(4) => GroupLife::Hollow,
            _ => GroupLife::Free,
        }
    }

    /// True of a group that was made and not removed: programs see it.
    pub fn has_directory(&self, group: GroupId) -> bool {
        self.life(group) == GroupLife::Online
    }

    /// True of a group until its offline step, which comes a while after its removal.
    #[doc(alias = "mem_cgroup_online")]
    pub fn is_online(&self, group: GroupId) -> bool {
        matches!(self.life(group), GroupLife::Online | GroupLife::Removed)
    }

    /// A group and all above it, the root last.
    pub fn ancestors(&self, group: GroupId) -> impl Iterator<Item = GroupId> {
        self.tree.ancestors(group)
    }

    /// All groups that are not free, in the order of their places.
    pub fn all(&self) -> impl Iterator<Item = GroupId> {
        let all = (0..self.groups.len()).map(|at| GroupId(at as u16));
        all.filter(|&group| self.life(group) != GroupLife::Free)
    }

    /// From now on reports call a group so, within its parent.
    pub fn set_name(&self, cpu: CpuId, group: GroupId, name: &str) {
        self.names.lock(cpu).insert(group, Arc::from(name));
    }

    /// The path of a group: `/` for the root.
    #[doc(alias = "cgroup_path")]
    pub fn path(&self, cpu: CpuId, group: GroupId) -> String {
        self.path_in(&self.names.lock(cpu), group)
    }

    /// The same for an observer outside the machine; `None` while names change.
    pub fn peek_path(&self, group: GroupId) -> Option<String> {
        self.names.peek(|names| self.path_in(names, group))
    }

    fn path_in(&self, names: &BTreeMap<GroupId, Arc<str>>, group: GroupId) -> String {
        let mut path = String::new();
        let line: Vec<GroupId> = match self.groups.is_empty() {
            true => Vec::new(),
            false => self.tree.ancestors(group).filter(|above| !above.is_root()).collect(),
        };
        for above in line.iter().rev() {
            let _ = match names.get(above) {
                Some(name) => write!(path, "/{name}"),
                None => write!(path, "/group{}", above.0),
            };
        }
        if path.is_empty() { String::from("/") } else { path }
    }

    /// Where walks from a group on a node are that take turns.
    pub(crate) fn position(&self, group: GroupId, node: NodeId) -> &Position {
        &self.positions[group.idx() * self.nr_nodes + node.idx()]
    }

    /// Gives a group its place among those that take turns.
    pub(crate) fn take_turns(&self, cpu: CpuId, group: GroupId, turn: Turn) {
        self.turns.iter().for_each(|turns| turns.lock(cpu).put(group, turn));
    }

    /// A group is gone: no walk goes on from it.
    pub(super) fn forget_positions(&self, group: GroupId) {
        self.positions.iter().for_each(|position| position.forget(group));
    }

    /// The number that shadows and slots keep of a group.
    pub(crate) fn id(&self, group: GroupId) -> u16 {
        self.groups[group.idx()].id.load(Relaxed)
    }

    /// The group with an id, which may be removed; none if it is gone.
    #[doc(alias = "mem_cgroup_from_id")]
    pub(crate) fn by_id(&self, id: u16) -> Option<GroupId> {
        let at = self.ids.get(usize::from(id))?.group.load(Relaxed);
        Some(GroupId(at.checked_sub(1)?))
    }

    /// The group that pays for kernel memory of a group: itself, or, once it is removed, the
    /// nearest one above that is not.
    pub(crate) fn payer_of(&self, group: GroupId) -> GroupId {
        if group.is_root() { group } else { self.tokens.owner(TokenId(group.0)) }
    }

    /// A slot names an id from now on.
    pub(crate) fn hold_id(&self, id: u16) {
        self.ids[usize::from(id)].nr_slots.fetch_add(1, Relaxed);
    }

    /// A slot names it no longer.
    #[doc(alias = "mem_cgroup_id_put")]
    pub(crate) fn drop_id(&self, id: u16) {
        let before = self.ids[usize::from(id)].nr_slots.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "id {id} is named by no slot");
        if before == 1 && self.by_id(id).is_some_and(|group| !self.is_online(group)) {
            self.ids[usize::from(id)].group.store(0, Relaxed);
        }
    }

    /// A task goes from one group to another.
    pub(crate) fn move_task(&self, from: GroupId, to: GroupId) {
        if from != to {
            self.groups[from.idx()].nr_tasks.fetch_sub(u64::from(!from.is_root()), Relaxed);
            self.groups[to.idx()].nr_tasks.fetch_add(u64::from(!to.is_root()), Relaxed);
        }
    }

    /// Tasks in a group.
    pub fn nr_tasks(&self, group: GroupId) -> u64 {
        self.groups[group.idx()].nr_tasks.load(Relaxed)
    }

    /// A group, or, if it is offline, the nearest one above that is not.
    pub(crate) fn online(&self, group: GroupId) -> GroupId {
        if group.is_root() || self.is_online(group) {
            return group;
        }
        self.tree.ancestors(group).find(|&above| self.is_online(above)).unwrap_or_default()
    }

    /// True if an OOM kill takes all tasks of the group (`memory.oom.group`).
    pub fn oom_group(&self, group: GroupId) -> bool {
        self.groups[group.idx()].oom_group.load(Relaxed)
    }

    pub(crate) fn set_oom_group(&self, group: GroupId, all: bool) {
        self.groups[group.idx()].oom_group.store(all, Relaxed);
    }

    /// Counts an event at a group and all above it but the root.
    #[doc(alias = "memcg_memory_event")]
    pub(crate) fn event(&self, group: GroupId, event: GroupEvent) {
        let Some(own) = self.groups.get(group.idx()) else { return };
        own.events[1][event as usize].fetch_add(1, Relaxed);
        for above in self.tree.ancestors(group).filter(|above| !above.is_root()) {
            self.groups[above.idx()].events[0][event as usize].fetch_add(1, Relaxed);
        }
    }

    /// How often an event happened: in the group and below, and in the group alone.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn events(&self, group: GroupId, event: GroupEvent) -> [u64; 2] {
        let events = &self.groups[group.idx()].events;
        events.each_ref().map(|counts| counts[event as usize].load(Relaxed))
    }

    /// A task of a group has slept for `memory.high`: counts at its group and all above it.
    pub(crate) fn count_sleep(&self, group: GroupId, ns: u64) {
        for above in self.tree.ancestors(group).filter(|above| !above.is_root()) {
            let [nr_sleeps, slept_ns] = &self.groups[above.idx()].sleeps;
            nr_sleeps.fetch_add(1, Relaxed);
            slept_ns.fetch_add(ns, Relaxed);
        }
    }

    /// Sleeps for `memory.high` of the tasks of a group and of all groups below it, whichever group
    /// of their path was over.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn throttled(&self, group: GroupId) -> Throttled {
        let [nr_sleeps, ns] = &self.groups[group.idx()].sleeps;
        Throttled { nr_sleeps: nr_sleeps.load(Relaxed), ns: ns.load(Relaxed) }
    }

    pub(crate) fn keep(&self, group: GroupId, kind: Kept, by: i64) {
        let group = &self.groups[group.idx()];
        let count = match kind {
            Kept::User => &group.user_pages,
            Kept::Kernel => &group.kernel_pages,
            Kept::Objects => &group.object_bytes,
            Kept::Sockets => &group.nr_sockets,
            Kept::SocketPages => &group.socket_pages,
        };
        count.fetch_add(by as u64, Relaxed);
    }

    /// Amount of one kind that is charged to a group itself, without those below.
    pub(crate) fn kept(&self, group: GroupId, kind: Kept) -> u64 {
        let group = &self.groups[group.idx()];
        match kind {
            Kept::User => group.user_pages.load(Relaxed),
            Kept::Kernel => group.kernel_pages.load(Relaxed),
            Kept::Objects => group.object_bytes.load(Relaxed),
            Kept::Sockets => group.nr_sockets.load(Relaxed),
            Kept::SocketPages => group.socket_pages.load(Relaxed),
        }
    }

    /// Removed groups below one that still hold something (`nr_dying_descendants`).
    pub fn nr_dying(&self, group: GroupId) -> usize {
        let below = |&other: &GroupId| {
            other != group && self.tree.ancestors(other).any(|above| above == group)
        };
        let is_dying =
            |&other: &GroupId| matches!(self.life(other), GroupLife::Removed | GroupLife::Offline);
        self.all().filter(is_dying).filter(below).count()
    }

    /// Groups below one that were made and not removed (`nr_descendants`).
    pub fn nr_descendants(&self, group: GroupId) -> usize {
        let below = |&other: &GroupId| {
            other != group && self.tree.ancestors(other).any(|above| above == group)
        };
        self.all().filter(|&other| self.has_directory(other)).filter(below).count()
    }

    /// A place and an id for a new group: the lowest free ones. The place stays free until the
    /// group is ready ([`Self::set_life`]), and `changes` is held until then: a task that entered
    /// earlier would charge pages to lists that are not cleared.
    pub(crate) fn take_place(&self) -> Option<GroupId> {
        let free = |group: &Group| group.life.load(Relaxed) == GroupLife::Free as u8;
        let place = self.groups.iter().position(free)?;
        let unused = |id: &Id| id.group.load(Relaxed) == 0 && id.nr_slots.load(Relaxed) == 0;
        let id = self.ids.iter().position(unused)?;
        let group = &self.groups[place];
        group.id.store(id as u16, Relaxed);
        group.oom_group.store(false, Relaxed);
        let counts = group.events.iter().flatten().chain(&group.sleeps);
        counts.for_each(|count| count.store(0, Relaxed));
        self.ids[id].group.store(place as u16 + 1, Relaxed);
        Some(GroupId(place as u16))
    }

    /// The offline step of a group: its id is free as soon as no slot names it.
    pub(crate) fn set_offline(&self, group: GroupId) {
        let own = &self.groups[group.idx()];
        own.life.store(GroupLife::Offline as u8, Relaxed);
        let id = &self.ids[usize::from(own.id.load(Relaxed))];
        if id.nr_slots.load(Relaxed) == 0 {
            id.group.store(0, Relaxed);
        }
    }

    /// True while an id is the group's own: until its offline step, and after it as long as a slot
    /// names it.
    pub(crate) fn has_id(&self, group: GroupId) -> bool {
        self.by_id(self.id(group)) == Some(group)
    }

    pub(crate) fn set_life(&self, group: GroupId, life: GroupLife) {
        self.groups[group.idx()].life.store(life as u8, Relaxed);
    }
}

/// Kinds of charges of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Pages that users see: anonymous memory and page cache.
    User,
    /// Pages of the kernel that are charged as such: page tables, stacks.
    Kernel,
    /// Bytes of slab objects.
    Objects,
    /// Sockets that name it.
    Sockets,
    /// Pages of their buffers.
    SocketPages,
}

impl Group {
    fn free() -> Group {
        Group {
            life: AtomicU8::new(GroupLife::Free as u8),
            id: AtomicU16::new(0),
            oom_group: AtomicBool::new(false),
            nr_tasks: AtomicU64::new(0),
            events: Default::default(),
            kernel_pages: AtomicU64::new(0),
            object_bytes: AtomicU64::new(0),
            user_pages: AtomicU64::new(0),
            nr_sockets: AtomicU64::new(0),
            socket_pages: AtomicU64::new(0),
            sleeps: Default::default(),
        }
    }
}
