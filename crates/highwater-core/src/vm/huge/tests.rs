//! Huge pages from fault to unmapping.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::audit::check_kernel;
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{HugeNodes, Machine, Policy, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::page::{Folio, PageFlags, Pfn};
use crate::page_alloc::boot;
use crate::swap::SwapSpec;
use crate::syscall::MemoryAdvice;
use crate::vm::{Access, Fault, Mm};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const CPU: CpuId = CpuId(0);
const PAGES: u64 = NR as u64;
const RW: VmaFlags = VmaFlags::READ.union(VmaFlags::WRITE);

/// A machine of 768 MiB that gives out huge pages, with one program.
pub(super) struct Stage<'h> {
    pub(super) cx: Cx<'h, Solo>,
    pub(super) kernel: Kernel<Solo>,
    pub(super) mm: Arc<Mm<Solo>>,
}

impl<'h> Stage<'h> {
    pub(super) fn new(host: &'h Solo) -> Self {
        Stage::with(host, preset("6.1").unwrap(), |_| {})
    }

    pub(super) fn with(host: &'h Solo, policy: Policy, change: impl FnOnce(&mut Machine)) -> Self {
        let mut machine = Machine::from_sizes("stage", &[(768 << 20, vec![0])]).unwrap();
        machine.tunables.thp = Thp::Always;
        change(&mut machine);
        let cx = Cx::new(host, CPU);
        let mem = boot(host, &machine, &policy).unwrap();
        let swap = SwapSpec { device: DeviceId(0), pages: 1 << 16, priority: 0 };
        let spec =
            KernelSpec { devices: vec![DeviceSpec::nvme(1 << 20)], swap: vec![swap], groups: 0 };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        let mm = kernel.create_mm(&cx).unwrap();
        Stage { cx, kernel, mm }
    }

    pub(super) fn map(&self, pages: u32, align: u32, more: VmaFlags) -> u32 {
        let (cx, mm) = (&self.cx, &self.mm);
        self.kernel.mmap(cx, mm, pages, align, RW | more, Backing::Anon).unwrap()
    }

    pub(super) fn touch(&self, vpn: u32, access: Access) -> Fault {
        self.kernel.touch(&self.cx, &self.mm, vpn, access).unwrap()
    }

    pub(super) fn unmap(&self, start: u32, pages: u32) {
        self.kernel.munmap(&self.cx, &self.mm, start, pages).unwrap();
    }

    pub(super) fn advise(&self, start: u32, pages: u32, advice: MemoryAdvice) {
        self.kernel.madvise(&self.cx, &self.mm, start, pages, advice).unwrap();
    }

    pub(super) fn events(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }

    pub(super) fn stat(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }

    /// The folio mapped at a page.
    pub(super) fn folio(&self, vpn: u32) -> Folio {
        let pte = self.mm.table_of(CPU, vpn).unwrap().peek(vpn);
        self.kernel.mem.map.folio(pte.pfn().unwrap())
    }

    pub(super) fn has_leaf(&self, vpn: u32) -> bool {
        self.mm.table_of(CPU, vpn).is_some_and(|table| table.lock(CPU).leaf().is_some())
    }

    /// Everything agrees; nothing waits in batches afterwards.
    pub(super) fn audit(&self) {
        let checked = check_kernel(&self.kernel, &self.cx);
        assert!(checked.is_ok(), "{checked:?}");
    }

    pub(super) fn nr_free(&self) -> u64 {
        self.kernel.lru_add_drain_all(&self.cx);
        self.kernel.mem.drain_all(&self.cx, None);
        let zones = self.kernel.mem.populated_zones();
        zones.map(|zone| zone.info.nr_free_pages_exact()).sum()
    }
}

