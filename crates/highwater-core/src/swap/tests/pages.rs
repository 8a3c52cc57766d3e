//! Pages through the swap cache, out and in.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::super::{Slot, SwapSpec};
use crate::block::{DeviceId, DeviceSpec};
use crate::config::{Machine, Policy, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::kernel::{Kernel, KernelSpec};
use crate::page::{Folio, Order, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::page_alloc::Wish;
use crate::page_alloc::boot;
use crate::sync::atomic::Ordering::Relaxed;
use crate::units::GroupId;
use crate::vm::{Backing, Mm, Pte, Vma, VmaFlags};
use crate::vmstat::{NodeStat, VmEvent};
use crate::zone::NodeId;

const FLASH: DeviceSpec = DeviceSpec::nvme(1 << 20);
const DISK: DeviceSpec = DeviceSpec { rotational: true, ..FLASH };
const RAM: DeviceSpec = DeviceSpec { synchronous: true, ..FLASH };

struct Stage<'h> {
    kernel: Kernel<Solo>,
    cx: Cx<'h, Solo>,
    mm: Arc<Mm<Solo>>,
    vma: Arc<Vma<Solo>>,
}

fn stage<'h>(host: &'h Solo, areas: &[(DeviceSpec, u32, i16)]) -> Stage<'h> {
    stage_with(host, areas, &preset("6.1").unwrap())
}

fn stage_with<'h>(host: &'h Solo, areas: &[(DeviceSpec, u32, i16)], policy: &Policy) -> Stage<'h> {
    let machine = Machine::from_sizes("test", &[(64 << 20, vec![0, 1])]).unwrap();
    let mem = boot(host, &machine, policy).unwrap();
    let cx = Cx::new(host, CpuId(0));
    let swap = areas.iter().enumerate().map(|(i, &(_, pages, priority))| SwapSpec {
        device: DeviceId(i as u8),
        pages,
        priority,
    });
    let spec = KernelSpec {
        devices: areas.iter().map(|(device, ..)| device.clone()).collect(),
        swap: swap.collect(),
        groups: 0,
    };
    let kernel = Kernel::new(&cx, mem, &spec).unwrap();
    let mm = kernel.create_mm(&cx).unwrap();
    let flags = VmaFlags::READ | VmaFlags::WRITE;
    let start = kernel.mmap(&cx, &mm, 2048, 512, flags, Backing::Anon).unwrap();
    let vma = mm.vma_of(CpuId(0), start).unwrap();
    Stage { kernel, cx, mm, vma }
}

impl Stage<'_> {
    /// An anonymous page at a page of the region, as a fault leaves it; its isolation, if reclaim
    /// took it off its list.
    fn fault(&self, at: u32) -> Folio {
        let (k, cx) = (&self.kernel, &self.cx);
        let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
        let folio = k.mem.alloc_folio(cx, k, gfp, Order::ZERO, NodeId(0)).unwrap();
        let page = k.mem.map.page(folio);
        page.flag_set::<Solo>(PageFlags::SWAPBACKED | PageFlags::UPTODATE);
        page.set_mapping(PageMapping::Anon(self.mm.id), self.vma.start + at);
        folio
    }

    /// What reclaim does with it: a slot, the entry replaced, written. Its reference stays.
    fn swap_out(&self, at: u32, folio: Folio) -> Slot {
        let (k, cx) = (&self.kernel, &self.cx);
        let page = k.mem.map.page(folio);
        assert!(k.try_lock_page(folio) && k.add_to_swap(cx, folio));
        assert!(page.is(PageFlags::DIRTY | PageFlags::SWAPCACHE));
        let slot = k.slot_of(folio).unwrap();
        let vpn = self.vma.start + at;
        let table = k.make_table(cx, &self.mm, vpn).unwrap();
        k.swap_dup(cx, slot);
        table.lock(CpuId(0)).set(vpn, Pte::swap(slot));
        assert!(k.clear_page_dirty_for_io(cx, folio));
        k.swap_writepage(cx, folio);
        assert!(!page.is(PageFlags::LOCKED) && !page.is(PageFlags::WRITEBACK));
        slot
    }

    /// Out and gone from memory.
    fn evict(&self, at: u32) -> Slot {
        let (k, cx) = (&self.kernel, &self.cx);
        let folio = self.fault(at);
        let slot = self.swap_out(at, folio);
        assert!(k.try_lock_page(folio) && k.remove_mapping_swap(cx, folio, GroupId::ROOT));
        k.mem.map.page(folio).flag_clear::<Solo>(PageFlags::LOCKED);
        k.retire_and_free(cx, &[folio]);
        slot
    }

    fn swap_in(&self, at: u32, slot: Slot) -> Option<Folio> {
        let vpn = self.vma.start + at;
        self.kernel.swapin_readahead(&self.cx, &self.mm, &self.vma, vpn, slot)
    }

    fn is_cached(&self, slot: Slot) -> bool {
        self.kernel.swap.state(CpuId(0), slot).cached.is_some()
    }

    fn stat(&self, item: NodeStat) -> u64 {
        self.kernel.mem.node(NodeId(0)).stats.read_exact(item as usize)
    }

    fn event(&self, event: VmEvent) -> u64 {
        self.kernel.mem.events.read(event)
    }
}

