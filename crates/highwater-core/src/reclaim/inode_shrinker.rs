//! The shrinker of inodes and dentries (rules/slab#inode-shrinker).
//!
//! It knows no more of what is worth keeping than the page lists do: what was opened since the last look gets
//! another round. An inode goes after its dentry, and takes its page cache along: nobody could find that.
//!
//! From: [`super::shrinker`] · to: `page_cache::inode`.

use super::{Shrinker, Shrunk};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::zone::NodeId;

/// Frees inodes and dentries that nobody uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct InodeShrinker;

impl<H: Devices> Shrinker<H> for InodeShrinker {
    fn count(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        kernel.nr_inodes_listed(cx, node)
    }

    fn scan(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> Option<Shrunk> {
        let scan = kernel.scan_inodes(cx, node, nr);
        Some(Shrunk { scanned: scan.scanned, freed: scan.freed, pages: scan.pages })
    }

    /// A filesystem's shrinkers work on more at a time than others do.
    fn batch(&self) -> u64 {
        1024
    }

    /// Inodes are the filesystem's: who may not call it puts them off.
    fn needs_fs(&self) -> bool {
        true
    }

    fn is_node_aware(&self) -> bool {
        true
    }
}