/// Takes order-9 blocks until there is none; they stay the caller's.
pub(super) fn take_all_blocks(stage: &Stage<'_>) -> u64 {
    let mut taken = 0;
    let gfp = Gfp::GFP_TRANSHUGE_LIGHT | Gfp::NOMEMALLOC;
    let (mem, cx) = (&stage.kernel.mem, &stage.cx);
    while let Some(folio) = mem.alloc_folio(cx, &stage.kernel, gfp, HUGE, NodeId(0)) {
        mem.map.page(folio).init_flags(PageFlags::PINNED);
        taken += 1;
    }
    taken
}

#[test]
fn a_write_fault_maps_512_pages() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(2 * NR, NR, VmaFlags::empty());
    let free = stage.nr_free();
    assert_eq!(stage.touch(start + 77, Access::Write), Fault::Minor);
    assert_eq!(stage.touch(start + 511, Access::Write), Fault::None);
    assert_eq!(stage.touch(start + 512, Access::Read), Fault::Minor, "the next range is its own");
    assert_eq!(stage.events(VmEvent::ThpFaultAlloc), 1, "and was read: zeros");
    let folio = stage.folio(start);
    assert_eq!((folio.order(), stage.folio(start + 300)), (HUGE, folio));
    assert_eq!(stage.stat(NodeStat::AnonTransparentHugepages), PAGES);
    assert_eq!(stage.stat(NodeStat::AnonPages), PAGES);
    assert_eq!(stage.stat(NodeStat::InactiveAnon), PAGES, "its batch was drained at once");
    assert_eq!(stage.mm.rss.resident(), PAGES);
    stage.audit();
    stage.unmap(start, 2 * NR);
    assert_eq!(stage.stat(NodeStat::AnonTransparentHugepages), 0);
    stage.audit();
    assert_eq!(stage.nr_free(), free - PAGES, "the zeros stay");
    assert_eq!(stage.kernel.idle_huge_zero(&stage.cx), PAGES);
    assert_eq!(stage.kernel.free_huge_zero(&stage.cx), PAGES);
    assert_eq!(stage.nr_free(), free);
    assert_eq!(stage.events(VmEvent::ThpFaultFallback), 0);
    stage.audit();
}

/// rules/huge-pages#eligible
#[test]
fn who_may_have_one() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let first_is_huge = |start: u32| {
        stage.touch(start, Access::Write);
        stage.has_leaf(start)
    };
    // Less than an aligned range; one that begins before the VMA.
    assert!(!first_is_huge(stage.map(511, NR, VmaFlags::empty())));
    let odd = stage.map(600, NR, VmaFlags::empty());
    assert!(!first_is_huge(odd + 512) && first_is_huge(odd));
    assert!(!first_is_huge(stage.map(NR, NR, VmaFlags::NOHUGEPAGE)));
    // A range that has single pages goes on with them, also where nothing is mapped yet.
    let advised = stage.map(NR, NR, VmaFlags::NOHUGEPAGE);
    stage.touch(advised, Access::Write);
    stage.advise(advised, NR, MemoryAdvice::HugePage);
    stage.touch(advised + 1, Access::Write);
    assert!(!stage.has_leaf(advised));
    assert_eq!(stage.events(VmEvent::ThpFaultFallback), 0, "none of these counts");
    stage.audit();

    let host = Solo::default();
    let stage = Stage::with(&host, preset("6.1").unwrap(), |m| m.tunables.thp = Thp::Madvise);
    let plain = stage.map(NR, NR, VmaFlags::empty());
    let asked = stage.map(NR, NR, VmaFlags::HUGEPAGE);
    stage.touch(plain, Access::Write);
    stage.touch(asked, Access::Write);
    assert!(!stage.has_leaf(plain) && stage.has_leaf(asked));
}

#[test]
fn nobody_gets_one_unless_the_machine_says_so_or_with_little_memory() {
    let no_faults: fn(&mut Machine) = |m| m.tunables.thp = Thp::Never;
    let small: fn(&mut Machine) = |m| {
        *m = Machine::from_sizes("small", &[(512 << 20, vec![0])]).unwrap();
        m.tunables.thp = Thp::Always;
    };
    for change in [no_faults, small] {
        let host = Solo::default();
        let stage = Stage::with(&host, preset("6.1").unwrap(), change);
        let start = stage.map(NR, NR, VmaFlags::HUGEPAGE);
        stage.touch(start, Access::Write);
        assert!(!stage.has_leaf(start));
    }
}

