//! System calls that involve several subsystems.
//!
//! A call of a single subsystem is in that subsystem's module (`mmap` and `munmap` in `vm`, `read`
//! in `page_cache`). This module has the calls above several:
//!
//! | call | uses |
//! |---|---|
//! | [`Kernel::file_write`](crate::Kernel::file_write), [`Kernel::fsync`](crate::Kernel::fsync) | `page_cache`, `writeback` |
//! | [`Kernel::fadvise`](crate::Kernel::fadvise) | `page_cache`, `writeback` |
//! | [`Kernel::madvise`](crate::Kernel::madvise) | `vm`, `lru`, `reclaim` |
//! | [`Kernel::drop_caches`](crate::Kernel::drop_caches) | `page_cache`, `reclaim` |
//! | [`Kernel::fork`](crate::Kernel::fork), [`Kernel::exec`](crate::Kernel::exec) | `vm` |
//! | [`Kernel::make_group`](crate::Kernel::make_group), [`Kernel::join_group`](crate::Kernel::join_group), [`Kernel::remove_group`](crate::Kernel::remove_group) | `memcg`, `lru`, `page_cache`, `vm` |
//! | [`Kernel::exit_mm`](crate::Kernel::exit_mm) | `vm`, `writeback`, `reclaim` |
//!
//! From: programs · to: all below.

mod caches;
mod exit;
mod fadvise;
#[cfg(test)]
mod folio_tests;
mod groups;
mod madvise;
mod memory_policy;
mod process;
mod write;

pub use fadvise::Advice as FileAdvice;
pub use madvise::Advice as MemoryAdvice;
