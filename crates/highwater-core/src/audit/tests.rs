//! Each rule is broken on purpose; the audit has to notice.

extern crate std;

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{AuditReport, Content, Rule, check, inventory};
use crate::config::{Machine, preset};
use crate::host::{CpuId, Cx, Lock, Solo};
use crate::page::{BlockFlags, MigrateType, Order, PageFlags, Pfn};
use crate::page_alloc::boot;
use crate::page_alloc::{Gfp, NoRelief, PageAllocator};
use crate::sync::atomic::Ordering::Relaxed;
use crate::vmstat::ZoneStat;
use crate::zone::{NodeId, Zone, ZoneType};

const CPU: CpuId = CpuId(0);

struct Stage<'h> {
    alloc: PageAllocator<Solo>,
    cx: Cx<'h, Solo>,
    /// Blocks in use: orders 0, 1, 4.
    used: [Pfn; 3],
}

impl Stage<'_> {
    fn zone(&self) -> &Zone<Solo> {
        self.alloc.zone(NodeId(0), ZoneType::Dma32).unwrap()
    }

    /// First block of a buddy list that has one, and its order.
    fn free_block(&self) -> (Pfn, usize) {
        let area = self.zone().free.lock(CPU);
        let found = (0..11).find_map(|o| area.lists[o].iter().find_map(|l| Some((l.head()?, o))));
        found.unwrap()
    }

    fn pcp_page(&self) -> Pfn {
        let pcp = self.zone().cpus[0].pcp.lock(CPU);
        pcp.lists().iter().find_map(|l| l.head()).unwrap()
    }

    fn report(&self) -> AuditReport {
        check(&self.alloc, &self.cx).unwrap()
    }

    fn set(&self, pfn: Pfn, flags: BlockFlags, order: u8, t: MigrateType) {
        self.alloc.map.page(pfn).set(flags, Order(order), t);
    }
}

/// A machine in use: 256 MiB on one node, some pages taken, some on per-CPU lists.
fn stage(host: &Solo) -> Stage<'_> {
    let machine = Machine::from_sizes("m", &[(256 << 20, alloc::vec![0, 1])]).unwrap();
    let alloc = boot(host, &machine, &preset("6.1").unwrap()).unwrap();
    let cx = Cx::new(host, CPU);
    // So that lists can be damaged anywhere.
    for zone in alloc.populated_zones() {
        alloc.buddy(&cx, zone, &mut zone.free.lock(CPU)).link_run();
    }
    let gfp = Gfp::GFP_HIGHUSER_MOVABLE;
    let used = [0, 1, 4]
        .map(|order| alloc.alloc(&cx, &NoRelief, gfp, Order(order), NodeId(0), None).unwrap());
    Stage { alloc, cx, used }
}