/// rules/huge-pages#defrag
#[test]
fn what_a_fault_asks_for() {
    let (light, full) = (Gfp::GFP_TRANSHUGE_LIGHT, Gfp::GFP_TRANSHUGE);
    let table = [
        (ThpDefrag::Always, full, full | Gfp::NORETRY),
        (ThpDefrag::Defer, light | Gfp::KSWAPD_RECLAIM, light | Gfp::KSWAPD_RECLAIM),
        (ThpDefrag::DeferMadvise, full, light | Gfp::KSWAPD_RECLAIM),
        (ThpDefrag::Madvise, full, light),
        (ThpDefrag::Never, light, light),
    ];
    for (defrag, advised, other) in table {
        assert_eq!(gfp_of(defrag, ThpEffort::ByAdvice, true), advised, "{defrag:?}");
        assert_eq!(gfp_of(defrag, ThpEffort::ByAdvice, false), other, "{defrag:?}");
    }
    // 4.5: one round for all, and kswapd sleeps.
    for advised in [false, true] {
        let asked = gfp_of(ThpDefrag::Always, ThpEffort::Once, advised);
        assert_eq!(asked, full | Gfp::NORETRY);
        assert!(!asked.contains(Gfp::KSWAPD_RECLAIM));
    }
}

#[test]
fn the_default_of_defrag_is_the_kernels() {
    let defrag_of = |name: &str, said: ThpDefrag| {
        let host = Solo::default();
        let policy = preset(name).unwrap();
        let kernel = Stage::with(&host, policy, |m| m.tunables.thp_defrag = said).kernel;
        kernel.huge.defrag(kernel.mem.tunables.thp_defrag.get())
    };
    assert_eq!(defrag_of("4.3", ThpDefrag::Kernel), ThpDefrag::Always);
    assert_eq!(defrag_of("4.6", ThpDefrag::Kernel), ThpDefrag::Madvise);
    assert_eq!(defrag_of("6.1", ThpDefrag::Kernel), ThpDefrag::Madvise);
    assert_eq!(defrag_of("6.1", ThpDefrag::Never), ThpDefrag::Never);
}

/// rules/huge-pages#nodes
#[test]
fn from_which_node_a_fault_takes_a_huge_page() {
    let node_of = |name: &str, nodes: Option<HugeNodes>, advice: VmaFlags| {
        let host = Solo::default();
        let mut policy = preset(name).unwrap();
        policy.thp.nodes = nodes.unwrap_or(policy.thp.nodes);
        let stage = Stage::with(&host, policy, |machine| {
            let tunables = machine.tunables.clone();
            let nodes = [(768 << 20, vec![0]), (768 << 20, vec![])];
            *machine = Machine { tunables, ..Machine::from_sizes("two", &nodes).unwrap() };
            // Older kernels would reclaim, and wait.
            if name != "6.1" {
                machine.tunables.thp_defrag = ThpDefrag::Never;
            }
        });
        let (cx, mem) = (&stage.cx, &stage.kernel.mem);
        // All blocks of both nodes; those of node 1 are given back.
        let any = Gfp::GFP_NOWAIT | Gfp::MEMALLOC;
        let take = || mem.alloc(cx, &stage.kernel, any, HUGE, NodeId(0), None);
        let taken: Vec<Pfn> = core::iter::from_fn(take).collect();
        for &pfn in taken.iter().filter(|&&pfn| mem.map.page(pfn).node() == NodeId(1)) {
            mem.free(cx, pfn, HUGE).unwrap();
        }
        let start = stage.map(NR, NR, advice);
        stage.touch(start, Access::Write);
        stage.has_leaf(start).then(|| mem.map.page(stage.folio(start)).node())
    };
    let none = VmaFlags::empty();
    assert_eq!(node_of("4.3", Some(HugeNodes::Everywhere), none), Some(NodeId(1)), "4.0");
    assert_eq!(node_of("4.3", None, none), None, "4.1 to 5.3");
    assert_eq!(node_of("kcompactd", None, none), None);
    assert_eq!(
        node_of("6.1", None, none),
        None,
        "a request that may not reclaim goes nowhere else"
    );
    assert_eq!(node_of("6.1", None, VmaFlags::HUGEPAGE), Some(NodeId(1)));
}

