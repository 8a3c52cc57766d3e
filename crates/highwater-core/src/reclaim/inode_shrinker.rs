//! The shrinker of inodes and dentries (rules/slab#inode-shrinker).
//!
//! It judges by use, like the page lists: a file that was opened since the last scan stays for
//! another round. An inode is freed after its dentry, together with its page cache, which could no
//! longer be found.
//!
//! From: [`super::shrinker`] · to: `page_cache::inode`.

use super::{ObjectsOf, Shrinker, Shrunk};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// Frees unused inodes and dentries.
#[doc(alias = "super_cache_count")]
#[doc(alias = "super_cache_scan")]
#[derive(Clone, Copy, Debug, Default)]
pub struct InodeShrinker;

impl<H: Devices> Shrinker<H> for InodeShrinker {
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf) -> u64 {
        vfs_pressure_ratio(
            kernel.nr_inodes_listed(cx, (of.group, of.node)),
            kernel.mem.tunables.vfs_cache_pressure.get(),
        )
    }

    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, of: ObjectsOf, nr: u64) -> Option<Shrunk> {
        let scan = kernel.scan_inodes(cx, (of.group, of.node), nr);
        Some(Shrunk { scanned: scan.scanned, freed: scan.freed, pages: scan.pages })
    }

    /// A filesystem's shrinkers work on more at a time than others do.
    fn batch(&self) -> u64 {
        1024
    }

    /// Inodes belong to the filesystem, so a task that may not call it defers them.
    fn needs_fs(&self) -> bool {
        true
    }

    fn is_node_aware(&self) -> bool {
        true
    }

    fn is_group_aware(&self) -> bool {
        true
    }
}

/// So many of `objects` count as freeable at a `vm.vfs_cache_pressure`, percent: the more, the larger the share that
/// reclaim asks for. 0 = none, and none is ever freed.
const fn vfs_pressure_ratio(objects: u64, pressure: u64) -> u64 {
    // In two steps, as the product may be too large.
    objects / 100 * pressure + objects % 100 * pressure / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_scales_what_may_be_freed() {
        let table = [(1234, 100, 1234), (1234, 0, 0), (1234, 50, 617), (1234, 1000, 12_340)];
        for (objects, pressure, expected) in table {
            assert_eq!(vfs_pressure_ratio(objects, pressure), expected, "{pressure}");
        }
        assert_eq!(vfs_pressure_ratio(u64::MAX / 200, 200), u64::MAX / 200 * 2);
    }
}
