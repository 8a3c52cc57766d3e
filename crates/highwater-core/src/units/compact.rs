//! What is said about compaction: how hard it tries, how it ended.

/// How hard compaction tries (rules/slow-path#constants).
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

/// How a compaction attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactResult {
    /// Not tried: no zone is suitable.
    Skipped,
    /// Not tried: it failed too often lately.
    Deferred,
    /// Stopped: a lock was contended or the task had to yield.
    Contended,
    /// Part of the zone was scanned.
    Partial,
    /// All of it was scanned, without success.
    Complete,
    /// A block is free.
    Success,
    /// There is no compaction: nothing was tried or counted, and it is no use asking again.
    Absent,
}
