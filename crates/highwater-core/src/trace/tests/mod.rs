//! What holds for every declared tracepoint.

mod book;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use proptest::prelude::*;

use super::*;
use crate::page::{MigrateType, Order, Pfn};
use crate::units::{Gfp, PageType, ThrottleReason};
use crate::zone::NodeId;

/// The first of a kind's examples: fields made of 1, 2, 3...
fn example(kind: Kind) -> Event {
    let mut n = 0;
    kind.example(|| {
        n += 1;
        n
    })
}

/// Events whose text Linux does not write as `key=value`.
const PROSE: [Kind; 2] = [Kind::ShrinkSlabStart, Kind::ShrinkSlabEnd];

/// Examples, so that a change of a text that other tools read is noticed. A new tracepoint may add
/// its line.
const TEXTS: &str = include_str!("texts.txt");

/// The words of the same examples, as the versions made them that first printed digests. A new
/// tracepoint adds none.
const WORDS: &str = include_str!("words.txt");

/// Every line of a file equals `line` of some tracepoint's example.
fn assert_unchanged(file: &str, line: impl Fn(Event) -> String) {
    let lines: Vec<String> = Kind::ALL.iter().map(|&kind| line(example(kind))).collect();
    assert!(file.lines().count() >= 22);
    for expected in file.lines() {
        let is_there = lines.iter().any(|line| line == expected);
        assert!(is_there, "no tracepoint gives\n{expected}\nThey give\n{}", lines.join("\n"));
    }
}

#[test]
fn every_text_is_what_it_was() {
    assert_unchanged(TEXTS, |event| format!("{}:{event}", event.system()));
}

#[test]
fn words_of_earlier_versions_are_what_they_were() {
    assert_unchanged(WORDS, |event| {
        let words: String = event.words().map(|word| format!(" {word:#x}")).collect();
        format!("{}:{words}", event.name())
    });
    // A case that no example above shows: the kernel's pfn for no page, all 64 bits of it.
    let failed = Event::PageAlloc {
        pfn: None,
        order: Order(3),
        gfp: Gfp::ZERO,
        migratetype: MigrateType::Movable,
    };
    let movable = MigrateType::Movable as u64;
    let words = [1 | 3 << 8 | movable << 16, u64::MAX, u64::from(Gfp::ZERO.bits())];
    assert!(failed.words().eq(words));
}

#[test]
fn text_has_the_kernels_field_names() {
    let event = Event::Throttled {
        nid: NodeId(1),
        usec_timeout: 100_000,
        usec_delayed: 4000,
        reason: ThrottleReason::Writeback,
    };
    assert_eq!(
        event.to_string(),
        "mm_vmscan_throttled: nid=1 usec_timeout=100000 usect_delayed=4000 \
         reason=VMSCAN_THROTTLE_WRITEBACK"
    );
    let event = Event::LruShrinkInactive {
        nid: NodeId(0),
        nr_scanned: 32,
        nr_reclaimed: 31,
        nr_dirty: 0,
        nr_writeback: 0,
        nr_congested: 0,
        nr_immediate: 0,
        nr_activate_anon: 0,
        nr_activate_file: 0,
        nr_ref_keep: 0,
        nr_unmap_fail: 0,
        priority: 0,
        page_type: PageType::Anon,
    };
    assert_eq!(
        event.to_string(),
        "mm_vmscan_lru_shrink_inactive: nid=0 nr_scanned=32 nr_reclaimed=31 nr_dirty=0 \
         nr_writeback=0 nr_congested=0 nr_immediate=0 nr_activate_anon=0 nr_activate_file=0 \
         nr_ref_keep=0 nr_unmap_fail=0 priority=0 flags=RECLAIM_WB_ANON|RECLAIM_WB_ASYNC"
    );
}

#[test]
fn what_follows_from_fields_is_printed_with_them() {
    let text = |order| {
        let event = Event::PageAllocExtfrag {
            pfn: Pfn(0x400),
            alloc_order: Order(0),
            fallback_order: Order(order),
            alloc_migratetype: MigrateType::Movable,
            fallback_migratetype: MigrateType::Unmovable,
            change_ownership: true,
        };
        event.to_string()
    };
    assert!(text(8).contains("pageblock_order=9") && text(8).contains("fragmenting=1"));
    assert!(text(9).contains("fragmenting=0"));
}

