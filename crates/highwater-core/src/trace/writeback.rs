//! Tracepoints of congestion waits, up to 5.15 (rules/throttling#congestion-wait).

macro_rules! writeback {
    ([$next:ident $($later:ident)*] $($before:tt)*) => { $next! { [$($later)*] $($before)* writeback {
        /// A reclaimer slept for congestion to clear.
        CongestionWait = "writeback_congestion_wait" {
            /// How long at most.
            usec_timeout: u32,
            /// How long it was; may be more.
            usec_delayed: u32,
        } digest 30 [usec_timeout, usec_delayed]
          => "usec_timeout={usec_timeout} usec_delayed={usec_delayed}";

        /// A reclaimer would have slept had something been congested.
        WaitIffCongested = "writeback_wait_iff_congested" {
            /// How long at most.
            usec_timeout: u32,
            /// How long it was; may be more.
            usec_delayed: u32,
        } digest 31 [usec_timeout, usec_delayed]
          => "usec_timeout={usec_timeout} usec_delayed={usec_delayed}";
    } } };
}
pub(super) use writeback;
