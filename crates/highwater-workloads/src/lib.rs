//! Benchmarks as tasks on a Highwater kernel.
//!
//! A workload is written once, generic over the host. Its tasks call the memory manager as a
//! kernel's users do, and wait for each other through [`highwater_core::host::Tasks`]. The runner
//! starts the tasks, as coroutines or threads.
//!
//! | module | benchmark |
//! |---|---|
//! | [`highalloc`] | stress-highalloc: huge blocks while kernels are built |
//! | [`jobs`] | custom tasks: phases, patterns, arrivals |
//! | [`netperf`] | netperf TCP_STREAM over loopback: blocks allocated on one CPU, freed on another |
//! | [`pagealloc`] | the page allocator alone: the cost of a block |
//! | [`scenario`] | small programs that also ran on a captured Linux 6.1 |
//! | [`stutter`] | latency of mapping memory while a file is copied |
//! | [`stutterp`] | latency of mapping memory under writers and memory hogs |
//! | [`unmap`] | unmapping young file pages: its cost, and what reclaim keeps afterwards |
//! | [`xorshift`] | the random numbers of captured programs |
#![deny(unsafe_code)]

pub mod highalloc;
pub mod jobs;
pub mod netperf;
pub mod pagealloc;
mod process;
mod random;
pub mod scenario;
mod stop;
pub mod stutter;
pub mod stutterp;
pub mod unmap;
pub mod xorshift;
