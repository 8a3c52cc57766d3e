//! Kernel sources as files, and the filesystem that they are on (rules/benchmarks#highalloc-tree).
//!
//! A filesystem's metadata, inode tables and directories, is in memory too. Its pages lie among
//! those of the files, are written and read more often, and so stay when the files' pages are gone.

use std::cell::Cell;
use std::sync::Arc;

use highwater_core::block::DeviceId;
use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, Filesystem, InodeMemory, OpenFile};

/// Bytes of the files of a tree, sixteen quantiles of a log-normal distribution: half are larger than 6 KiB, and their
/// mean in pages is 3.06, so that 420 MiB are 35,000 files (Linux 3.0: 36,800 files, 12 KiB each on disk).
const FILE_BYTES: [u64; 16] = [
    704, 5616, 1318, 6720, 1878, 8069, 2458, 9754, 3083, 11_960, 3779, 15_000, 4569, 19_630,
    27_955, 52_326,
];

/// Inodes in a block of the filesystem's inode table, of 256 bytes each (ext4), and files in a directory (Linux 3.0:
/// 36,800 in 2,250): each block of either is a page.
const PER_BLOCK: u64 = 16;
/// Bytes that a change writes to a block: one inode.
const INODE_BYTES: u64 = 256;

/// A filesystem: its files one after the other, and its metadata, which is cached like a file.
pub struct Disk<H: Devices> {
    device: DeviceId,
    next_page: Cell<u64>,
    end_page: u64,
    /// Inode tables first, directories behind them.
    metadata: Arc<OpenFile<H>>,
    next_inode: Cell<u64>,
}

/// A file of a filesystem.
pub struct Entry<H: Devices> {
    /// The file.
    pub file: Arc<File<H>>,
    bytes: u64,
    inode: u64,
}

impl<H: Devices> Clone for Entry<H> {
    fn clone(&self) -> Self {
        Entry { file: Arc::clone(&self.file), ..*self }
    }
}

