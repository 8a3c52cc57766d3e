//! `vm.panic_on_oom` and `vm.oom_kill_allocating_task` (rules/shrinkers-and-oom#oom-settings).

use alloc::sync::Arc;
use alloc::vec;

use crate::Kernel;
use crate::config::{Machine, Tunables, preset};
use crate::host::{CpuId, Cx, Solo, TaskFlags};
use crate::kernel::KernelSpec;
use crate::page::{MigrateType, Order};
use crate::page_alloc::{Gfp, Request, boot};
use crate::vm::{Access, Backing, Mm, VmaFlags};
use crate::zone::{NodeId, ZoneType};

const CPU: CpuId = CpuId(0);
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

fn kernel_with(host: &Solo, set: impl FnOnce(&mut Tunables)) -> Kernel<Solo> {
    let mut machine = Machine::from_sizes("stage", &[(64 << 20, vec![0])]).unwrap();
    set(&mut machine.tunables);
    let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
    Kernel::new(&Cx::new(host, CPU), mem, &KernelSpec::default()).unwrap()
}

fn request(kernel: &Kernel<Solo>) -> Request<'_> {
    Request {
        gfp: Gfp::GFP_HIGHUSER_MOVABLE,
        order: Order::ZERO,
        highest: ZoneType::Movable,
        migratetype: MigrateType::Movable,
        nodes: None,
        zonelist: &kernel.mem.zonelists(NodeId(0)).fallback,
        list_node: NodeId(0),
        preferred: Some(0),
        spread_dirty: false,
    }
}

fn mm_of(kernel: &Kernel<Solo>, cx: &Cx<'_, Solo>, pages: u32) -> Arc<Mm<Solo>> {
    let mm = kernel.create_mm(cx).unwrap();
    let start = kernel.mmap(cx, &mm, pages, 1, RW, Backing::Anon).unwrap();
    kernel.touch_range(cx, &mm, start, pages, Access::Write).unwrap();
    mm.add_task(cx);
    mm
}

/// The allocating task has 40 pages, another one 80: returns which were killed, and the last line
/// of the log.
fn killed(asks_adj: i32, set: impl FnOnce(&mut Tunables)) -> ([bool; 2], alloc::string::String) {
    let host = Solo::default();
    let kernel = kernel_with(&host, set);
    let (asks, other) = (Cx::new(&host, CPU), Cx::new(&host, CPU));
    let small = mm_of(&kernel, &asks, 40);
    let _large = mm_of(&kernel, &other, 80);
    small.oom_score_adj.store(asks_adj, crate::sync::atomic::Ordering::Relaxed);
    assert!(kernel.oom_kill(&asks, &request(&kernel)), "it goes round once more");
    let reports = kernel.oom_reports(CPU);
    let last = reports.last().and_then(|report| report.text.lines().last()).unwrap_or_default();
    assert_eq!(kernel.has_panicked(), last.starts_with("Kernel panic"));
    ([asks.is_dying(), other.is_dying()], last.into())
}

#[test]
fn who_asks_dies_where_that_is_set() {
    let (who, last) = killed(0, |_| {});
    assert_eq!(who, [false, true]);
    assert!(last.starts_with("Out of memory: Killed process 2 (task)"), "{last}");
    let (who, last) = killed(0, |t| t.oom_kill_allocating_task = 1);
    assert_eq!(who, [true, false]);
    let expected = "Out of memory (oom_kill_allocating_task): Killed process 1 (task)";
    assert!(last.starts_with(expected), "{last}");
    let (who, _) = killed(-1000, |t| t.oom_kill_allocating_task = 1);
    assert_eq!(who, [false, true], "it is never chosen");
}

#[test]
fn the_machine_stops_where_that_is_set() {
    for (value, kind) in [(1, "system-wide"), (2, "compulsory")] {
        let set = |t: &mut Tunables| (t.panic_on_oom, t.oom_kill_allocating_task) = (value, 1);
        let (who, last) = killed(0, set);
        assert_eq!(who, [true, true]);
        let text = "Kernel panic - not syncing: Out of memory";
        assert_eq!(last, alloc::format!("{text}: {kind} panic_on_oom is enabled"));
    }
    // Without FS, reclaim could not do everything: no task dies, nothing stops.
    let host = Solo::default();
    let kernel = kernel_with(&host, |t| t.panic_on_oom = 2);
    let cx = Cx::new(&host, CPU);
    let mut weak = request(&kernel);
    weak.gfp -= Gfp::FS;
    assert!(kernel.oom_kill(&cx, &weak) && !kernel.has_panicked());
    // A task that dies anyway stops nothing either.
    cx.signals().raise(TaskFlags::FATAL_SIGNAL);
    assert!(kernel.oom_kill(&cx, &request(&kernel)) && !kernel.has_panicked());
}