#[test]
fn out_and_in_again() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 600, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let folio = s.fault(7);
    let slot = s.swap_out(7, folio);
    let state = k.swap.state(CpuId(0), slot);
    assert_eq!((state.count, state.has_cache, state.cached), (1, true, Some(folio.pfn())));
    assert_eq!((s.stat(NodeStat::Swapcached), s.stat(NodeStat::FilePages)), (1, 1));
    assert_eq!((s.event(VmEvent::Pswpout), s.stat(NodeStat::Written)), (1, 1));
    assert_eq!(k.swap.nr_free(), 598);

    // Somebody else looks at it: it stays.
    assert_eq!(k.swap_cache_get(cx, slot), Some(folio));
    assert!(k.try_lock_page(folio) && !k.remove_mapping_swap(cx, folio, GroupId::ROOT));
    k.put_page(cx, folio);
    assert!(k.remove_mapping_swap(cx, folio, GroupId::ROOT));
    k.mem.map.page(folio).flag_clear::<Solo>(PageFlags::LOCKED);
    k.retire_and_free(cx, &[folio]);
    let state = k.swap.state(CpuId(0), slot);
    assert_eq!((state.count, state.has_cache, state.cached), (1, false, None));
    assert!(state.shadow.is_some());
    assert_eq!((s.stat(NodeStat::Swapcached), s.stat(NodeStat::FilePages)), (0, 0));

    let back = s.swap_in(7, slot).unwrap();
    let page = k.mem.map.page(back);
    assert!(page.is(PageFlags::SWAPCACHE | PageFlags::SWAPBACKED | PageFlags::UPTODATE));
    assert!(page.is_anon() && !page.is(PageFlags::LOCKED));
    assert_eq!(s.event(VmEvent::Pswpin), 1);
    assert_eq!(s.stat(NodeStat::WorkingsetRefaultAnon), 1, "the shadow was found");
    assert_eq!(k.swap.state(CpuId(0), slot).shadow, None);

    // The fault maps it; then nothing names the slot, and the page gives it up.
    assert!(k.try_lock_page(back));
    k.swap_put(cx, slot);
    assert!(s.is_cached(slot), "whose page is locked stays in the cache");
    assert!(k.free_swap_cache(cx, back, false) && page.is(PageFlags::DIRTY));
    k.unlock_page(cx, back);
    assert_eq!(k.slot_of(back), None);
    assert_eq!((k.swap.nr_free(), s.stat(NodeStat::Swapcached)), (599, 0));
    k.lru_add_drain_all(cx);
    k.put_page(cx, back);
}

#[test]
fn a_slot_that_nobody_names_takes_its_unmapped_page_along() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 600, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let folio = s.fault(0);
    let slot = s.swap_out(0, folio);
    let page = k.mem.map.page(folio);
    // While it is mapped and swap is not full, the page keeps its slot.
    page.map_add::<Solo>(1);
    k.swap_dup(cx, slot);
    k.swap_put(cx, slot);
    k.swap_put(cx, slot);
    assert!(s.is_cached(slot));
    // Unmapped by a task that held the lock; freeing the page drops the slot.
    page.map_remove::<Solo>(1);
    k.try_free_swap_cache(cx, folio);
    assert!(!page.is(PageFlags::SWAPCACHE));
    assert_eq!((page.refcount(), k.swap.nr_free()), (1, 599));
    k.put_page(cx, folio);

    // A page that is not mapped goes with the last entry.
    let folio = s.fault(1);
    let slot = s.swap_out(1, folio);
    k.swap_put(cx, slot);
    assert_eq!((s.is_cached(slot), k.swap.nr_free()), (false, 599));
    k.put_page(cx, folio);
}

