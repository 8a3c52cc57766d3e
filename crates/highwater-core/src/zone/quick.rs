//! The fast watermark test of nearly every allocation as one comparison (rules/watermarks#fast-test).
//!
//! A single page at the low mark, asked for without any right to reserves, is given if more is free than the
//! mark, its boost, the reserve for lower zones and the high-atomic reserve add up to. These change seldom
//! (sysctls, boosts, a pageblock reserved) and are compared with all the time, so the sum is kept: one number
//! for each highest zone.
//!
//! Synchronisation: whoever changed one of the four has the sums made anew, and again if somebody else did so
//! meanwhile: the last to have begun sees all changes, and his sums stay ([`QuickMarks::refresh`]). Readers may
//! be late by one change, as with the marks themselves.

use super::ZoneType;
use crate::sync::atomic::{AtomicI64, AtomicU32, Ordering::AcqRel, Ordering::Relaxed};

/// No count of free pages is above it.
const NEVER: i64 = i64::MAX;

/// What has to be exceeded, by the highest zone of a request.
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

    /// Are so many free pages more than a request for one may leave?
    #[inline(always)]
    pub(super) fn is_exceeded_by(&self, free: i64, highest: ZoneType) -> bool {
        free > self.marks[highest.idx()].load(Relaxed)
    }

    /// What they are the sum of has changed.
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
