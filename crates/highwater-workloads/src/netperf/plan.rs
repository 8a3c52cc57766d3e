//! The messages of a run.

/// End condition of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After this many bytes.
    Bytes(u64),
    /// After this time.
    Time {
        /// Duration.
        ns: u64,
    },
}

/// Messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Bytes per send and receive call.
    pub size: usize,
    /// End condition.
    pub stop: Stop,
    /// False for the warm-up.
    pub measured: bool,
}

/// A whole run: a warm-up that brings the per-CPU lists to their steady state, then each size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Bytes in flight between sender and receiver, at most.
    pub socket_buffer: usize,
}

impl Plan {
    /// A plan for `sizes`, `ns` each, after `warmup` bytes of the largest.
    pub fn new(sizes: &[usize], ns: u64, warmup: u64, socket_buffer: usize) -> Plan {
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let warm = Phase { size: largest, stop: Stop::Bytes(warmup), measured: false };
        let measured =
            sizes.iter().map(|&size| Phase { size, stop: Stop::Time { ns }, measured: true });
        Plan { phases: core::iter::once(warm).chain(measured).collect(), socket_buffer }
    }
}
