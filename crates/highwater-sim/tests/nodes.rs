//! Several nodes: the node on which a policy places a program's memory, and the node on which a
//! refault counts.

use std::rc::Rc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{CpuId, Cx};
use highwater_core::lru::Shadow;
use highwater_core::page::Order;
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_core::units::GroupId;
use highwater_core::vm::{Access, Backing, VmaFlags};
use highwater_core::vmstat::{NodeStat, NumaStat};
use highwater_core::zone::{MemoryPolicy, NodeId, NodeMask};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::{DiskKind, DiskSpec, HddSpec};
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE).union(VmaFlags::NOHUGEPAGE);

/// Runs a program on CPU 0 of a machine with two nodes; CPU 1 is on the other node.
fn on_two_nodes(program: impl FnOnce(&Cx<'_, SimHost>, &Rc<Kernel<SimHost>>) + 'static) {
    let nodes = [(128 << 20, vec![0]), (128 << 20, vec![1])];
    let machine = Machine::from_sizes("two", &nodes).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    let disk = HddSpec::streaming(200_000_000);
    config.disks = vec![DiskSpec::new("data", DiskKind::Hdd(disk), 4 << 18)];
    let mut machine = SimMachine::boot(config).expect("boots");
    let task = machine.spawn_task("program", Placement::Pinned(CpuId(0)), move |cx, kernel| {
        program(cx, kernel);
    });
    machine.run().expect("runs");
    assert!(task.take().is_some());
}

fn stat(kernel: &Kernel<SimHost>, item: NodeStat) -> [u64; 2] {
    [0, 1].map(|node| kernel.mem.node(NodeId(node)).stats.read_exact(item as usize))
}

/// rules/memory-policies#allocation: page cache interleaves by allocation, VMAs by page.
#[test]
fn an_interleaving_program_has_half_of_everything_on_each_node() {
    on_two_nodes(|cx, kernel| {
        kernel.set_memory_policy(cx, MemoryPolicy::Interleave(NodeMask::ALL)).unwrap();
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 1000).with_size(256 * PAGE);
        let open = kernel.open(cx, &kernel.create_file(cx, spec));
        assert_eq!(kernel.file_read(cx, &open, 0, 256 * PAGE), Ok(256 * PAGE));
        let [here, there] = stat(kernel, NodeStat::FilePages);
        assert!(here + there == 256 && here.abs_diff(there) <= 8, "{here} {there}");
        let mm = kernel.create_mm(cx).unwrap();
        let start = kernel.mmap(cx, &mm, 100, 2, RW, Backing::Anon).unwrap();
        // Every second page: all on one node, whatever the order.
        for page in (0..100).step_by(2) {
            kernel.touch(cx, &mm, start + page, Access::Write).unwrap();
        }
        assert_eq!(stat(kernel, NodeStat::AnonPages), [50, 0]);
        // The policy of a range overrides the program's policy.
        kernel.mbind(cx, &mm, start, 100, MemoryPolicy::Bind(NodeMask::of(NodeId(1)))).unwrap();
        kernel.touch(cx, &mm, start + 1, Access::Write).unwrap();
        kernel.mbind(cx, &mm, start, 100, MemoryPolicy::Preferred(NodeId(0))).unwrap();
        kernel.touch(cx, &mm, start + 3, Access::Write).unwrap();
        assert_eq!(stat(kernel, NodeStat::AnonPages), [51, 1]);
        let interleaved = |node| -> u64 {
            let zones = kernel.mem.zones_of(NodeId(node));
            zones.map(|zone| zone.numa_stat(NumaStat::NumaInterleave)).sum()
        };
        assert!(interleaved(0) > 150 && interleaved(1) > 100);
        kernel.exit_mm(cx, &mm);
    });
}

/// rules/workingset#refault: it counts on the node that evaluated the shadow.
#[test]
fn a_refault_counts_on_the_node_of_its_shadow() {
    on_two_nodes(|cx, kernel| {
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
        let at = |node| kernel.mem.alloc_folio(cx, &**kernel, gfp, Order::ZERO, NodeId(node));
        let (here, there) = (at(0).unwrap(), at(1).unwrap());
        let shadow: Shadow =
            kernel.workingset_eviction((here, kernel.mem.map.page(here)), GroupId::ROOT);
        kernel.workingset_refault(cx, there, shadow);
        assert_eq!(stat(kernel, NodeStat::WorkingsetRefaultFile), [1, 0]);
        [here, there].into_iter().for_each(|folio| kernel.put_page(cx, folio));
    });
}
