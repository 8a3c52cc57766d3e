//! The fast watermark test of nearly every allocation as one comparison
//! (rules/watermarks#fast-test).
//!
//! A request for a single page at the low mark, without access to reserves, succeeds if the free
//! pages exceed a sum: the mark, its boost, the lowmem reserve and the high-atomic reserve. These
//! change seldom (sysctls, boosts, a pageblock reserved) and are compared all the time. So the sum
//! is stored, one number for each highest zone.
//!
//! Synchronisation: a task that changed one of the four recomputes the sums, and again if another
//! task did so meanwhile. The last one to begin sees all changes, and its sums stay
//! ([`QuickMarks::refresh`]). Readers may be late by one change, as with the marks themselves.

use super::ZoneType;
use crate::sync::atomic::{AtomicI64, AtomicU32, Ordering::AcqRel, Ordering::Relaxed};

/// No count of free pages is above it.
const NEVER: i64 = i64::MAX;

/// The limit that free pages must exceed, by the highest zone of a request.
pub(super) struct QuickMarks {
    marks: [AtomicI64; ZoneType::COUNT],
    /// Refreshes begun.
    turn: AtomicU32,
}

impl QuickMarks {
    /// Not in use: nothing exceeds them.
    pub(super) fn new() -> Self {
        QuickMarks { marks: [const { AtomicI64::new(NEVER) }; 5], turn: AtomicU32::new(0) }
    }

    /// Whether this many free pages exceed the limit of a request.
    #[inline(always)]
    pub(super) fn is_exceeded_by(&self, free: i64, highest: ZoneType) -> bool {
        free > self.marks[highest.idx()].load(Relaxed)
    }

    /// A part of the sums has changed.
    pub(super) fn refresh(&self, sum: impl Fn(usize) -> u64) {
        // Both are read-modify-writes of the same word: of two refreshes at a time the later one reads the turn
        // after the earlier one's stores, or the earlier one sees the later one's turn and goes on.
        let mut turn = self.turn.fetch_add(1, AcqRel).wrapping_add(1);
        loop {
            for (highest, mark) in self.marks.iter().enumerate() {
                mark.store(i64::try_from(sum(highest)).unwrap_or(NEVER), Relaxed);
            }
            let latest = self.turn.fetch_add(0, AcqRel);
            if latest == turn {
                return;
            }
            turn = latest;
        }
    }
}
