//! Compaction: its effort and its results.

/// The priority of direct compaction: how hard it tries (rules/slow-path#constants).
#[doc(alias = "compact_priority")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CompactPriority {
    /// Everything, waiting for pages under writeback.
    SyncFull = 0,
    /// Waits a little; the default.
    SyncLight = 1,
    /// Never waits.
    Async = 2,
}

/// The result of a compaction attempt. Of several zones the largest counts
/// (rules/compaction#results).
#[doc(alias = "compact_result")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactResult {
    /// There is no compaction: nothing was tried or counted, and it is no use asking again.
    Absent,
    /// Not tried: no zone is suitable.
    Skipped,
    /// Not tried: it failed too often lately.
    Deferred,
    /// The whole zone was scanned, without success.
    Complete,
    /// Part of the zone was scanned.
    Partial,
    /// Stopped: there were no frames to move to, or the task is to die.
    Contended,
    /// A block is free.
    Success,
}

impl CompactPriority {
    /// All, hardest first.
    pub const ALL: [CompactPriority; 3] =
        [CompactPriority::SyncFull, CompactPriority::SyncLight, CompactPriority::Async];
}

impl CompactResult {
    /// All, in their order.
    pub const ALL: [CompactResult; 7] = [
        CompactResult::Absent,
        CompactResult::Skipped,
        CompactResult::Deferred,
        CompactResult::Complete,
        CompactResult::Partial,
        CompactResult::Contended,
        CompactResult::Success,
    ];

    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            CompactResult::Absent => "not_suitable_zone",
            CompactResult::Skipped => "skipped",
            CompactResult::Deferred => "deferred",
            CompactResult::Complete => "complete",
            CompactResult::Partial => "partial_skipped",
            CompactResult::Contended => "contended",
            CompactResult::Success => "success",
        }
    }
}
