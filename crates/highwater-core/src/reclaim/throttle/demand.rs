//! The accounts of tasks' memory demand, for the `prioritised` policy (decision 0006).
//!
//! A task's *balance* is the pages that it allocated for programs and files, minus the pages that
//! it freed: by unmapping, truncating, exiting, or reclaiming. A task that keeps its memory while
//! others reclaim for it has a high balance; a task that reclaims as much as it allocates has none.
//! Its *trust* is the largest amount that it freed at a stretch lately. A task that maps memory for
//! a while and frees it will do so again, so memory up to that amount causes no reclaim in the long
//! run. The length of a task's waits depends on balance minus trust.
//!
//! Both are halved whenever reclaim has scanned a certain part of the machine's memory. The clock
//! counts work, not time, so a slow disk or a small machine does not change the meaning of
//! "lately".
//!
//! A task's wait depends on its weight relative to the usual one. The usual weight is the average
//! weight of the holder of a recently allocated page (sum of squares over sum). The sums are
//! updated, not recomputed, so no code loops over all tasks.
//!
//! ```text
//!  taken ─┐                    ┌─ longest stretch given back
//!         ├─▶ balance ─┐  trust ◀┘
//!  given ─┘            └──┬──┘         weight of a page's usual holder: sum of squares / sum
//!                       weight ───────────────┬──────────────┘
//!                                             ▼
//!                       sleep = longest * weight / usual, at least a tick, at most the longest
//! ```
//!
//! The usual weight is averaged by page and not by task: with one hog and a hundred shells, the hog
//! determines it.
//!
//! Cost: two counts in the task for each page's life, and, when a task is about to be throttled, a
//! handful of shared words ([`Cost::DemandPage`], [`Cost::DemandSettle`]).
//!
//! A short sleep helps a task only if pages are available after it. While everything waits for the
//! disk, it only leads to one more useless scan. So after a sleep for progress that times out, the
//! next one is twice as long, up to the longest. The order in which progress wakes tasks is still
//! that of the shares.
//!
//! Synchronisation: a task's account is in its [`Cx`]. The sums are single words that may be a few
//! updates apart. They decay, so errors do too.

use core::cell::Cell;

use crate::host::{Cost, Cx, Devices, Probe, TaskFlags, TaskLocal};
use crate::kernel::Kernel;
use crate::lru::Takings;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Balances are weighed in units of this many pages (a batch of reclaim), so that squares fit.
const UNIT_SHIFT: u32 = 5;
/// Balances halve when reclaim has freed this part of the machine's memory.
const HALF_LIFE_PART: u64 = 4;

/// Queues of sleepers by how long they may sleep.
pub(in crate::reclaim) const WAIT_CLASSES: usize = 8;

/// The queue of a task that may sleep for `timeout` ticks of `longest`.
pub(super) const fn wait_class(timeout: u64, longest: u64) -> usize {
    let longest = if longest == 0 { 1 } else { longest };
    let class = (timeout * WAIT_CLASSES as u64 / longest) as usize;
    if class < WAIT_CLASSES { class } else { WAIT_CLASSES - 1 }
}

/// A task's account: its [`Takings`] at the last settlement.
#[derive(Debug, Default)]
pub struct DemandAccount {
    /// None: never settled.
    settled: Cell<Option<Settled>>,
    /// Sleeps for progress in a row that ended because time was up.
    nr_in_vain: Cell<u32>,
}

impl TaskLocal for DemandAccount {}

/// A task's account when it was settled.
#[derive(Clone, Copy, Debug)]
struct Settled {
    balance: i64,
    trust: i64,
    /// Half-lives since boot.
    at: u64,
}

/// What all tasks' balances add up to.
#[derive(Debug, Default)]
pub struct DemandDomain {
    /// Pages reclaimed since boot.
    reclaimed: AtomicU64,
    /// Half-lives that the sums were faded for.
    faded: AtomicU64,
    /// Sum of the weights.
    sum: AtomicI64,
    /// Sum of their squares.
    squares: AtomicI64,
}

/// A balance after some half-lives in which the task took `net` pages more than it gave, evenly.
const fn aged(balance: i64, half_lives: u64, net: i64) -> i64 {
    let left = faded(balance, half_lives);
    // Of an amount that came evenly over k half-lives, 1/k each, the sum of 1/k * 2^-i is left.
    left + if half_lives > 1 { 2 * net / half_lives as i64 } else { net }
}

const fn faded(amount: i64, half_lives: u64) -> i64 {
    if half_lives < 63 { amount >> half_lives } else { 0 }
}

/// The weight for which a task waits: 0 if it freed more than it allocated, or is trusted to free
/// it.
const fn weight(balance: i64, trust: i64) -> i64 {
    if balance > trust { (balance - trust) >> UNIT_SHIFT } else { 0 }
}

/// Ticks of `longest` that a task with this weight waits, at least one.
fn share(longest: u64, weight: i64, sum: i64, squares: i64) -> u64 {
    if squares <= 0 || sum <= 0 {
        return longest;
    }
    let ticks = u128::from(longest) * weight.unsigned_abs() as u128 * sum.unsigned_abs() as u128;
    let ticks = ticks / u128::from(squares.unsigned_abs());
    u64::try_from(ticks).unwrap_or(longest).clamp(1, longest.max(1))
}