#[test]
fn a_page_whose_slot_lost_its_use_is_not_written() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 600, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let folio = s.fault(0);
    assert!(k.try_lock_page(folio) && k.add_to_swap(cx, folio));
    assert!(k.clear_page_dirty_for_io(cx, folio));
    k.swap_writepage(cx, folio);
    let page = k.mem.map.page(folio);
    assert!(page.is(PageFlags::DIRTY) && !page.is(PageFlags::SWAPCACHE));
    assert!(!page.is(PageFlags::LOCKED));
    assert_eq!((s.event(VmEvent::Pswpout), k.swap.nr_free()), (0, 599));
    k.put_page(cx, folio);
}

/// Total 1000, free 499 is full, 500 is not (rules/swap#full).
#[test]
fn half_is_not_full() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 1001, 0)]);
    let k = &s.kernel;
    k.swap.free.store(500, Relaxed);
    assert!(!k.swap.is_full());
    k.swap.free.store(499, Relaxed);
    assert_eq!((k.swap.nr_total(), k.swap.nr_free(), k.swap.is_full()), (1000, 499, true));
}

#[test]
fn full_swap_takes_slots_from_the_cache() {
    let host = Solo::default();
    let s = stage(&host, &[(DISK, 12, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let pages: Vec<(Folio, Slot)> = (0..8)
        .map(|at| {
            let folio = s.fault(at);
            (folio, s.swap_out(at, folio))
        })
        .collect();
    // Slots 1 to 8 are used; 4 only by the cache, because its page was locked when its entry went.
    let (folio, slot) = pages[3];
    assert_eq!(slot.offset, 4);
    assert!(k.try_lock_page(folio));
    k.swap_put(cx, slot);
    k.unlock_page(cx, folio);
    assert!(s.is_cached(slot));
    let offset = || k.swap_alloc_one(cx).unwrap().offset;
    assert_eq!([offset(), offset(), offset()], [9, 10, 11]);
    assert!(k.swap_alloc_one(cx).is_none(), "a search needs a free slot to begin with");
    k.swap_put(cx, pages[6].1);
    assert_eq!(pages[6].1.offset, 7);
    assert_eq!(offset(), 7, "no slot before the lowest free one is looked at");
    k.swap_put(cx, pages[0].1);
    k.swap_put(cx, pages[4].1);
    assert_eq!([offset(), offset(), offset()], [1, 4, 5]);
    assert!(!s.is_cached(slot), "stolen");
    assert_eq!(k.mem.map.page(folio).refcount(), 1);
}

#[test]
fn areas_are_used_by_priority_and_in_turn() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 3, -1), (FLASH, 3, 5), (FLASH, 3, 5), (FLASH, 100, 9)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let mut areas = Vec::new();
    while let Some(slot) = k.swap_alloc_one(cx) {
        areas.push(slot.area);
    }
    assert!(areas[..99].iter().all(|&area| area == 3));
    assert_eq!(areas[99..], [1, 2, 1, 2, 0, 0]);
    assert_eq!(k.swap.nr_free(), 0);
}

#[test]
fn cpus_keep_slots_while_there_are_many() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 1 + 1000, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    // Two CPUs: on above 640 free slots, off below 256.
    let first = k.swap_alloc_one(cx).unwrap();
    assert_eq!(k.swap.nr_free(), 1000 - 64);
    let mut slots = vec![first];
    slots.extend((1..64).map(|_| k.swap_alloc_one(cx).unwrap()));
    assert!(slots.windows(2).all(|w| w[1].offset == w[0].offset + 1), "in order");
    assert_eq!(k.swap.nr_free(), 1000 - 64);
    // Freed ones are collected: 64 come back when there is one more.
    for &slot in &slots {
        k.swap_dup(cx, slot);
        k.swap_put(cx, slot);
    }
    assert_eq!(k.swap.nr_free(), 1000 - 64);
    let one = k.swap_alloc_one(cx).unwrap();
    k.swap_dup(cx, one);
    k.swap_put(cx, one);
    assert_eq!(k.swap.nr_free(), 1000 - 64);
    for _ in 1..64 {
        k.swap_alloc_one(cx).unwrap();
    }
    // Switched off: the kept slots are freed.
    let taken = (0..)
        .take_while(|_| {
            k.swap_alloc_one(cx).unwrap();
            k.swap.caches_active.load(Relaxed)
        })
        .count();
    assert_eq!(taken, 641);
    assert_eq!(k.swap.nr_free(), 1000 - 63 - 642);
}

