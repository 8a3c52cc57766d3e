//! Slab: caches of one kind of object each, cut from blocks of pages (rules/slab#caches).
//!
//! Most kernel data structures are smaller than a page: inodes, directory entries, tree nodes, task
//! structures. Objects of one kind come from *slabs*, blocks of pages of the smallest order that
//! holds enough of them. A slab is freed with its last object, unless few other slabs have free
//! objects. So one object in use keeps a block, and shrinking a cache ([`crate::reclaim`]) gives
//! pages only if all objects of a slab are freed.
//!
//! Key types: [`CacheKind`] (which cache; the table of all), [`SlabCache`] (its slabs), [`ObjectId`] (an
//! object).
//!
//! | file | is |
//! |---|---|
//! | [`cache`] | slabs and their free objects, as data |
//! | [`memory`] | allocating and freeing slabs |
//!
//! Captured 6.1 systems with two CPUs show it: a cold file of 139,776 pages (2,220 tree nodes)
//! makes 158 order-1 blocks of 14 objects,
//! `GFP_NOWAIT|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_RECLAIMABLE`. The kernel's per-CPU slabs
//! are not modelled.
//!
//! Synchronisation: each cache is behind a `Table` lock, which is never held while pages are allocated or
//! freed.
//!
//! From: `page_cache`, `vm` · to: `page_alloc`.

mod cache;
mod memory;

pub use cache::{ObjectId, SlabCache};

use crate::memcg::objects::SlabKind;
use crate::vmstat::NodeStat;

macro_rules! caches {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $bytes:literal, $kind:ident;)*) => {
        /// A cache: what its objects are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum CacheKind { $($(#[$doc])* $name,)* }

        impl CacheKind {
            /// Every cache.
            pub const ALL: &'static [CacheKind] = &[$(CacheKind::$name,)*];

            /// Its name, as in `/proc/slabinfo`.
            pub const fn name(self) -> &'static str {
                match self { $(CacheKind::$name => $text,)* }
            }

            /// Bytes of an object.
            pub const fn object_bytes(self) -> usize {
                match self { $(CacheKind::$name => $bytes,)* }
            }

            /// A shrinker can free its objects: its slabs are of the reclaimable migratetype.
            pub const fn is_reclaimable(self) -> bool {
                match self { $(CacheKind::$name => caches!(@ $kind),)* }
            }
        }
    };
    (@ reclaimable) => { true };
    (@ unmovable) => { false };
}

caches! {
    /// A node of a file's tree (`struct xa_node`).
    TreeNode = "radix_tree_node", 576, reclaimable;
    /// An inode of a filesystem (rules/slab#inodes says where the size is from).
    Inode = "inode_cache", 1024, reclaimable;
    /// A directory entry.
    Dentry = "dentry", 192, reclaimable;
    /// What a filesystem that writes block by block keeps of a block in memory (rules/slab#buffer-heads).
    BufferHead = "buffer_head", 104, reclaimable;
    /// What the kernel keeps for a process besides its stack and page tables (rules/slab#process).
    Process = "task_struct", 10240, unmovable;
}

impl CacheKind {
    /// The line of `memory.stat` that counts its objects.
    pub(crate) const fn slab_kind(self) -> SlabKind {
        match self.is_reclaimable() {
            true => SlabKind::Reclaimable,
            false => SlabKind::Unreclaimable,
        }
    }

    /// The counter of its pages.
    pub const fn item(self) -> NodeStat {
        match self.is_reclaimable() {
            true => NodeStat::SlabReclaimable,
            false => NodeStat::SlabUnreclaimable,
        }
    }
}
