//! Jiffies and the rounding of the kernel's timer wheel (rules/costs#timer-wheel, Linux 4.8 and
//! later).
//!
//! Sleeps in jiffies end at ticks. A timer of `n` ticks set at tick `now` has the nominal expiry
//! `now + n`. The wheel fires it at the end of the slot that holds the expiry, so a longer timeout
//! is rounded more coarsely. Pure functions over numbers.

pub use highwater_core::host::{HZ, NS_PER_JIFFY};

/// Timeouts below this many ticks live in level 0, whose slots are one tick wide. Each further
/// level reaches 8 times as far with slots 8 times as wide (63, 504, 4032).
const LEVEL_0_END: u64 = 63;
const LEVEL_RATIO_BITS: u32 = 3;
/// Deepest level of the wheel at HZ = 250.
const LEVEL_MAX: u32 = 8;

/// The tick that contains a time.
#[inline]
pub const fn jiffies_of(now_ns: u64) -> u64 {
    now_ns / NS_PER_JIFFY
}

/// The first tick boundary after `now_ns`.
#[inline]
pub const fn next_tick_ns(now_ns: u64) -> u64 {
    (now_ns / NS_PER_JIFFY + 1) * NS_PER_JIFFY
}

/// Returns the tick at which a timer set at tick `now` for `timeout` ticks fires.
#[doc(alias = "calc_wheel_index")]
pub const fn wheel_expiry(now: u64, timeout: u64) -> u64 {
    let nominal = now + timeout;
    let mut level = 0;
    let mut end = LEVEL_0_END;
    while timeout >= end && level < LEVEL_MAX {
        end <<= LEVEL_RATIO_BITS;
        level += 1;
    }
    let shift = level * LEVEL_RATIO_BITS;
    // The slot after the one that holds the nominal expiry: never early.
    ((nominal >> shift) + 1) << shift
}

/// Returns when a sleep of `timeout` ticks that starts at `now_ns` ends.
pub const fn wheel_expiry_ns(now_ns: u64, timeout: u64) -> u64 {
    wheel_expiry(jiffies_of(now_ns), timeout) * NS_PER_JIFFY
}

/// Charges the ticks that a busy CPU owes: advances the clock by their cost until the next tick is
/// ahead. Returns the new clock and the time of the next tick.
#[inline]
pub(crate) fn pay_ticks(mut local_ns: u64, mut tick_at_ns: u64, tick_ns: u64) -> (u64, u64) {
    // A tick longer than half a jiffy would never let the CPU catch up.
    let tick_ns = tick_ns.min(NS_PER_JIFFY / 2);
    if tick_ns == 0 {
        return (local_ns, next_tick_ns(local_ns));
    }
    while local_ns >= tick_at_ns {
        local_ns += tick_ns;
        tick_at_ns += NS_PER_JIFFY;
    }
    (local_ns, tick_at_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of rules/costs#timer-wheel: ticks that a sleep lasts when it starts at a tick.
    #[test]
    fn sleeps_of_the_timer_wheel() {
        for now in 0..4096 {
            for (timeout, ticks) in [(1, 2), (5, 6), (25, 26), (50, 51)] {
                assert_eq!(wheel_expiry(now, timeout) - now, ticks);
            }
        }
        let lasts: Vec<u64> = (0..64).map(|now| wheel_expiry(now, 125) - now).collect();
        assert_eq!(lasts.iter().min(), Some(&126));
        assert_eq!(lasts.iter().max(), Some(&133));
    }

    #[test]
    fn level_boundaries() {
        assert_eq!(wheel_expiry(0, 62), 63);
        assert_eq!(wheel_expiry(0, 63), 64);
        assert_eq!(wheel_expiry(1, 63), 72);
        assert_eq!(wheel_expiry(0, 503), 504);
        assert_eq!(wheel_expiry(0, 504), 512);
        assert_eq!(wheel_expiry(0, 4031), 4032);
        assert_eq!(wheel_expiry(0, 4032), 4096);
    }

    #[test]
    fn short_sleeps_last_more_than_n_and_at_most_n_plus_one_ticks() {
        for offset_ns in [0, 1, NS_PER_JIFFY / 2, NS_PER_JIFFY - 1] {
            let now_ns = 7 * NS_PER_JIFFY + offset_ns;
            let lasts_ns = wheel_expiry_ns(now_ns, 5) - now_ns;
            assert!(lasts_ns > 5 * NS_PER_JIFFY && lasts_ns <= 6 * NS_PER_JIFFY);
        }
        assert_eq!(next_tick_ns(0), NS_PER_JIFFY);
        assert_eq!(next_tick_ns(NS_PER_JIFFY - 1), NS_PER_JIFFY);
        assert_eq!(next_tick_ns(NS_PER_JIFFY), 2 * NS_PER_JIFFY);
        assert_eq!(HZ * NS_PER_JIFFY, 1_000_000_000);
    }
}
