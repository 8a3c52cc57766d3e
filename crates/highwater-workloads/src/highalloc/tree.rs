//! Kernel sources as files (rules/benchmarks#highalloc-tree).

use std::cell::Cell;
use std::sync::Arc;

use highwater_core::block::DeviceId;
use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, Filesystem, InodeMemory};

/// Bytes of the files of a tree, sixteen quantiles of a log-normal distribution: half are larger than 6 KiB, and their
/// mean in pages is 3.06, so that 420 MiB are 35,000 files (Linux 3.0: 36,800 files, 12 KiB each on disk).
const FILE_BYTES: [u64; 16] = [
    704, 5616, 1318, 6720, 1878, 8069, 2458, 9754, 3083, 11_960, 3779, 15_000, 4569, 19_630, 27_955,
    52_326,
];

/// Where files are put: one after the other.
pub struct Disk {
    device: DeviceId,
    next_page: Cell<u64>,
    end_page: u64,
}

impl Disk {
    /// Pages `first..end` of a device.
    pub fn new(device: DeviceId, first: u64, end: u64) -> Disk {
        Disk { device, next_page: Cell::new(first), end_page: end }
    }

    /// A new file with room for so many bytes, empty.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn create<H: Devices>(
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
}

/// A tree of sources.
pub struct Tree<H: Devices> {
    /// Its files, and how many bytes each has.
    files: Vec<(Arc<File<H>>, u64)>,
}

impl<H: Devices> Tree<H> {
    /// Pages that a tree of so many bytes takes on disk.
    pub fn pages(bytes: u64) -> u64 {
        let all: u64 = sizes(bytes).map(|size| size.div_ceil(PAGE_SIZE as u64)).sum();
        all
    }

    /// Unpacks a tree: its files are made and written.
    ///
    /// # Errors
    /// If the disk is full, or a file cannot be made or written.
    pub fn unpack(
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        disk: &Disk,
        bytes: u64,
    ) -> Result<Tree<H>, Error> {
        let files = sizes(bytes).map(|size| {
            let file = write_new(kernel, cx, disk, size)?;
            Ok((file, size))
        });
        Ok(Tree { files: files.collect::<Result<_, Error>>()? })
    }

    /// Copies a tree: each of its files is read, and written to a new one.
    ///
    /// # Errors
    /// As [`Tree::unpack`], and if a file cannot be read.
    pub fn copy(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, disk: &Disk) -> Result<Tree<H>, Error> {
        let files = self.files.iter().map(|&(ref file, size)| {
            read_all(kernel, cx, file, size)?;
            Ok((write_new(kernel, cx, disk, size)?, size))
        });
        Ok(Tree { files: files.collect::<Result<_, Error>>()? })
    }

    /// Files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads a file of the tree from its beginning to its end; numbers go round.
    pub(super) fn read(
        &self,
        kernel: &Kernel<H>,
        cx: &Cx<'_, H>,
        number: usize,
    ) -> Result<(), Error> {
        let Some((file, size)) = self.files.get(number % self.files.len().max(1)) else {
            return Ok(());
        };
        read_all(kernel, cx, file, *size)
    }
}

/// Bytes of the files of a tree of so many bytes on disk.
fn sizes(bytes: u64) -> impl Iterator<Item = u64> {
    let mut left = bytes / PAGE_SIZE as u64;
    FILE_BYTES.iter().copied().cycle().map_while(move |size| {
        left = left.checked_sub(size.div_ceil(PAGE_SIZE as u64))?;
        Some(size)
    })
}

fn read_all<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
    file: &Arc<File<H>>,
    size: u64,
) -> Result<(), Error> {
    let open = kernel.open_path(cx, file)?;
    let mut at = 0;
    while at < size {
        at += kernel.file_read(cx, &open, at, size - at)?.max(1);
    }
    cx.host.user_point();
    Ok(())
}

/// A new file of a tree, with so many bytes written to it.
pub(super) fn write_new<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
    disk: &Disk,
    size: u64,
) -> Result<Arc<File<H>>, Error> {
    let file = disk.create(kernel, cx, size, InodeMemory::Slab)?;
    let open = kernel.open_path(cx, &file)?;
    let mut at = 0;
    while at < size {
        at += kernel.file_write(cx, &open, at, size - at)?.max(1);
    }
    cx.host.user_point();
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rules/benchmarks#highalloc-tree.
    #[test]
    fn a_tree_has_many_small_files() {
        let all: Vec<u64> = sizes(420 << 20).collect();
        assert_eq!(all.len(), 35_109);
        let pages: u64 = all.iter().map(|size| size.div_ceil(4096)).sum();
        assert!((107_500..=107_520).contains(&pages), "{pages}");
        let mut sorted = FILE_BYTES;
        sorted.sort_unstable();
        assert!(sorted[7] < 6 << 10 && sorted[8] > 6 << 10);
        assert_eq!(sizes(0).count(), 0);
    }
}
