//! The decision from 6.11 on (rules/readahead#restart).
//!
//! Up to 6.10 a miss right behind a window continues it. From 6.11 on only the mark does: a reader
//! that misses there lost the marked page to reclaim, or reads too fast for the window, and begins
//! again with a small one. Windows of sequential reads are the same under both rules.

use super::{ReadAhead, Trigger, Window, init_size, next_size};
use crate::config::ReadaheadRule;
use crate::page_cache::Tree;

/// How many orders more the folios of a window that the mark starts may have than those of the
/// window before (7.2). Files of single pages get none, but the window ends where such a folio
/// would.
const MORE_ORDERS: u8 = 2;

impl ReadAhead {
    /// Decides what to read when page `index` is wanted, `req` pages of it and its successors, from
    /// 6.11 on. `tree` is what is cached; None = read nothing.
    pub(super) fn decide_anew(
        &mut self,
        index: u32,
        req: u32,
        max: u32,
        trigger: Trigger,
        tree: &Tree,
        rule: ReadaheadRule,
    ) -> Option<Window> {
        match trigger {
            Trigger::Miss => self.decide_miss(index, req, max, tree),
            Trigger::Mark(_) => self.decide_mark(index, req, max, tree, (trigger, rule)),
        }
    }

    /// The page is missing: a first window, a random read, or a sequence that the cache shows.
    fn decide_miss(&mut self, index: u32, req: u32, max: u32, tree: &Tree) -> Option<Window> {
        if index == 0 || req > max || self.is_next(index) {
            self.order = 0;
            self.start = index;
            self.size = init_size(req, max);
            // A request as large as the window leaves none of it to read ahead: half of it is.
            self.async_size = if self.size > req { self.size - req } else { self.size / 2 };
            return Some(self.window());
        }
        let before = tree.run_before(index, max);
        if before <= req {
            return Some(Window { start: index, size: req, async_size: 0 });
        }
        self.order = 0;
        self.follow_history(index, req, max, before);
        Some(self.window())
    }

    /// The reader meets the mark: the next window, or one behind what another reader cached.
    fn decide_mark(
        &mut self,
        index: u32,
        req: u32,
        max: u32,
        tree: &Tree,
        (trigger, rule): (Trigger, ReadaheadRule),
    ) -> Option<Window> {
        let end = self.start.saturating_add(self.size);
        if trigger.is_at(index, end - self.async_size.min(end)) {
            self.start = end;
            self.size = self.size.max(next_size(self.size, max));
        } else {
            let missing = tree.next_missing(index + 1, max)?;
            self.start = missing;
            self.size = next_size((missing - index).saturating_add(req), max);
        }
        if rule == ReadaheadRule::RestartAligned {
            self.end_aligned(max);
        }
        self.async_size = self.size;
        Some(self.window())
    }

