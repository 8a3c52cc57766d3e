//! Reasons to slow a reclaimer down (rules/throttling#reasons).

/// The reason for which a reclaimer sleeps.
#[doc(alias = "vmscan_throttle_state")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ThrottleReason {
    /// Pages at the tail are under writeback.
    Writeback = 0,
    /// Too many pages are isolated.
    Isolated = 1,
    /// Nothing could be reclaimed.
    NoProgress = 2,
    /// Every dirty page met was under writeback and marked.
    Congested = 3,
}

impl ThrottleReason {
    /// All, by index.
    pub const ALL: [ThrottleReason; 4] = [
        ThrottleReason::Writeback,
        ThrottleReason::Isolated,
        ThrottleReason::NoProgress,
        ThrottleReason::Congested,
    ];

    /// The name trace output uses.
    pub const fn name(self) -> &'static str {
        match self {
            ThrottleReason::Writeback => "VMSCAN_THROTTLE_WRITEBACK",
            ThrottleReason::Isolated => "VMSCAN_THROTTLE_ISOLATED",
            ThrottleReason::NoProgress => "VMSCAN_THROTTLE_NOPROGRESS",
            ThrottleReason::Congested => "VMSCAN_THROTTLE_CONGESTED",
        }
    }
}
