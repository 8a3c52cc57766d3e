//! Real threads and real memory: a host for [`highwater_core`].
//!
//! The memory manager that `highwater-sim` runs in virtual time runs here on OS threads. An arena
//! of real memory backs its frames, and its locks really contend. So the important costs (cache
//! hits, lock hand-overs, atomics) are measured instead of modelled.
//!
//! | module | is |
//! |---|---|
//! | [`arena`] | the memory behind the frames: one lazily backed mapping |
//! | [`cpu`] | logical CPUs, leased to threads |
//! | [`lock`] | the zone lock (spinning) and the per-CPU list lock (biased to its CPU) |
//! | [`host`] | [`NativeHost`]: the [`Host`](highwater_core::host::Host) of the three above |
//! | [`kernel`] | [`NativeKernel`]: a host and a whole kernel, its daemons on threads |
//! | [`machine`] | [`NativeMachine`]: a host and a booted allocator, shared by threads |
//! | `bench` | micro-benchmarks of the allocator against others (feature `bench`) |
//!
//! # A thread is a CPU while it holds the lease
//!
//! The core asks "which CPU am I on?" in every fast path and keeps lists and counters per CPU. A
//! thread answers by *leasing* one of the machine's logical CPUs ([`NativeMachine::enter`]), as if
//! it had been scheduled there: no other thread runs on that CPU until the lease is dropped. Memory
//! safety does not depend on threads naming their CPU correctly: a per-CPU lock checks the lease
//! itself.
//!
//! ```
//! use highwater_core::config::{Machine, preset};
//! use highwater_core::host::{CpuId, Host};
//! use highwater_core::page::Order;
//! use highwater_core::page_alloc::Gfp;
//! use highwater_native::{NativeMachine, NativeOptions};
//!
//! let machine = Machine::from_sizes("two", &[(256 << 20, vec![0, 1])])?;
//! let policy = preset("6.1").ok_or("no such preset")?;
//! let native = NativeMachine::boot(&machine, &policy, &NativeOptions::default())?;
//! std::thread::scope(|s| {
//!     for cpu in [CpuId(0), CpuId(1)] {
//!         let native = &native;
//!         s.spawn(move || {
//!             let task = native.enter(cpu).expect("the CPU exists and this thread has none");
//!             let page = task.alloc(Gfp::GFP_KERNEL, Order(0)).expect("memory is free");
//!             native.host.frame_write(page, 0, b"mine");
//!             task.free(page, Order(0)).expect("the page is ours");
//!         });
//!     }
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

pub mod arena;
#[cfg(feature = "bench")]
pub mod bench;
pub mod cpu;
pub mod host;
pub mod kernel;
pub mod lock;
pub mod machine;
mod sync;

pub use arena::{Arena, ArenaError, ArenaOptions, Backing};
pub use cpu::{CpuLease, LeaseError};
pub use host::{NativeError, NativeHost, NativeOptions};
pub use kernel::{KernelTask, NativeKernel, NativeKernelError};
pub use machine::{NativeMachine, Task};
