//! Groups over their limits, on a host whose devices finish at once (rules/memory-cgroups).

use alloc::sync::Arc;
use alloc::vec;

use super::{GroupSetting, NotReclaimed};
use crate::audit::check_kernel;
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{GroupWalk, Machine, MemcgStats, Policy, ScanEvents, preset};
use crate::host::{CpuId, Cx, Solo, TaskFlags};
use crate::kernel::{Error, Kernel, KernelSpec};
use crate::memcg::{Charge, GroupEvent, GroupLife};
use crate::page::PAGE_SIZE;
use crate::page_alloc::{Gfp, boot};
use crate::page_cache::{FileSpec, Filesystem, OpenFile};
use crate::reclaim::shadow_shrinker::ShadowShrinker;
use crate::reclaim::{Control, ObjectsOf, Shrinker};
use crate::swap::SwapSpec;
use crate::units::{GroupId, NodeId};
use crate::vm::{Access, Backing, Mm, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::ZoneType;

const CPU: CpuId = CpuId(0);
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);
const PAGE: u64 = PAGE_SIZE as u64;

/// One task with an mm, in the root group at first.
pub(super) struct Stage<'h> {
    pub(super) cx: Cx<'h, Solo>,
    pub(super) kernel: Kernel<Solo>,
    pub(super) mm: Arc<Mm<Solo>>,
}

impl<'h> Stage<'h> {
    pub(super) fn new(host: &'h Solo, swap_pages: u32) -> Self {
        Stage::with(host, swap_pages, &preset("6.1").unwrap())
    }

    pub(super) fn with(host: &'h Solo, swap_pages: u32, policy: &Policy) -> Self {
        let machine = Machine::from_sizes("stage", &[(256 << 20, vec![0, 1])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, policy).unwrap();
        let disk = DeviceSpec::nvme(1 << 20);
        let area = SwapSpec { device: DeviceId(1), pages: swap_pages, priority: 0 };
        let swap = if swap_pages == 0 { vec![] } else { vec![area] };
        let spec = KernelSpec { devices: vec![disk.clone(), disk], swap, groups: 8 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        Stage { cx, kernel, mm }
    }

    /// A group with a limit, in which the task is from now on.
    pub(super) fn group(&self, parent: GroupId, max: u64) -> GroupId {
        let group = self.kernel.make_group(&self.cx, parent).unwrap();
        self.set(group, GroupSetting::Max(max));
        group
    }

    pub(super) fn join(&self, group: GroupId) {
        self.kernel.join_group(&self.cx, Some(&self.mm), group).unwrap();
    }

    pub(super) fn set(&self, group: GroupId, setting: GroupSetting) {
        self.kernel.set_group(&self.cx, group, setting).unwrap();
    }

    pub(super) fn map(&self, pages: u32) -> u32 {
        self.kernel.mmap(&self.cx, &self.mm, pages, 512, RW, Backing::Anon).unwrap()
    }

    pub(super) fn touch(&self, start: u32, pages: u32) -> Result<(), Error> {
        for vpn in start..start + pages {
            self.kernel.touch(&self.cx, &self.mm, vpn, Access::Write)?;
        }
        Ok(())
    }

    pub(super) fn file(&self, pages: u32) -> Arc<OpenFile<Solo>> {
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, pages);
        self.kernel.open(&self.cx, &self.kernel.create_file(&self.cx, spec))
    }

    pub(super) fn read(&self, open: &OpenFile<Solo>, pages: u64) {
        let read = self.kernel.file_read(&self.cx, open, 0, pages * PAGE);
        assert_eq!(read, Ok(pages * PAGE));
    }

    pub(super) fn usage(&self, group: GroupId) -> u64 {
        self.kernel.group_usage(group)
    }

    pub(super) fn events(&self, group: GroupId, event: GroupEvent) -> [u64; 2] {
        self.kernel.memcg.events(group, event)
    }

    pub(super) fn stat(&self, group: GroupId, name: &str) -> u64 {
        let lines = self.kernel.group_stat(&self.cx, group);
        lines.iter().find(|line| line.name == name).expect("a line of memory.stat").value
    }

    pub(super) fn check(&self) {
        self.kernel.lru_add_drain_all(&self.cx);
        if let Err(broken) = check_kernel(&self.kernel, &self.cx) {
            panic!("{broken}");
        }
    }
}

/// Far below the limit, usage moves in steps of a batch: `memory.current` overstates.
#[test]
fn usage_moves_in_batches_and_a_page_goes_back_at_once() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, 10_000);
    stage.join(group);
    let start = stage.map(256);
    stage.touch(start, 1).unwrap();
    // The page, and its page tables: the top one existed.
    assert_eq!(stage.usage(group), 64);
    stage.touch(start, 61).unwrap();
    assert_eq!(stage.usage(group), 64);
    stage.touch(start + 61, 1).unwrap();
    assert_eq!(stage.usage(group), 128);
    stage.check();
    stage.kernel.munmap(&stage.cx, &stage.mm, start, 10).unwrap();
    assert_eq!(stage.usage(group), 118, "not into the stock");
    stage.check();
}