    /// Ends the window at a multiple of the folios that it asks for, if that leaves any of it. The
    /// folios are no larger than the largest power of two that divides `max`.
    fn end_aligned(&mut self, max: u32) {
        self.order += MORE_ORDERS;
        let order = u32::from(self.order).min(max.trailing_zeros());
        let end = self.start.saturating_add(self.size) >> order << order;
        if end > self.start {
            self.size = end - self.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MARK, cache, sequential_by};
    use super::*;
    use crate::block::DeviceSpec;
    use crate::page::PAGE_SIZE;

    const RULES: [ReadaheadRule; 2] = [ReadaheadRule::Restart, ReadaheadRule::RestartAligned];
    const MAX: u32 = 32;

    fn fresh() -> ReadAhead {
        ReadAhead::new(DeviceSpec::RA_PAGES)
    }

    fn window(start: u32, size: u32, async_size: u32) -> Option<Window> {
        Some(Window { start, size, async_size })
    }

    /// Up to 6.10 and later, sequential reads get the same windows (rules/readahead#restart).
    #[test]
    fn sequential_reads_get_the_windows_of_earlier_kernels() {
        for rule in RULES {
            let sequential = |max, pages, windows| {
                sequential_by(pages, windows, |state, index, left, trigger, tree| {
                    // Of single pages, so that the state remembers no order.
                    state.order = 0;
                    state.decide_anew(index, left, max, trigger, tree, rule)
                })
            };
            let four =
                [(0, 0, 4, 3), (1, 4, 8, 8), (4, 12, 16, 16), (12, 28, 32, 32), (28, 60, 32, 32)];
            assert_eq!(sequential(MAX, 1, 5), four, "{rule:?}");
            let eight = [(0, 0, 8, 4), (4, 8, 16, 16), (8, 24, 32, 32), (24, 56, 32, 32)];
            assert_eq!(sequential(MAX, 4, 4), eight, "{rule:?}");
            let all = [(0, 0, 32, 16), (16, 32, 32, 32), (32, 64, 32, 32)];
            let large = (sequential(MAX, 16, 3), sequential(MAX, 32, 3));
            assert_eq!(large, (all.into(), all.into()), "{rule:?}");
            // A rotating disk of 7.2, which takes 4 MiB at once.
            let disk = sequential(2048, 1, 5)
                .into_iter()
                .map(|(_, start, size, ahead)| (start, size, ahead));
            let want = [(0, 4, 3), (4, 16, 16), (20, 64, 64), (84, 256, 256), (340, 512, 512)];
            assert!(disk.eq(want), "{rule:?}");
        }
    }

    #[test]
    fn a_miss_behind_the_window_begins_anew() {
        let state = ReadAhead { start: 28, size: 32, async_size: 32, ..fresh() };
        let at = |prev_page: u64| {
            let prev_pos = Some(prev_page * PAGE_SIZE as u64 - 1);
            let mut state = ReadAhead { prev_pos, ..state };
            let tree = Tree::default();
            (state, state.decide_anew(60, 1, MAX, Trigger::Miss, &tree, ReadaheadRule::Restart))
        };
        assert_eq!(at(60).1, window(60, 4, 3), "read to the end: small again");
        let (kept, random) = at(10);
        assert_eq!((kept.window(), random), (state.window(), window(60, 1, 0)));
        let mut before = state;
        let tree = Tree::default();
        assert_eq!(before.decide(60, 1, MAX, Trigger::Miss, &tree), window(60, 32, 16));
    }

    #[test]
    fn a_window_as_large_as_the_request_is_half_ahead() {
        for (req, max, want) in [(32, 32, (0, 32, 16)), (100, 100, (0, 100, 50)), (1, 1, (0, 1, 0))]
        {
            let tree = Tree::default();
            let got = fresh().decide_anew(0, req, max, Trigger::Miss, &tree, RULES[0]);
            assert_eq!(got, window(want.0, want.1, want.2));
        }
    }

    #[test]
    fn history_in_the_cache_still_makes_a_read_sequential() {
        let mut tree = Tree::default();
        cache(&mut tree, 0..6);
        cache(&mut tree, 100..110);
        for rule in RULES {
            let miss =
                |index, req| fresh().decide_anew(index, req, MAX, Trigger::Miss, &tree, rule);
            assert_eq!(miss(110, 4), window(110, 14, 1));
            assert_eq!(miss(6, 2), window(6, 14, 1), "counted twice");
            assert_eq!(miss(110, 10), window(110, 10, 0));
            assert_eq!(miss(1000, 4), window(1000, 4, 0));
        }
    }

    /// 7.2 ends windows where folios of four pages end (rules/readahead#restart).
    #[test]
    fn a_window_of_the_mark_may_end_at_a_multiple_of_four() {
        let mut tree = Tree::default();
        cache(&mut tree, 200..212);
        let mark = |rule, max| fresh().decide_anew(204, 1, max, MARK, &tree, rule);
        assert_eq!(mark(ReadaheadRule::Restart, MAX), window(212, 18, 18));
        assert_eq!(mark(ReadaheadRule::RestartAligned, MAX), window(212, 16, 16));
        assert_eq!(mark(ReadaheadRule::RestartAligned, 33), window(212, 18, 18), "an odd maximum");
        cache(&mut tree, 212..300);
        let mark = |rule| fresh().decide_anew(204, 1, MAX, MARK, &tree, rule);
        assert_eq!(RULES.map(mark), [None, None]);
    }
}
