//! A machine of one CPU with one program, memory in one state, and reclaim scanning it; loops of
//! the engine ([`loops`]). The benches `reclaim` and `engine` (by time) and `instructions` (by
//! callgrind) share this code, so that they measure the same.

#![allow(dead_code, reason = "each of the benches leaves a part of it out")]

pub(crate) mod loops;

use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cx, TaskFlags};
use highwater_core::page::{Folio, Order, PAGE_SIZE};
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::swap::SwapSpec;
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_core::vmstat::VmEvent;
use highwater_core::zone::{NodeId, watermark::Marks};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::cpu::SchedPolicy;
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

pub(crate) const PAGE: u64 = PAGE_SIZE as u64;
pub(crate) const READ: VmaFlags = VmaFlags::READ;
pub(crate) const RW: VmaFlags = READ.union(VmaFlags::WRITE);
const SECOND: u64 = 1_000_000_000;

/// A machine of one CPU, so that task switches are not timed. Its data is on a disk that takes no
/// time, with swap of twice the memory. Dirty pages are not written before reclaim finds them.
pub(crate) fn boot(mib: u64, has_swap: bool) -> SimMachine {
    boot_with(mib, has_swap, DiskSpec::ram("data", mib << 9))
}

/// The same with its data on a given disk.
pub(crate) fn boot_with(mib: u64, has_swap: bool, data: DiskSpec) -> SimMachine {
    boot_for_groups(mib, has_swap, data, 0)
}

/// The same with room for memory cgroups, the root included; 0: without them.
pub(crate) fn boot_for_groups(mib: u64, has_swap: bool, data: DiskSpec, groups: u16) -> SimMachine {
    let mut machine = Machine::from_sizes("bench", &[(mib << 20, vec![0])]).expect("machine");
    (machine.tunables.dirty_bytes, machine.tunables.dirty_background_bytes) =
        (mib << 20, mib << 20);
    let mut costs = CostModel::new(&CostTable::server_3ghz());
    // The loops on record were measured without preemption.
    costs.sched_named = Some(SchedPolicy::Fifo);
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    let pages = mib << 9;
    config.groups = groups;
    config.disks = vec![data, DiskSpec::ram("swap", pages)];
    if has_swap {
        config.swap = vec![SwapSpec { device: DeviceId(1), pages: pages as u32, priority: -2 }];
    }
    SimMachine::boot(config).expect("boot")
}

/// Runs a program on a machine, alone but for the daemons.
pub(crate) fn run<T: 'static>(
    machine: &mut SimMachine,
    body: impl FnOnce(&Stage<'_, '_>) -> T + 'static,
) -> T {
    let program = machine.spawn_task("program", Placement::Anywhere, |cx, kernel| {
        let mm = kernel.create_mm(cx).expect("space");
        let stage = Stage { cx, kernel, mm: &mm };
        let result = body(&stage);
        kernel.exit_mm(cx, &mm);
        result
    });
    machine.run().expect("run");
    program.take().expect("result")
}

/// A running program.
pub(crate) struct Stage<'a, 'h> {
    pub(crate) cx: &'a Cx<'h, SimHost>,
    pub(crate) kernel: &'a Kernel<SimHost>,
    pub(crate) mm: &'a Mm<SimHost>,
}

impl Stage<'_, '_> {
    pub(crate) fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    pub(crate) fn file(&self, pages: u64) -> Arc<OpenFile<SimHost>> {
        let spec = FileSpec::new(Filesystem::XFS, DeviceId(0), 0, pages as u32);
        self.kernel.open(self.cx, &self.kernel.create_file(self.cx, spec))
    }

    pub(crate) fn read(&self, open: &OpenFile<SimHost>, pages: u64) {
        for at in (0..pages).step_by(16) {
            let want = (pages - at).min(16) * PAGE;
            let got = self.kernel.file_read(self.cx, open, at * PAGE, want);
            assert_eq!(got, Ok(want));
        }
    }

    pub(crate) fn write(&self, open: &OpenFile<SimHost>, pages: u64) {
        for at in (0..pages).step_by(16) {
            let want = (pages - at).min(16) * PAGE;
            let got = self.kernel.file_write(self.cx, open, at * PAGE, want);
            assert_eq!(got, Ok(want));
        }
    }

    pub(crate) fn map(&self, pages: u64, flags: VmaFlags, backing: Backing<SimHost>) -> u32 {
        self.kernel.mmap(self.cx, self.mm, pages as u32, 512, flags, backing).expect("room")
    }

    pub(crate) fn map_file(&self, open: &Arc<OpenFile<SimHost>>, pages: u64) -> u32 {
        let backing = Backing::File { open: Arc::clone(open), page: 0 };
        self.map(pages, READ | VmaFlags::SHARED, backing)
    }

    pub(crate) fn touch_all(&self, start: u32, pages: u64, access: Access) {
        let touched = self.kernel.touch_range(self.cx, self.mm, start, pages as u32, access);
        touched.expect("memory");
    }

    pub(crate) fn unmap(&self, start: u32, pages: u64) {
        self.kernel.munmap(self.cx, self.mm, start, pages as u32).expect("mapped");
    }
}

