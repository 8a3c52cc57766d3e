//! Wait queues of pages: waiters match page and bit (rules/sleeping-locks#page-queues).
//!
//! ```text
//!  queue 102:  (frame 7, LOCKED, shared)  (frame 93, LOCKED, exclusive)  (frame 7, WRITEBACK, shared) ...
//!              a walk for frame 7, LOCKED: wakes the 1st, skips the 2nd and 3rd
//! ```
//!
//! Key types: [`PageWaits`] (the queues), [`Waiter`].
//!
//! Synchronisation: a waiter sets [`PageFlags::WAITERS`] under its queue's lock and looks at the
//! bit in the same word after that. A waker clears the bit and sees WAITERS in the old value. So
//! one of the two sees the other.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::config::PageLockRule;
use crate::host::{Cx, Host, Lock, Tasks};
use crate::page::{Folio, Page, PageFlags, Pfn};
use crate::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
use crate::sync::order::LockClass;

/// Entries that a walk looks at before it lets go of the queue's lock for a moment (a bookmark, 4.14 to 6.6).
const WALK_MAX: usize = 65;
/// How often a waiter for a lock queues before it queues to be handed the lock (`page_lock_unfairness`).
const UNFAIRNESS: u32 = 5;

/// Wait queues shared by all pages.
pub struct PageWaits<H: Tasks> {
    queues: Box<[Queue<H>]>,
    rule: PageLockRule,
}

/// The waiters for all pages whose frames hash to this queue.
struct Queue<H: Tasks> {
    waiters: H::Lock<Waiters<H::Task>>,
    /// Shows without the lock that there is no waiter.
    len: AtomicU32,
}

struct Waiters<T> {
    /// In order of tickets: waiters queue at the tail.
    list: VecDeque<Waiter<T>>,
    next_ticket: u64,
}

/// A sleeping task.
struct Waiter<T> {
    ticket: u64,
    frame: Pfn,
    bit: PageFlags,
    kind: Kind,
    task: T,
}

/// How a waiter uses the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// That it is cleared.
    Shared,
    /// The same, of a page that is being moved: the end of the move will do, too.
    Moved,
    /// It sets the bit itself, if no other task is faster.
    Exclusive,
    /// The waker sets the bit again for this waiter.
    HandOver,
}

/// Whether a waiter gives up because its task is to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It does not.
    Uninterruptible,
    /// It does.
    Killable,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// It is over.
    Ended,
    /// It goes on from a ticket.
    From(u64),
}

impl<H: Tasks> PageWaits<H> {
    const NR_QUEUES: usize = 256;

    /// Empty queues.
    pub fn new(host: &H, rule: PageLockRule) -> Self {
        let queues: Vec<_> = (0..Self::NR_QUEUES).map(|_| Queue::new(host)).collect();
        PageWaits { queues: queues.into(), rule }
    }

    fn queue(&self, frame: Pfn) -> &Queue<H> {
        &self.queues[hash(frame)]
    }

    /// Sleeps until a bit of a page is cleared. On kernels before 5.9 a waiter that finds it set again sleeps on. False if
    /// the task is to die.
    ///
    /// Linux: the waiters of `folio_wait_bit_common` that only want to see the bit cleared.
    #[doc(alias = "folio_wait_bit")]
    #[doc(alias = "folio_wait_bit_common")]
    #[doc(alias = "wait_on_page_bit_common")]
    #[inline(never)]
    pub(super) fn wait_shared(
        &self,
        cx: &Cx<'_, H>,
        (folio, page): (Folio, &Page),
        bit: PageFlags,
        why: &'static str,
        patience: Patience,
    ) -> bool {
        let queue = self.queue(folio.pfn());
        loop {
            let is_over = || !page.flag_set::<H>(PageFlags::WAITERS).contains(bit);
            let Some(ticket) = queue.enter(cx, (folio.pfn(), bit, Kind::Shared), is_over) else {
                return true;
            };
            if !queue.sleep(cx, ticket, why, patience) {
                return false;
            }
            if self.rule == PageLockRule::HandOver || !page.is(bit) {
                return true;
            }
        }
    }