/// An observer gets the lines that a reader would get, late ones too, and leaves them late.
#[test]
fn a_look_at_statistics_adds_nothing_up() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, 10_000);
    stage.join(group);
    let start = stage.map(2000);
    let peek = || stage.kernel.group_stat_peek(0, group);
    let anon = || peek().iter().find(|line| line.name == "anon").unwrap().value / PAGE;
    stage.touch(start, 10).unwrap();
    assert_eq!(anon(), 0, "too few updates for a reader to add up");
    stage.touch(start + 10, 990).unwrap();
    // Enough are pending: a reader sees all of it. The kernel's readers still see nothing.
    assert_eq!(anon(), 1000);
    assert_eq!(stage.kernel.mem.groups.seen_all(group, NodeStat::AnonPages), 0);
    assert_eq!((peek(), anon()), (stage.kernel.group_stat(&stage.cx, group), 1000));
    stage.touch(start + 1000, 10).unwrap();
    assert_eq!(peek(), stage.kernel.group_stat(&stage.cx, group));
    assert_eq!(anon(), 1000);
    stage.check();
}

/// The group's own cache makes room; the machine's counters of direct reclaim do not see it.
#[test]
fn a_file_larger_than_the_limit_goes_through() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, 4096);
    stage.join(group);
    let file = stage.file(6000);
    stage.read(&file, 6000);
    assert!((4000..=4096).contains(&stage.usage(group)), "{}", stage.usage(group));
    let [max, own] = stage.events(group, GroupEvent::Max);
    assert!(max > 0 && max == own);
    assert_eq!(stage.events(group, GroupEvent::Oom), [0, 0]);
    let event = |event| stage.kernel.mem.events.read(event);
    assert_eq!((event(VmEvent::PgscanDirect), event(VmEvent::AllocstallNormal)), (0, 0));
    assert!(event(VmEvent::PgstealFile) > 1800);
    stage.kernel.mem.groups.flush();
    assert_eq!(stage.stat(group, "pgsteal_direct"), event(VmEvent::PgstealFile));
    assert!(stage.stat(group, "file") > 3900 * PAGE);
    assert_eq!(stage.stat(GroupId::ROOT, "anon"), 0);
    stage.check();
}

/// A charge that nothing makes room for: 2 and 16 reclaims, then the killer; the task is the only
/// one, so the charge fails after another round (vector 4).
#[test]
fn what_cannot_be_reclaimed_is_killed_for() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, 256);
    stage.join(group);
    let start = stage.map(1024);
    assert!(stage.touch(start, 1024).is_err());
    assert_eq!(stage.events(group, GroupEvent::Oom)[1], 1);
    assert!([18, 35].contains(&stage.events(group, GroupEvent::Max)[1]));
    assert!(stage.usage(group) <= 256);
}

/// With NORETRY two reclaims are enough to give up; NOFAIL goes above the limit.
#[test]
fn requests_differ_in_patience() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, 0);
    let charge = |gfp| stage.kernel.try_charge(&stage.cx, group, gfp, 1);
    assert!(!charge(Gfp::GFP_KERNEL | Gfp::NORETRY));
    assert_eq!(stage.events(group, GroupEvent::Max), [2, 2]);
    assert_eq!(stage.events(group, GroupEvent::Oom), [0, 0]);
    assert!(!charge(Gfp::GFP_NOWAIT));
    assert_eq!(stage.events(group, GroupEvent::Max), [2, 2], "it did not reclaim");
    assert!(charge(Gfp::GFP_NOWAIT | Gfp::HIGH));
    assert_eq!((stage.usage(group), stage.events(group, GroupEvent::Max)), (1, [3, 3]));
    let freeing = stage.cx.with_flag(TaskFlags::MEMALLOC, || charge(Gfp::GFP_KERNEL));
    assert!(freeing, "a task that frees memory");
    assert_eq!(stage.usage(group), 2);
}