#[test]
fn without_a_block_a_fault_falls_back_to_a_page() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(NR, NR, VmaFlags::empty());
    assert!(take_all_blocks(&stage) > 100);
    assert_eq!(stage.touch(start + 5, Access::Write), Fault::Minor);
    assert_eq!(stage.events(VmEvent::ThpFaultFallback), 1);
    assert_eq!(stage.touch(start + 6, Access::Write), Fault::Minor);
    assert_eq!(stage.events(VmEvent::ThpFaultFallback), 1, "the range has a table now");
    assert_eq!(stage.touch(stage.map(NR, NR, VmaFlags::empty()), Access::Read), Fault::Minor);
    assert_eq!(stage.events(VmEvent::ThpZeroPageAllocFailed), 1);
    assert_eq!(stage.events(VmEvent::ThpFaultFallback), 2);
    stage.audit();
}

/// rules/huge-pages#zero
#[test]
fn reads_share_one_page_of_zeros_until_they_write() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(3 * NR, NR, VmaFlags::empty());
    for at in [0, 1, 511, 512, 1024] {
        stage.touch(start + at, Access::Read);
    }
    assert_eq!(stage.events(VmEvent::ThpZeroPageAlloc), 1);
    assert_eq!(stage.events(VmEvent::ThpFaultAlloc), 0);
    assert_eq!(stage.mm.rss.resident(), 0, "it is nobody's");
    assert_eq!(stage.kernel.idle_huge_zero(&stage.cx), 0);
    assert_eq!(stage.kernel.free_huge_zero(&stage.cx), 0, "it is in use");
    stage.audit();
    // A write is about one page: the others go on reading zeros, single ones now.
    assert_eq!(stage.touch(start + 7, Access::Write), Fault::Minor);
    assert_eq!(stage.events(VmEvent::ThpSplitPmd), 1);
    assert_eq!(stage.touch(start + 8, Access::Read), Fault::None);
    assert_eq!(stage.mm.rss.resident(), 1);
    let zero = stage.kernel.zero_page();
    assert_eq!(stage.mm.table_of(CPU, start).unwrap().peek(start + 8).pfn(), Some(zero));
    assert_eq!(stage.kernel.huge.zero.lock(CPU).nr_leaves, 2);
    stage.audit();
    stage.unmap(start, 3 * NR);
    assert_eq!(stage.kernel.idle_huge_zero(&stage.cx), PAGES);
    stage.audit();
    // Without the huge zero page, a read allocates a huge page.
    let host = Solo::default();
    let stage = Stage::with(&host, preset("6.1").unwrap(), |m| m.tunables.thp_zero_page = false);
    stage.touch(stage.map(NR, NR, VmaFlags::empty()), Access::Read);
    assert_eq!(stage.events(VmEvent::ThpFaultAlloc), 1);
}

