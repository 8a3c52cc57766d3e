//! Deterministic virtual-time machine: a host for highwater-core.
//!
//! Tasks are coroutines on simulated CPUs. Time is virtual: the machine's cost table gives the time
//! of each operation, locks contend, sleeps end at ticks, caches are warm or cold. One seed decides
//! everything. The same seed gives the same bytes on any machine.
//!
//! | module | is |
//! |---|---|
//! | [`engine`] | virtual time, ordered events, tasks, the two clocks |
//! | [`cpu`] | scheduling, interrupts, cache warmth |
//! | [`lock`] | locks that contend in virtual time, and their statistics |
//! | [`ledger`] | the time of tasks and operations by cause, and which task delayed which |
//! | [`cost`] | cost of each operation on a machine |
//! | [`disk`] | disks: duration and order of transfers |
//! | [`host`] | all of it as the core's `Host` |
//! | [`machine`] | a whole machine: bring-up of the kernel, its daemons, programs |
//! | [`pressure`] | waits for CPUs, memory and devices, as `/proc/pressure` reports them |
//! | [`rng`] | named random streams and distributions |
//! | [`digest`] | rolling digest of a run; the first event in which two runs differ |
//! | [`swarm`] | random machines under random load, audited and run twice |
//!
//! ```
//! use highwater_sim::engine::{Engine, EngineConfig, Spawn};
//!
//! let mut engine = Engine::new(&EngineConfig::new(2));
//! let sleeper = engine.spawn(Spawn::new("sleeper"), |sim| {
//!     sim.park("a wake-up call");
//!     sim.now_ns()
//! });
//! let id = sleeper.id();
//! engine.spawn(Spawn::new("waker"), move |sim| {
//!     sim.sleep_ns(1_000);
//!     sim.unpark(id);
//! });
//! engine.run()?;
//! assert_eq!(sleeper.take(), Some(1_000));
//! # Ok::<(), highwater_sim::engine::RunError>(())
//! ```
//!
//! A simulation lives on one OS thread and shares nothing with other simulations. Several can run
//! at once, one for each thread.

#![deny(unsafe_code)]

pub mod cost;
pub mod cpu;
pub mod digest;
pub mod disk;
pub mod engine;
pub mod host;
pub mod ledger;
pub mod lock;
pub mod machine;
pub mod pressure;
pub mod rng;
#[cfg(any(test, feature = "testing"))]
pub mod swarm;