/// The parent's limit takes from all children in proportion, and counts at the parent.
#[test]
fn a_limit_on_a_parent_counts_there() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let parent = stage.group(GroupId::ROOT, 4096);
    let [a, b] = [0, 0].map(|_| stage.group(parent, u64::MAX));
    stage.join(a);
    let first = stage.file(3000);
    stage.read(&first, 3000);
    stage.join(b);
    let second = stage.file(3000);
    stage.read(&second, 3000);
    assert!(stage.usage(a) < 3000 && stage.usage(b) > 1000);
    assert!(stage.events(parent, GroupEvent::Max)[1] > 0);
    assert_eq!(stage.events(b, GroupEvent::Max), [0, 0]);
    assert!(stage.usage(parent) <= 4096);
    stage.check();
}

/// `memory.low` of a child holds against the parent's limit while others have something.
#[test]
fn a_protected_child_keeps_its_pages() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let parent = stage.group(GroupId::ROOT, 6000);
    let [a, b] = [0, 0].map(|_| stage.group(parent, u64::MAX));
    stage.set(a, GroupSetting::Low(4000));
    stage.join(a);
    let first = stage.file(3000);
    stage.read(&first, 3000);
    stage.kernel.lru_add_drain_all(&stage.cx);
    stage.kernel.mem.groups.flush();
    let before = stage.stat(a, "file");
    stage.join(b);
    let second = stage.file(8000);
    stage.read(&second, 8000);
    stage.kernel.mem.groups.flush();
    assert_eq!(stage.stat(a, "file"), before, "below low");
    assert_eq!(stage.events(a, GroupEvent::Low), [0, 0]);
    // Only a is left: low does not hold then.
    stage.set(b, GroupSetting::Max(0));
    let got = stage.kernel.reclaim_from_group(&stage.cx, parent, 1000);
    assert!(got.is_ok_and(|got| got >= 1000), "{got:?}");
    assert!(stage.events(a, GroupEvent::Low)[1] > 0);
    // min holds always.
    stage.set(a, GroupSetting::Min(10_000));
    let got = stage.kernel.reclaim_from_group(&stage.cx, parent, 1000);
    assert!(matches!(got, Err(NotReclaimed { wanted: 1000, .. })), "{got:?}");
    stage.check();
}

/// Anonymous memory over the limit goes to swap, and the slots are the group's.
#[test]
fn swap_is_charged_by_slot() {
    let host = Solo::default();
    let stage = Stage::new(&host, 1 << 14);
    let group = stage.group(GroupId::ROOT, 2048);
    stage.join(group);
    let start = stage.map(4096);
    stage.touch(start, 4096).unwrap();
    let swapped = stage.kernel.group_swap_usage(group);
    assert!((2048..4096).contains(&swapped), "{swapped}");
    assert!(stage.usage(group) <= 2048);
    stage.check();
    stage.touch(start, 64).unwrap();
    stage.check();
    stage.kernel.munmap(&stage.cx, &stage.mm, start, 4096).unwrap();
    let left = stage.kernel.group_swap_usage(group);
    assert!(left <= 64, "{left} slots wait in the CPU's cache");
    stage.check();
}

/// `memory.swap.max` ends swapping: the rest must fit.
#[test]
fn swap_has_a_limit_too() {
    let host = Solo::default();
    let stage = Stage::new(&host, 1 << 14);
    let group = stage.group(GroupId::ROOT, 2048);
    stage.set(group, GroupSetting::SwapMax(256));
    stage.join(group);
    let start = stage.map(4096);
    assert!(stage.touch(start, 4096).is_err());
    assert!(stage.kernel.group_swap_usage(group) <= 256);
    stage.check();
}

/// A task that entered earlier would charge pages to lists that are not cleared (seed 20083 of the
/// swarm).
#[test]
fn nobody_sees_a_group_before_it_is_ready() {
    let host = Solo::default();
    let stage = Stage::new(&host, 1 << 14);
    let memcg = &stage.kernel.memcg;
    let group = memcg.take_place().unwrap();
    assert!(!memcg.has_directory(group) && !memcg.all().any(|other| other == group));
    let entered = stage.kernel.join_group(&stage.cx, None, group);
    assert_eq!(entered, Err(Error::Invalid));
    let ready = stage.group(GroupId::ROOT, u64::MAX);
    assert_eq!(ready, group);
    stage.join(ready);
}

