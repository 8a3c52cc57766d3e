//! Switches of how reclaimers are slowed down (rules/throttling#series; study 001). The steps of
//! the study's series are presets: `series-1` to `series-8`.

use super::table::policy;
use crate::host::HZ;

/// A tenth of a second.
const TENTH: u16 = (HZ / 10) as u16;

policy! {
    /// How reclaimers are slowed down. Times are in timer ticks.
    ThrottlePolicy {
        /// Event that a reclaimer waits for after it met pages under writeback at the LRU tail.
        // rules/node-pass#pass-waits
        node_pass: NodePassWait = BatchCongestion {
            /// After each batch, a reclaimer that met pages whose write is overdue waits for
            /// congestion to clear; direct reclaim also waits while its zone is congested (4.5).
            BatchCongestion,
            /// After a node pass, kswapd waits for congestion to clear; direct reclaim on a
            /// congested node waits only if a device reports congestion (5.15).
            Congestion,
            /// After a node pass, kswapd waits for writeback to end, and so does direct reclaim on a
            /// congested node (study 001).
            Writeback,
            /// After a node pass, kswapd waits for writeback to end; direct reclaim on a congested
            /// node sleeps for `congested-jiffies`, reason CONGESTED (6.1).
            Congested,
        },
        /// Ticks that a reclaimer waits at most after it met pages under writeback.
        node_pass_jiffies: u16 = TENTH in (0..=65_535; 1, 5, 25) is exploratory,
        /// Ticks that direct reclaim on a congested node waits at most (`node-pass = "congested"`
        /// only).
        congested_jiffies: u16 = 1 in (0..=65_535; 1, 5, 25) is exploratory,
        /// Action of a direct reclaimer when too many pages are isolated.
        // rules/throttling#isolated
        isolated: IsolatedWait = Congestion {
            /// It waits for congestion to clear, repeatedly, until few pages are isolated (4.5).
            Congestion,
            /// It sleeps once, for the full time (5.15).
            Sleep,
            /// It waits once, until a reclaimer finds few pages isolated.
            Event,
        },
        /// Ticks that a direct reclaimer waits at most when too many pages are isolated.
        isolated_jiffies: u16 = TENTH in (0..=65_535; 1, 5, 25),
        /// Which direct reclaimers wait for others' progress after a node pass that freed little.
        // rules/throttling#progress
        no_progress: NoProgressWait = Never {
            /// None.
            Never,
            /// Reclaimers below priority 10, after each node pass, on that node (study 001).
            EveryPass,
            /// Reclaimers that freed nothing down to priority 1, on their first node (6.1).
            LastResort,
        },
        /// Ticks that a direct reclaimer waits at most for others' progress.
        no_progress_jiffies: u16 = TENTH in (0..=65_535; 1, 25, 125),
        /// Progress that a direct reclaimer must make to wake the tasks that wait for it.
        // rules/throttling#progress
        progress_wake: ProgressWake = Any {
            /// It reclaimed at least one page.
            Any,
            /// It reclaimed more than an eighth of the pages that it scanned.
            Eighth,
        },
        /// How many tasks that wait for progress one reclaimer wakes (decision 0006).
        progress_wakes: WakeCount = All {
            /// All.
            All,
            /// One for each batch of pages that it reclaimed; the task with the shortest allowed
            /// wait first.
            PerBatch,
        },
        /// Whether all direct reclaimers have the same longest wait (decision 0006).
        sleep_share: SleepShare = Equal {
            /// They do.
            Equal,
            /// A task whose allocations, minus what it freed and reclaimed, are below the usual
            /// waits for that part of the time, at least one tick, for every reason.
            Demand,
        },
        /// Reclaimers skip waits for progress and for a congested node unless more than half of the
        /// node's reclaimable pages wait to be written (6.1).
        skip_unless_pending: bool = false,
        /// What an allocation does between two rounds of reclaim.
        // rules/throttling#retry-wait
        retry_wait: RetryWait = Congested {
            /// It does not wait.
            None,
            /// It waits for congestion to clear, if it made no progress and more than half of a
            /// usable zone's reclaimable pages wait to be written (5.15).
            WritePending,
            /// It waits for congestion to clear while its zone is congested (4.3, 4.5).
            Congested,
        },
        /// Devices that report congestion.
        // rules/block#congestion
        devices: DeviceCongestion = Legacy {
            /// Queues whose requests in one direction are near their limit (before 5.0).
            Legacy,
            /// None: the queues that reported it are gone.
            BlkMqDead,
        },
    }
}