    /// Takes a page's lock, sleeping as long as it takes. False if the task is to die: it does not have the lock then.
    ///
    /// Linux: the waiters of `folio_wait_bit_common` that take the bit (EXCLUSIVE).
    #[doc(alias = "__folio_lock")]
    #[doc(alias = "folio_wait_bit_common")]
    #[inline(never)]
    pub(super) fn wait_exclusive(
        &self,
        cx: &Cx<'_, H>,
        (folio, page): (Folio, &Page),
        why: &'static str,
        patience: Patience,
    ) -> bool {
        let queue = self.queue(folio.pfn());
        let mut nr_plain = match self.rule {
            PageLockRule::Retry => u32::MAX,
            PageLockRule::HandOver => UNFAIRNESS,
        };
        loop {
            let kind = if nr_plain > 0 { Kind::Exclusive } else { Kind::HandOver };
            nr_plain = nr_plain.saturating_sub(u32::from(self.rule == PageLockRule::HandOver));
            let wanted = PageFlags::WAITERS | PageFlags::LOCKED;
            let is_taken = || !page.flag_set::<H>(wanted).contains(PageFlags::LOCKED);
            let Some(ticket) = queue.enter(cx, (folio.pfn(), PageFlags::LOCKED, kind), is_taken)
            else {
                return true;
            };
            if !queue.sleep(cx, ticket, why, patience) {
                return false;
            }
            if kind == Kind::HandOver || page.try_lock::<H>() {
                return true;
            }
        }
    }

    /// Sleeps once until the lock of the page in frame `frame` is given up, unless `is_over`. The
    /// caller has no reference: until `is_over`, the migration holds the lock of that frame's
    /// folio. `page` is `None` for a tail frame: tails have no flags, and [`PageWaits::wake_frame`]
    /// wakes their waiters.
    #[doc(alias = "migration_entry_wait_on_locked")]
    #[inline(never)]
    pub(super) fn wait_for_move(
        &self,
        cx: &Cx<'_, H>,
        frame: Pfn,
        page: Option<&Page>,
        why: &'static str,
        mut is_over: impl FnMut() -> bool,
    ) {
        if is_over() {
            return;
        }
        let queue = self.queue(frame);
        let waits = (frame, PageFlags::LOCKED, Kind::Moved);
        let ticket = queue.enter(cx, waits, || {
            if let Some(page) = page {
                page.flag_set::<H>(PageFlags::WAITERS);
            }
            is_over()
        });
        let Some(ticket) = ticket else { return };
        // Of a tail the waker sees the queue's length only: either it sees this waiter, or this waiter its entry.
        fence(SeqCst);
        if is_over() {
            queue.leave(cx, ticket);
            return;
        }
        queue.sleep(cx, ticket, why, Patience::Uninterruptible);
    }

    /// Wakes the tasks that wait for a cleared bit of a page, up to the first that wants to set it
    /// again.
    #[doc(alias = "folio_wake_bit")]
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self, cx: &Cx<'_, H>, (folio, page): (Folio, &Page), bit: PageFlags) {
        let queue = self.queue(folio.pfn());
        let (mut walk, mut is_met, mut woken) = (Walk::From(0), false, Vec::new());
        while let Walk::From(ticket) = walk {
            {
                let mut waiters = queue.waiters.lock(cx.cpu());
                let asked = (folio.pfn(), page, bit);
                walk = waiters.walk::<H>(ticket, asked, self.rule, &mut is_met, &mut woken);
                queue.len.store(waiters.list.len() as u32, SeqCst);
            }
            woken.drain(..).for_each(|task| cx.host.unpark(&task));
        }
    }

    /// Wakes the tasks that wait for the migration of the page in a frame, whatever its flags. The
    /// page table entries are stored by now.
    pub(super) fn wake_frame(&self, cx: &Cx<'_, H>, frame: Pfn) {
        let queue = self.queue(frame);
        fence(SeqCst);
        if queue.len.load(SeqCst) == 0 {
            return;
        }
        let woken = {
            let mut waiters = queue.waiters.lock(cx.cpu());
            let woken = waiters.take_movers(frame);
            queue.len.store(waiters.list.len() as u32, SeqCst);
            woken
        };
        woken.iter().for_each(|task| cx.host.unpark(task));
    }
}

