//! Files and descriptors.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Filesystem, InodeMemory, MapRanges, ReadAhead, Tree};
use crate::block::{DeviceId, DeviceSpec};
use crate::host::{Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::{FileId, PAGE_SIZE};
use crate::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::changes::Changes;
use crate::sync::order::LockClass;
use crate::wait::{RwSem, RwSemRules};

/// The properties of a new file.
///
/// ```
/// use highwater_core::block::DeviceId;
/// use highwater_core::page_cache::{FileSpec, Filesystem};
///
/// // 400 KiB on the first disk, and an empty file with as much room behind it.
/// let full = FileSpec::new(Filesystem::EXT4, DeviceId(0), 0, 100);
/// let empty = FileSpec { device_start: 100, ..full }.with_size(0);
/// assert_eq!((full.size, empty.size, empty.max_pages), (409_600, 0, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its filesystem.
    pub filesystem: Filesystem,
    /// Where it lives.
    pub device: DeviceId,
    /// First page on the device; the file is contiguous.
    pub device_start: u64,
    /// Largest size in pages (reserved on the device).
    pub max_pages: u32,
    /// Initial size in bytes, at most the reserved size.
    pub size: u64,
    /// Where its inode is.
    pub inode: InodeMemory,
}

impl FileSpec {
    /// A file of `max_pages` pages, all of them there (written before, or preallocated).
    pub const fn new(
        filesystem: Filesystem,
        device: DeviceId,
        device_start: u64,
        max_pages: u32,
    ) -> Self {
        let size = max_pages as u64 * PAGE_SIZE as u64;
        let inode = InodeMemory::Outside;
        FileSpec { filesystem, device, device_start, max_pages, size, inode }
    }

    /// An empty file in memory, of which a program may use `max_pages` pages: tmpfs.
    pub const fn in_memory(max_pages: u32) -> Self {
        FileSpec::new(Filesystem::TMPFS, DeviceId(0), 0, max_pages).with_size(0)
    }

    /// The same file with this initial size in bytes.
    #[must_use]
    pub const fn with_size(self, bytes: u64) -> Self {
        FileSpec { size: bytes, ..self }
    }

    /// The same file with its inode there: [`InodeMemory::Slab`] for one of many small files.
    #[must_use]
    pub const fn with_inode(self, inode: InodeMemory) -> Self {
        FileSpec { inode, ..self }
    }
}

/// An inode and its pages (`struct address_space`).
#[doc(alias = "address_space")]
pub struct File<H: Tasks> {
    /// Number.
    pub id: FileId,
    /// The properties with which it was made.
    pub spec: FileSpec,
    /// Bytes.
    pub(crate) size: AtomicU64,
    /// The pages. `Table` class: see the module's notes.
    pub(crate) tree: H::Lock<Tree>,
    /// Held for every change of the tree.
    pub(crate) xa_lock: H::Lock<()>,
    /// Writers exclude each other (`i_rwsem`).
    pub(crate) rwsem: RwSem<H>,
    /// The VMAs that map it; `Table` class.
    pub(crate) mappings: H::Lock<MapRanges>,
    /// How often they changed.
    pub(crate) mapping_changes: Changes,
    /// Pages of the tree, readable without a lock.
    pub(crate) nr_pages: AtomicU64,
    /// Where background writeback goes on.
    pub(crate) writeback_index: AtomicU32,
    /// Jiffies when it became dirty.
    pub(crate) dirtied_when: AtomicU64,
    /// On a flusher's lists.
    pub(crate) is_queued: AtomicBool,
    /// Whose pages of it became dirty since it was clean (`writeback::group`).
    pub(crate) dirtied_by: AtomicU16,
    /// A writeback error that was not reported yet.
    pub(crate) write_error: AtomicBool,
    /// No more than one dirtying/unlink at a time: the file is being deleted.
    pub(crate) is_deleted: AtomicBool,
    /// Each descriptor holds one.
    opens: Arc<()>,
}

/// How a descriptor is read (fadvise).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// Readahead as usual.
    #[default]
    Normal,
    /// Twice as much.
    Sequential,
    /// None.
    Random,
}

