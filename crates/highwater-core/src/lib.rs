//! Linux-style memory management as a `no_std` core, generic over its host.
//!
//! The modules, lowest first; each knows only those before it:
//!
//! | module | is |
//! |---|---|
//! | [`sync`] | atomics, lock classes and their order |
//! | [`units`] | units and names that all modules use |
//! | [`trace`] | typed tracepoints, one declaration each |
//! | [`host`] | the interface to the machine: locks, tasks, time, memory, devices, cost; the running task |
//! | [`wait`] | sleeping: wait queues, a reader-writer lock |
//! | [`config`] | machine, sysctls, policy; kernel presets from 4.3 to 6.1 |
//! | [`page`] | descriptors, folios, lists |
//! | [`vmstat`] | counters |
//! | [`zone`] | nodes, zones, zonelists, watermarks |
//! | [`page_alloc`] | the allocator, and boot |
//! | [`memcg`] | memory cgroups: counters, protection, limits (sums) |
//! | [`proc`] | the text of `/proc/{vmstat,zoneinfo,buddyinfo,pagetypeinfo}` |
//! | [`block`] | plugs, request queues, the end of transfers |
//! | [`lru`] | LRU lists, per-CPU batches, isolation, mark-accessed, shadows |
//! | [`slab`] | memory in objects: caches and their slabs |
//! | [`page_cache`] | files and their pages |
//! | [`swap`] | swap areas, the swap cache |
//! | [`vm`] | address spaces, faults, unmapping, reverse mapping |
//! | [`writeback`] | dirty limits, flushers |
//! | [`compaction`] | makes free blocks by moving pages |
//! | [`reclaim`] | kswapd, direct reclaim, reclaim algorithms, throttling, the OOM killer |
//! | [`net`] | TCP connections on the loopback device, and the memory of their buffers |
//! | [`syscall`] | system calls that several of these serve |
//! | [`kernel`] | [`Kernel`]: all of it together |
//! | [`audit`] | checkers that are independent of the code they check |
//! | [`embed`] | the stable part: boot, allocate, free and read counters on your memory |
//!
//! # The life of a page
//!
//! Born in [`page_alloc::boot()`]; asked for in [`page_alloc`] (fast path, watermark, per-CPU
//! lists, buddy lists; failing, the slow path); mapped by a fault ([`vm`]) or cached for a file
//! ([`page_cache`]); put on an LRU list ([`lru`]), judged at its tail ([`reclaim`]), written
//! ([`swap`], [`writeback`]); freed to the per-CPU lists, drained to the buddy lists, merged.
//!
//! ```
//! use highwater_core::config::{Machine, preset};
//! use highwater_core::host::{CpuId, Solo};
//! use highwater_core::page::Order;
//! use highwater_core::page_alloc::{Gfp, NoRelief, boot};
//! use highwater_core::zone::NodeId;
//!
//! let host = Solo::default();
//! let machine = Machine::from_sizes("small", &[(1 << 30, vec![0, 1])])?;
//! let memory = boot(&host, &machine, &preset("6.1").unwrap())?;
//! let task = memory.task(&host, CpuId(0))?;
//! let page = memory.alloc(&task, &NoRelief, Gfp::GFP_KERNEL, Order(0), NodeId(0), None);
//! memory.free(&task, page.unwrap(), Order(0))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

// The modules, lowest first: a module uses only those before it (checked by
// `crates/highwater/tests/house/floors.rs`). Blank lines keep rustfmt from sorting them.
pub mod sync;

pub mod units;

pub mod trace;

pub mod host;

pub mod wait;

pub mod config;

pub mod page;

pub mod vmstat;

pub mod zone;

pub mod page_alloc;

pub mod memcg;

pub mod proc;

pub mod block;

pub mod lru;

pub mod slab;

pub mod page_cache;

pub mod swap;

pub mod vm;

pub mod writeback;

pub mod migrate;

pub mod compaction;

pub mod reclaim;

pub mod net;

pub mod syscall;

pub mod kernel;

pub mod audit;

pub mod embed;

pub use kernel::Kernel;
