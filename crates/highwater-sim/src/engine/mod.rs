//! The engine: virtual time, an ordered event queue, tasks as coroutines.
//!
//! [`queue`] orders events, [`stack`] switches between coroutines, [`executor`] ties them together
//! and keeps the clocks, `task_api` is what a running task calls ([`Sim`]). [`clock`] rounds
//! jiffy timeouts as the kernel's timer wheel does.
//!
//! One simulation lives on one OS thread and shares nothing with others.

pub mod clock;
pub mod error;
pub mod executor;
pub mod queue;
#[allow(unsafe_code, reason = "stack switching needs it; the surface is documented there")]
pub mod stack;
pub mod task;
mod task_api;
mod watch;

pub use error::{RunError, StuckTask};
pub use executor::{Engine, EngineConfig, Outcome, Sim};
pub use stack::StackClass;
pub use task::{Placement, Role, Spawn, TaskId, TaskTimes, Wake};
pub use task_api::JoinHandle;