/// An open file: how it is read, and its readahead state (`struct file`).
#[doc(alias = "file")]
pub struct OpenFile<H: Tasks> {
    /// The file.
    pub file: Arc<File<H>>,
    /// Readahead state; `Table` class.
    pub(crate) readahead: H::Lock<ReadAhead>,
    /// NOREUSE advice.
    pub(crate) no_reuse: AtomicBool,
    _is_open: Arc<()>,
}

impl<H: Tasks> File<H> {
    fn new(host: &H, rules: RwSemRules, id: FileId, spec: FileSpec) -> Self {
        let mappings = MapRanges::default();
        File {
            id,
            spec,
            size: AtomicU64::new(spec.size.min(u64::from(spec.max_pages) * PAGE_SIZE as u64)),
            tree: host.new_lock(LockClass::Table, Tree::default()),
            xa_lock: host.new_lock(LockClass::Mapping, ()),
            rwsem: RwSem::new(host, rules, "a file"),
            mapping_changes: mappings.changes().clone(),
            mappings: host.new_lock(LockClass::Table, mappings),
            nr_pages: AtomicU64::new(0),
            writeback_index: AtomicU32::new(0),
            dirtied_when: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            dirtied_by: AtomicU16::new(0),
            write_error: AtomicBool::new(false),
            is_deleted: AtomicBool::new(false),
            opens: Arc::new(()),
        }
    }

    /// Bytes.
    #[inline(always)]
    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Pages that the size covers, the last one perhaps in part.
    #[inline(always)]
    pub fn size_pages(&self) -> u64 {
        self.size().div_ceil(PAGE_SIZE as u64)
    }

    /// Cached pages.
    #[inline(always)]
    pub fn nr_pages(&self) -> u64 {
        self.nr_pages.load(Relaxed)
    }

    /// It lives in memory and swap.
    #[inline(always)]
    pub fn is_memory(&self) -> bool {
        self.spec.filesystem.is_memory
    }

    /// Somebody has it open, or maps it.
    pub fn is_open(&self) -> bool {
        Arc::strong_count(&self.opens) > 1
    }

    /// Where a page of the file lies on its device.
    #[inline(always)]
    pub fn device_page(&self, index: u32) -> u64 {
        self.spec.device_start + u64::from(index)
    }
}

impl<H: Tasks> OpenFile<H> {
    /// Keeps the window that was decided on; advice and counts may have changed meanwhile.
    pub(super) fn store_window(&self, cx: &Cx<'_, H>, decided: &ReadAhead) {
        let mut state = self.readahead.lock(cx.cpu());
        (state.start, state.size) = (decided.start, decided.size);
        (state.async_size, state.order) = (decided.async_size, decided.order);
    }
}

impl<H: Devices> Kernel<H> {
    /// Makes a file.
    pub fn create_file(&self, cx: &Cx<'_, H>, spec: FileSpec) -> Arc<File<H>> {
        let id = FileId(self.next_file.fetch_add(1, Relaxed));
        let file = Arc::new(File::new(cx.host, self.mem.policy.locks.rwsem(), id, spec));
        self.files.lock(cx.cpu()).insert(id.0, Arc::clone(&file));
        file
    }

    /// A file by number; none once it is deleted and dropped.
    pub fn file(&self, cx: &Cx<'_, H>, id: FileId) -> Option<Arc<File<H>>> {
        self.files.lock(cx.cpu()).get(&id.0).cloned()
    }

    /// All files, by number.
    pub fn all_files(&self, cx: &Cx<'_, H>) -> Vec<Arc<File<H>>> {
        self.files.lock(cx.cpu()).values().cloned().collect()
    }

    /// Opens a file.
    pub fn open(&self, cx: &Cx<'_, H>, file: &Arc<File<H>>) -> Arc<OpenFile<H>> {
        // A file in memory has no device.
        let ra_pages = if file.is_memory() { DeviceSpec::RA_PAGES } else { self.ra_pages(file) };
        let readahead = cx.host.new_lock(LockClass::Table, ReadAhead::new(ra_pages));
        let (file, no_reuse, _is_open) =
            (Arc::clone(file), AtomicBool::new(false), Arc::clone(&file.opens));
        Arc::new(OpenFile { file, readahead, no_reuse, _is_open })
    }
}
