//! The stable part of this crate: boot a page allocator on your memory, allocate, free, read counters.
//!
//! A kernel that needs an allocator, or a test that compares one with Linux's, needs this module and
//! nothing else of the crate.
//!
//! ```
//! use highwater_core::embed::*;
//!
//! let machine = Machine::from_ranges(
//!     "board",
//!     &[
//!         MemoryRange::usable(0x0..0x1000_0000, NodeId(0)),
//!         MemoryRange::reserved(0x0..0x20_0000), // firmware, the kernel's image
//!     ],
//!     &[NodeId(0), NodeId(0)], // two CPUs
//! )?
//! .without_reserves();
//! let host = Solo::default();
//! let memory = Memory::boot(&host, &machine, &preset("6.1").unwrap())?;
//!
//! let cpu = memory.cpu(&host, CpuId(0))?;
//! let block = cpu.alloc(Order(3), Gfp::GFP_KERNEL, NodeId(0))?;
//! assert!(block.is_aligned(Order(3)));
//! assert_eq!(cpu.stats().counter("pgalloc_dma32"), Some(8));
//! cpu.free(block, Order(3))?;
//! cpu.audit()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | you have | you need |
//! |---|---|
//! | a memory map | [`Machine::from_ranges`], [`MemoryRange`], [`MachineError`] |
//! | rules of a kernel version | [`preset`], [`Policy`] |
//! | one thread, no bytes behind the frames | [`Solo`] |
//! | threads or CPUs, memory with bytes | your implementation of [`Host`] and [`Lock`] ([`LockClass`], [`Cost`], [`Event`], [`Kind`] are the types of its methods) |
//! | a CPU that allocates | [`Memory::cpu`], [`Cpu`], [`CpuId`], [`NoSuchCpu`] |
//! | a request | [`Order`], [`Gfp`], [`NodeId`]; the result is a [`Pfn`] of [`PAGE_SIZE`] bytes or an [`AllocError`] |
//! | a block to free | [`Cpu::free`], [`FreeError`] |
//! | questions | [`Cpu::stats`], [`Stats`], [`ZoneStats`], [`ZoneType`], [`Cpu::audit`], [`AuditError`] |
//!
//! # Stability
//!
//! A program that names only the items of this module keeps compiling. An item is removed or changed only
//! after a release in which it was deprecated, and only in a version that may break programs by the rules
//! of Cargo: 0.3 while versions begin with 0, a major version later. Of types that this module re-exports,
//! the promise covers:
//!
//! * [`Machine`]: `from_ranges`, `from_sizes`, `bare`, `without_reserves`, `managed_pages`,
//!   `withheld_pages`, `nr_cpus`, `end_pfn`. Its fields are not covered.
//! * [`Policy`]: a value that [`preset`] returns. Its fields are not covered.
//! * [`Host`] and [`Lock`]: the items without a default. A new version may add methods that have one.
//! * [`Gfp`]: the constants that begin with `GFP_`.
//! * [`LockClass`], [`Cost`], [`Event`], [`Kind`]: that they exist. A new version may add variants.
//!
//! *Not* covered: which frame a request gets, and figures. They follow the rules of the policy's
//! kernel version; the changelog names each correction.
//!
//! Everything outside this module may change in any version.

mod memory;
mod stats;

pub use memory::{AllocError, Cpu, Memory};
pub use stats::{Stats, ZoneStats};

pub use crate::audit::AuditError;
pub use crate::config::{Machine, MachineError, MemoryRange, Policy, preset};
pub use crate::host::{Cost, Host, Lock, Solo};
pub use crate::page_alloc::FreeError;
pub use crate::sync::order::LockClass;
pub use crate::trace::{Event, Kind};
pub use crate::units::{CpuId, Gfp, NoSuchCpu, NodeId, Order, PAGE_SIZE, Pfn, ZoneType};
