//! Time as the kernel counts it.

/// Jiffies per second (CONFIG_HZ of the reference kernels).
pub const HZ: u64 = 250;
/// Nanoseconds per jiffy.
pub const NS_PER_JIFFY: u64 = 1_000_000_000 / HZ;