/// From 6.14 on a slot is taken and freed at once.
#[test]
fn cpus_may_keep_no_slots() {
    let host = Solo::default();
    let mut policy = preset("6.1").unwrap();
    policy.swap.slot_cache = false;
    let s = stage_with(&host, &[(FLASH, 1 + 1000, 0)], &policy);
    let (k, cx) = (&s.kernel, &s.cx);
    let slot = k.swap_alloc_one(cx).unwrap();
    assert_eq!(k.swap.nr_free(), 999);
    k.swap_dup(cx, slot);
    k.swap_put(cx, slot);
    assert_eq!(k.swap.nr_free(), 1000);
}

#[test]
fn a_window_by_addresses_reads_what_entries_name() {
    let host = Solo::default();
    let s = stage(&host, &[(FLASH, 600, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let slots: Vec<Slot> = (0..20).map(|at| s.evict(at)).collect();
    // A fresh region reads 8: three before the fault, four after it.
    let folio = s.swap_in(10, slots[10]).unwrap();
    let cached: Vec<u32> = (0..20).filter(|&at| s.is_cached(slots[at as usize])).collect();
    let first = (s.vma.start + 10 - 3) - s.vma.start;
    assert_eq!(cached, (first..first + 8).collect::<Vec<_>>());
    assert_eq!((s.event(VmEvent::SwapRa), s.event(VmEvent::Pswpin)), (7, 8));
    assert!(!k.mem.map.page(folio).is(PageFlags::SWAP_READAHEAD));
    k.put_page(cx, folio);
    // One of the others is used: a hit, once.
    for _ in 0..2 {
        let hit = k.swap_cache_lookup(cx, &s.vma, s.vma.start + 12, slots[12]).unwrap();
        k.put_page(cx, hit);
    }
    assert_eq!(s.event(VmEvent::SwapRaHit), 1);
    let state = *s.vma.swap.lock(CpuId(0));
    assert_eq!((state.prev, state.window, state.hits), (s.vma.start + 12, 8, 1));
    // One hit makes a window of 4, from the fault on as it follows the last one: all but the
    // last page are cached.
    let folio = s.swap_in(13, slots[13]).unwrap();
    k.put_page(cx, folio);
    assert!(s.is_cached(slots[16]) && !s.is_cached(slots[17]));
    // A slot that is unused by the time it is read.
    k.swap_put(cx, slots[0]);
    assert_eq!(s.swap_in(0, slots[0]), None);
}

#[test]
fn a_window_by_slots_reads_what_is_in_use() {
    let host = Solo::default();
    let s = stage(&host, &[(DISK, 600, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    // Slots 1 to 30, far from each other in the region.
    let slots: Vec<Slot> = (0..30).map(|at| s.evict(at * 60)).collect();
    k.swap_put(cx, slots[10 - 1]);
    let folio = s.swap_in(12 * 60, slots[13 - 1]).unwrap();
    k.put_page(cx, folio);
    let cached = || -> Vec<u32> {
        slots.iter().filter(|slot| s.is_cached(**slot)).map(|slot| slot.offset).collect()
    };
    assert_eq!(cached(), [8, 9, 11, 12, 13, 14, 15], "not 10, which is free");
    assert_eq!(s.event(VmEvent::SwapRa), 6);
    // Far away and without a hit: half as much.
    let folio = s.swap_in(29 * 60, slots[30 - 1]).unwrap();
    k.put_page(cx, folio);
    assert_eq!(cached()[7..], [28, 29, 30]);
    assert_eq!(s.event(VmEvent::SwapRaHit), 0);
}

#[test]
fn a_device_that_is_done_at_once_needs_no_cache() {
    let host = Solo::default();
    let s = stage(&host, &[(RAM, 600, 0)]);
    let (k, cx) = (&s.kernel, &s.cx);
    let slot = s.evict(3);
    assert!(k.swap_skips_cache(cx, slot));
    let folio = k.swapin_private(cx, slot, Wish::Task).unwrap();
    let page = k.mem.map.page(folio);
    assert!(page.is(PageFlags::SWAPBACKED | PageFlags::UPTODATE));
    assert!(!page.is(PageFlags::LOCKED) && !page.is(PageFlags::SWAPCACHE) && !s.is_cached(slot));
    assert_eq!((s.event(VmEvent::Pswpin), s.stat(NodeStat::WorkingsetRefaultAnon)), (1, 1));
    k.swap_dup(cx, slot);
    assert!(!k.swap_skips_cache(cx, slot), "somebody else needs it too");
}
