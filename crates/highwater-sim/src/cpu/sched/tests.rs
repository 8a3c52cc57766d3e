//! Tests of the first-in first-out policy and of what all policies share.

use super::*;

fn candidate(task: u32, placement: Placement, last: u16) -> Candidate {
    Candidate { task: TaskIndex(task), placement, last_cpu: CpuId(last), woken_by: None }
}

fn two_nodes() -> Sched {
    Sched::new(&Topology { node_of: vec![0, 0, 1, 1] }, SchedParams::FREE)
}

fn cpu_of(placed: Placed) -> u16 {
    match placed {
        Placed::Starts { cpu, .. } | Placed::Queued { cpu, .. } => cpu.0,
    }
}

#[test]
fn wakes_prefer_last_cpu_then_node_then_any_idle_then_short_queue() {
    let mut sched = two_nodes();
    let mut cpus = Vec::new();
    for task in 0..6 {
        cpus.push(cpu_of(sched.place(candidate(task, Placement::Anywhere, 1), 0)));
    }
    assert_eq!(cpus, [1, 0, 2, 3, 1, 0]);
}

#[test]
fn idle_search_wraps_around_and_respects_nodes() {
    // 130 CPUs, odd ones on node 1.
    let node_of = (0..130).map(|cpu| cpu % 2).collect();
    let mut sched = Sched::new(&Topology { node_of }, SchedParams::FREE);
    for busy in 0..130 {
        if ![2, 63, 129].contains(&busy) {
            let cpu = CpuId(busy);
            sched.place(candidate(u32::from(busy), Placement::Pinned(cpu), busy), 0);
        }
    }
    assert_eq!(sched.nr_idle, 3);
    let find = |start, node: Option<usize>| {
        let mask = node.map(|node| &sched.node_cpus[node]);
        sched.idle_after(CpuId(start), mask).map(|cpu| cpu.0)
    };
    assert_eq!(find(0, None), Some(2));
    assert_eq!(find(2, None), Some(63));
    assert_eq!(find(63, None), Some(129));
    assert_eq!(find(129, None), Some(2));
    assert_eq!(find(2, Some(0)), Some(2), "all the way round");
    assert_eq!(find(127, Some(0)), Some(2));
    assert_eq!(find(62, Some(1)), Some(63));
    assert_eq!(find(63, Some(1)), Some(129));
}

#[test]
fn node_and_pinned_tasks_stay_where_they_may_run() {
    let mut sched = two_nodes();
    for task in 0..4 {
        let cpu = cpu_of(sched.place(candidate(task, Placement::Node(1), 0), 0));
        assert!(cpu >= 2);
    }
    assert_eq!(sched.resolve(Placement::Node(1)), Placement::Node(1));
    assert_eq!(sched.resolve(Placement::Node(2)), Placement::Anywhere);
    for task in 4..6 {
        assert_eq!(cpu_of(sched.place(candidate(task, Placement::Pinned(CpuId(1)), 0), 0)), 1);
    }
}

#[test]
fn an_idle_cpu_steals_only_movable_tasks() {
    let mut sched = two_nodes();
    for task in 0..4 {
        sched.place(candidate(task, Placement::Pinned(CpuId(task as u16)), 0), 0);
    }
    sched.place(candidate(4, Placement::Pinned(CpuId(0)), 0), 0);
    sched.place(candidate(5, Placement::Anywhere, 0), 0);
    let of = |task: TaskIndex| {
        let placement = if task.0 == 5 { Placement::Anywhere } else { Placement::Pinned(CpuId(0)) };
        candidate(task.0, placement, 0)
    };
    assert_eq!(sched.next_on(CpuId(3), Leaves::Sleeps, of), Some((TaskIndex(5), 0)));
    assert_eq!(sched.next_on(CpuId(2), Leaves::Sleeps, of), None);
    assert!(sched.is_idle(CpuId(2)));
    assert_eq!(sched.next_on(CpuId(0), Leaves::Sleeps, of), Some((TaskIndex(4), 0)));
}

#[test]
fn idle_latency_depends_on_the_length_of_the_idle_period() {
    let params = SchedParams {
        context_switch_ns: 10,
        wake_idle_shallow_ns: 100,
        wake_idle_deep_ns: 1000,
        idle_deep_after_ns: 5000,
        ..SchedParams::FREE
    };
    let mut sched = Sched::new(&Topology::single_node(1), params);
    let of = |task: TaskIndex| candidate(task.0, Placement::Anywhere, 0);
    let Placed::Starts { at_ns, .. } = sched.place(of(TaskIndex(0)), 4999) else { panic!() };
    assert_eq!(at_ns, 4999 + 110);
    assert_eq!(sched.next_on(CpuId(0), Leaves::Sleeps, of), None);
    let Placed::Starts { at_ns, .. } = sched.place(of(TaskIndex(0)), 20_000) else { panic!() };
    assert_eq!(at_ns, 20_000 + 1010);
    let times = sched.times(CpuId(0), 21_010);
    assert_eq!(times.idle_ns + times.system_ns, 21_010);
    assert_eq!(times.system_ns, 20);
}