/// A removed group keeps its pages; its id is free, its place not.
#[test]
fn pages_outlive_their_group() {
    let host = Solo::default();
    let stage = Stage::new(&host, 1 << 14);
    let parent = stage.group(GroupId::ROOT, 8192);
    let child = stage.group(parent, u64::MAX);
    stage.join(child);
    let file = stage.file(1000);
    stage.read(&file, 1000);
    let id = stage.kernel.memcg.id(child);
    stage.join(parent);
    assert_eq!(stage.kernel.remove_group(&stage.cx, parent), Err(Error::Invalid), "has a child");
    stage.kernel.remove_group(&stage.cx, child).unwrap();
    assert_eq!(stage.kernel.memcg.life(child), GroupLife::Offline);
    assert_eq!(stage.kernel.memcg.nr_dying(parent), 1);
    assert!(stage.usage(parent) >= 1000);
    let next = stage.group(parent, u64::MAX);
    assert_eq!(stage.kernel.memcg.id(next), id, "the lowest free one");
    assert_ne!(next, child);
    stage.check();
    // Its limit takes the dead group's pages too; with the last one it is gone.
    stage.kernel.lru_add_drain_all(&stage.cx);
    stage.set(parent, GroupSetting::Max(16));
    assert_eq!(stage.kernel.memcg.life(child), GroupLife::Hollow, "nodes of the file's tree");
    assert_eq!(stage.kernel.memcg.nr_dying(parent), 0);
    stage.check();
}

/// Its tree nodes are its parent's, whose own pages bound them in 6.12.
#[test]
fn a_removed_group_loses_its_history() {
    let host = Solo::default();
    for (stats, is_lost) in [(MemcgStats::RstatGlobal, false), (MemcgStats::RstatPerGroup, true)] {
        let mut policy = preset("6.1").unwrap();
        policy.memcg.stats = stats;
        let stage = Stage::with(&host, 0, &policy);
        let parent = stage.group(GroupId::ROOT, u64::MAX);
        let child = stage.group(parent, u64::MAX);
        stage.join(child);
        let file = stage.file(1000);
        stage.read(&file, 1000);
        stage.join(parent);
        stage.kernel.lru_add_drain_all(&stage.cx);
        stage.kernel.remove_group(&stage.cx, child).unwrap();
        stage.kernel.group_stat(&stage.cx, parent);
        stage.kernel.reclaim_from_group(&stage.cx, parent, 600).unwrap();
        let of = ObjectsOf { group: parent, node: NodeId(0) };
        let nodes = stage.kernel.shadow_nodes_of(&stage.cx, of.group, of.node);
        assert!(nodes >= 9, "{nodes}");
        let surplus = ShadowShrinker.count(&stage.kernel, &stage.cx, of);
        assert_eq!(surplus, if is_lost { nodes } else { 0 }, "{stats:?}: of {nodes}");
        stage.check();
    }
}

/// From 7.2 on they go to its parent, wherever they are, and the group with them.
#[test]
fn a_parent_inherits_pages() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    policy.memcg.reparent_lru = true;
    for is_below_root in [false, true] {
        let stage = Stage::with(&host, 1 << 14, &policy);
        let parent = match is_below_root {
            true => GroupId::ROOT,
            false => stage.group(GroupId::ROOT, 8192),
        };
        let child = stage.group(parent, u64::MAX);
        stage.join(child);
        let file = stage.file(1000);
        stage.read(&file, 1000);
        let start = stage.map(512);
        // Some of it stays in this CPU's batch, on no list.
        stage.touch(start, 510).unwrap();
        stage.kernel.mlock(&stage.cx, &stage.mm, start, 100).unwrap();
        stage.join(parent);
        let before = stage.kernel.mem.groups.memory[parent].usage();
        stage.kernel.remove_group(&stage.cx, child).unwrap();
        let life = stage.kernel.memcg.life(child);
        assert!(matches!(life, GroupLife::Hollow | GroupLife::Free), "{life:?}");
        assert_eq!(stage.kernel.memcg.nr_dying(parent), 0);
        stage.check();
        if !is_below_root {
            // Kernel memory is given back by whole pages.
            assert!(before.abs_diff(stage.usage(parent)) < 128, "{before}");
            assert_eq!(stage.stat(parent, "anon"), 510 * PAGE);
            assert_eq!(stage.stat(parent, "file"), 1000 * PAGE);
            stage.set(parent, GroupSetting::Max(700));
            assert!(stage.usage(parent) <= 700);
        }
        stage.check();
    }
}

/// A task over `memory.high` is never refused: it reclaims, and then sleeps.
#[test]
fn high_reclaims_and_does_not_refuse() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, u64::MAX);
    stage.set(group, GroupSetting::High(2048));
    stage.join(group);
    let file = stage.file(6000);
    stage.read(&file, 6000);
    assert!(stage.events(group, GroupEvent::High)[0] > 0);
    assert!(stage.usage(group) < 2048 + 128, "{}", stage.usage(group));
    stage.check();
}

