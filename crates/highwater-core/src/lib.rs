//! Linux-style memory management as a `no_std` core, generic over its host.
//!
//! The modules in the order in which they depend on each other:
//!
//! | module | is |
//! |---|---|
//! | [`units`] | words of the field that depend on nothing |
//! | [`host`] | what the core asks of its machine: locks, time, memory, cost, trace |
//! | [`config`] | machine, sysctls, policy; kernel presets from 4.3 to 6.1 |
//! | [`sync`] | atomics, lock classes |
//! | [`page`] | frame numbers, descriptors, lists |
//! | [`zone`] | nodes, zones, zonelists, watermarks, boot |
//! | [`vmstat`] | counters and the text of `/proc/{vmstat,zoneinfo,buddyinfo,pagetypeinfo}` |
//! | [`trace`] | typed tracepoints |
//! | [`page_alloc`] | the allocator |
//! | [`block`] | bios, request queues, the end of transfers |
//! | [`lru`] | LRU lists, per-CPU batches, mark-accessed, shadows |
//! | [`page_cache`] | files and their pages |
//! | [`swap`] | swap areas, the swap cache |
//! | [`vm`] | address spaces, faults, unmapping, reverse mapping |
//! | [`writeback`] | dirty limits, flushers |
//! | [`reclaim`] | kswapd, direct reclaim, the OOM killer |
//! | [`kernel`] | [`Kernel`]: all of it together |
//! | [`audit`] | checkers that stand outside the code they judge |
//!
//! # The life of a page
//!
//! Born in [`zone::boot`]; asked for in [`page_alloc`] (fast path, watermark, per-CPU lists, buddy
//! lists; failing, the slow path); mapped by a fault ([`vm`]) or cached for a file ([`page_cache`]);
//! put on an LRU list ([`lru`]), judged at its tail ([`reclaim`]), written ([`swap`], [`writeback`]);
//! freed to the per-CPU lists, drained to the buddy lists, merged.
//!
//! ```
//! use highwater_core::config::{Machine, preset};
//! use highwater_core::host::{CpuId, Cx, Solo};
//! use highwater_core::page::Order;
//! use highwater_core::page_alloc::{Gfp, NoRelief, boot};
//! use highwater_core::zone::NodeId;
//!
//! let host = Solo::default();
//! let machine = Machine::from_sizes("small", &[(1 << 30, vec![0, 1])])?;
//! let memory = boot(&host, &machine, &preset("6.1").unwrap())?;
//! let task = Cx::new(&host, CpuId(0));
//! let page = memory.alloc(&task, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
//! memory.free(&task, page.unwrap(), Order(0))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

// In the order of the floors, lowest first (`highwater`'s `tests/tidy.rs` holds them to it).
pub mod audit;
pub mod block;
pub mod compaction;
pub mod config;
pub mod host;
pub mod kernel;
pub mod lru;
pub mod page;
pub mod page_alloc;
pub mod page_cache;
pub mod proc;
pub mod reclaim;
pub mod swap;
pub mod sync;
pub mod syscall;
pub mod trace;
pub mod units;
pub mod vm;
pub mod vmstat;
pub mod wait;
pub mod writeback;
pub mod zone;

pub use kernel::Kernel;