/// rules/huge-pages#leaf-split
#[test]
fn what_is_done_to_a_part_splits_the_leaf() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let fresh = || {
        let start = stage.map(NR, NR, VmaFlags::empty());
        stage.touch(start, Access::Write);
        assert!(stage.has_leaf(start));
        start
    };
    let splits = || stage.events(VmEvent::ThpSplitPmd);
    let start = fresh();
    stage.unmap(start + 100, 50);
    assert_eq!((splits(), stage.has_leaf(start)), (1, false));
    let start = fresh();
    stage.advise(start, 1, MemoryAdvice::DontNeed);
    assert_eq!(splits(), 2);
    stage.touch(start, Access::Write);
    assert!(!stage.has_leaf(start), "a page of its own fills the hole");
    // If the flags of all of it change, the leaf stays. If those of a part change, it becomes two
    // VMAs.
    let start = fresh();
    stage.advise(start, NR, MemoryAdvice::Sequential);
    assert_eq!((splits(), stage.has_leaf(start)), (2, true));
    stage.advise(start, 10, MemoryAdvice::Random);
    assert_eq!((splits(), stage.has_leaf(start)), (3, false));
    assert_eq!(stage.stat(NodeStat::AnonTransparentHugepages), 0);
    stage.audit();
    stage.kernel.exit_mm(&stage.cx, &stage.mm);
    stage.audit();
}

/// The table that was set aside stays for the next leaf, and the range is as good as new.
#[test]
fn after_all_of_it_was_dropped_the_next_fault_maps_another() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(NR, NR, VmaFlags::empty());
    for access in [Access::Write, Access::Read, Access::Write] {
        stage.touch(start + 3, access);
        assert!(stage.has_leaf(start) || access == Access::Write);
        stage.advise(start, NR, MemoryAdvice::DontNeed);
        assert!(!stage.has_leaf(start));
        stage.audit();
    }
    assert_eq!(stage.events(VmEvent::ThpFaultAlloc), 2);
    // Without a block the same table takes entries.
    take_all_blocks(&stage);
    stage.touch(start + 3, Access::Write);
    assert!(!stage.has_leaf(start));
    stage.touch(start + 4, Access::Write);
    assert_eq!(stage.events(VmEvent::ThpFaultFallback), 1);
    stage.audit();
}

/// rules/huge-pages#unmap: one block of order 9 through the per-CPU list; up to 5.13 straight to the free
/// lists.
#[test]
fn a_whole_one_is_freed_as_one_block() {
    for (name, is_cached) in [("6.1", true), ("4.6", false)] {
        let host = Solo::default();
        let stage = Stage::with(&host, preset(name).unwrap(), |_| {});
        let start = stage.map(NR, NR, VmaFlags::empty());
        stage.touch(start, Access::Write);
        stage.nr_free();
        let on_lists = || -> u64 {
            let zones = stage.kernel.mem.populated_zones();
            zones.map(|zone| zone.info.nr_free_pages_exact()).sum()
        };
        let before = on_lists();
        stage.unmap(start, NR);
        assert_eq!(on_lists() - before < PAGES, is_cached, "{name}");
        assert!(stage.nr_free() >= before + PAGES, "{name}");
        stage.audit();
    }
}

/// After a fork, the last mm that maps a page may write it, whichever mm that is.
#[test]
fn after_a_fork_the_last_page_that_is_mapped_is_reused() {
    let host = Solo::default();
    let stage = Stage::new(&host);
    let start = stage.map(NR, NR, VmaFlags::empty());
    stage.touch(start, Access::Write);
    let folio = stage.folio(start);
    let (kernel, cx) = (&stage.kernel, &stage.cx);
    let child = kernel.fork(cx, &stage.mm).unwrap();
    assert!(stage.has_leaf(start), "two leaves map it");
    stage.audit();
    let last = start + NR - 1;
    let write = || kernel.touch(cx, &child, last, Access::Write).unwrap();
    kernel.exit_mm(cx, &stage.mm);
    kernel.munmap(cx, &child, start, NR - 1).unwrap();
    write();
    let pte = child.table_of(CPU, last).unwrap().peek(last);
    assert_eq!((pte.pfn(), pte.is_writable()), (Some(Pfn(folio.pfn().0 + NR - 1)), true));
    stage.audit();
    kernel.exit_mm(cx, &child);
    stage.audit();
}
