//! The inputs of a kernel: the machine, the tunables (sysctls), the policy.
//!
//! All are plain values. With the `serde` feature they can be read from TOML or JSON.

mod live;
mod machine;
mod policy;
mod preset;
mod ranges;
mod tunables;
mod version;

pub use live::Live;
pub use machine::{Machine, MachineError, NodeSpec, ZoneSpec};
pub(crate) use policy::algorithms;
pub use policy::*;
pub use preset::{PRESETS, preset, preset_base, preset_with};
pub use ranges::MemoryRange;
pub use tunables::{LiveTunables, Thp, ThpDefrag, TunableField, TunableForm, Tunables};
pub use version::KernelVersion;
