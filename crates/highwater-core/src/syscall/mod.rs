//! What programs call and several subsystems serve.
//!
//! A call that one subsystem serves alone is that subsystem's (`mmap` and `munmap` are `vm`'s, `read` is
//! `page_cache`'s). Here is what stands above several:
//!
//! | call | is made of |
//! |---|---|
//! | [`Kernel::file_write`](crate::Kernel::file_write), [`Kernel::fsync`](crate::Kernel::fsync) | `page_cache`, `writeback` |
//! | [`Kernel::fadvise`](crate::Kernel::fadvise) | `page_cache`, `writeback` |
//! | [`Kernel::madvise`](crate::Kernel::madvise) | `vm`, `lru`, `reclaim` |
//! | [`Kernel::drop_caches`](crate::Kernel::drop_caches) | `page_cache`, `reclaim` |
//! | [`Kernel::fork`](crate::Kernel::fork), [`Kernel::exec`](crate::Kernel::exec) | `vm` |
//! | [`Kernel::exit_space`](crate::Kernel::exit_space) | `vm`, `writeback`, `reclaim` |
//!
//! From: programs · to: all below.

mod caches;
mod exit;
mod fadvise;
mod madvise;
mod memory_policy;
mod process;
mod write;

pub use fadvise::Advice as FileAdvice;
pub use madvise::Advice as MemoryAdvice;
