//! Reclaim's scan loop over memory that is nearly all in one state, and the machine of all loops that need one.

use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, TaskFlags};
use highwater_core::page::{Folio, Order, PAGE_SIZE};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::vm::{Access, AreaFlags, Backing, Space};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::{NodeId, watermark::Marks};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

use super::Units;

const PAGE: u64 = PAGE_SIZE as u64;
pub(super) const READ: AreaFlags = AreaFlags::READ;
pub(super) const RW: AreaFlags = READ.union(AreaFlags::WRITE);
const SECOND: u64 = 1_000_000_000;
/// Pages of the machine.
const FRAMES: u64 = 256 << 8;
/// Pages that are filled before a scan: so few that nobody has to reclaim yet.
const FILLED: u64 = FRAMES / 2;

/// A running program.
pub(super) struct Stage<'a, 'h> {
    pub(super) cx: &'a Cx<'h, SimHost>,
    pub(super) kernel: &'a Kernel<SimHost>,
    pub(super) space: &'a Space<SimHost>,
}

/// Runs a program, alone but for the daemons, on a machine of one CPU with disks that take no time; it ends the process.
pub(super) fn on_machine(body: impl FnOnce(&Stage<'_, '_>) -> Units + 'static) -> Units {
    let machine = Machine::from_sizes("bench", &[(FRAMES * PAGE, vec![0])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    config.disks = vec![DiskSpec::ram("data", 2 * FRAMES), DiskSpec::ram("swap", 2 * FRAMES)];
    let swap = SwapSpec { device: DeviceId(1), pages: 2 * FRAMES as u32, priority: -2 };
    config.swap = vec![swap];
    let mut machine = SimMachine::boot(config).expect("boot");
    machine.spawn_task("program", Placement::Anywhere, |cx, kernel| {
        let space = kernel.create_space(cx).expect("space");
        body(&Stage { cx, kernel, space: &space }).tell()
    });
    machine.run().expect("run");
    Units(0)
}

impl Stage<'_, '_> {
    pub(super) fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    pub(super) fn file(&self, pages: u64) -> Arc<OpenFile<SimHost>> {
        let spec = FileSpec::new(Filesystem::XFS, DeviceId(0), 0, pages as u32);
        self.kernel.open(self.cx, &self.kernel.create_file(self.cx, spec))
    }

    pub(super) fn read(&self, open: &OpenFile<SimHost>, pages: u64) {
        for at in (0..pages).step_by(16) {
            let got = self.kernel.file_read(self.cx, open, at * PAGE, 16 * PAGE);
            assert_eq!(got, Ok(16 * PAGE));
        }
    }

    pub(super) fn map(&self, pages: u64, flags: AreaFlags, backing: Backing<SimHost>) -> u32 {
        self.kernel.mmap(self.cx, self.space, pages as u32, 512, flags, backing).expect("room")
    }

    pub(super) fn touch_all(&self, start: u32, pages: u64, access: Access) {
        let touched = self.kernel.touch_range(self.cx, self.space, start, pages as u32, access);
        touched.expect("memory");
    }

    pub(super) fn unmap(&self, start: u32, pages: u64) {
        self.kernel.munmap(self.cx, self.space, start, pages as u32).expect("mapped");
    }

    /// Scans of both lists, and pages that were freed.
    fn scanned(&self) -> [u64; 2] {
        let sum = |events: &[VmEvent]| events.iter().map(|&event| self.event(event)).sum();
        [
            sum(&[VmEvent::PgscanDirect, VmEvent::PgscanKswapd, VmEvent::Pgrefill]),
            sum(&[VmEvent::PgstealDirect, VmEvent::PgstealKswapd]),
        ]
    }

    fn cached(&self, passes: u32) -> Arc<OpenFile<SimHost>> {
        let open = self.file(FILLED);
        (0..passes).for_each(|_| self.read(&open, FILLED));
        open
    }

    fn set_marks(&self, pages: impl Fn(u64) -> u64) {
        for zone in self.kernel.mem.zones_of(NodeId(0)) {
            let mark = pages(zone.managed());
            zone.set_marks(&Marks { min: mark, low: mark, high: mark, promo: mark });
        }
    }

    /// Has kswapd free so many pages, which it does.
    fn wake_kswapd_for(&self, pages: u64) -> Units {
        self.kernel.lru_add_drain_all(self.cx);
        let [scans, stolen] = self.scanned();
        let mem = &self.kernel.mem;
        let want = mem.nr_free_pages() + pages;
        self.set_marks(|managed| managed.min(want));
        let page = mem.alloc(self.cx, self.kernel, Gfp::GFP_NOWAIT, Order::ZERO, NodeId(0), None);
        assert_eq!(page, None, "below all marks");
        self.cx.host.sim().sleep_ns(10 * SECOND);
        let after = self.scanned();
        assert!(after[1] - stolen >= pages - 64, "{} of {pages}", after[1] - stolen);
        Units(after[0] - scans)
    }

    /// Has requests reclaim, down to the last priority, where nothing can be had.
    fn requests(&self, count: u64) -> Units {
        self.kernel.lru_add_drain_all(self.cx);
        let [scans, stolen] = self.scanned();
        self.cx.set_flags(TaskFlags::KTHREAD);
        self.set_marks(|managed| managed);
        let gfp = (Gfp::GFP_KERNEL | Gfp::NORETRY) - Gfp::KSWAPD_RECLAIM;
        for _ in 0..count {
            let mem = &self.kernel.mem;
            let page = mem.alloc(self.cx, self.kernel, gfp, Order::ZERO, NodeId(0), None);
            assert_eq!(page, None, "below all marks");
        }
        let after = self.scanned();
        let scans = after[0] - scans;
        assert!(scans >= count * FILLED && after[1] - stolen < FILLED / 10, "{scans}, {after:?}");
        Units(scans)
    }
}

/// Clean cache, read once: freed at the first look.
pub(super) fn clean(pages: u64) -> Units {
    on_machine(move |stage| {
        stage.cached(1);
        stage.wake_kswapd_for(pages)
    })
}

/// Clean cache, read twice: aged, then freed.
pub(super) fn active(pages: u64) -> Units {
    on_machine(move |stage| {
        stage.cached(2);
        stage.wake_kswapd_for(pages)
    })
}

/// Clean cache that a program has mapped and used since: kept.
pub(super) fn mapped(requests: u64) -> Units {
    on_machine(move |stage| {
        let open = stage.cached(1);
        let backing = Backing::File { open, page: 0 };
        let start = stage.map(FILLED, READ | AreaFlags::SHARED, backing);
        stage.touch_all(start, FILLED, Access::Read);
        stage.requests(requests)
    })
}

/// Written anonymous memory, used since: kept.
pub(super) fn anon(requests: u64) -> Units {
    on_machine(move |stage| {
        let start = stage.map(FILLED, RW, Backing::Anon);
        stage.touch_all(start, FILLED, Access::Write);
        stage.requests(requests)
    })
}

/// Cache that somebody holds: kept.
pub(super) fn held(requests: u64) -> Units {
    on_machine(move |stage| {
        let open = stage.cached(1);
        let held = |index| stage.kernel.find_get_page(stage.cx, &open.file, index);
        let held: Vec<Folio> = (0..FILLED as u32).filter_map(held).collect();
        assert_eq!(held.len() as u64, FILLED);
        stage.requests(requests)
    })
}
