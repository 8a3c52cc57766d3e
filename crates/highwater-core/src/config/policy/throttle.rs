//! Switches of how reclaimers are slowed down (rules/throttling#series; study 001). The steps of
//! the study's series are presets: `series-1` to `series-8`.

use super::table::policy;
use crate::host::HZ;

/// A tenth of a second.
const TENTH: u16 = (HZ / 10) as u16;

policy! {
    /// How reclaimers are slowed down. Times are timer ticks.
    ThrottlePolicy {
        /// What a reclaimer waits for that met pages under writeback at the tail.
        // rules/node-pass#pass-waits
        node_pass: NodePassWait = BatchCongestion {
            /// After each batch: kswapd and whoever met pages that should be written by now waits
            /// for congestion to clear, direct reclaim only while its zone is congested (4.5).
            BatchCongestion,
            /// After a node pass: kswapd waits for congestion to clear, direct reclaim on a
            /// congested node only if some device says that it is congested (5.15).
            Congestion,
            /// For the end of writeback, both (the series).
            Writeback,
            /// kswapd for the end of writeback, direct reclaim on a congested node for a moment,
            /// reason CONGESTED (6.1).
            Congested,
        },
        /// How long who met pages under writeback waits at most.
        node_pass_jiffies: u16 = TENTH in (0..=65_535; 1, 5, 25) is exploratory,
        /// How long direct reclaim on a congested node waits (`node-pass = "congested"` only).
        congested_jiffies: u16 = 1 in (0..=65_535; 1, 5, 25) is exploratory,
        /// What a direct reclaimer does that finds too many pages isolated.
        // rules/throttling#isolated
        isolated: IsolatedWait = Congestion {
            /// Waits for congestion to clear, again and again until few are isolated (4.5).
            Congestion,
            /// Sleeps once, whatever happens meanwhile (5.15).
            Sleep,
            /// Waits once, until a reclaimer finds few isolated.
            Event,
        },
        /// How long who finds too many pages isolated waits at most.
        isolated_jiffies: u16 = TENTH in (0..=65_535; 1, 5, 25),
        /// Who waits for others' progress after a node pass that brought little.
        // rules/throttling#progress
        no_progress: NoProgressWait = Never {
            /// Nobody.
            Never,
            /// Direct reclaimers below priority 10, after each node pass, for that node (the
            /// series).
            EveryPass,
            /// Direct reclaimers that got nothing down to priority 1, for the first node (6.1).
            LastResort,
        },
        /// How long who waits for progress does so at most.
        no_progress_jiffies: u16 = TENTH in (0..=65_535; 1, 25, 125),
        /// When a direct reclaimer's result wakes those that wait for progress.
        // rules/throttling#progress
        progress_wake: ProgressWake = Any {
            /// It reclaimed something.
            Any,
            /// It reclaimed more than an eighth of what it scanned.
            Eighth,
        },
        /// How many of those that wait for progress one reclaimer's progress wakes (decision 0006).
        progress_wakes: WakeCount = All {
            /// All.
            All,
            /// One for each batch of pages that it reclaimed; who may wait shortest first.
            PerBatch,
        },
        /// Whether all direct reclaimers may have to wait as long (decision 0006).
        sleep_share: SleepShare = Equal {
            /// They do.
            Equal,
            /// Who took fewer pages than is usual, less what it gave back and reclaimed, waits for
            /// that part of the time, one tick at least. For every reason.
            Demand,
        },
        /// Waits for progress and on a congested node are left out unless more than half of what
        /// the node could give is waiting to be written (6.1).
        skip_unless_pending: bool = false,
        /// What an allocation does between two rounds of reclaim.
        // rules/throttling#retry-wait
        retry_wait: RetryWait = Congested {
            /// Nothing.
            None,
            /// Waits for congestion to clear, if it made no progress and more than half of what a
            /// zone that would do could give is waiting to be written (5.15).
            WritePending,
            /// Waits for congestion to clear while its zone is congested (4.3, 4.5).
            Congested,
        },
        /// Which devices say that they are congested.
        // rules/block#congestion
        devices: DeviceCongestion = Legacy {
            /// Those whose requests of a direction near the limit of the queue (before 5.0).
            Legacy,
            /// None: the queues that did it are gone.
            BlkMqDead,
        },
    }
}