impl<H: Tasks> Queue<H> {
    fn new(host: &H) -> Self {
        let waiters = Waiters { list: VecDeque::new(), next_ticket: 0 };
        Queue { waiters: host.new_lock(LockClass::Wait, waiters), len: AtomicU32::new(0) }
    }

    /// Queues the running task at the tail, unless it `is_over` when the queue is locked.
    fn enter(
        &self,
        cx: &Cx<'_, H>,
        (frame, bit, kind): (Pfn, PageFlags, Kind),
        is_over: impl FnOnce() -> bool,
    ) -> Option<u64> {
        let task = cx.host.current();
        let mut waiters = self.waiters.lock(cx.cpu());
        if is_over() {
            return None;
        }
        let ticket = waiters.next_ticket;
        waiters.next_ticket += 1;
        waiters.list.push_back(Waiter { ticket, frame, bit, kind, task });
        self.len.store(waiters.list.len() as u32, SeqCst);
        Some(ticket)
    }

    /// Leaves the queue; false if a waker had already removed the caller.
    fn leave(&self, cx: &Cx<'_, H>, ticket: u64) -> bool {
        let mut waiters = self.waiters.lock(cx.cpu());
        let place = waiters.place_of(ticket);
        if let Ok(at) = place {
            waiters.list.remove(at);
        }
        self.len.store(waiters.list.len() as u32, SeqCst);
        place.is_ok()
    }

    /// Sleeps until a walk takes the caller out of the queue; false if its task is to die before that.
    fn sleep(&self, cx: &Cx<'_, H>, ticket: u64, why: &'static str, patience: Patience) -> bool {
        // A host may end a sleep for other reasons.
        while self.waiters.lock(cx.cpu()).place_of(ticket).is_ok() {
            if patience == Patience::Killable && cx.is_dying() {
                return !self.leave(cx, ticket);
            }
            cx.host.park(why);
        }
        true
    }
}

impl<T> Waiters<T> {
    fn place_of(&self, ticket: u64) -> Result<usize, usize> {
        self.list.binary_search_by_key(&ticket, |waiter| waiter.ticket)
    }

    /// Removes waiters for the end of a migration, not waiters for a bit: a tail that a split made
    /// a page may have both.
    fn take_movers(&mut self, frame: Pfn) -> Vec<T> {
        let mut woken = Vec::new();
        let is_one = |w: &Waiter<T>| w.frame == frame && w.kind == Kind::Moved;
        while let Some(at) = self.list.iter().position(is_one) {
            woken.extend(self.list.remove(at).map(|waiter| waiter.task));
        }
        woken
    }

    /// Checks at most [`WALK_MAX`] entries from a ticket on, for a page and a bit, and removes
    /// those to be woken. `is_met` becomes true if a task waits, or waited, for any bit of the
    /// page. If it stays false, or the queue is empty, the end of the walk clears WAITERS.
    fn walk<H: Host>(
        &mut self,
        ticket: u64,
        asked: (Pfn, &Page, PageFlags),
        rule: PageLockRule,
        is_met: &mut bool,
        woken: &mut Vec<T>,
    ) -> Walk {
        let walk = self.walk_some::<H>(ticket, asked, rule, is_met, woken);
        if walk == Walk::Ended && (self.list.is_empty() || !*is_met) {
            asked.1.flag_clear::<H>(PageFlags::WAITERS);
        }
        walk
    }

    fn walk_some<H: Host>(
        &mut self,
        ticket: u64,
        (frame, page, bit): (Pfn, &Page, PageFlags),
        rule: PageLockRule,
        is_met: &mut bool,
        woken: &mut Vec<T>,
    ) -> Walk {
        let mut at = self.place_of(ticket).unwrap_or_else(|at| at);
        for _ in 0..WALK_MAX {
            let Some(waiter) = self.list.get(at) else { return Walk::Ended };
            if waiter.frame != frame {
                at += 1;
                continue;
            }
            *is_met = true;
            if waiter.bit != bit {
                at += 1;
                continue;
            }
            let kind = waiter.kind;
            let is_stolen = match kind {
                Kind::Shared | Kind::Moved => rule == PageLockRule::Retry && page.is(bit),
                Kind::Exclusive => page.is(bit),
                Kind::HandOver => page.flag_test_set::<H>(bit),
            };
            if is_stolen {
                return Walk::Ended;
            }
            woken.extend(self.list.remove(at).map(|waiter| waiter.task));
            if matches!(kind, Kind::Exclusive | Kind::HandOver) {
                return Walk::Ended;
            }
        }
        self.list.get(at).map_or(Walk::Ended, |waiter| Walk::From(waiter.ticket))
    }
}

