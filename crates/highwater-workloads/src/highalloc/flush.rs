//! A file as large as memory, written, read and deleted: it evicts everything else from the cache
//! (rules/benchmarks#highalloc-script).

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::InodeMemory;

use super::Disk;

/// Bytes of one write: the default of `dd`.
const WRITE_BYTES: u64 = 512;
/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// Writes a file of `bytes`, reads it back, deletes it.
///
/// # Errors
/// If the disk has no room, or the file cannot be written or read.
pub fn flush<H: Devices>(
    kernel: &Kernel<H>,
    cx: &Cx<'_, H>,
    disk: &Disk<H>,
    bytes: u64,
) -> Result<(), Error> {
    let file = disk.create(kernel, cx, bytes, InodeMemory::Outside)?;
    let open = kernel.open(cx, &file);
    let mut at = 0;
    while at < bytes {
        at += kernel.file_write(cx, &open, at, WRITE_BYTES.min(bytes - at))?.max(1);
        cx.host.user_point();
    }
    let open = kernel.open(cx, &file);
    let mut at = 0;
    while at < bytes {
        at += kernel.file_read(cx, &open, at, READ_BYTES.min(bytes - at))?.max(1);
        cx.host.user_point();
    }
    drop(open);
    kernel.delete_file(cx, &file);
    Ok(())
}