impl DemandDomain {
    /// The half-life it is now; sums are faded for it.
    fn now(&self, half_life: u64) -> u64 {
        let now = self.reclaimed.load(Relaxed) / half_life.max(1);
        let before = self.faded.load(Relaxed);
        let is_due = now > before;
        if is_due && self.faded.compare_exchange(before, now, Relaxed, Relaxed).is_ok() {
            let steps = (now - before).min(31) as u32;
            let fade = |word: &AtomicI64, by: u32| {
                let _ = word.fetch_update(Relaxed, Relaxed, |sum| Some(sum.max(0) >> by));
            };
            fade(&self.sum, steps);
            fade(&self.squares, 2 * steps);
        }
        now
    }

    /// A task ends: removes it from the sums.
    fn close(&self, account: &DemandAccount, half_life: u64) {
        let now = self.now(half_life);
        let Some(last) = account.settled.take() else { return };
        let half_lives = now.saturating_sub(last.at);
        let before = weight(faded(last.balance, half_lives), faded(last.trust, half_lives));
        self.sum.fetch_sub(before, Relaxed);
        self.squares.fetch_sub(before * before, Relaxed);
    }

    /// Brings a task's account up to date; its weight.
    fn settle(&self, task: &Takings, account: &DemandAccount, half_life: u64) -> i64 {
        let now = self.now(half_life);
        let net = task.taken.take() as i64 - task.given.take() as i64;
        task.end_stretch();
        let fresh = Settled { balance: 0, trust: 0, at: now };
        let last = account.settled.get().unwrap_or(fresh);
        let half_lives = now.saturating_sub(last.at);
        let kept = faded(last.trust, half_lives);
        let before = weight(faded(last.balance, half_lives), kept);
        let balance = aged(last.balance, half_lives, net);
        let trust = kept.max(task.longest.take() as i64);
        account.settled.set(Some(Settled { balance, trust, at: now }));
        let after = weight(balance, trust);
        if after != before {
            self.sum.fetch_add(after - before, Relaxed);
            self.squares.fetch_add(after * after - before * before, Relaxed);
        }
        after
    }
}

impl<H: Devices> Kernel<H> {
    /// Reclaim freed pages.
    pub(in crate::reclaim) fn count_reclaimed(&self, pages: u64) {
        if pages != 0 && self.counts_takings() {
            self.demand.reclaimed.fetch_add(pages, Relaxed);
        }
    }

    /// The caller exits and has given back all it had, or had it taken.
    pub(crate) fn close_account(&self, cx: &Cx<'_, H>) {
        if self.counts_takings() {
            self.demand.close(cx.local(), self.half_life());
        }
    }

    /// Pages that are reclaimed while a balance halves.
    fn half_life(&self) -> u64 {
        let managed: u64 = self.mem.populated_zones().map(|zone| zone.managed()).sum();
        managed / HALF_LIFE_PART
    }

    /// How long the caller may be made to wait at most, of `longest` ticks.
    pub(super) fn shared_timeout(&self, cx: &Cx<'_, H>, longest: u64) -> u64 {
        if !self.counts_takings() || cx.flags().contains(TaskFlags::KSWAPD) {
            return longest;
        }
        let task = cx.local::<Takings>();
        cx.charge(Cost::DemandPage, (task.taken.get() + task.given.get()) as u32);
        cx.charge(Cost::DemandSettle, 1);
        let weight = self.demand.settle(task, cx.local(), self.half_life());
        let (sum, squares) = (self.demand.sum.load(Relaxed), self.demand.squares.load(Relaxed));
        share(longest, weight, sum, squares)
    }

    /// A sleep for progress ended: in vain if no task woke the caller; or the caller itself made
    /// progress.
    pub(super) fn note_sleep(&self, cx: &Cx<'_, H>, in_vain: bool) {
        if self.counts_takings() {
            let nr_in_vain = &cx.local::<DemandAccount>().nr_in_vain;
            nr_in_vain.set(if in_vain { nr_in_vain.get().saturating_add(1) } else { 0 });
        }
    }

    /// A share of a sleep, doubled for each consecutive useless sleep. A task that sleeps only one
    /// tick would scan every page again each tick. If no page can be reclaimed before the disk has
    /// written it, the result would be the same each time.
    pub(super) fn after_vain_sleeps(&self, cx: &Cx<'_, H>, share: u64, longest: u64) -> u64 {
        match self.counts_takings() {
            true => doubled(share, cx.local::<DemandAccount>().nr_in_vain.get(), longest),
            false => share,
        }
    }
}