/// A write without reclaim leaves the usage above the limit; the next charges bring it down.
#[test]
fn a_limit_set_without_reclaim_meets_the_next_charges() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, u64::MAX);
    stage.join(group);
    let file = stage.file(4000);
    stage.read(&file, 2000);
    for setting in [GroupSetting::High(1000), GroupSetting::Max(900)] {
        let before = stage.usage(group);
        stage.kernel.set_group_without_reclaim(group, setting).unwrap();
        assert_eq!(stage.usage(group), before);
        stage.read(&file, 4000);
        assert!(stage.usage(group) < 1000 + 128, "{}", stage.usage(group));
    }
    assert!(stage.usage(group) <= 900);
    for (group, setting) in [(GroupId::ROOT, GroupSetting::Max(1)), (group, GroupSetting::Limit(1))]
    {
        let refused = stage.kernel.set_group_without_reclaim(group, setting);
        assert_eq!(refused, Err(Error::Invalid));
    }
    stage.check();
}

/// The report of a kill says which group was at its limit, and who died.
#[test]
fn a_kill_is_reported_with_its_group() {
    let host = Solo::default();
    let stage = Stage::new(&host, 0);
    let group = stage.group(GroupId::ROOT, 256);
    stage.kernel.memcg.set_name(CPU, group, "app");
    stage.join(group);
    stage.mm.add_task(&stage.cx);
    stage.mm.set_name(CPU, "worker");
    let start = stage.map(1024);
    assert_eq!(stage.touch(start, 1024), Err(Error::Killed));
    let reports = stage.kernel.oom_reports(CPU);
    let text = &reports[0].text;
    for line in [
        "memory: usage 1024kB, limit 1024kB, failcnt 19",
        "Memory cgroup stats for /app:",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)",
        "oom_memcg=/app,task_memcg=/app,task=worker",
        "Memory cgroup out of memory: Killed process",
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
    assert_eq!(stage.events(group, GroupEvent::OomKill), [1, 1]);
    assert_eq!(stage.events(group, GroupEvent::Max), [35, 35]);
}

/// Up to 6.12 what a program asks for is direct reclaim, and none of the machine's.
#[test]
fn reclaim_on_demand_is_counted_by_version() {
    use VmEvent::{PgscanDirect, PgscanProactive, PgstealDirect, PgstealProactive};

    let host = Solo::default();
    for scan_events in [ScanEvents::GlobalOnly, ScanEvents::Node] {
        let mut policy = preset("6.1").unwrap();
        policy.memcg.scan_events = scan_events;
        let stage = Stage::with(&host, 0, &policy);
        let group = stage.group(GroupId::ROOT, u64::MAX);
        stage.join(group);
        let file = stage.file(2000);
        stage.read(&file, 2000);
        let got = stage.kernel.reclaim_from_group(&stage.cx, group, 500).unwrap();
        let of = |event| stage.kernel.mem.events.read(event);
        let stolen = if scan_events == ScanEvents::Node { got } else { 0 };
        assert_eq!([PgstealDirect, PgstealProactive].map(of), [0, stolen]);
        assert_eq!([PgscanDirect, PgscanProactive].map(of), [0, stolen], "clean pages");
        assert_eq!(stage.stat(group, "pgsteal"), got, "{scan_events:?}");
        let direct = got - stolen;
        assert_eq!(stage.stat(group, "pgsteal_direct"), direct, "{scan_events:?}");
    }
}

/// Reclaim that got nothing visits all groups first, then takes what it spared, each once.
#[test]
fn a_fruitless_reclaim_is_repeated_by_version() {
    let host = Solo::default();
    for (walk, attempts) in [(GroupWalk::Full, 2), (GroupWalk::Partial, 3)] {
        let mut policy = preset("6.1").unwrap();
        policy.memcg.walk = walk;
        let stage = Stage::with(&host, 0, &policy);
        let mut sc = Control::new(32, 0, Gfp::GFP_KERNEL, ZoneType::Device);
        sc.target = stage.group(GroupId::ROOT, 1000);
        (sc.spared, sc.memcg_low_skipped) = (true, true);
        let mut seen = vec![];
        while stage.kernel.has_another_attempt(&mut sc) {
            seen.push((sc.full_walk, sc.spare_nothing, sc.memcg_low_reclaim));
        }
        let is_full = walk == GroupWalk::Partial;
        let all = [(true, false, false), (is_full, true, false), (is_full, true, true)];
        assert_eq!(seen, all[3 - attempts..], "{walk:?}");
    }
}
