//! Slots of one swap area under load.

use alloc::vec::Vec;

use super::super::slots::{CLUSTER, Found, Left, Slots};
use crate::host::CpuId;
use crate::lru::Shadow;
use crate::page::Pfn;

/// Takes up to `want` slots in one search, as a CPU's cache of slots does.
fn take(slots: &mut Slots, cpu: u16, want: usize) -> Vec<u32> {
    let mut search = slots.search(CpuId(cpu), false);
    let mut got = Vec::new();
    while got.len() < want
        && let Found::Slot(offset) = slots.take(&mut search)
    {
        got.push(offset);
    }
    got
}

#[test]
fn each_cpu_fills_a_cluster_of_its_own_on_flash() {
    let mut slots = Slots::new(8 * CLUSTER, false, 2);
    // The header's cluster is never wholly free.
    assert!(take(&mut slots, 0, 64).into_iter().eq(512..576));
    assert!(take(&mut slots, 1, 64).into_iter().eq(1024..1088));
    assert!(take(&mut slots, 0, 500).into_iter().eq((576..1024).chain(1536..1588)));
    // A cluster that becomes free goes to the end of the list.
    for offset in 512..1024 {
        slots.give_back(offset);
    }
    let rest = take(&mut slots, 0, 460 + 4 * 512 + 10);
    assert_eq!((rest[0], rest[460], rest[rest.len() - 1]), (1588, 2048, 512 + 9));
}

#[test]
fn flash_without_free_clusters_is_searched_slot_by_slot() {
    let mut slots = Slots::new(3 * CLUSTER + 5, false, 1);
    let all = take(&mut slots, 0, usize::MAX);
    assert_eq!(all.len(), 3 * 512 + 4);
    assert_eq!(all[..2], [512, 513], "clusters first");
    assert_eq!(all[1024], 1, "then the rest of the first, from the cursor");
    assert_eq!(slots.nr_free(), 0);
    assert!(take(&mut slots, 0, 1).is_empty());
    for offset in [700, 30, 1539] {
        slots.give_back(offset);
    }
    let mut again = take(&mut slots, 0, 8);
    again.sort_unstable();
    assert_eq!(again, [30, 700, 1539]);
}

#[test]
fn a_disk_is_filled_in_order_and_looks_for_a_free_run_after_each_cluster() {
    let mut slots = Slots::new(4 * CLUSTER, true, 2);
    assert!(take(&mut slots, 0, 64).into_iter().eq(1..65));
    assert!(take(&mut slots, 1, 64).into_iter().eq(65..129), "one cursor for all");
    assert!(take(&mut slots, 0, 384).into_iter().eq(129..513));
    // A hole of a cluster's size in used slots: the next cluster's worth goes there, once the
    // cursor has allocated that many slots again.
    for _ in 0..8 {
        take(&mut slots, 0, 64);
    }
    for offset in 3..3 + CLUSTER {
        slots.give_back(offset);
    }
    assert!(take(&mut slots, 0, 64).into_iter().eq(3..67));
    // Elsewhere it goes on in order over whatever is used.
    slots.give_back(1);
    assert!(take(&mut slots, 0, 448).into_iter().eq(67..515));
    assert!(take(&mut slots, 0, 2).into_iter().eq([1025, 1026]));
}

#[test]
fn a_disk_without_a_free_run_gives_what_comes_next() {
    let mut slots = Slots::new(2 * CLUSTER, true, 1);
    assert_eq!(take(&mut slots, 0, usize::MAX).len(), 1023);
    for offset in (2..1000).step_by(2) {
        slots.give_back(offset);
    }
    assert_eq!(take(&mut slots, 0, 3), [2, 4, 6]);
    slots.give_back(4);
    assert_eq!(take(&mut slots, 0, 2), [8, 10], "the cursor goes on");
    assert_eq!(take(&mut slots, 0, usize::MAX).last(), Some(&4), "and round");
}

#[test]
fn a_slot_lives_as_long_as_an_entry_or_the_cache_uses_it() {
    let mut slots = Slots::new(CLUSTER, false, 1);
    let slot = take(&mut slots, 0, 1)[0];
    assert_eq!(slots.cache(slot, Pfn(7)), None);
    slots.add_entry(slot);
    slots.add_entry(slot);
    assert_eq!(slots.remove_entry(slot), Left::Entries);
    assert_eq!(slots.uncache(slot, Some(Shadow(0))), Left::Entries);
    let state = slots.state(slot);
    assert_eq!((state.count, state.has_cache, state.cached), (1, false, None));
    assert_eq!(state.shadow, Some(Shadow(0)));
    assert_eq!(slots.cache(slot, Pfn(0)), Some(Shadow(0)), "its return finds the shadow");
    assert_eq!(slots.remove_entry(slot), Left::Cache(Pfn(0)));
    assert_eq!(slots.uncache(slot, Some(Shadow(5))), Left::Nobody);
    assert_eq!(slots.shadow(slot), None, "nobody will come back");
    assert!(slots.state(slot).has_cache, "taken until it is given back");
    slots.give_back(slot);
    assert_eq!(slots.state(slot), super::super::SlotState::default());
    assert_eq!(slots.nr_free(), CLUSTER - 1);
}

#[test]
fn a_search_may_find_what_only_the_cache_uses() {
    let mut slots = Slots::new(CLUSTER, true, 1);
    let taken = take(&mut slots, 0, 500);
    slots.cache(taken[9], Pfn(3));
    slots.cache(taken[10], Pfn(4));
    slots.add_entry(taken[10]);
    slots.give_back(2);
    slots.give_back(400);
    assert_eq!(take(&mut slots, 0, 11).len(), 11, "the cursor is at the end now");
    let mut search = slots.search(CpuId(0), true);
    assert_eq!(slots.take(&mut search), Found::Slot(2), "from the lowest free slot");
    assert_eq!(slots.take(&mut search), Found::CacheOnly(taken[9], Pfn(3)));
    assert_eq!(slots.uncache(taken[9], None), Left::Nobody);
    slots.give_back(taken[9]);
    search.look_again(taken[9]);
    assert_eq!(slots.take(&mut search), Found::Slot(taken[9]));
    assert_eq!(slots.take(&mut search), Found::Slot(400), "what entries name is passed over");
    assert_eq!(slots.take(&mut search), Found::End);
}

/// Random allocation and freeing, compared with a plain set.
#[test]
fn slots_are_handed_out_once() {
    for rotational in [false, true] {
        let mut slots = Slots::new(5 * CLUSTER + 77, rotational, 3);
        let mut used = alloc::collections::BTreeSet::new();
        let mut x = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..4000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if x % 5 < 3 || used.is_empty() {
                for offset in take(&mut slots, (x >> 8) as u16 % 3, (x >> 16) as usize % 90) {
                    assert!(offset > 0 && offset < slots.len());
                    assert!(used.insert(offset), "{offset} was in use");
                }
            } else {
                let from = (x >> 20) as u32 % slots.len();
                let some: Vec<u32> =
                    used.range(from..).take((x >> 40) as usize % 300).copied().collect();
                for offset in some {
                    used.remove(&offset);
                    slots.give_back(offset);
                }
            }
            assert_eq!(slots.nr_free() as usize, slots.len() as usize - 1 - used.len(), "{step}");
        }
        let rest = take(&mut slots, 0, usize::MAX).len();
        assert_eq!((rest + used.len(), slots.nr_free()), (slots.len() as usize - 1, 0));
    }
}
