//! The engine: virtual time, an ordered event queue, tasks as coroutines.
//!
//! [`queue`] orders events. [`stack`] switches between coroutines. [`executor`] ties them together
//! and keeps the clocks. `state` finds a CPU for woken tasks; `preempt` lets them preempt. `task_api`, `lock_api` and `spawn`
//! are the calls of a running task ([`Sim`]). [`clock`] rounds jiffy timeouts as the kernel's timer
//! wheel does.
//!
//! One simulation lives on one OS thread and shares nothing with others.

pub mod clock;
pub mod error;
pub mod executor;
mod lock_api;
mod preempt;
pub mod queue;
mod spawn;
#[allow(unsafe_code, reason = "stack switching needs it; the surface is documented there")]
pub mod stack;
pub(crate) mod state;
pub mod task;
mod task_api;
mod watch;

pub use error::{RunError, StuckTask};
pub use executor::{Engine, EngineConfig, Outcome, Sim};
pub use lock_api::Shortcuts;
pub use spawn::JoinHandle;
pub use stack::StackClass;
pub use task::{Placement, Role, Spawn, TaskId, TaskTimes, Wake};
pub use watch::{Look, Passed, RunState, TaskView};