/// Returns the number of a page's wait queue: by the address of its descriptor, as Linux has it
/// without KASLR.
#[doc(alias = "folio_waitqueue")]
const fn hash(frame: Pfn) -> usize {
    const VMEMMAP: u64 = 0xffff_ea00_0000_0000;
    const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;
    let descriptor = VMEMMAP.wrapping_add((frame.0 as u64).wrapping_mul(64));
    (descriptor.wrapping_mul(GOLDEN_RATIO) >> 56) as usize
}

#[cfg(test)]
mod tests {
    use Kind::{Exclusive, HandOver, Moved, Shared};

    use super::*;
    use crate::host::Solo;
    use crate::page::PageMap;

    const LOCKED: PageFlags = PageFlags::LOCKED;
    const WRITEBACK: PageFlags = PageFlags::WRITEBACK;

    /// A queue of waiters by name: two pages, X and Y, are in it.
    struct Stage {
        map: PageMap,
        queue: Waiters<&'static str>,
        rule: PageLockRule,
    }

    const X: Pfn = Pfn(1);
    const Y: Pfn = Pfn(2);

    impl Stage {
        fn new(rule: PageLockRule) -> Stage {
            let queue = Waiters { list: VecDeque::new(), next_ticket: 0 };
            Stage { map: PageMap::new(4), queue, rule }
        }

        fn page(&self, frame: Pfn) -> &Page {
            self.map.page(frame)
        }

        fn queue(&mut self, frame: Pfn, waiters: &[(&'static str, PageFlags, Kind)]) {
            self.page(frame).flag_set::<Solo>(LOCKED | PageFlags::WAITERS);
            for &(task, bit, kind) in waiters {
                let ticket = self.queue.next_ticket;
                self.queue.next_ticket += 1;
                self.queue.list.push_back(Waiter { ticket, frame, bit, kind, task });
            }
        }

        /// Clears a bit, calls `meanwhile`, and walks the queue in parts, waking the tasks of each
        /// part.
        fn clear_and(
            &mut self,
            frame: Pfn,
            bit: PageFlags,
            meanwhile: impl FnOnce(&Page),
        ) -> Vec<Vec<&'static str>> {
            let Stage { map, queue, rule } = self;
            let page = map.page(frame);
            page.flag_clear::<Solo>(bit);
            meanwhile(page);
            let (mut walk, mut is_met, mut parts) = (Walk::From(0), false, Vec::new());
            while let Walk::From(ticket) = walk {
                let mut woken = Vec::new();
                walk =
                    queue.walk::<Solo>(ticket, (frame, page, bit), *rule, &mut is_met, &mut woken);
                parts.push(woken);
            }
            parts
        }

        fn unlock(&mut self, frame: Pfn) -> Vec<&'static str> {
            self.clear_and(frame, LOCKED, |_| {}).concat()
        }

        fn has_waiters(&self, frame: Pfn) -> bool {
            self.page(frame).is(PageFlags::WAITERS)
        }
    }

    /// Vector P1 (rules/sleeping-locks#page-walk).
    #[test]
    fn a_walk_stops_after_one_exclusive_waiter() {
        let mut stage = Stage::new(PageLockRule::HandOver);
        let (r, l) = (|n| (n, LOCKED, Shared), |n| (n, LOCKED, Exclusive));
        stage.queue(X, &[r("R1"), l("L1"), r("R2"), l("L2"), r("R3")]);
        assert_eq!(stage.unlock(X), ["R1", "L1"]);
        assert_eq!(stage.unlock(X), ["R2", "L2"]);
        assert!(stage.has_waiters(X));
        assert_eq!(stage.unlock(X), ["R3"]);
        assert!(!stage.has_waiters(X));
    }