/// The content of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum State {
    Idle,
    /// Clean cache, read once.
    Cache,
    /// Clean cache, read twice: on the active list.
    ActiveCache,
    /// Clean cache, mapped by one program that has used it since.
    MappedCache,
    /// Written anonymous memory, used since.
    Anon,
    /// The same, with one and a half times the machine's memory.
    Swapped,
    /// Clean cache with references held: scanned in vain.
    Held,
    /// Cache, written and not read: dirty at the tail.
    Dirty,
}

impl State {
    const ALL: [State; 8] = [
        State::Idle,
        State::Cache,
        State::ActiveCache,
        State::MappedCache,
        State::Anon,
        State::Swapped,
        State::Held,
        State::Dirty,
    ];

    pub(crate) fn parse(name: &str) -> State {
        let found = Self::ALL.into_iter().find(|state| format!("{state:?}") == name);
        found.expect("a state")
    }

    /// Fills this many pages of memory.
    pub(crate) fn fill(self, stage: &Stage<'_, '_>, pages: u64) -> Vec<Folio> {
        match self {
            State::Idle => {}
            State::Cache => stage.read(&stage.file(pages), pages),
            State::ActiveCache => {
                let open = stage.file(pages);
                stage.read(&open, pages);
                stage.read(&open, pages);
            }
            State::MappedCache => {
                let open = stage.file(pages);
                stage.read(&open, pages);
                let start = stage.map_file(&open, pages);
                stage.touch_all(start, pages, Access::Read);
            }
            State::Anon | State::Swapped => {
                let pages = if self == State::Swapped { pages + pages / 2 } else { pages };
                let start = stage.map(pages, RW, Backing::Anon);
                stage.touch_all(start, pages, Access::Write);
            }
            State::Dirty => stage.write(&stage.file(pages), pages),
            State::Held => {
                let open = stage.file(pages);
                stage.read(&open, pages);
                let held = |index| stage.kernel.find_get_page(stage.cx, &open.file, index);
                return (0..pages as u32).filter_map(held).collect();
            }
        }
        Vec::new()
    }

    /// Checks the work of reclaim. For pages that go at the first or second look, `asked` is the
    /// number of pages to free; for pages that stay, it is the number of passes.
    pub(crate) fn is_right(self, asked: u64, work: Work) -> bool {
        let Work { scanned, refilled, stolen } = work;
        match self {
            State::Cache => stolen + 64 >= asked && scanned < stolen * 11 / 10,
            State::ActiveCache => stolen + 64 >= asked && refilled >= stolen * 3 / 4,
            State::Held => scanned >= asked && stolen == 0,
            _ => work.scans() >= asked && stolen <= asked / 10,
        }
    }
}

/// The work of reclaim, from counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) scanned: u64,
    pub(crate) refilled: u64,
    pub(crate) stolen: u64,
}

impl Work {
    pub(crate) fn now(stage: &Stage<'_, '_>) -> Work {
        Work {
            scanned: stage.event(VmEvent::PgscanDirect) + stage.event(VmEvent::PgscanKswapd),
            refilled: stage.event(VmEvent::Pgrefill),
            stolen: stage.event(VmEvent::PgstealDirect) + stage.event(VmEvent::PgstealKswapd),
        }
    }

    pub(crate) fn since(self, before: Work) -> Work {
        Work {
            scanned: self.scanned - before.scanned,
            refilled: self.refilled - before.refilled,
            stolen: self.stolen - before.stolen,
        }
    }

    pub(crate) fn scans(self) -> u64 {
        self.scanned + self.refilled
    }
}

fn set_marks(stage: &Stage<'_, '_>, pages: impl Fn(u64) -> u64) {
    for zone in stage.kernel.mem.zones_of(NodeId(0)) {
        let mark = pages(zone.managed());
        zone.set_marks(&Marks { min: mark, low: mark, high: mark, promo: mark });
    }
}

/// Makes kswapd free this many pages.
#[inline(never)]
pub(crate) fn wake_kswapd_for(stage: &Stage<'_, '_>, pages: u64) {
    let mem = &stage.kernel.mem;
    let want = mem.nr_free_pages() + pages;
    set_marks(stage, |managed| managed.min(want));
    let page = mem.alloc(stage.cx, stage.kernel, Gfp::GFP_NOWAIT, Order::ZERO, NodeId(0), None);
    assert_eq!(page, None, "below all marks");
    stage.cx.host.sim().sleep_ns(10 * SECOND);
}

/// Makes one request reclaim, down to the last priority if need be. It must neither wait for kswapd
/// nor wake it.
#[inline(never)]
pub(crate) fn one_request(stage: &Stage<'_, '_>) {
    stage.cx.set_flags(TaskFlags::KTHREAD);
    set_marks(stage, |managed| managed);
    let gfp = (Gfp::GFP_KERNEL | Gfp::NORETRY) - Gfp::KSWAPD_RECLAIM;
    let page = stage.kernel.mem.alloc(stage.cx, stage.kernel, gfp, Order::ZERO, NodeId(0), None);
    assert_eq!(page, None, "below all marks");
    set_marks(stage, |_| 0);
    stage.cx.set_flags(TaskFlags::empty());
}
