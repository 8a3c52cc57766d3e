//! How reclaimers are slowed down, one switch a part (spec 02 §16; study 001).
//!
//! Key types: [`ThrottlePolicy`]; its constants are the bundles that kernels had. The steps of the
//! series of study 001 are [`ThrottlePolicy::series`].

use super::policy::choice;
use crate::host::HZ;

choice! {
    /// What a reclaimer waits for that met pages under writeback at the tail (spec 02 §12 steps 1, 3).
    NodePassWait {
        /// After each batch: kswapd and whoever met pages that should be written by now waits for
        /// congestion to clear, direct reclaim only while its zone is congested (4.5).
        BatchCongestion,
        /// After a node pass: kswapd waits for congestion to clear, direct reclaim on a congested
        /// node only if some device says that it is congested (5.15).
        Congestion,
        /// For the end of writeback, both (the series).
        Writeback,
        /// kswapd for the end of writeback, direct reclaim on a congested node for a moment, reason
        /// CONGESTED (6.1).
        Congested,
    }
}

choice! {
    /// What a direct reclaimer does that finds too many pages isolated (spec 02 §10).
    IsolatedWait {
        /// Waits for congestion to clear, again and again until few are isolated (4.5).
        Congestion,
        /// Sleeps once, whatever happens meanwhile (5.15).
        Sleep,
        /// Waits once, until a reclaimer finds few isolated.
        Event,
    }
}

choice! {
    /// Who waits for others' progress after a node pass that brought little (spec 02 §16.3).
    NoProgressWait {
        /// Nobody.
        Never,
        /// Direct reclaimers below priority 10, after each node pass, for that node (the series).
        EveryPass,
        /// Direct reclaimers that got nothing down to priority 1, for the first node (6.1).
        LastResort,
    }
}

choice! {
    /// Whether all direct reclaimers may have to wait as long (decision 0006).
    SleepShare {
        /// They do.
        Equal,
        /// Who took fewer pages than is usual, less what it gave back and reclaimed, waits for that
        /// part of the time, one tick at least. For every reason.
        Demand,
    }
}

choice! {
    /// When a direct reclaimer's result wakes those that wait for progress (spec 02 §16.2).
    ProgressWake {
        /// It reclaimed something.
        Any,
        /// It reclaimed more than an eighth of what it scanned.
        Eighth,
    }
}

choice! {
    /// How many of those that wait for progress one reclaimer's progress wakes (decision 0006).
    WakeCount {
        /// All.
        All,
        /// One for each batch of pages that it reclaimed; who may wait shortest first.
        PerBatch,
    }
}

choice! {
    /// What an allocation does between two rounds of reclaim (spec 02 §16.1).
    RetryWait {
        /// Nothing.
        None,
        /// Waits for congestion to clear, if it made no progress and more than half of what a zone
        /// that would do could give is waiting to be written (5.15).
        WritePending,
        /// Waits for congestion to clear while its zone is congested (4.3, 4.5).
        Congested,
    }
}

choice! {
    /// Which devices say that they are congested (spec 04 §10.4).
    DeviceCongestion {
        /// Those whose requests of a direction near the limit of the queue (before 5.0).
        Legacy,
        /// None: the queues that did it are gone.
        BlkMqDead,
    }
}

/// How reclaimers are slowed down. Times are timer ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct ThrottlePolicy {
    /// Pages under writeback at the tail.
    pub node_pass: NodePassWait,
    /// How long at most.
    pub node_pass_jiffies: u16,
    /// How long direct reclaim on a congested node waits ([`NodePassWait::Congested`] only).
    pub congested_jiffies: u16,
    /// Too many pages isolated.
    pub isolated: IsolatedWait,
    /// How long at most.
    pub isolated_jiffies: u16,
    /// No progress.
    pub no_progress: NoProgressWait,
    /// How long at most.
    pub no_progress_jiffies: u16,
    /// What ends the wait for progress.
    pub progress_wake: ProgressWake,
    /// For how many that is.
    pub progress_wakes: WakeCount,
    /// How the times are shared out.
    pub sleep_share: SleepShare,
    /// Waits for progress and on a congested node are left out unless more than half of what the
    /// node could give is waiting to be written (6.1).
    pub skip_unless_pending: bool,
    /// Between two rounds of an allocation.
    pub retry_wait: RetryWait,
    /// Devices that flag congestion.
    pub devices: DeviceCongestion,
}

