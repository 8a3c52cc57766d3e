//! What a kernel is built from: the machine, the tunables (sysctls), the policy.
//!
//! All are plain values. With the `serde` feature they can be read from TOML or JSON.

mod machine;
mod policy;
mod preset;
mod scheme;
mod throttle;
mod tunables;

pub use machine::{Machine, MachineError, NodeSpec, ZoneSpec};
pub use policy::{
    AnonStart, BalanceRule, DirtyAtTail, DrainOrder, EventUnit, FallbackRule, FreeFactor,
    HighOrderFree, HighWatermark, HighatomicKind, KswapdModel, LruTopology, MergeRule,
    MinReserveRule, PcpLists, PcpPolicy, PcpSizing, Policy, Proportional, ReclaimPolicy,
    SlowPathPolicy, UnmapYoung, WatermarkPolicy, WatermarkTest, ZonelistPolicy,
};
pub use preset::{PRESETS, preset};
pub use scheme::Scheme;
pub(crate) use scheme::schemes;
pub use throttle::{
    DeviceCongestion, IsolatedWait, NoProgressWait, NodePassWait, ProgressWake, RetryWait,
    SleepShare, ThrottlePolicy, WakeCount,
};
pub use tunables::{Thp, Tunables};
