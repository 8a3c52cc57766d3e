//! Free lists: initial state (rules/zones#initial-lists), splitting (rules/buddy#split), merging
//! (rules/buddy#merge), mobility fallback (rules/buddy#fallback).

use highwater_core::config::{FallbackRule, MergeRule};
use highwater_core::page::MigrateType::{HighAtomic, Movable, Reclaimable, Unmovable};
use highwater_core::page::{MigrateType, Order, PageFlags, Pfn};
use highwater_core::page_alloc::AllocFlags;
use highwater_core::trace::Event;
use highwater_core::zone::watermark::Marks;

use crate::common::*;

fn initial_lists(start: u64, end: u64) -> [u32; 11] {
    let host = host();
    let (alloc, _) = boot_on(&host, &one_zone(start, end, 1), &policy("6.1"));
    let zone = only_zone(&alloc);
    assert_eq!(zone.nr_free_pages(), end - start);
    std::array::from_fn(|o| zone.nr_free_blocks(Order(o as u8)))
}

#[test]
fn blocks_at_boot() {
    assert_eq!(initial_lists(4096, 8192), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(initial_lists(1, 4096), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]);
    assert_eq!(initial_lists(4096, 262_112), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 251]);
}

#[test]
fn split_and_merge() {
    let mut b = Bench::new(4096, 8192);
    assert_eq!(b.alloc(0, Movable), Some(4096));
    assert_eq!(b.lists(Movable), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]);
    assert_eq!(b.alloc(0, Movable), Some(4097));
    assert_eq!(b.alloc(1, Movable), Some(4098));
    assert_eq!(b.lists(Movable), [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 3]);
    b.free(4096, 0);
    assert_eq!(b.list(0, Movable), [4096]);
    b.free(4097, 0);
    assert_eq!((b.list(0, Movable), b.list(1, Movable)), (vec![], vec![4096]));
    b.free(4098, 1);
    assert_eq!(b.lists(Movable), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    assert_eq!(b.list(10, Movable), [4096, 5120, 6144, 7168]);
    assert_eq!(b.zone.nr_free_pages_exact(), 4096);
}

#[test]
fn a_block_about_to_merge_goes_to_the_tail() {
    let mut b = Bench::new(4096, 8192);
    for pfn in 4096..4102 {
        assert_eq!(b.alloc(0, Movable), Some(pfn));
    }
    assert_eq!(b.lists(Movable), [0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 3]);
    b.free(4098, 0);
    b.free(4100, 0);
    assert_eq!(b.list(0, Movable), [4098, 4100]);
    assert_eq!(b.alloc(0, Movable), Some(4098));
}

