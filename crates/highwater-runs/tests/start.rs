//! Machines that start with free lists as a state has them.

use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx, Lock, Solo};
use highwater_core::page::{BlockFlags, MigrateType, Order};
use highwater_core::page_alloc::{Gfp, NoRelief, boot};
use highwater_core::zone::{NodeId, ZoneType};
use highwater_files::machine_file::state::{StartState, ZoneStart};
use highwater_runs::start::{check, restore};

fn machine() -> Machine {
    Machine::from_sizes("m", &[(256 << 20, vec![0, 1])]).unwrap()
}

fn state(of_dma32: [u64; 4]) -> StartState {
    let mut dma32 = ZoneStart::new(0, ZoneType::Dma32);
    dma32.free[MigrateType::Movable.idx()][..4].copy_from_slice(&of_dma32);
    dma32.free[MigrateType::Unmovable.idx()][3] = 2;
    dma32.pageblocks[MigrateType::Unmovable.idx()] = 3;
    dma32.on_lists = vec![0, 9];
    let zones = vec![ZoneStart::new(0, ZoneType::Dma), dma32];
    StartState { name: "s".to_owned(), zones }
}

#[test]
fn free_lists_are_those_of_the_state() {
    let host = Solo::default();
    let policy = preset("6.1").unwrap();
    let memory = boot(&host, &machine(), &policy).unwrap();
    let cx = Cx::new(&host, CpuId(0));
    // The kernel's own block keeps its frame.
    let own = memory.alloc(&cx, &NoRelief, Gfp::GFP_KERNEL, Order(2), NodeId(0), None).unwrap();
    let state = state([4000, 2000, 100, 5]);
    restore(&memory, &cx, &state).unwrap();
    let zone = memory.zone(NodeId(0), ZoneType::Dma32).unwrap();
    let counts: Vec<u64> = (0..5).map(|n| zone.nr_free_blocks(Order(n)).into()).collect();
    assert_eq!(counts, [4000, 2000, 100, 7, 0]);
    assert_eq!(memory.pcp_count(zone, CpuId(1), CpuId(0)), 9);
    assert_eq!(memory.zone(NodeId(0), ZoneType::Dma).unwrap().nr_free_pages(), 0);
    let area = zone.free.lock(CpuId(0));
    assert_eq!(area.nr_blocks(Order(3), MigrateType::Unmovable), 2);
    drop(area);
    assert!(memory.map.block(own).has(BlockFlags::USED));
    memory.free(&cx, own, Order(2)).unwrap();
    highwater_core::audit::check(&memory, &cx).unwrap();
}

#[test]
fn a_state_that_no_layout_has_is_refused() {
    assert!(check(&machine(), &state([4000, 0, 0, 0])).is_ok());
    // Half of a zone's pages at most can be free single pages that do not merge.
    let error = check(&machine(), &state([50_000, 0, 0, 0])).unwrap_err();
    assert_eq!(error.zone, Some(1));
    assert!(error.reason.contains("have no place where their blocks do not merge"), "{error:?}");
}