    /// Vector P3 (rules/sleeping-locks#page-walk).
    #[test]
    fn a_page_that_is_locked_again_stops_the_walk() {
        for (rule, woken) in [(PageLockRule::HandOver, &["R1"][..]), (PageLockRule::Retry, &[])] {
            let mut stage = Stage::new(rule);
            let r = |n| (n, LOCKED, Shared);
            stage.queue(X, &[r("R1"), ("L1", LOCKED, Exclusive), r("R2")]);
            let parts = stage.clear_and(X, LOCKED, |page| assert!(page.try_lock::<Solo>()));
            assert_eq!(parts.concat(), woken, "{rule:?}");
            assert_eq!(stage.queue.list.len(), 3 - woken.len());
            assert!(stage.has_waiters(X));
        }
    }

    /// Vectors P4, P5 (rules/sleeping-locks#page-walk).
    #[test]
    fn waiters_match_page_and_bit() {
        let mut stage = Stage::new(PageLockRule::HandOver);
        stage.queue(X, &[("x1", LOCKED, Shared)]);
        stage.queue(Y, &[("y1", LOCKED, Exclusive)]);
        stage.queue(X, &[("x2", LOCKED, Exclusive)]);
        stage.queue(Y, &[("y2", LOCKED, Shared)]);
        assert_eq!(stage.unlock(Y), ["y1"]);
        assert_eq!(stage.unlock(X), ["x1", "x2"]);
        assert!(stage.has_waiters(X), "for nothing: y2 is still queued");
        assert_eq!(stage.unlock(Y), ["y2"]);
        assert!(!stage.has_waiters(Y));
        assert_eq!(stage.unlock(X), [""; 0]);
        assert!(!stage.has_waiters(X));

        stage.queue(X, &[("W", WRITEBACK, Shared), ("L", LOCKED, Exclusive)]);
        assert_eq!(stage.clear_and(X, WRITEBACK, |_| {}).concat(), ["W"]);
        assert!(stage.has_waiters(X));
        assert_eq!(stage.unlock(X), ["L"]);
        assert!(!stage.has_waiters(X));
    }

    /// rules/sleeping-locks#page-walk
    #[test]
    fn the_end_of_a_move_does_not_wake_who_waits_for_a_bit() {
        let mut stage = Stage::new(PageLockRule::HandOver);
        let waiters = [("W", WRITEBACK, Shared), ("R", LOCKED, Shared), ("M", LOCKED, Moved)];
        stage.queue(X, &waiters);
        stage.queue(Y, &[("N", LOCKED, Moved), ("L", LOCKED, Exclusive)]);
        assert_eq!(stage.queue.take_movers(X), ["M"]);
        assert_eq!(stage.unlock(X), ["R"]);
        assert_eq!(stage.unlock(Y), ["N", "L"], "an unlock ends a move, too");
        assert_eq!(stage.clear_and(X, WRITEBACK, |_| {}).concat(), ["W"]);
    }

    /// Vector P7 (rules/sleeping-locks#page-walk).
    #[test]
    fn a_long_walk_lets_go_of_the_queue() {
        let mut stage = Stage::new(PageLockRule::HandOver);
        stage.queue(X, &[("R", LOCKED, Shared); 200]);
        let parts = stage.clear_and(X, LOCKED, |_| {});
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [65, 65, 65, 5]);
    }

    /// rules/sleeping-locks#page-unfair
    #[test]
    fn a_lock_that_is_handed_over_is_never_free() {
        let mut stage = Stage::new(PageLockRule::HandOver);
        stage.queue(X, &[("L", LOCKED, HandOver), ("R", LOCKED, Shared)]);
        assert_eq!(stage.unlock(X), ["L"]);
        assert!(stage.page(X).is(LOCKED), "it is L's");
    }

    /// Vector P6 (rules/sleeping-locks#page-queues).
    #[test]
    fn queues_are_linuxs() {
        let of = |frame| hash(Pfn(frame));
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(of), [102, 216, 74, 189, 47, 161, 19, 133]);
        assert_eq!([0x10_0000, 0x10_0001, 0x10_00f0].map(of), [128, 242, 128]);
        assert_eq!([0x10_0003, 0x10_0056].map(of), [215, 215]);
    }
}
