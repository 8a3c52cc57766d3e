//! Filesystems, as far as memory management notices them.

use crate::block::Writer;

/// Which pages of a file have a buffer head (rules/slab#buffer-heads).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// None.
    None,
    /// Inodes that were written since they are in memory.
    Written,
    /// All: they are read block by block.
    All,
}

/// A filesystem, as far as reclaim and writers of its files are concerned.
///
/// Use the constants; any other filesystem is a custom value:
///
/// ```
/// use highwater_core::page_cache::Filesystem;
///
/// let whole_ranges_only = Filesystem { has_writepage: false, ..Filesystem::EXT4 };
/// assert!(Filesystem::XFS.throttles_first() && !whole_ranges_only.throttles_first());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// It writes single pages for reclaim (rules/writeback#single-page). Kernels in which XFS did so too
    /// are policies (`reclaim.file-pageout`), by which every filesystem does.
    pub has_writepage: bool,
    /// The kernel library that writes its files. It decides the memory of its bios
    /// (rules/writeback#bio-memory), and when its writers are throttled (rules/page-cache#write).
    pub writer: Writer,
    /// It has no device: pages live in memory and swap (rules/shared-memory#pages).
    pub is_memory: bool,
    /// Its files are metadata, pages of the device. A journal pins dirty ones, which cannot be
    /// moved then (rules/compaction#journal).
    pub is_journalled: bool,
    /// Which of its pages have a buffer head (rules/slab#buffer-heads).
    pub buffers: Buffers,
}

impl Filesystem {
    /// ext4: single pages, buffer heads.
    pub const EXT4: Filesystem = Filesystem {
        has_writepage: true,
        writer: Writer::BufferHeads,
        is_memory: false,
        is_journalled: false,
        buffers: Buffers::Written,
    };
    /// XFS since 6.0: whole ranges only, iomap.
    pub const XFS: Filesystem = Filesystem {
        has_writepage: false,
        writer: Writer::Iomap,
        is_memory: false,
        is_journalled: false,
        buffers: Buffers::None,
    };
    /// What ext4 keeps about its files: inode tables, directories. Pages of the device itself, each change of which goes
    /// through the journal first.
    pub const EXT4_METADATA: Filesystem =
        Filesystem { is_journalled: true, buffers: Buffers::All, ..Filesystem::EXT4 };
    /// tmpfs, and shared memory of programs.
    pub const TMPFS: Filesystem = Filesystem {
        has_writepage: true,
        writer: Writer::BufferHeads,
        is_memory: true,
        is_journalled: false,
        buffers: Buffers::None,
    };

    /// A writer waits before each page that it writes; false: after it.
    #[inline(always)]
    pub const fn throttles_first(self) -> bool {
        matches!(self.writer, Writer::Iomap)
    }
}
