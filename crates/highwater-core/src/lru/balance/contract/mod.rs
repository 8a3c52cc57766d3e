//! The contract of every implementation, as tests; and the book's example, compiled and tested by
//! it.

#[allow(unreachable_pub, reason = "an answer's type is public")]
mod recent;

use super::{Effort, SWAPPINESS_MAX, Weigh, Weights};
use crate::lru::PageType;
use recent::Recent;

/// An implementation gives weights before anything was recorded, and their denominator is not 0. No
/// swappiness makes reclaim skip both types.
pub(super) fn weighs_from_the_start<A: Weigh>() {
    for swappiness in [0, 1, 60, 100, SWAPPINESS_MAX] {
        let Weights { anon, file, over } = A::default().weights(swappiness, |_| 0);
        assert!(over > 0 && anon + file > 0, "{swappiness}");
        assert!(anon <= over && file <= over, "{swappiness}");
        assert_eq!((anon == 0, file == 0), (swappiness == 0, swappiness == SWAPPINESS_MAX));
    }
}

/// An implementation learns that scanning a type is useless, and forgets it: after enough other
/// events the type is scanned as before.
pub(super) fn learns_and_forgets<A: Weigh>() {
    let size = |_| 1000;
    let mut answer = A::default();
    let differ = |Weights { anon, file, over }| 4 * u64::abs_diff(anon, file) > over;
    assert!(!differ(answer.weights(100, size)));
    answer.isolated(PageType::Anon, 500);
    answer.isolated(PageType::File, 500);
    answer.rotated([500, 0]);
    answer.cost(PageType::Anon, Effort::io(500), 2000);
    let bad_anon = answer.weights(100, size);
    assert!(bad_anon.anon < bad_anon.file && differ(bad_anon), "it has not learnt: {bad_anon:?}");
    for _ in 0..20 {
        for page_type in PageType::ALL {
            answer.isolated(page_type, 500);
            answer.cost(page_type, Effort::io(500), 2000);
        }
        answer.weights(100, size);
    }
    let long_after = answer.weights(100, size);
    assert!(!differ(long_after), "{long_after:?}");
}

#[test]
fn the_example_of_the_book_keeps_the_contract() {
    weighs_from_the_start::<Recent>();
    learns_and_forgets::<Recent>();
}

#[test]
fn the_book_shows_the_example() {
    const PAGE: &str = include_str!("../../../../../../docs/src/how-to/add-a-policy-in-code.md");
    assert!(PAGE.contains(include_str!("recent.rs")), "add-a-policy-in-code.md shows recent.rs");
}

/// An implementation that records nothing: the contract must detect it.
#[derive(Default)]
struct Deaf;

impl Weigh for Deaf {
    const NOTES_COST: bool = false;

    fn weights(&mut self, swappiness: u64, _: impl Fn(PageType) -> u64) -> Weights {
        Weights { anon: swappiness, file: SWAPPINESS_MAX - swappiness, over: SWAPPINESS_MAX }
    }
}

#[test]
#[should_panic(expected = "it has not learnt")]
fn who_does_not_learn_is_found() {
    weighs_from_the_start::<Deaf>();
    learns_and_forgets::<Deaf>();
}