#[test]
fn first_unmovable_page() {
    let mut b = Bench::new(4096, 8192);
    b.zone.set_marks(&Marks { min: 128, low: 160, high: 192, promo: 224 });
    b.zone.set_boost_factor(15_000);
    assert_eq!(b.alloc_flags(0, Unmovable, AllocFlags::KSWAPD), Some(4096));
    assert_eq!(
        b.extfrags(),
        [Event::PageAllocExtfrag {
            pfn: Pfn(4096),
            alloc_order: Order(0),
            fallback_order: Order(10),
            alloc_migratetype: Unmovable,
            fallback_migratetype: Movable,
            change_ownership: true,
        }]
    );
    let text = b.extfrags()[0].to_string();
    assert!(text.ends_with("fragmenting=0 change_ownership=1"), "{text}");
    for (pfn, t) in [(4096, Unmovable), (4608, Unmovable), (5120, Movable)] {
        assert_eq!(b.zone.pageblock_type(Pfn(pfn)), t);
    }
    assert_eq!(b.lists(Unmovable), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(b.lists(Movable), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(b.zone.boost(), 0);
}

/// Z(4096,4608) as part of a zone like the 1 GiB guest's of rules/watermarks#marks: `lru` movable
/// pages on the LRU, `other` not, in use.
fn one_pageblock(lru: u32, other: u32) -> Bench {
    let mut b = Bench::new(4096, 4608);
    b.zone.add_managed(241_529 - 512);
    b.zone.set_marks(&Marks { min: 11_086, low: 13_857, high: 16_628, promo: 19_399 });
    b.zone.set_boost_factor(15_000);
    for i in 0..lru + other {
        assert_eq!(b.alloc(0, Movable), Some(4096 + i));
        if i < lru {
            b.map.page(Pfn(4096 + i)).flag_set::<Host>(PageFlags::LRU);
        }
    }
    b
}

#[test]
fn steal_without_claim() {
    let mut b = one_pageblock(300, 0);
    assert_eq!(b.lists(Movable), [0, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(b.alloc(0, Unmovable), Some(4396));
    assert_eq!(b.zone.pageblock_type(Pfn(4096)), Movable);
    assert_eq!(b.lists(Movable), [0; 11]);
    assert_eq!(b.lists(Unmovable), [1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(b.zone.boost(), 512);
    assert_eq!(
        b.extfrags(),
        [Event::PageAllocExtfrag {
            pfn: Pfn(4480),
            alloc_order: Order(0),
            fallback_order: Order(7),
            alloc_migratetype: Unmovable,
            fallback_migratetype: Movable,
            change_ownership: false,
        }]
    );
}

#[test]
fn steal_with_claim() {
    let mut b = one_pageblock(200, 100);
    assert_eq!(b.alloc(0, Unmovable), Some(4396));
    assert_eq!(b.zone.pageblock_type(Pfn(4096)), Unmovable);
    let mut b = one_pageblock(256, 0);
    assert_eq!(b.alloc(0, Unmovable), Some(4352));
    assert_eq!(b.zone.pageblock_type(Pfn(4096)), Unmovable);
}

#[test]
fn movable_falls_back_to_the_smallest_block() {
    let unmovable_block = |first_free: u32| {
        let mut b = Bench::new(4096, 4608);
        b.zone.add_managed(241_529 - 512);
        b.zone.set_marks(&Marks { min: 11_086, low: 13_857, high: 16_628, promo: 19_399 });
        b.zone.set_boost_factor(15_000);
        while b.alloc(0, Movable).is_some() {}
        b.zone.set_pageblock_type(Pfn(4096), Unmovable);
        for pfn in first_free..4608 {
            b.free(pfn, 0);
        }
        b
    };
    let mut b = unmovable_block(4597);
    assert_eq!(b.lists(Unmovable), [1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(b.alloc(0, Movable), Some(4597));
    assert_eq!(b.lists(Unmovable), [0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(b.lists(Movable), [0; 11]);
    assert_eq!(b.zone.boost(), 512);

    let mut b = unmovable_block(4581);
    assert_eq!(b.list(4, Unmovable), [4592]);
    assert_eq!(b.alloc(0, Movable), Some(4581));
    assert_eq!(b.lists(Unmovable), [0; 11]);
    assert_eq!(b.lists(Movable), [0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(b.zone.pageblock_type(Pfn(4096)), Unmovable, "27 pages claim nothing");
}

#[test]
fn nofragment_prefers_a_lower_zone() {
    let mut b = Bench::new(4096, 4608);
    assert_eq!(b.alloc(0, Movable), Some(4096));
    assert_eq!(b.alloc_flags(0, Unmovable, AllocFlags::NOFRAGMENT), None);
    assert_eq!(b.alloc(0, Unmovable), Some(4097));
}

#[test]
fn merge_limits() {
    let two_halves = |first: MigrateType, second: MigrateType, preset: &str| {
        let mut b = Bench::empty(4096, 5120);
        b.policy = policy(preset);
        b.zone.set_pageblock_type(Pfn(4096), first);
        b.zone.set_pageblock_type(Pfn(4608), second);
        b.free(4608, 9);
        b.free(4096, 9);
        b
    };
    let b = two_halves(Unmovable, Movable, "6.1");
    assert_eq!(b.list(10, Unmovable), [4096], "merged under the freed page's type");
    let b = two_halves(HighAtomic, Movable, "6.1");
    assert_eq!((b.list(9, HighAtomic), b.list(9, Movable)), (vec![4096], vec![4608]));
    let b = two_halves(HighAtomic, Movable, "5.17");
    assert_eq!(b.list(10, HighAtomic), [4096], "until 5.17 only isolated blocks stop a merge");
    let b = two_halves(MigrateType::Isolate, Movable, "5.17");
    assert_eq!((b.list(9, MigrateType::Isolate), b.list(9, Movable)), (vec![4096], vec![4608]));
    assert_eq!(b.zone.nr_free_pages_exact(), 512, "isolated pages are not free pages");
}

/// Rules of 6.12 on 6.1.
fn since_612(mut b: Bench) -> Bench {
    b.policy.fallback = FallbackRule::ClaimSteal;
    b.policy.merge = MergeRule::MergeableRetype;
    b
}

#[test]
fn a_pageblock_is_claimed_or_one_block_stolen() {
    let mut b = since_612(one_pageblock(300, 0));
    // Both pages of a refill: under one hold of the lock.
    let mut buddy = b.buddy();
    let mut take = || buddy.remove(Order(0), Unmovable, AllocFlags::empty(), true);
    let first = take();
    assert_eq!(first, Some(Pfn(4396)));
    assert_eq!(take(), Some(Pfn(4397)));
    assert_eq!(b.zone.boost(), 4 * 512, "orders 7, 6, 4, 2 cannot be claimed, for the first only");
    assert_eq!(b.zone.pageblock_type(Pfn(4096)), Movable);
    assert_eq!(b.lists(Movable), [0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0]);
    assert_eq!(b.lists(Unmovable), [0; 11]);
    let stolen = |pfn: u32, order: u8| Event::PageAllocExtfrag {
        pfn: Pfn(pfn),
        alloc_order: Order(0),
        fallback_order: Order(order),
        alloc_migratetype: Unmovable,
        fallback_migratetype: Movable,
        change_ownership: false,
    };
    assert_eq!(b.extfrags(), [stolen(4396, 2), stolen(4397, 0)]);
    assert_eq!(b.alloc_flags(0, Unmovable, AllocFlags::NOFRAGMENT), None, "it never steals");

    let unmovable_block = |first_free: u32| {
        let mut b = since_612(one_pageblock(512, 0));
        b.zone.set_pageblock_type(Pfn(4096), Unmovable);
        for pfn in (4096..4608).map(Pfn) {
            b.map.page(pfn).flag_clear::<Host>(PageFlags::LRU);
        }
        (first_free..4608).for_each(|pfn| b.free(pfn, 0));
        b
    };
    let mut b = unmovable_block(4597);
    assert_eq!((b.alloc(0, Movable), b.zone.boost()), (Some(4597), 0));
    assert_eq!(b.lists(Unmovable), [0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let mut b = unmovable_block(4581);
    assert_eq!((b.alloc(0, Movable), b.zone.boost()), (Some(4581), 512));
    assert_eq!(b.lists(Unmovable), [0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(b.lists(Movable), [0; 11]);
}

#[test]
fn a_claim_moves_all_free_pages() {
    // 200 pages on the LRU, 100 others: 212 free and 100 that may be unmovable.
    let mut b = since_612(one_pageblock(200, 100));
    assert_eq!(b.alloc(0, Unmovable), Some(4396));
    assert_eq!((b.zone.pageblock_type(Pfn(4096)), b.zone.boost()), (Unmovable, 512));
    let claimed = b.extfrags();
    assert!(
        matches!(
            claimed[..],
            [Event::PageAllocExtfrag { pfn: Pfn(4396), change_ownership: true, .. }]
        ),
        "the page that was given: {claimed:?}"
    );
    assert_eq!(b.lists(Movable), [0; 11]);
    assert_eq!(b.lists(Unmovable), [1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0]);
    // Whole pageblocks change hands without a boost, under NOFRAGMENT too.
    let mut b = since_612(Bench::new(4096, 8192));
    assert_eq!(b.alloc_flags(0, Unmovable, AllocFlags::NOFRAGMENT), Some(4096));
    assert_eq!(b.lists(Unmovable), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(b.lists(Movable), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(b.zone.boost(), 0);
    // A pageblock that is set aside is not claimed, whatever lists its blocks are on.
    let mut b = since_612(Bench::new(4096, 4608));
    b.zone.set_pageblock_type(Pfn(4096), HighAtomic);
    assert_eq!(b.alloc(0, Unmovable), Some(4096));
    assert_eq!(b.zone.pageblock_type(Pfn(4096)), HighAtomic);
}

#[test]
fn a_list_holds_blocks_of_its_pageblocks() {
    let types = |b: &Bench| [4096, 4608].map(|pfn| b.zone.pageblock_type(Pfn(pfn)));
    let two_pageblocks = || {
        let b = since_612(Bench::empty(4096, 5120));
        b.zone.set_pageblock_type(Pfn(4096), Unmovable);
        b.zone.set_pageblock_type(Pfn(4608), Movable);
        b
    };
    let mut b = two_pageblocks();
    b.free(4608, 9);
    b.free(4096, 9);
    assert_eq!((b.list(10, Unmovable), types(&b)), (vec![4096], [Unmovable; 2]));
    let mut b = two_pageblocks();
    b.free(4096, 10);
    assert_eq!((b.list(10, Movable), types(&b)), (vec![4096], [Movable; 2]));
    assert_eq!(b.zone.nr_free_pages_exact(), 1024);

    let mut b = two_pageblocks();
    b.free(4096, 8);
    b.free(4352, 6);
    assert_eq!(b.list(6, Unmovable), [4352]);
    b.zone.set_marks(&Marks { min: 0, low: 0, high: 0, promo: 0 });
    assert!(b.buddy().isolate(Pfn(4096)));
    assert_eq!((b.list(6, Movable), b.list(6, Unmovable)), (vec![4352], vec![]));

    // A pageblock that reaches out of the zone keeps its type and its blocks.
    let mut b = since_612(Bench::empty(4096, 4992));
    b.zone.set_pageblock_type(Pfn(4608), Unmovable);
    b.free(4608, 8);
    b.free(4864, 6);
    b.zone.set_marks(&Marks { min: 0, low: 0, high: 0, promo: 0 });
    assert!(b.buddy().isolate(Pfn(4608)));
    assert_eq!(b.zone.pageblock_type(Pfn(4608)), Unmovable);
    assert_eq!((b.list(6, Movable), b.list(6, Unmovable)), (vec![], vec![4864]));
}

#[test]
fn fallback_order() {
    // A zone with one free page of each of two types: which does the third take?
    let taken_by = |asking: MigrateType, offered: [MigrateType; 2]| {
        let mut b = Bench::empty(4096, 5120);
        for (pfn, t) in [4096, 4608].into_iter().zip(offered) {
            b.zone.set_pageblock_type(Pfn(pfn), t);
            b.free(pfn, 0);
        }
        let pfn = b.alloc(0, asking).unwrap();
        offered[usize::from(pfn >= 4608)]
    };
    assert_eq!(taken_by(Unmovable, [Movable, Reclaimable]), Reclaimable);
    assert_eq!(taken_by(Movable, [Unmovable, Reclaimable]), Reclaimable);
    assert_eq!(taken_by(Reclaimable, [Movable, Unmovable]), Unmovable);
    let mut b = Bench::empty(4096, 4608);
    b.zone.set_pageblock_type(Pfn(4096), HighAtomic);
    b.free(4096, 0);
    assert_eq!(b.alloc(0, Movable), None, "nobody falls back to the high-atomic reserve");
}

#[test]
fn claims_of_4_3_count_free_pages_only() {
    // rules/buddy#fallback-v43: no credit for compatible pages, moved blocks go to list heads.
    let claimed = |lru: u32| {
        let mut b = one_pageblock(lru, 0);
        b.policy = policy("4.3");
        let pfn = b.alloc(0, Unmovable);
        (pfn, b.zone.pageblock_type(Pfn(4096)), b.zone.boost())
    };
    assert_eq!(claimed(200), (Some(4352), Unmovable, 0), "256 of 312 free pages in one block");
    assert_eq!(claimed(300), (Some(4480), Movable, 0), "the largest block is split, not the best");
}