#[test]
fn texts_are_keys_and_values_where_linux_writes_such() {
    for &kind in Kind::ALL.iter().filter(|kind| !PROSE.contains(kind)) {
        let event = example(kind).to_string();
        let (name, text) = event.split_once(": ").expect("a name and a text");
        assert_eq!(name, kind.tracepoint().name);
        for word in text.split(' ') {
            let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("{event}: {word}"));
            let is_key = key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(is_key && !key.is_empty() && !value.is_empty(), "{event}: {word}");
        }
    }
}

#[test]
fn declarations_are_told_apart_and_explained() {
    for (at, tracepoint) in TRACEPOINTS.iter().enumerate() {
        let others = &TRACEPOINTS[..at];
        assert!(others.iter().all(|other| other.name != tracepoint.name), "{}", tracepoint.name);
        let docs = tracepoint.fields.iter().map(|field| field.doc).chain([tracepoint.doc]);
        for doc in docs {
            assert!(doc.ends_with('.') && !doc.starts_with(' '), "{}: {doc:?}", tracepoint.name);
        }
        assert_eq!(Kind::ALL[at].tracepoint(), tracepoint);
    }
}

#[test]
fn values_of_fields_come_with_their_names() {
    let event = Event::PageFree { pfn: Pfn(7), order: Order(3) };
    let fields: Vec<_> = event.fields().collect();
    assert_eq!(fields, [("pfn", Value::Pfn(Some(Pfn(7)))), ("order", Value::Number(3))]);
    assert_eq!((event.kind(), event.system()), (Kind::PageFree, "kmem"));
}

#[test]
fn every_field_of_every_event_changes_the_digest() {
    for &kind in Kind::ALL {
        let words = |draws: &[u64]| {
            let mut draws = draws.iter().copied();
            let event = kind.example(|| draws.next().expect("one for each field"));
            event.words().collect::<Vec<_>>()
        };
        let fields = kind.tracepoint().fields;
        for at in 0..fields.len() {
            let mut draws = vec![1; fields.len()];
            let before = words(&draws);
            draws[at] = 2;
            assert_ne!(words(&draws), before, "{kind:?}: {}", fields[at].name);
        }
    }
}

#[test]
fn counts_are_by_kind() {
    let mut counts = Counts::default();
    for &kind in Kind::ALL {
        (0..=kind as u64).for_each(|_| counts.count(&example(kind)));
    }
    assert_eq!(counts.of(Kind::WaitIffCongested), Kind::WaitIffCongested as u64 + 1);
    assert!(counts.iter().eq(Kind::ALL.iter().copied().zip(1..)));
}

proptest! {
    /// Equal events have equal words, others have not; nor do some begin as others do. (`digest`
    /// clauses that lay fields over each other could break it, for one in billions of draws.)
    #[test]
    fn words_tell_events_apart(
        kinds in [0..Kind::COUNT, 0..Kind::COUNT],
        draws in prop::array::uniform2(prop::collection::vec(any::<u64>(), 16)),
        is_same_kind: bool,
        same_fields: u16,
    ) {
        let event = |which: usize| {
            let kind = Kind::ALL[kinds[if is_same_kind { 0 } else { which }]];
            let mut at = 0;
            kind.example(|| {
                at += 1;
                draws[if same_fields >> (at - 1) & 1 != 0 { 0 } else { which }][at - 1]
            })
        };
        let [a, b] = [event(0), event(1)];
        let [words_a, words_b] = [a, b].map(|event| event.words().collect::<Vec<_>>());
        prop_assert_eq!(a == b, words_a == words_b);
        prop_assert_eq!(a == b, words_a.starts_with(&words_b));
        let fields = |event: Event| format!("{:?}", event.fields().collect::<Vec<_>>());
        prop_assert_eq!(a == b, a.kind() == b.kind() && fields(a) == fields(b));
    }
}
