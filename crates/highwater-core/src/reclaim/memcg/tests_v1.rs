//! Groups of version 1, on a host whose devices finish at once (rules/memory-cgroups#v1).

use super::tests::Stage;
use super::{GroupSetting, NotReclaimed};
use crate::config::{GroupHierarchy, Policy, preset};
use crate::host::Solo;
use crate::kernel::Error;
use crate::memcg::GroupEvent;
use crate::reclaim::Control;
use crate::units::{GroupId, NodeId};
use crate::zone::ZoneType;

fn v1() -> Policy {
    let mut policy = preset("6.1").unwrap();
    policy.memcg.hierarchy = GroupHierarchy::V1;
    policy
}

fn group(stage: &Stage<'_>, parent: GroupId, settings: &[GroupSetting]) -> GroupId {
    let group = stage.kernel.make_group(&stage.cx, parent).unwrap();
    settings.iter().for_each(|&setting| stage.set(group, setting));
    group
}

/// Usage of memory, of memory and swap together, and of swap.
fn usages(stage: &Stage<'_>, group: GroupId) -> [u64; 3] {
    let groups = &stage.kernel.mem.groups;
    let memsw = groups.memory.memsw().unwrap();
    [groups.memory[group].usage(), memsw[group].usage(), groups.swap[group].usage()]
}

#[test]
fn each_version_has_settings_of_its_own() {
    let host = Solo::default();
    let stage = Stage::with(&host, 0, &v1());
    let one = group(&stage, GroupId::ROOT, &[]);
    let set = |stage: &Stage<'_>, group, setting| stage.kernel.set_group(&stage.cx, group, setting);
    for setting in [GroupSetting::Max(1), GroupSetting::High(1), GroupSetting::Low(1)] {
        assert_eq!(set(&stage, one, setting), Err(Error::Invalid), "{setting:?}");
    }
    assert_eq!(set(&stage, one, GroupSetting::Limit(100)), Ok(()));
    assert_eq!(set(&stage, one, GroupSetting::Swappiness(201)), Err(Error::Invalid));
    let refused = stage.kernel.reclaim_from_group(&stage.cx, one, 10);
    assert_eq!(refused, Err(NotReclaimed { got: 0, wanted: 10 }));
    let stage = Stage::new(&host, 0);
    let two = stage.group(GroupId::ROOT, 1000);
    for setting in [GroupSetting::Limit(1), GroupSetting::SoftLimit(1)] {
        assert_eq!(set(&stage, two, setting), Err(Error::Invalid), "{setting:?}");
    }
}

/// A limit below the usage reclaims a batch at a time; without room the old one stays (EBUSY).
#[test]
fn a_limit_is_set_only_where_it_fits() {
    let host = Solo::default();
    let stage = Stage::with(&host, 0, &v1());
    let one = group(&stage, GroupId::ROOT, &[GroupSetting::Limit(4096)]);
    stage.join(one);
    let file = stage.file(3000);
    stage.read(&file, 3000);
    stage.kernel.lru_add_drain_all(&stage.cx);
    stage.set(one, GroupSetting::Limit(1000));
    let usage = stage.usage(one);
    assert!((1000 - 64..=1000).contains(&usage), "{usage}: no more than a batch too much");
    // Reclaim for a write to the limit is no charge that hit it.
    assert_eq!(stage.events(one, GroupEvent::Max), [0, 0]);
    // Anonymous memory without swap cannot go.
    let start = stage.map(600);
    stage.touch(start, 600).unwrap();
    let set = stage.kernel.set_group(&stage.cx, one, GroupSetting::Limit(500));
    assert_eq!(set, Err(Error::Busy));
    assert_eq!(stage.kernel.mem.groups.memory[one].max(), 1000, "the old limit stays");
    assert_eq!(stage.events(one, GroupEvent::Oom), [0, 0], "nobody is killed for it");
    stage.check();
}