/// A number of ticks doubled `times` times, up to the longest.
fn doubled(ticks: u64, times: u32, longest: u64) -> u64 {
    let most = if longest > ticks { longest } else { ticks };
    ticks
        .checked_shl(times)
        .filter(|more| more >> times == ticks)
        .map_or(most, |more| more.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: u64 = 10_000;

    #[derive(Default)]
    struct Task {
        takings: Takings,
        account: DemandAccount,
    }

    fn draw(domain: &DemandDomain, task: &Task, taken: u64, given: u64) -> i64 {
        task.takings.taken.set(taken);
        task.takings.given.set(given);
        task.takings.stretch.set(given);
        domain.settle(&task.takings, &task.account, HALF_LIFE)
    }

    fn ticks(domain: &DemandDomain, weight: i64) -> u64 {
        share(125, weight, domain.sum.load(Relaxed), domain.squares.load(Relaxed))
    }

    #[test]
    fn sleeps_in_vain_double() {
        assert_eq!(
            [0, 1, 3, 6, 7, 63, 64, 200].map(|times| doubled(1, times, 125)),
            [1, 2, 8, 64, 125, 125, 125, 125]
        );
        assert_eq!(doubled(125, 5, 125), 125);
        assert_eq!(doubled(3, 0, 1), 3, "never shorter");
    }

    #[test]
    fn equals_wait_in_full_and_who_gives_back_does_not() {
        let domain = DemandDomain::default();
        assert_eq!(share(125, 0, 0, 0), 125, "nothing is known yet");
        let hogs: [Task; 4] = Default::default();
        for hog in &hogs {
            draw(&domain, hog, 32_000, 0);
        }
        let weights = hogs.each_ref().map(|hog| draw(&domain, hog, 0, 0));
        assert_eq!(weights, [1000; 4]);
        assert_eq!(ticks(&domain, 1000), 125);
        // One that takes as much as they do and gives it back.
        let guest = Task::default();
        let half_way = draw(&domain, &guest, 3200, 0);
        assert!((12..=13).contains(&ticks(&domain, half_way)), "{}", ticks(&domain, half_way));
        let done = draw(&domain, &guest, 28_800, 32_000);
        assert_eq!((done, ticks(&domain, done)), (0, 1));
        // It is trusted to do that again, but not to take more.
        assert_eq!(draw(&domain, &guest, 32_000, 0), 0);
        assert_eq!(draw(&domain, &guest, 32, 0), 1);
        draw(&domain, &guest, 0, 32_032);
        assert_eq!(domain.sum.load(Relaxed), 4000);
        assert_eq!(domain.squares.load(Relaxed), 4_000_000);
    }

    #[test]
    fn the_largest_sets_the_measure() {
        let domain = DemandDomain::default();
        let (large, small): (Task, [Task; 9]) = Default::default();
        let large = draw(&domain, &large, 320_000, 0);
        let small = small.each_ref().map(|task| draw(&domain, task, 32_000, 0))[0];
        assert_eq!(ticks(&domain, large), 125);
        // Sum 19 000, squares 109 000 000: the holder of a page has 5736 on average.
        assert_eq!(ticks(&domain, small), 21);
    }

    #[test]
    fn balances_fade_with_reclaim() {
        let domain = DemandDomain::default();
        let (one, other): (Task, Task) = Default::default();
        draw(&domain, &one, 64_000, 0);
        draw(&domain, &other, 64_000, 0);
        domain.reclaimed.store(2 * HALF_LIFE, Relaxed);
        assert_eq!(draw(&domain, &one, 0, 0), 500);
        assert_eq!(domain.sum.load(Relaxed), 1000, "the other's too");
        assert_eq!(domain.squares.load(Relaxed), 500_000);
        // Taken over ten half-lives, not just now.
        domain.reclaimed.store(12 * HALF_LIFE, Relaxed);
        let weight = draw(&domain, &other, 320_000, 0);
        assert_eq!(weight, (64_000 / 4096 + 320_000 * 2 / 12) / 32);
        assert_eq!((aged(-64, 1, 0), aged(5, 100, 0)), (-32, 0), "debts of reclaim's too");
    }

    #[test]
    fn who_exits_leaves_the_sums() {
        let domain = DemandDomain::default();
        let (one, other): (Task, Task) = Default::default();
        draw(&domain, &one, 64_000, 0);
        draw(&domain, &other, 32_000, 0);
        domain.close(&one.account, HALF_LIFE);
        assert_eq!(domain.sum.load(Relaxed), 1000);
        assert_eq!(domain.squares.load(Relaxed), 1_000_000);
        // Only once: then it has no account any more.
        domain.close(&one.account, HALF_LIFE);
        assert_eq!(domain.sum.load(Relaxed), 1000);
    }

    #[test]
    fn trust_fades_too() {
        let domain = DemandDomain::default();
        let task = Task::default();
        draw(&domain, &task, 3200, 3200);
        assert_eq!(draw(&domain, &task, 3200, 0), 0);
        domain.reclaimed.store(HALF_LIFE, Relaxed);
        // Half of the trust and half of the balance: it has kept them.
        assert_eq!(draw(&domain, &task, 3200, 0), 100);
        // Stretches end where it takes a page.
        (0..5).for_each(|_| task.takings.give(1));
        task.takings.take(1);
        (0..3).for_each(|_| task.takings.give(1));
        assert_eq!((task.takings.longest.get(), task.takings.stretch.get()), (5, 3));
    }
}
