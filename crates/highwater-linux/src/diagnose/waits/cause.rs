//! Causes of waits, by the events that say them.

use serde::Serialize;

/// A cause of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// `mm_vmscan_direct_reclaim_begin`, `_end`.
    DirectReclaim,
    /// `mm_vmscan_memcg_reclaim_begin`, `_end`, also of soft limits.
    MemcgReclaim,
    /// `mm_vmscan_node_reclaim_begin`, `_end`.
    NodeReclaim,
    /// `mm_compaction_begin`, `_end`.
    Compaction,
    /// `mm_vmscan_throttled`: too many pages are in writeback.
    ThrottledWriteback,
    /// Too many pages are isolated.
    ThrottledIsolated,
    /// Reclaim makes no progress.
    ThrottledNoProgress,
    /// Devices are congested.
    ThrottledCongested,
    /// A reason that is not known here.
    ThrottledOther,
    /// `writeback_congestion_wait`, `writeback_wait_iff_congested`, up to 5.15.
    CongestionWait,
    /// Uninterruptible sleep between two `sched_switch`.
    Blocked,
    /// `sched_stat_blocked`.
    BlockedStat,
    /// `sched_stat_iowait`.
    IoWait,
    /// Runnable between two `sched_switch`.
    WaitsForCpu,
    /// `sched_stat_wait`.
    WaitsForCpuStat,
    /// From `mm_vmscan_kswapd_wake` to `_sleep`: work, not a stall.
    KswapdAwake,
}

/// Events that begin and end a stall.
pub(super) const PAIRS: [(&str, &str, Cause); 6] = [
    ("mm_vmscan_direct_reclaim_begin", "mm_vmscan_direct_reclaim_end", Cause::DirectReclaim),
    ("mm_vmscan_memcg_reclaim_begin", "mm_vmscan_memcg_reclaim_end", Cause::MemcgReclaim),
    (
        "mm_vmscan_memcg_softlimit_reclaim_begin",
        "mm_vmscan_memcg_softlimit_reclaim_end",
        Cause::MemcgReclaim,
    ),
    ("mm_vmscan_node_reclaim_begin", "mm_vmscan_node_reclaim_end", Cause::NodeReclaim),
    ("mm_compaction_begin", "mm_compaction_end", Cause::Compaction),
    ("mm_vmscan_kswapd_wake", "mm_vmscan_kswapd_sleep", Cause::KswapdAwake),
];

impl Cause {
    /// The cause of `mm_vmscan_throttled`.
    pub(super) fn throttled(reason: Option<&str>) -> Cause {
        match reason.and_then(|reason| reason.rsplit('_').next()) {
            Some("WRITEBACK") => Cause::ThrottledWriteback,
            Some("ISOLATED") => Cause::ThrottledIsolated,
            Some("NOPROGRESS") => Cause::ThrottledNoProgress,
            Some("CONGESTED") => Cause::ThrottledCongested,
            _ => Cause::ThrottledOther,
        }
    }

    /// In words, after "was stalled ... in": also a label of tables.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Cause::DirectReclaim => "direct reclaim",
            Cause::MemcgReclaim => "reclaim of a memory cgroup",
            Cause::NodeReclaim => "node reclaim",
            Cause::Compaction => "compaction",
            Cause::ThrottledWriteback => "throttling by writeback",
            Cause::ThrottledIsolated => "throttling by isolated pages",
            Cause::ThrottledNoProgress => "throttling without progress",
            Cause::ThrottledCongested => "throttling by congestion",
            Cause::ThrottledOther => "throttling",
            Cause::CongestionWait => "congestion wait",
            Cause::Blocked => "uninterruptible sleep",
            Cause::BlockedStat => "blocked (sched_stat)",
            Cause::IoWait => "I/O wait (sched_stat)",
            Cause::WaitsForCpu => "waiting for a CPU",
            Cause::WaitsForCpuStat => "waiting for a CPU (sched_stat)",
            Cause::KswapdAwake => "kswapd awake",
        }
    }

    /// True if the task waits for memory.
    #[must_use]
    pub const fn is_memory(self) -> bool {
        !matches!(
            self,
            Cause::Blocked
                | Cause::BlockedStat
                | Cause::IoWait
                | Cause::WaitsForCpu
                | Cause::WaitsForCpuStat
                | Cause::KswapdAwake
        )
    }
}

/// True for daemons whose work is reclaim and compaction: nobody waits while they run.
pub(super) fn is_daemon(comm: &str) -> bool {
    ["kswapd", "kcompactd", "khugepaged"].iter().any(|name| comm.starts_with(name))
}