impl<H: Devices> Entry<H> {
    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<H: Devices> Disk<H> {
    /// Pages `first..end` of a device. The metadata lies in front of the files.
    pub fn new(
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        device: DeviceId,
        first: u64,
        end: u64,
    ) -> Disk<H> {
        let blocks = Self::metadata_pages(end - first) / 2;
        let pages = u32::try_from(2 * blocks).unwrap_or(u32::MAX);
        let spec = FileSpec::new(Filesystem::EXT4_METADATA, device, first, pages);
        let spec = spec.with_size(0);
        let metadata = kernel.open(cx, &kernel.create_file(cx, spec));
        let next_page = Cell::new(first + 2 * blocks);
        Disk { device, next_page, end_page: end, metadata, next_inode: Cell::new(0) }
    }

    /// Pages of inode tables and directories for `file_pages` pages of files.
    pub const fn metadata_pages(file_pages: u64) -> u64 {
        // A file has at least one page; a tree has one file for every three pages.
        2 * (file_pages / 3 / PER_BLOCK + 1)
    }

    /// Makes a file with `bytes` bytes in it.
    ///
    /// # Errors
    /// If the disk is full, or it cannot be made or written.
    pub fn write_new(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        bytes: u64,
    ) -> Result<Entry<H>, Error> {
        let file = self.create(kernel, cx, bytes, InodeMemory::Slab)?;
        let inode = self.next_inode.get();
        self.next_inode.set(inode + 1);
        let entry = Entry { file, bytes, inode };
        self.change(kernel, cx, &entry)?;
        let open = kernel.open_path(cx, &entry.file)?;
        let mut at = 0;
        while at < bytes {
            at += kernel.file_write(cx, &open, at, bytes - at)?.max(1);
        }
        cx.host.user_point();
        Ok(entry)
    }

    /// Reads all of a file. If its directory and inode are not cached any more, they are read
    /// first.
    ///
    /// # Errors
    /// If there is no memory, or a read fails.
    pub fn read(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, entry: &Entry<H>) -> Result<(), Error> {
        if !kernel.is_inode_cached(cx, &entry.file) {
            for at in self.places(entry.inode) {
                kernel.file_read(cx, &self.metadata, at, INODE_BYTES)?;
            }
        }
        let open = kernel.open_path(cx, &entry.file)?;
        let mut at = 0;
        while at < entry.bytes {
            at += kernel.file_read(cx, &open, at, entry.bytes - at)?.max(1);
        }
        cx.host.user_point();
        Ok(())
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// If its directory or inode cannot be changed.
    pub fn delete(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        entry: &Entry<H>,
    ) -> Result<(), Error> {
        self.change(kernel, cx, entry)?;
        kernel.delete_file(cx, &entry.file);
        cx.host.user_point();
        Ok(())
    }

    /// Gives a file another name in its directory.
    ///
    /// # Errors
    /// As [`Disk::delete`].
    pub(super) fn rename(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        entry: &Entry<H>,
    ) -> Result<(), Error> {
        self.change(kernel, cx, entry)?;
        cx.host.user_point();
        Ok(())
    }

    /// The file that holds the filesystem's metadata; kept to the end.
    pub fn metadata(&self) -> &Arc<File<H>> {
        &self.metadata.file
    }

    /// An empty file with room for `bytes` bytes.
    pub(super) fn create(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        bytes: u64,
        inode: InodeMemory,
    ) -> Result<Arc<File<H>>, Error> {
        let start = self.next_page.get();
        let pages = bytes.div_ceil(PAGE_SIZE as u64).max(1);
        let max_pages = u32::try_from(pages).map_err(|_| Error::Invalid)?;
        if start + pages > self.end_page {
            return Err(Error::Limit("the disk of the trees is full"));
        }
        self.next_page.set(start + pages);
        let spec = FileSpec::new(Filesystem::EXT4, self.device, start, max_pages);
        Ok(kernel.create_file(cx, spec.with_size(0).with_inode(inode)))
    }

    /// Writes a file's inode and its entry in a directory.
    fn change(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, entry: &Entry<H>) -> Result<(), Error> {
        for at in self.places(entry.inode) {
            kernel.file_write(cx, &self.metadata, at, INODE_BYTES)?;
        }
        Ok(())
    }

    /// Positions of a file's metadata: in the inode table, in a directory. A full table begins
    /// again at its start: the files there are deleted by then.
    fn places(&self, inode: u64) -> [u64; 2] {
        let blocks = u64::from(self.metadata.file.spec.max_pages) / 2;
        let block = inode / PER_BLOCK % blocks.max(1);
        let within = inode % PER_BLOCK * INODE_BYTES;
        [block, blocks + block].map(|block| block * PAGE_SIZE as u64 + within)
    }
}

/// A tree of sources.
pub struct Tree<H: Devices> {
    entries: Vec<Entry<H>>,
}

impl<H: Devices> Tree<H> {
    /// Pages that a tree of `bytes` bytes takes on disk.
    pub fn pages(bytes: u64) -> u64 {
        sizes(bytes).map(|size| size.div_ceil(PAGE_SIZE as u64)).sum()
    }

    /// Unpacks a tree: makes and writes its files.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be made or written.
    pub fn unpack(
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        disk: &Disk<H>,
        bytes: u64,
    ) -> Result<Tree<H>, Error> {
        let entries = sizes(bytes).map(|size| disk.write_new(kernel, cx, size));
        Ok(Tree { entries: entries.collect::<Result<_, Error>>()? })
    }

    /// Copies a tree: reads each of its files and writes it to a new one.
    ///
    /// # Errors
    /// As [`Tree::unpack`], and if a file cannot be read.
    pub fn copy(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        disk: &Disk<H>,
    ) -> Result<Tree<H>, Error> {
        let entries = self.entries.iter().map(|entry| {
            disk.read(kernel, cx, entry)?;
            disk.write_new(kernel, cx, entry.bytes)
        });
        Ok(Tree { entries: entries.collect::<Result<_, Error>>()? })
    }

    /// Deletes the tree.
    ///
    /// # Errors
    /// As [`Disk::delete`].
    pub fn delete(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, disk: &Disk<H>) -> Result<(), Error> {
        self.entries.iter().try_for_each(|entry| disk.delete(kernel, cx, entry))
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads a file of the tree; numbers wrap around.
    pub(super) fn read(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        disk: &Disk<H>,
        number: usize,
    ) -> Result<(), Error> {
        match self.entries.get(number % self.entries.len().max(1)) {
            Some(entry) => disk.read(kernel, cx, entry),
            None => Ok(()),
        }
    }
}

/// Sizes of the files of a tree with `bytes` bytes on disk.
fn sizes(bytes: u64) -> impl Iterator<Item = u64> {
    let mut left = bytes / PAGE_SIZE as u64;
    FILE_BYTES.iter().copied().cycle().map_while(move |size| {
        left = left.checked_sub(size.div_ceil(PAGE_SIZE as u64))?;
        Some(size)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rules/benchmarks#highalloc-tree.
    #[test]
    fn a_tree_has_many_small_files() {
        let all: Vec<u64> = sizes(420 << 20).collect();
        assert_eq!(all.len(), 35_113);
        let pages: u64 = all.iter().map(|size| size.div_ceil(4096)).sum();
        assert!((107_500..=107_520).contains(&pages), "{pages}");
        let mut sorted = FILE_BYTES;
        sorted.sort_unstable();
        assert!(sorted[7] < 6 << 10 && sorted[8] > 6 << 10);
        assert_eq!(sizes(0).count(), 0);
    }
}