/// A tenth of a second.
const TENTH: u16 = (HZ / 10) as u16;
/// Two hundredths of a second.
const FIFTIETH: u16 = (HZ / 50) as u16;
/// Half a second.
const HALF: u16 = (HZ / 2) as u16;

impl ThrottlePolicy {
    /// 4.5: everything waits for congestion, and devices say when they are.
    pub const CONGESTION_45: ThrottlePolicy = ThrottlePolicy {
        node_pass: NodePassWait::BatchCongestion,
        isolated: IsolatedWait::Congestion,
        retry_wait: RetryWait::Congested,
        devices: DeviceCongestion::Legacy,
        ..Self::CONGESTION_515
    };

    /// 5.15: the same waits, on devices that never say so.
    pub const CONGESTION_515: ThrottlePolicy = ThrottlePolicy {
        node_pass: NodePassWait::Congestion,
        node_pass_jiffies: TENTH,
        congested_jiffies: 1,
        isolated: IsolatedWait::Sleep,
        isolated_jiffies: TENTH,
        no_progress: NoProgressWait::Never,
        no_progress_jiffies: TENTH,
        progress_wake: ProgressWake::Any,
        progress_wakes: WakeCount::All,
        sleep_share: SleepShare::Equal,
        skip_unless_pending: false,
        retry_wait: RetryWait::WritePending,
        devices: DeviceCongestion::BlkMqDead,
    };

    /// The whole series of study 001 (5.16-rc1).
    pub const SERIES_516: ThrottlePolicy = Self::series(8);

    /// What became of it by 6.1.
    pub const THROTTLE_61: ThrottlePolicy = ThrottlePolicy {
        node_pass: NodePassWait::Congested,
        no_progress: NoProgressWait::LastResort,
        no_progress_jiffies: 1,
        skip_unless_pending: true,
        ..Self::SERIES_516
    };

    /// The series, but who made reclaim necessary waits longest, and progress wakes no more tasks
    /// than it has pages for.
    pub const PRIORITISED: ThrottlePolicy = ThrottlePolicy {
        progress_wakes: WakeCount::PerBatch,
        sleep_share: SleepShare::Demand,
        ..Self::SERIES_516
    };

    /// The first `steps` commits of the series, from 0 to 8 (spec 02 §16.2). Commit 4 changes a
    /// failure that this file system model does not have; commit 6 only the ISOLATED time.
    pub const fn series(steps: u8) -> ThrottlePolicy {
        let mut p = Self::CONGESTION_515;
        if steps >= 1 {
            p.node_pass = NodePassWait::Writeback;
        }
        if steps >= 2 {
            p.isolated = IsolatedWait::Event;
        }
        if steps >= 3 {
            p.no_progress = NoProgressWait::EveryPass;
        }
        if steps >= 5 {
            p.retry_wait = RetryWait::None;
        }
        if steps >= 6 {
            p.isolated_jiffies = FIFTIETH;
        }
        if steps >= 7 {
            p.no_progress_jiffies = HALF;
        }
        if steps >= 8 {
            p.progress_wake = ProgressWake::Eighth;
        }
        p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_series_is_a_switch() {
        let parts = ThrottlePolicy {
            node_pass: NodePassWait::Writeback,
            isolated: IsolatedWait::Event,
            isolated_jiffies: 5,
            no_progress: NoProgressWait::EveryPass,
            no_progress_jiffies: 125,
            progress_wake: ProgressWake::Eighth,
            retry_wait: RetryWait::None,
            ..ThrottlePolicy::CONGESTION_515
        };
        assert_eq!(parts, ThrottlePolicy::SERIES_516);
        assert_eq!(ThrottlePolicy::series(0), ThrottlePolicy::CONGESTION_515);
        assert_eq!(ThrottlePolicy::series(3), ThrottlePolicy::series(4));
        for step in [1, 2, 3, 5, 6, 7, 8] {
            assert_ne!(ThrottlePolicy::series(step), ThrottlePolicy::series(step - 1), "{step}");
        }
    }
}