#[test]
fn memory_may_not_have_more_than_memory_and_swap() {
    let host = Solo::default();
    let stage = Stage::with(&host, 0, &v1());
    let one = group(&stage, GroupId::ROOT, &[GroupSetting::Limit(1000)]);
    let set = |setting| stage.kernel.set_group(&stage.cx, one, setting);
    assert_eq!(set(GroupSetting::MemswLimit(999)), Err(Error::Invalid));
    assert_eq!(set(GroupSetting::MemswLimit(1000)), Ok(()));
    assert_eq!(set(GroupSetting::Limit(1001)), Err(Error::Invalid));
    assert_eq!(set(GroupSetting::MemswLimit(u64::MAX)), Ok(()));
    assert_eq!(set(GroupSetting::Limit(u64::MAX)), Ok(()));
}

/// A page that goes to swap is no memory any more, and counts in memsw as before.
#[test]
fn a_page_in_swap_goes_on_counting() {
    let host = Solo::default();
    let stage = Stage::with(&host, 1 << 14, &v1());
    let one = group(&stage, GroupId::ROOT, &[GroupSetting::Limit(2048)]);
    stage.join(one);
    let start = stage.map(4096);
    stage.touch(start, 4096).unwrap();
    let [memory, memsw, swap] = usages(&stage, one);
    assert!(memory <= 2048 && swap >= 2048, "{memory} {swap}");
    assert_eq!(memsw, memory + swap);
    assert!((4096..4096 + 128).contains(&memsw), "{memsw}: pages, tables, and the stock");
    stage.check();
    // Pages that come back are memory again, whether or not they keep their slots.
    stage.touch(start, 64).unwrap();
    let after = usages(&stage, one);
    assert_eq!(after[1], after[0] + after[2]);
    assert!(memsw.abs_diff(after[1]) <= 128, "{after:?}");
    stage.check();
    stage.kernel.munmap(&stage.cx, &stage.mm, start, 4096).unwrap();
    assert!(usages(&stage, one)[1] <= 256, "{:?}", usages(&stage, one));
    stage.check();
}

/// A refusal by memsw reclaims without swapping: only files can make room.
#[test]
fn swapping_does_not_help_against_memsw() {
    let host = Solo::default();
    let stage = Stage::with(&host, 1 << 14, &v1());
    let limits = [GroupSetting::Limit(2000), GroupSetting::MemswLimit(2000)];
    let one = group(&stage, GroupId::ROOT, &limits);
    stage.join(one);
    let file = stage.file(1000);
    stage.read(&file, 1000);
    stage.kernel.lru_add_drain_all(&stage.cx);
    let start = stage.map(3000);
    stage.touch(start, 1500).unwrap();
    assert_eq!(usages(&stage, one)[2], 0, "files went, nothing was swapped out");
    let groups = &stage.kernel.mem.groups;
    assert!(groups.memory.memsw().unwrap()[one].failcnt() > 0);
    assert_eq!(groups.memory[one].failcnt(), 0, "memsw is asked first");
    assert!(stage.touch(start + 1500, 1500).is_err(), "swap is free, and of no use");
    assert_eq!(usages(&stage, one)[2], 0);
    stage.check();
}

/// The removed group's slots stay in its parent's memsw.
#[test]
fn slots_of_a_removed_group_count_above_it() {
    let host = Solo::default();
    let stage = Stage::with(&host, 1 << 14, &v1());
    let parent = group(&stage, GroupId::ROOT, &[]);
    let child = group(&stage, parent, &[GroupSetting::Limit(1024)]);
    stage.join(child);
    let start = stage.map(2048);
    stage.touch(start, 2048).unwrap();
    stage.join(parent);
    stage.kernel.remove_group(&stage.cx, child).unwrap();
    let before = usages(&stage, parent);
    assert!(before[2] >= 1024);
    stage.check();
    // Its last pages leave memory for the parent's limit, and their slots are the parent's.
    stage.set(parent, GroupSetting::Limit(600));
    let after = usages(&stage, parent);
    assert!(after[0] <= 600 && after[1] == after[0] + after[2], "{after:?}");
    stage.check();
    stage.kernel.munmap(&stage.cx, &stage.mm, start, 2048).unwrap();
    stage.check();
}

