//! Costs of whole operations on the generic server, against the rows of rules/costs#sums.
//!
//! The charges of an operation are summed. Locks, blocks moved between the lists and the buddy
//! allocator, and memory are counted separately. Memory counts as if it came from the last-level
//! cache.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use highwater_core::Kernel;
use highwater_core::block::DeviceId;
use highwater_core::config::{Machine, preset};
use highwater_core::host::{Cost, CpuId, Cx};
use highwater_core::page_cache::{FileSpec, Filesystem, OpenFile};
use highwater_core::vm::{Access, Backing, Mm, VmaFlags};
use highwater_sim::cost::{CostModel, CostTable};
use highwater_sim::disk::DiskSpec;
use highwater_sim::engine::Placement;
use highwater_sim::host::SimHost;
use highwater_sim::machine::{MachineConfig, SimMachine};

const PAGE: u64 = 4096;
const PAGES: u32 = 2048;
const READ: VmaFlags = VmaFlags::READ;
const WRITE: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

struct Bench<'a, 'h> {
    cx: &'a Cx<'h, SimHost>,
    kernel: &'a Kernel<SimHost>,
    mm: Arc<Mm<SimHost>>,
    /// Nanoseconds per page by operation, without memory.
    rows: RefCell<BTreeMap<&'static str, f64>>,
}

impl Bench<'_, '_> {
    fn measure(&self, row: &'static str, operation: impl FnOnce()) {
        // Blocks of the buddy lists have separate rows.
        let apart = [Cost::BuddyRemove, Cost::BuddyFree];
        let sum = || -> u64 {
            let costs = Cost::ALL.iter().filter(|cost| !apart.contains(cost));
            costs.map(|&cost| self.cx.host.charged_ns(cost)).sum()
        };
        let before = sum();
        operation();
        self.rows.borrow_mut().insert(row, (sum() - before) as f64 / f64::from(PAGES));
    }

    fn file(&self, size: u32) -> Arc<OpenFile<SimHost>> {
        let spec = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, PAGES)
            .with_size(u64::from(size) * PAGE);
        self.kernel.open(self.cx, &self.kernel.create_file(self.cx, spec))
    }

    fn map(&self, flags: VmaFlags, file: Option<&Arc<OpenFile<SimHost>>>) -> u32 {
        let backing = match file {
            None => Backing::Anon,
            Some(open) => Backing::File { open: Arc::clone(open), page: 0 },
        };
        self.kernel.mmap(self.cx, &self.mm, PAGES, 512, flags, backing).expect("mmap")
    }

    fn touch(&self, start: u32, access: Access) {
        self.kernel.touch_range(self.cx, &self.mm, start, PAGES, access).expect("memory");
    }

    fn unmap(&self, start: u32) {
        self.kernel.munmap(self.cx, &self.mm, start, PAGES).expect("mapped");
    }

    /// Calls of one page each.
    fn each_page(&self, mut call: impl FnMut(u64)) {
        for page in 0..u64::from(PAGES) {
            call(page * PAGE);
        }
    }

    fn run(&self) {
        let start = self.map(WRITE, None);
        self.touch(start, Access::Read);
        self.measure("zap zero page", || self.unmap(start));
        let start = self.map(WRITE, None);
        self.measure("anon write fault", || self.touch(start, Access::Write));
        self.measure("zap anon", || self.unmap(start));

        let file = self.file(PAGES);
        self.kernel.file_read(self.cx, &file, 0, u64::from(PAGES) * PAGE).expect("disk");
        // Inactive and referenced now.
        let start = self.map(READ | VmaFlags::SHARED, Some(&file));
        self.measure("file touch", || self.touch(start, Access::Read));
        self.measure("zap file, activate", || self.unmap(start));
        let start = self.map(READ | VmaFlags::SHARED, Some(&file));
        self.touch(start, Access::Read);
        self.measure("zap file, set referenced", || self.unmap(start));
        let start = self.map(READ | VmaFlags::SHARED, Some(&file));
        self.touch(start, Access::Read);
        self.measure("zap file", || self.unmap(start));

        let kernel = self.kernel;
        self.measure("read hit", || {
            self.each_page(|at| assert_eq!(kernel.file_read(self.cx, &file, at, PAGE), Ok(PAGE)));
        });
        self.measure("overwrite", || {
            self.each_page(|at| assert_eq!(kernel.file_write(self.cx, &file, at, PAGE), Ok(PAGE)));
        });
        kernel.fsync(self.cx, &file).expect("disk");
        let start = self.map(WRITE | VmaFlags::SHARED, Some(&file));
        self.measure("shared write fault", || self.touch(start, Access::Write));
        self.unmap(start);
        let start = self.map(WRITE, Some(&file));
        self.measure("private copy fault", || self.touch(start, Access::Write));
        self.unmap(start);

        let new = self.file(0);
        self.measure("new page", || {
            self.each_page(|at| assert_eq!(kernel.file_write(self.cx, &new, at, PAGE), Ok(PAGE)));
        });
        kernel.fsync(self.cx, &new).expect("disk");
        self.measure("truncate", || kernel.truncate(self.cx, &new.file, 0));
    }
}

#[test]
fn operations_cost_what_the_rules_say() {
    let machine = Machine::from_sizes("test", &[(1 << 30, vec![0, 1])]).expect("machine");
    let costs = CostModel::new(&CostTable::server_3ghz());
    let mut config = MachineConfig::new(machine, costs, preset("6.1").expect("preset"));
    config.disks = vec![DiskSpec::nvme("data", 1 << 18)];
    let mut machine = SimMachine::boot(config).expect("boot");
    let program = machine.spawn_task("bench", Placement::Pinned(CpuId(0)), |cx, kernel| {
        let kernel = Rc::clone(kernel);
        let mm = kernel.create_mm(cx).expect("space");
        let bench = Bench { cx, kernel: &kernel, mm, rows: RefCell::default() };
        bench.run();
        bench.rows.into_inner()
    });
    machine.run_within(1000 * 1_000_000_000).expect("run");
    let rows = program.take().expect("done");
    // Row, ns by rules/costs#sums, and the memory part: clearing or copying 4 KiB in the last-level
    // cache. In the guest of the reads and writes, the copied data was in a nearer cache.
    for (row, rule, memory) in [
        ("zap zero page", 15, 0),
        ("anon write fault", 700, 200),
        ("zap anon", 85, 0),
        ("file touch", 100, 0),
        ("zap file", 50, 0),
        ("zap file, set referenced", 65, 0),
        ("zap file, activate", 170, 0),
        ("shared write fault", 900, 0),
        ("private copy fault", 1_100, 200),
        ("read hit", 350, 100),
        ("overwrite", 500, 100),
        ("new page", 1_000, 200),
        ("truncate", 350, 0),
    ] {
        let model = rows[row] + f64::from(memory);
        let ratio = model / f64::from(rule);
        println!("{row}: {model:.0}, by the rules {rule}");
        assert!((0.93..1.07).contains(&ratio), "{row}: {model:.1}, by the rules {rule}");
    }
}
