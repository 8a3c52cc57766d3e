//! Drains against the loops that rules/per-cpu-lists states, a block at a time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;

use proptest::prelude::*;

use super::*;
use crate::config::{Machine, preset};
use crate::host::Solo;
use crate::page::{MigrateType, Order};
use crate::page_alloc::{Gfp, NoRelief, boot};
use crate::trace::Event;
use crate::zone::{NodeId, ZoneType};

const CPU: CpuId = CpuId(0);
/// More than leave at a time, if none is another one's neighbour.
const BLOCKS_MAX: usize = 200;

/// A CPU's lists of blocks, from head to tail, and the order of each list's blocks.
type Lists = Vec<(Order, VecDeque<Pfn>)>;

/// rules/per-cpu-lists#round-robin.
fn round_robin(lists: &mut Lists, n: i64) -> Vec<Pfn> {
    let (mut at, mut quota, mut left, mut drained) = (0, 0, n, Vec::new());
    while left > 0 {
        loop {
            at = (at + 1) % lists.len();
            quota += 1;
            if !lists[at].1.is_empty() {
                break;
            }
        }
        if quota == lists.len() as i64 {
            quota = n;
        }
        while quota > 0
            && left > 0
            && let Some(pfn) = lists[at].1.pop_back()
        {
            drained.push(pfn);
            left -= 1 << lists[at].0.0;
            quota -= 1;
        }
    }
    drained
}

/// rules/per-cpu-lists#bulk-drain, from 5.18 on.
fn freed_list_first(lists: &mut Lists, n: i64, start: usize) -> Vec<Pfn> {
    let (mut at, mut left, mut drained) = (start, n, Vec::new());
    while left > 0 {
        match lists[at].1.pop_back() {
            Some(pfn) => {
                drained.push(pfn);
                left -= 1 << lists[at].0.0;
            }
            None => at = (at + 1) % lists.len(),
        }
    }
    drained
}

/// The drained blocks of lists with this many blocks of an order and type, and the expected ones.
/// `apart`: 2 if no two blocks are neighbours.
fn drained(
    policy: &str,
    lists: &[(u8, MigrateType, usize)],
    n: u32,
    start: usize,
    apart: usize,
) -> (Vec<Pfn>, Vec<Pfn>) {
    let seen = RefCell::new(Vec::new());
    let host = Solo::new(|_: CpuId, event: &Event| {
        if let Event::PagePcpuDrain { pfn, .. } = *event {
            seen.borrow_mut().push(pfn);
        }
    });
    let machine = Machine::from_sizes("m", &[(128 << 20, Vec::from([0]))]).unwrap();
    let memory = boot(&host, &machine, &preset(policy).unwrap()).unwrap();
    let cx = Cx::new(&host, CPU);
    let zone = memory.zone(NodeId(0), ZoneType::Dma32).unwrap();
    let mut model: Lists = (0..memory.pcp_shape.nr_lists)
        .map(|index| (memory.pcp_shape.order(index), VecDeque::new()))
        .collect();
    let mut put = Vec::new();
    for &(order, migratetype, nr) in lists {
        let (order, gfp) = (Order(order), Gfp::GFP_HIGHUSER_MOVABLE);
        let take = |_| memory.alloc(&cx, &NoRelief, gfp, order, NodeId(0), None);
        let blocks: Vec<_> = (0..nr * apart).map_while(take).step_by(apart).collect();
        assert_eq!(blocks.len(), nr);
        put.push((order, migratetype, blocks));
    }
    memory.drain_all(&cx, None);
    let mut pcp = zone.cpus[CPU.idx()].pcp.lock(CPU);
    for (order, migratetype, blocks) in put {
        let index = memory.pcp_shape.index(order, migratetype);
        for pfn in blocks {
            memory.map.page(pfn).set_refcount(0);
            memory.pcp_put(&cx, &mut pcp, &[pfn], order, migratetype);
            model[index].1.push_front(pfn);
        }
    }
    seen.borrow_mut().clear();
    let n = n.min(pcp.count);
    memory.bulk_drain(&cx, zone, &mut pcp, n, Some(start));
    let expected = match memory.policy.pcp.drain_order {
        DrainOrder::RoundRobin => round_robin(&mut model, n.into()),
        DrainOrder::FreedListFirst => freed_list_first(&mut model, n.into(), start),
    };
    assert!(
        pcp.lists.iter().zip(&model).all(|(list, (_, left))| list.iter().eq(left.iter().copied()))
    );
    let left: usize = model.iter().map(|(order, left)| left.len() << order.0).sum();
    assert_eq!(pcp.count as usize, left);
    drop(pcp);
    drop(memory);
    (seen.into_inner(), expected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_drain_takes_what_the_rules_say_one_by_one(
        policy in prop_oneof![Just("5.17"), Just("5.17-order0-pcp"), Just("6.1")],
        nr in prop::array::uniform3(0..BLOCKS_MAX),
        high in (0u8..4, 0..60usize),
        n in 1u32..900,
        start in 0usize..3,
        apart in 1usize..3,
    ) {
        let mut lists: Vec<_> =
            MigrateType::MERGEABLE.into_iter().zip(nr).map(|(t, nr)| (0, t, nr)).collect();
        if policy != "5.17-order0-pcp" && high.0 > 0 {
            lists.push((high.0, MigrateType::Movable, high.1));
        }
        let (drained, expected) = drained(policy, &lists, n, start, apart);
        prop_assert_eq!(drained, expected);
    }
}

/// None is another one's neighbour, so they leave in several parts, within a list and between lists.
#[test]
fn more_blocks_than_leave_at_a_time_are_drained_as_if_all_did() {
    let lists = MigrateType::MERGEABLE.map(|t| (0, t, BLOCKS_MAX));
    for policy in ["5.17", "6.1"] {
        for n in [63, 64, 65, 128, 129, 400, 600] {
            let (drained, expected) = drained(policy, &lists, n, 1, 2);
            assert_eq!(drained.len(), n as usize);
            assert!(drained == expected, "{policy}: {n} pages");
        }
    }
}