/// Each group is reclaimed by its own swappiness, which it has from its parent at first.
#[test]
fn groups_have_swappiness() {
    let host = Solo::default();
    for (swappiness, swaps) in [(0, false), (100, true)] {
        let stage = Stage::with(&host, 1 << 14, &v1());
        let parent = group(&stage, GroupId::ROOT, &[GroupSetting::Swappiness(swappiness)]);
        let one = group(&stage, parent, &[GroupSetting::Limit(2048)]);
        assert_eq!(stage.kernel.group_swappiness(one), swappiness);
        assert_eq!(stage.kernel.group_swappiness(GroupId::ROOT), 60);
        stage.set(parent, GroupSetting::Swappiness(7));
        assert_eq!(stage.kernel.group_swappiness(one), swappiness, "a later change stays above");
        stage.join(one);
        let start = stage.map(1500);
        stage.touch(start, 1500).unwrap();
        let file = stage.file(4000);
        stage.read(&file, 4000);
        assert_eq!(usages(&stage, one)[2] > 0, swaps, "{swappiness}: 0 is a ban");
        stage.check();
    }
}

/// Global reclaim for a single page begins with the largest excess, and takes a quarter of it.
#[test]
fn soft_limits_are_reclaimed_first() {
    let host = Solo::default();
    let run = |policy: &Policy, order: u8| {
        let stage = Stage::with(&host, 0, policy);
        let soft = |pages| [GroupSetting::SoftLimit(pages)];
        let small = group(&stage, GroupId::ROOT, &soft(2500));
        let large = group(&stage, GroupId::ROOT, &soft(1000));
        for member in [small, large] {
            stage.join(member);
            let file = stage.file(3000);
            stage.read(&file, 3000);
        }
        stage.join(GroupId::ROOT);
        stage.kernel.lru_add_drain_all(&stage.cx);
        let before = [small, large].map(|group| stage.usage(group));
        let gfp = crate::page_alloc::Gfp::GFP_KERNEL;
        let mut sc = Control::new(32, order, gfp, ZoneType::Device);
        stage.kernel.soft_limit_reclaim(&stage.cx, NodeId(0), &mut sc);
        let lost = [0, 1].map(|at| before[at] - stage.usage([small, large][at]));
        stage.check();
        (lost, sc.nr_reclaimed, sc.nr_scanned)
    };
    let ([small, large], got, scanned) = run(&v1(), 0);
    // The excess is 2000 and more pages; turns are of 32 pages.
    assert_eq!(small, 0);
    assert!((500..700).contains(&large), "{large}");
    assert!(got >= 500 && scanned >= got, "{got} of {scanned}");
    assert_eq!(run(&v1(), 1), ([0, 0], 0, 0), "not for larger blocks");
    let mut later = v1();
    later.memcg.soft_limit = false;
    assert_eq!(run(&later, 0), ([0, 0], 0, 0), "no effect in 7.2");
}

/// Without kills the charge fails, and the fault would wait: the group knows.
#[test]
fn oom_control_spares_the_tasks() {
    let host = Solo::default();
    let stage = Stage::with(&host, 0, &v1());
    let settings = [GroupSetting::Limit(256), GroupSetting::OomControl(true)];
    let one = group(&stage, GroupId::ROOT, &settings);
    assert!(stage.kernel.oom_control(one).oom_kill_disable);
    stage.join(one);
    let charged = (0..300).take_while(|_| {
        use crate::memcg::Charge;
        stage.kernel.try_charge(&stage.cx, one, crate::page_alloc::Gfp::GFP_KERNEL, 1)
    });
    assert!(charged.count() < 300);
    assert_eq!(stage.events(one, GroupEvent::OomKill), [0, 0]);
    assert_eq!(stage.events(one, GroupEvent::Oom)[1], 1);
    assert!(!stage.kernel.oom_control(one).under_oom, "a charge outside a fault does not wait");
}
