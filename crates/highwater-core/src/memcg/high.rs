//! `memory.high`: how long a task sleeps whose group is over it: pure sums.
//!
//! A charge over `high` is granted. Its task then reclaims on its way back to user space. If that
//! gets nothing, the task sleeps, longer the further the group is over its limit: the delay grows
//! with the square of the overage, so a group that is a little over hardly notices, and one at 18 %
//! waits 2 s for every 64 pages. That is slow enough for user space to step in, and no charge is
//! refused.
//!
//! Key types: [`Rounds`] (the rounds before a sleep), [`Next`] (their outcome).

use crate::host::HZ;

/// Pages over `high` are a fraction of `high` in units of `2^-20`.
const PRECISION_SHIFT: u32 = 20;
/// Makes the square of an overage a number of jiffies.
const SCALING_SHIFT: u32 = 14;
/// The longest sleep, in jiffies.
const DELAY_MAX: u64 = 2 * HZ;
/// Sleeps up to this are not worth it.
const DELAY_IGNORED: u64 = HZ / 100;
/// Rounds without a page after the first one, before the task sleeps (`MAX_RECLAIM_RETRIES`).
const RETRIES: u8 = 16;

/// Computes how far a usage is over its `high`, as a fraction of `high` in units of `2^-20`.
#[doc(alias = "calculate_overage")]
pub(crate) const fn overage(usage: u64, high: u64) -> u64 {
    if usage <= high {
        return 0;
    }
    let over = ((usage - high) as u128) << PRECISION_SHIFT;
    let divisor = if high == 0 { 1 } else { high };
    let overage = over / divisor as u128;
    if overage > u64::MAX as u128 { u64::MAX } else { overage as u64 }
}

/// Computes the delay for `pages` charged at an overage, in jiffies. `batch` is what a charge takes
/// from the counter at once: the delay is per batch.
///
/// Linux: the product wraps above 64 bits, with `high` at 0 and 16 MiB in use; here it does not.
#[doc(alias = "calculate_high_delay")]
pub(crate) const fn penalty(pages: u64, overage: u64, batch: u64) -> u64 {
    let square = (overage as u128).saturating_mul(overage as u128).saturating_mul(HZ as u128);
    let per_batch = square >> PRECISION_SHIFT >> SCALING_SHIFT;
    let delay = per_batch.saturating_mul(pages as u128) / batch as u128;
    if delay > DELAY_MAX as u128 { DELAY_MAX } else { delay as u64 }
}

/// Computes the delay of a task that charged `pages`: those for memory and for swap, at most 2 s.
/// Each overage is the largest one of the task's group and its ancestors.
pub(crate) fn delay(pages: u64, memory: u64, swap: u64, batch: u64) -> u64 {
    (penalty(pages, memory, batch) + penalty(pages, swap, batch)).min(DELAY_MAX)
}

/// Reports whether a delay is long enough to sleep.
pub(crate) const fn sleeps(delay: u64) -> bool {
    delay > DELAY_IGNORED
}

/// The rounds of reclaim of a task whose group is over its `high`.
///
/// Each round reclaims from every group that is over and computes the delay again. While rounds
/// get pages, the task does not sleep.
#[derive(Debug)]
pub(crate) struct Rounds {
    tries: u8,
}

/// The task's next step after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Back to user space.
    Return,
    /// Another round.
    Reclaim,
    /// Sleep this many jiffies, then back.
    Sleep(u64),
}

impl Rounds {
    /// No round yet.
    pub(crate) const fn new() -> Rounds {
        Rounds { tries: RETRIES }
    }

    /// After a round that reclaimed `got` pages and left the task with a `delay`.
    pub(crate) fn after(&mut self, got: u64, delay: u64) -> Next {
        if !sleeps(delay) {
            return Next::Return;
        }
        if got != 0 {
            return Next::Reclaim;
        }
        match self.tries.checked_sub(1) {
            Some(left) => {
                self.tries = left;
                Next::Reclaim
            }
            None => Next::Sleep(delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: u64 = 64;

    fn delay_of(pages: u64, usage: u64, high: u64) -> u64 {
        delay(pages, overage(usage, high), 0, BATCH)
    }

    #[test]
    fn the_delay_grows_with_the_square_of_the_overage() {
        let table = [
            (16_384, 16_384, 0),
            (16_384, 16_448, 0),
            (16_384, 16_576, 2),
            (16_384, 16_640, 3),
            (16_384, 17_408, 62),
            (16_384, 18_432, 250),
            (16_384, 19_280, 499),
            (16_384, 19_281, 500),
            (16_384, 40_000, 500),
            (8192, 8256, 0),
            (8192, 8320, 3),
            (8192, 8448, 15),
            (8192, 8704, 62),
            (8192, 9216, 250),
            (0, 64, 500),
            (0, 1 << 40, 500),
        ];
        for (high, usage, jiffies) in table {
            assert_eq!(delay_of(64, usage, high), jiffies, "{usage} of {high}");
        }
        assert_eq!(delay_of(32, 17_408, 16_384), 31);
        assert_eq!(delay(32, overage(17_408, 16_384), 0, 32), 62);
        assert!(!sleeps(2) && sleeps(3));
    }

    #[test]
    fn swap_counts_beside_memory() {
        let over = overage(17_408, 16_384);
        assert_eq!(delay(64, over, over, BATCH), 124);
        assert_eq!(delay(64, over, overage(64, 0), BATCH), DELAY_MAX);
    }

    /// Charges batches until `usage`, with nothing to reclaim: jiffies slept, sleeps, HIGH events.
    fn hog(high: u64, to: u64) -> (u64, u64, u64) {
        let (mut jiffies, mut nr_sleeps, mut events) = (0, 0, 0);
        let mut usage = high;
        while usage < to {
            usage += BATCH;
            let mut rounds = Rounds::new();
            loop {
                events += 1;
                match rounds.after(0, delay_of(BATCH, usage, high)) {
                    Next::Return => break,
                    Next::Reclaim => {}
                    Next::Sleep(delay) => {
                        jiffies += delay;
                        nr_sleeps += 1;
                        break;
                    }
                }
            }
        }
        (jiffies, nr_sleeps, events)
    }

    #[test]
    fn a_hog_without_reclaimable_memory_comes_to_a_stop() {
        assert_eq!(hog(16_384, 16_576), (0, 0, 3));
        assert_eq!(hog(16_384, 17_216), (191, 10, 173));
        assert_eq!(hog(16_384, 18_048), (1499, 23, 394));
        assert_eq!(hog(16_384, 20_480), (17_141, 61, 1040));
        assert_eq!(hog(8192, 9024), (793, 12, 205));
        assert_eq!(hog(8192, 10_240), (8695, 31, 528));
    }

    #[test]
    fn a_task_that_reclaims_does_not_sleep() {
        let mut rounds = Rounds::new();
        (0..100).for_each(|_| assert_eq!(rounds.after(32, 400), Next::Reclaim));
        (0..16).for_each(|_| assert_eq!(rounds.after(0, 400), Next::Reclaim));
        assert_eq!(rounds.after(32, 400), Next::Reclaim);
        assert_eq!(rounds.after(0, 400), Next::Sleep(400));
        assert_eq!(Rounds::new().after(32, 2), Next::Return);
    }
}
