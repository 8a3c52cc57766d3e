//! Files in memory: holes, swap, shared mappings, truncation (rules/shared-memory#pages).

use alloc::sync::Arc;
use alloc::vec;

use crate::audit::check_kernel;
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{Machine, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::page::{Folio, PageFlags};
use crate::page_alloc::boot;
use crate::page_cache::{Entry, FileSpec, OpenFile};
use crate::swap::{Slot, SwapSpec};
use crate::vm::{Access, Backing, Fault, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);

struct Stage<'h> {
    cx: Cx<'h, Solo>,
    kernel: Kernel<Solo>,
    open: Arc<OpenFile<Solo>>,
}

impl<'h> Stage<'h> {
    fn new(host: &'h Solo, slots: u32) -> Self {
        let machine = Machine::from_sizes("stage", &[(64 << 20, vec![0, 1])]).unwrap();
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
        let swap = SwapSpec { device: DeviceId(0), pages: slots + 1, priority: 0 };
        let spec =
            KernelSpec { devices: vec![DeviceSpec::nvme(1 << 20)], swap: vec![swap], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let open = kernel.open(&cx, &kernel.create_file(&cx, FileSpec::in_memory(1000)));
        Stage { cx, kernel, open }
    }

    fn write(&self, page: u64, pages: u64) {
        let (pos, len) = (page << 12, pages << 12);
        assert_eq!(self.kernel.file_write(&self.cx, &self.open, pos, len), Ok(len));
    }

    fn entry(&self, index: u32) -> Entry {
        self.open.file.tree.lock(CPU).get(index)
    }

    fn node(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    fn audit(&self) {
        check_kernel(&self.kernel, &self.cx).unwrap();
    }

    /// What reclaim does to a page: to the slot, or nothing if there is none.
    fn swap_out(&self, index: u32) -> Option<Slot> {
        self.kernel.lru_add_drain(&self.cx);
        let folio = self.kernel.find_lock_page(&self.cx, &self.open.file, index).unwrap();
        self.kernel.unlock_page(&self.cx, folio);
        self.kernel.put_page(&self.cx, folio);
        let folios = [self.isolated(folio)];
        self.kernel.reclaim_pages(&self.cx, &folios);
        match self.entry(index) {
            Entry::Swapped(word) => Slot::unpack(word),
            _ => None,
        }
    }

    fn isolated(&self, folio: Folio) -> Folio {
        assert!(self.kernel.isolate_page(&self.cx, folio));
        folio
    }
}

#[test]
fn pages_of_a_file_in_memory_are_swap_backed_and_no_flushers_business() {
    let host = Solo::default();
    let s = Stage::new(&host, 100);
    s.write(5, 10);
    s.kernel.lru_add_drain(&s.cx);
    assert_eq!((s.node(NodeStat::Shmem), s.node(NodeStat::FilePages)), (10, 10));
    assert_eq!((s.node(NodeStat::InactiveAnon), s.node(NodeStat::InactiveFile)), (10, 0));
    assert_eq!((s.node(NodeStat::Dirty), s.open.file.size()), (0, 15 << 12));
    assert_eq!(s.kernel.file_read(&s.cx, &s.open, 0, 1 << 20), Ok(15 << 12));
    assert_eq!(s.open.file.nr_pages(), 10, "holes stay holes");
    s.audit();
    s.kernel.drop_caches(&s.cx, 3);
    assert_eq!(s.open.file.nr_pages(), 10, "nothing else has them");
    s.kernel.truncate(&s.cx, &s.open.file, 7);
    assert_eq!((s.node(NodeStat::Shmem), s.open.file.nr_pages()), (2, 2));
    s.audit();
    s.kernel.delete_file(&s.cx, &s.open.file);
    assert_eq!((s.node(NodeStat::Shmem), s.node(NodeStat::FilePages)), (0, 0));
    s.audit();
}

#[test]
fn a_page_goes_to_swap_and_its_tree_keeps_the_slot() {
    let host = Solo::default();
    let s = Stage::new(&host, 100);
    s.write(0, 4);
    s.kernel.lru_add_drain(&s.cx);
    let folio = s.kernel.find_lock_page(&s.cx, &s.open.file, 2).unwrap();
    assert!(s.kernel.swap_out_memory(&s.cx, &s.open.file, folio));
    s.kernel.put_page(&s.cx, folio);
    let Entry::Swapped(word) = s.entry(2) else { panic!("the slot") };
    let slot = Slot::unpack(word).unwrap();
    assert_eq!((s.kernel.swap_count(&s.cx, slot), s.event(VmEvent::Pswpout)), (1, 1));
    assert_eq!((s.node(NodeStat::Shmem), s.open.file.nr_pages()), (3, 3));
    s.audit();
    // In the swap cache still: back without a read. The slot goes.
    assert_eq!(s.kernel.file_read(&s.cx, &s.open, 2 << 12, 4096), Ok(4096));
    assert_eq!((s.event(VmEvent::Pswpin), s.event(VmEvent::Pgmajfault)), (0, 0));
    assert_eq!(s.entry(2), Entry::Page(folio.pfn()));
    assert_eq!((s.kernel.swap_count(&s.cx, slot), s.node(NodeStat::Swapcached)), (0, 0));
    s.audit();
    // Again, and as the device is done at once the page goes too: now it is read.
    let slot = s.swap_out(2).unwrap();
    assert!(s.kernel.swap_cache_get(&s.cx, slot).is_none());
    s.audit();
    assert_eq!(s.kernel.file_read(&s.cx, &s.open, 2 << 12, 4096), Ok(4096));
    assert_eq!((s.event(VmEvent::Pswpin), s.event(VmEvent::Pgmajfault)), (1, 1));
    let Entry::Page(pfn) = s.entry(2) else { panic!("the page") };
    assert!(s.kernel.mem.map.page(pfn).is(PageFlags::DIRTY | PageFlags::SWAPBACKED));
    s.audit();
}

#[test]
fn truncation_frees_slots_and_full_swap_keeps_pages() {
    let host = Solo::default();
    let s = Stage::new(&host, 3);
    s.write(0, 5);
    assert!((0..3).all(|index| s.swap_out(index).is_some()));
    assert_eq!((s.swap_out(3), s.kernel.swap.nr_free()), (None, 0));
    let Entry::Page(pfn) = s.entry(3) else { panic!("it stays") };
    assert!(s.kernel.mem.map.page(pfn).is(PageFlags::DIRTY));
    s.audit();
    s.kernel.truncate(&s.cx, &s.open.file, 1);
    s.audit();
    s.kernel.delete_file(&s.cx, &s.open.file);
    s.audit();
    let in_use = (1..4).filter(|&offset| s.kernel.swap_count(&s.cx, Slot { area: 0, offset }) > 0);
    assert_eq!(in_use.count(), 0);
}

#[test]
fn forked_spaces_share_what_they_map_of_it() {
    let host = Solo::default();
    let s = Stage::new(&host, 100);
    s.write(0, 8);
    let (kernel, cx) = (&s.kernel, &s.cx);
    let mm = kernel.create_mm(cx).unwrap();
    let flags = VmaFlags::READ | VmaFlags::WRITE | VmaFlags::SHARED;
    let backing = Backing::File { open: Arc::clone(&s.open), page: 0 };
    let at = kernel.mmap(cx, &mm, 8, 1, flags, backing).unwrap();
    assert_eq!(kernel.touch(cx, &mm, at, Access::Read), Ok(Fault::Minor));
    assert_eq!(kernel.touch(cx, &mm, at, Access::Write), Ok(Fault::None), "no disk has to know");
    let child = kernel.fork(cx, &mm).unwrap();
    assert_eq!(kernel.touch(cx, &child, at, Access::Write), Ok(Fault::Minor));
    let pfn = |mm: &crate::vm::Mm<Solo>| mm.table_of(CPU, at).unwrap().peek(at).pfn();
    assert_eq!(pfn(&mm), pfn(&child));
    s.audit();
    // Swapped out of both, and back into one.
    assert!(s.swap_out(0).is_some());
    s.audit();
    assert_eq!(kernel.touch(cx, &child, at, Access::Read), Ok(Fault::Major));
    assert!(pfn(&mm).is_none());
    s.audit();
    kernel.exit_mm(cx, &mm);
    kernel.exit_mm(cx, &child);
    s.audit();
    assert_eq!(s.node(NodeStat::Shmem), 8, "the file is there still");
}