/// Which rule the audit names after `damage`.
#[track_caller]
fn broken_by(damage: impl FnOnce(&Stage<'_>)) -> Rule {
    let host = Solo::default();
    let stage = stage(&host);
    let before = stage.report();
    assert_eq!(before.used, 1 + 2 + 16);
    damage(&stage);
    let error = check(&stage.alloc, &stage.cx).expect_err("the damage goes unnoticed");
    let line = error.to_string();
    assert!(line.contains("zone") && !line.contains('\n'), "{line}");
    error.rule
}

#[test]
fn a_healthy_machine_adds_up() {
    let host = Solo::default();
    let s = stage(&host);
    let r = s.report();
    let managed: u64 = s.alloc.populated_zones().map(|z| z.managed()).sum();
    assert_eq!(r.free + r.pcp + r.used, managed);
    assert_eq!((r.zones, r.used_blocks), (2, 3));
    for (pfn, order) in s.used.iter().zip([0, 1, 4]) {
        s.alloc.free(&s.cx, *pfn, Order(order)).unwrap();
    }
    s.alloc.drain_all(&s.cx, None);
    let r = s.report();
    assert_eq!((r.free, r.pcp, r.used), (managed, 0, 0));
}

#[test]
fn an_inventory_has_every_frame_once() {
    let host = Solo::default();
    let s = stage(&host);
    let lru = s.used[1];
    s.alloc.map.page(lru).flag_set::<Solo>(PageFlags::LRU);
    let mut pages = [0; 6];
    for zone in s.alloc.populated_zones() {
        let mut next = zone.start;
        for piece in inventory(&s.alloc, zone) {
            assert_eq!(piece.first, next);
            next = next.add(piece.pages);
            pages[piece.content as usize] += u64::from(piece.pages);
            let is_lru = piece.first == lru;
            assert_eq!(is_lru, piece.content == Content::Movable);
        }
        assert_eq!(next, zone.end);
    }
    let report = s.report();
    let [free, per_cpu, movable, unmovable, reserved, moving] = pages;
    assert_eq!((free, per_cpu, moving), (report.free, report.pcp, 0));
    assert_eq!((movable, unmovable, reserved), (2, 1 + 16, report.reserved));
}

#[test]
fn broken_links() {
    assert_eq!(
        broken_by(|s| {
            let area = s.zone().free.lock(CPU);
            let list = &area.lists[10][MigrateType::Movable.idx()];
            let second = list.iter(&s.alloc.map).nth(1).unwrap();
            s.alloc.map.page(second).prev.store(second.0, Relaxed);
        }),
        Rule::Links
    );
    assert_eq!(
        broken_by(|s| {
            // The list loses its end.
            let area = s.zone().free.lock(CPU);
            let list = &area.lists[10][MigrateType::Movable.idx()];
            s.alloc.map.page(list.head().unwrap()).next.store(u32::MAX, Relaxed);
        }),
        Rule::Links
    );
}

#[test]
fn a_wrong_length() {
    let rule = broken_by(|s| {
        let mut area = s.zone().free.lock(CPU);
        let list = &mut area.lists[10][MigrateType::Movable.idx()];
        let frames: Vec<Pfn> = list.iter(&s.alloc.map).collect();
        // Unlink the last frame by hand, leaving the count.
        let last = frames[frames.len() - 1];
        let mut shorter = *list;
        shorter.remove(&s.alloc.map, last);
        let mut wrong = crate::page::PageList::default();
        for &pfn in &frames {
            wrong.push_tail(&s.alloc.map, pfn);
        }
        // A list that says one more than it links.
        wrong.remove(&s.alloc.map, last);
        wrong.push_tail(&s.alloc.map, last);
        wrong.push_tail(&s.alloc.map, last);
        s.alloc.map.page(last).prev.store(frames[frames.len() - 2].0, Relaxed);
        s.alloc.map.page(last).next.store(u32::MAX, Relaxed);
        *list = wrong;
    });
    assert_eq!(rule, Rule::Length);
}

#[test]
fn fresh_blocks_that_nobody_lists() {
    let broken_by = |damage: &dyn Fn(&Zone<Solo>, &PageAllocator<Solo>)| {
        let host = Solo::default();
        let machine = Machine::from_sizes("m", &[(256 << 20, alloc::vec![0])]).unwrap();
        let alloc = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        damage(alloc.zone(NodeId(0), ZoneType::Dma32).unwrap(), &alloc);
        check(&alloc, &Cx::new(&host, CPU)).map_err(|error| error.rule).err()
    };
    assert_eq!(broken_by(&|_, _| {}), None);
    let miscounted = broken_by(&|zone, _| {
        zone.free.lock(CPU).fresh.as_mut().unwrap().nr_left -= 1;
    });
    let without_a_run = broken_by(&|zone, _| zone.free.lock(CPU).fresh = None);
    let astray = broken_by(&|zone, alloc| {
        let first = zone.free.lock(CPU).fresh.unwrap().first;
        let astray = alloc.map.next_fresh(first.0..zone.end.0).unwrap();
        alloc.map.set_fresh(astray, MigrateType::Reclaimable);
    });
    assert_eq!([miscounted, without_a_run, astray], [Some(Rule::Length); 3]);
    let taken_without_a_word = broken_by(&|zone, alloc| {
        let first = zone.free.lock(CPU).fresh.unwrap().first;
        alloc.map.write_out(alloc.map.next_fresh(first.0..zone.end.0).unwrap());
    });
    assert_eq!(taken_without_a_word, Some(Rule::Length));
}

#[test]
fn a_block_on_two_lists() {
    let rule = broken_by(|s| {
        // Half of a free block is listed a second time, on its own.
        let (pfn, _) = s.free_block();
        let mut area = s.zone().free.lock(CPU);
        let large = area.lists[10][MigrateType::Movable.idx()].head().unwrap();
        assert_ne!(pfn, large);
        let half = large.add(512);
        s.set(half, BlockFlags::BUDDY, 9, MigrateType::Movable);
        area.lists[9][MigrateType::Movable.idx()].push_head(&s.alloc.map, half);
    });
    assert_eq!(rule, Rule::OnePlace);
    let rule = broken_by(|s| {
        // A page on a per-CPU list is in use as well: by a block that spans it.
        let pfn = s.pcp_page();
        let before = Pfn(pfn.0 - 1);
        assert!(s.alloc.map.page(before).has(BlockFlags::USED) || s.used.contains(&before));
        s.set(before, BlockFlags::USED, 3, MigrateType::Movable);
    });
    assert_eq!(rule, Rule::OnePlace);
}

#[test]
fn wrong_labels() {
    for damage in [
        (BlockFlags::BUDDY | BlockFlags::USED, None, None),
        (BlockFlags::PCP, None, None),
        (BlockFlags::BUDDY, Some(3), None),
        (BlockFlags::BUDDY, None, Some(MigrateType::Reclaimable)),
    ] {
        let rule = broken_by(|s| {
            let area = s.zone().free.lock(CPU);
            let pfn = area.lists[10][MigrateType::Movable.idx()].head().unwrap();
            let (flags, order, t) = damage;
            s.set(pfn, flags, order.unwrap_or(10), t.unwrap_or(MigrateType::Movable));
        });
        assert_eq!(rule, Rule::Label, "{damage:?}");
    }
    let rule = broken_by(|s| {
        // A DMA block on a DMA32 list.
        let dma = s.alloc.zone(NodeId(0), ZoneType::Dma).unwrap();
        let list = MigrateType::Movable.idx();
        let pfn = {
            let mut area = dma.free.lock(CPU);
            area.lists[10][list].pop_tail(&s.alloc.map).unwrap()
        };
        dma.note_list(Order(10), MigrateType::Movable, false, -1);
        dma.stats.add(CPU, ZoneStat::FreePages as usize, -1024);
        s.zone().free.lock(CPU).lists[10][list].push_tail(&s.alloc.map, pfn);
    });
    assert_eq!(rule, Rule::Label);
}

#[test]
fn a_block_out_of_place() {
    let rule = broken_by(|s| {
        let mut area = s.zone().free.lock(CPU);
        let list = &mut area.lists[10][MigrateType::Movable.idx()];
        let pfn = list.pop_head(&s.alloc.map).unwrap().add(1);
        s.set(pfn, BlockFlags::BUDDY, 10, MigrateType::Movable);
        list.push_head(&s.alloc.map, pfn);
    });
    assert_eq!(rule, Rule::Alignment);
    let rule = broken_by(|s| {
        s.set(Pfn(s.zone().end.0 - 1), BlockFlags::USED, 1, MigrateType::Movable);
        let list = MigrateType::Movable.idx();
        let mut area = s.zone().free.lock(CPU);
        for order in (0..11).rev() {
            // Take the block that covers the last frame off its list.
            let last = area.lists[order][list]
                .iter(&s.alloc.map)
                .find(|p| u64::from(p.0) + (1 << order) == u64::from(s.zone().end.0));
            if let Some(pfn) = last {
                area.lists[order][list].remove(&s.alloc.map, pfn);
                let empty = area.lists[order][list].is_empty();
                s.zone().note_list(Order(order as u8), MigrateType::Movable, empty, -1);
                s.zone().stats.add(CPU, ZoneStat::FreePages as usize, -(1 << order));
                for i in 0..1 << order {
                    let page = s.alloc.map.page(pfn.add(i));
                    page.set(
                        BlockFlags::USED,
                        Order(u8::from(i + 1 == 1 << order)),
                        MigrateType::Movable,
                    );
                    page.set_refcount(1);
                }
                return;
            }
        }
        unreachable!("some block ends the zone");
    });
    assert_eq!(rule, Rule::Alignment);
}

#[test]
fn buddies_that_did_not_merge() {
    let rule = broken_by(|s| {
        // Split a free block by hand and list both halves.
        let t = MigrateType::Movable;
        let mut area = s.zone().free.lock(CPU);
        let order = (1..9).find(|&o| !area.lists[o][t.idx()].is_empty()).unwrap();
        let pfn = area.lists[order][t.idx()].pop_head(&s.alloc.map).unwrap();
        for half in [pfn, pfn.add(1 << (order - 1))] {
            s.set(half, BlockFlags::BUDDY, order as u8 - 1, t);
            area.lists[order - 1][t.idx()].push_head(&s.alloc.map, half);
        }
    });
    assert_eq!(rule, Rule::Merged);
}

#[test]
fn marks_inside_a_block() {
    let inside_free = broken_by(|s| {
        let area = s.zone().free.lock(CPU);
        let pfn = area.lists[10][MigrateType::Movable.idx()].head().unwrap();
        s.set(pfn.add(7), BlockFlags::USED, 0, MigrateType::Movable);
    });
    let inside_used =
        broken_by(|s| s.set(s.used[2].add(3), BlockFlags::BUDDY, 0, MigrateType::Movable));
    assert_eq!((inside_free, inside_used), (Rule::Tail, Rule::Tail));
}

/// A tail that outlived its folio, wherever it lies now, and a folio that not all of its frames know.
#[test]
fn tails_of_no_folio() {
    let tail = |s: &Stage, pfn| s.set(pfn, BlockFlags::TAIL, 3, MigrateType::Movable);
    let in_free = broken_by(|s| {
        let pfn = s.zone().free.lock(CPU).lists[10][MigrateType::Movable.idx()].head().unwrap();
        tail(s, pfn.add(9));
    });
    let in_used = broken_by(|s| tail(s, s.used[2].add(1)));
    assert_eq!((in_free, in_used), (Rule::Tail, Rule::Tail));
}

#[test]
fn users_of_free_pages() {
    assert_eq!(broken_by(|s| s.alloc.map.page(s.pcp_page()).get_ref()), Rule::Users);
    assert_eq!(broken_by(|s| s.alloc.map.page(s.free_block().0).get_ref()), Rule::Users);
    assert_eq!(broken_by(|s| s.alloc.map.page(s.used[1]).set_refcount(0)), Rule::Users);
}

#[test]
fn wrong_counts_of_blocks_and_pages() {
    let t = MigrateType::Movable;
    assert_eq!(broken_by(|s| s.zone().note_list(Order(10), t, false, 1)), Rule::BlockCounts);
    assert_eq!(broken_by(|s| s.zone().note_list(Order(10), t, true, 0)), Rule::BlockCounts);
    let isolate = MigrateType::Isolate;
    assert_eq!(broken_by(|s| s.zone().note_list(Order(3), isolate, false, 0)), Rule::BlockCounts);
    for delta in [-1, 1, 512] {
        let rule = broken_by(|s| s.zone().stats.add(CPU, ZoneStat::FreePages as usize, delta));
        assert_eq!(rule, Rule::FreePages);
    }
}

#[test]
fn wrong_per_cpu_lists() {
    assert_eq!(broken_by(|s| s.zone().cpus[0].pcp.lock(CPU).count += 1), Rule::PcpCount);
    // The page of one CPU on the other's list of another type.
    let rule = broken_by(|s| {
        let mut pcp = s.zone().cpus[0].pcp.lock(CPU);
        let pfn = pcp.lists[1].pop_head().unwrap();
        pcp.lists[2].push_head(pfn);
    });
    assert_eq!(rule, Rule::PcpList);
    // 6.1 has 14 lists.
    let rule = broken_by(|s| {
        let mut pcp = s.zone().cpus[0].pcp.lock(CPU);
        let pfn = pcp.lists[1].pop_head().unwrap();
        pcp.lists[14].push_head(pfn);
    });
    assert_eq!(rule, Rule::PcpList);
}

#[test]
fn wrong_pageblocks() {
    let rule = broken_by(|s| {
        s.zone().set_pageblock_type(s.used[0], MigrateType::HighAtomic);
    });
    assert_eq!(rule, Rule::HighAtomic);
    assert_eq!(broken_by(|s| s.zone().set_reserved_highatomic(100)), Rule::HighAtomic);
    assert_eq!(broken_by(|s| s.zone().set_raw_pageblock_type(s.used[0], 6)), Rule::PageblockType);
}

#[test]
fn lost_and_reserved_frames() {
    let rule = broken_by(|s| s.alloc.map.page(s.used[0]).clear());
    assert_eq!(rule, Rule::Lost);
    // A leak: a block leaves its list and arrives nowhere.
    let rule = broken_by(|s| {
        let t = MigrateType::Movable;
        let mut area = s.zone().free.lock(CPU);
        let pfn = area.lists[10][t.idx()].pop_tail(&s.alloc.map).unwrap();
        s.zone().note_list(Order(10), t, false, -1);
        s.zone().stats.add(CPU, ZoneStat::FreePages as usize, -1024);
        s.alloc.map.page(pfn).clear();
    });
    assert_eq!(rule, Rule::Lost);
    let first = |s: &Stage<'_>| {
        assert!(s.zone().managed() < s.zone().spanned());
        s.alloc.map.write_out(s.zone().start);
        s.zone().start
    };
    assert_eq!(broken_by(|s| s.alloc.map.page(first(s)).get_ref()), Rule::Reserved);
    let rule =
        broken_by(|s| s.alloc.map.page(first(s)).insert_block_flags(BlockFlags::MOVABLE_OPS));
    assert_eq!(rule, Rule::Reserved);
    assert_eq!(
        broken_by(|s| s.alloc.map.page(Pfn(0)).insert_block_flags(BlockFlags::MOVABLE_OPS)),
        Rule::Reserved
    );
    assert_eq!(broken_by(|s| s.zone().add_managed(1)), Rule::Managed);
}

#[test]
fn an_owned_pageblock_with_pages_elsewhere() {
    let rule = broken_by(|s| {
        let pfn = s.zone().free.lock(CPU).lists[10][MigrateType::Movable.idx()].head().unwrap();
        s.zone().set_owner(pfn, Some(CPU));
    });
    assert_eq!(rule, Rule::Owner);
    let rule = broken_by(|s| {
        let pfn = s.pcp_page();
        s.zone().set_owner(pfn, Some(CPU));
    });
    assert_eq!(rule, Rule::Owner);
    assert_eq!(broken_by(|s| s.zone().cpus[0].pcp.lock(CPU).owned.pages += 1), Rule::PcpCount);
}
