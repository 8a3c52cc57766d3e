//! Buffer heads: the per-page data of a filesystem that writes block by block
//! (rules/slab#buffer-heads).
//!
//! ```text
//! write, or write fault ── attach_buffers ──▶ page with BUFFERS, and its own object
//! page leaves its file  ── release_buffers ─▶ the object goes back to its slab
//! page moves            ── move_buffers ────▶ the object belongs to the new frame
//! ```
//!
//! A page of 4 KiB is one block, so it has one object, and a folio has one for each of its pages.
//! The model needs only the object's memory. It lies where memory was free at the page's first
//! write, in an unmovable slab, and exists as long as the page.
//!
//! Synchronisation: attaching, moving and releasing need the page lock. [`PageBuffers`] is behind a
//! `Table` lock, never held while memory is allocated or freed.
//!
//! From: `syscall`, `vm::fault` · to: `slab`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::File;
use super::filesystem::Buffers;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::slab::{CacheKind, ObjectId};
use crate::units::Error;

/// Number of frames whose buffers are stored together: a pageblock.
const CHUNK: usize = 512;

/// Which frames have a buffer head, and which: memory only for the parts of the machine that were
/// written to.
#[derive(Debug, Default)]
pub(crate) struct PageBuffers {
    chunks: Vec<Option<Box<[ObjectId; CHUNK]>>>,
    nr: u64,
}

impl PageBuffers {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.nr
    }

    /// The one of a frame.
    pub(crate) fn of(&self, pfn: Pfn) -> Option<ObjectId> {
        let chunk = self.chunks.get(pfn.idx() / CHUNK)?.as_ref()?;
        Some(chunk[pfn.idx() % CHUNK]).filter(|&id| id != ObjectId::NONE)
    }

    fn put(&mut self, pfn: Pfn, id: ObjectId) {
        let number = pfn.idx() / CHUNK;
        if self.chunks.len() <= number {
            self.chunks.resize_with(number + 1, || None);
        }
        let chunk = self.chunks[number].get_or_insert_with(|| Box::new([ObjectId::NONE; CHUNK]));
        debug_assert_eq!(chunk[pfn.idx() % CHUNK], ObjectId::NONE, "{pfn:?} has buffers already");
        chunk[pfn.idx() % CHUNK] = id;
        self.nr += 1;
    }

    fn take(&mut self, pfn: Pfn) -> Option<ObjectId> {
        let id = self.of(pfn)?;
        let chunk = self.chunks[pfn.idx() / CHUNK].as_mut()?;
        chunk[pfn.idx() % CHUNK] = ObjectId::NONE;
        self.nr -= 1;
        Some(id)
    }
}

impl<H: Devices> Kernel<H> {
    /// Attaches buffer heads to a locked page before it is written to, if its filesystem works with
    /// them.
    ///
    /// # Errors
    /// If there is no memory for them.
    #[doc(alias = "create_empty_buffers")]
    pub(crate) fn attach_buffers(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        folio: Folio,
    ) -> Result<(), Error> {
        let page = self.mem.map.page(folio);
        if file.spec.filesystem.buffers == Buffers::None || page.is(PageFlags::BUFFERS) {
            return Ok(());
        }
        debug_assert!(page.is(PageFlags::LOCKED), "buffers for a page that is not locked");
        // The page's group pays for them.
        let payer = self.mem.groups.owner_if_on(folio).unwrap_or_default();
        for (nr, frame) in folio.frames().enumerate() {
            let id = self.slab_take_for(cx, CacheKind::BufferHead, Gfp::GFP_NOFS, payer);
            let Some(id) = id else {
                // All of them or none.
                folio.frames().take(nr).for_each(|frame| self.give_buffer(cx, frame));
                return Err(Error::NoMemory);
            };
            self.buffers.lock(cx.cpu()).put(frame, id);
        }
        page.flag_set::<H>(PageFlags::BUFFERS);
        Ok(())
    }

    /// Frees the buffer heads of a locked page that leaves its file.
    #[doc(alias = "try_to_free_buffers")]
    #[inline(always)]
    pub(super) fn release_buffers(&self, cx: &Cx<'_, H>, (folio, page): (Folio, &Page)) {
        if page.flag_test_clear::<H>(PageFlags::BUFFERS) {
            self.give_buffers(cx, folio);
        }
    }

    #[inline(never)]
    fn give_buffers(&self, cx: &Cx<'_, H>, folio: Folio) {
        folio.frames().for_each(|frame| self.give_buffer(cx, frame));
    }

    fn give_buffer(&self, cx: &Cx<'_, H>, frame: Pfn) {
        let id = self.buffers.lock(cx.cpu()).take(frame);
        debug_assert!(id.is_some(), "{frame:?} says that it has buffers");
        if let Some(id) = id {
            self.slab_give(cx, CacheKind::BufferHead, id);
        }
    }

    /// Moves the buffer heads of a locked page to its new frame.
    #[doc(alias = "buffer_migrate_folio")]
    pub(crate) fn move_buffers(&self, cx: &Cx<'_, H>, old: Folio, new: Folio) {
        if !self.mem.map.page(old).flag_test_clear::<H>(PageFlags::BUFFERS) {
            return;
        }
        let mut buffers = self.buffers.lock(cx.cpu());
        for (from, to) in old.frames().zip(new.frames()) {
            if let Some(id) = buffers.take(from) {
                buffers.put(to, id);
                self.mem.map.page(new).flag_set::<H>(PageFlags::BUFFERS);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::check_kernel;
    use crate::block::{DeviceId, DeviceSpec};
    use crate::config::{Machine, preset};
    use crate::host::{CpuId, Solo};
    use crate::kernel::KernelSpec;
    use crate::page::PAGE_SIZE;
    use crate::page_alloc::boot;
    use crate::page_cache::{FileSpec, Filesystem};
    use crate::vmstat::NodeStat;
    use crate::zone::NodeId;

    #[test]
    fn frames_have_one_each() {
        let mut buffers = PageBuffers::default();
        let frames = [3, 511, 512, 100_000].map(Pfn);
        frames.iter().zip(0..).for_each(|(&pfn, id)| buffers.put(pfn, ObjectId(id)));
        assert_eq!(frames.map(|pfn| buffers.of(pfn)), [0, 1, 2, 3].map(|id| Some(ObjectId(id))));
        assert_eq!([0, 4, 513, 1 << 20].map(|pfn| buffers.of(Pfn(pfn))), [None; 4]);
        assert_eq!((buffers.take(Pfn(511)), buffers.take(Pfn(511))), (Some(ObjectId(1)), None));
        assert_eq!(buffers.len(), 3);
    }

    /// rules/slab#buffer-heads.
    #[test]
    fn what_is_written_has_buffers_and_what_is_read_has_none() {
        const PAGES: u64 = 390;
        let host = Solo::default();
        let machine = Machine::from_sizes("stage", &[(64 << 20, alloc::vec![0, 1])]).unwrap();
        let cx = Cx::new(&host, CpuId(0));
        let mem = boot(&host, &machine, &preset("6.1").unwrap()).unwrap();
        let spec = KernelSpec {
            devices: alloc::vec![DeviceSpec::nvme(1 << 20)],
            swap: alloc::vec![],
            groups: 0,
        };
        let kernel = Kernel::new(&cx, mem, &spec).unwrap();
        // Written, dropped, read, one page of it written; then buffers and pages at each stage.
        let stages = |filesystem| {
            let of_cache = || kernel.buffers.lock(CpuId(0)).len();
            let stats = &kernel.mem.node(NodeId(0)).stats;
            let slab = || stats.read_exact(NodeStat::SlabReclaimable as usize);
            let spec = FileSpec::new(filesystem, DeviceId(0), 0, PAGES as u32).with_size(0);
            let open = kernel.open(&cx, &kernel.create_file(&cx, spec));
            let (bytes, before) = (PAGES * PAGE_SIZE as u64, slab());
            assert_eq!(kernel.file_write(&cx, &open, 0, bytes), Ok(bytes));
            let written = (of_cache(), slab() - before);
            kernel.fsync(&cx, &open).unwrap();
            assert_eq!(kernel.invalidate(&cx, &open.file, 0, u32::MAX), (PAGES, 0));
            let dropped = of_cache();
            assert_eq!(kernel.file_read(&cx, &open, 0, bytes), Ok(bytes));
            let read = of_cache();
            assert_eq!(kernel.file_write(&cx, &open, 5 * PAGE_SIZE as u64, 10), Ok(10));
            check_kernel(&kernel, &cx).unwrap();
            let one = of_cache();
            kernel.delete_file(&cx, &open.file);
            check_kernel(&kernel, &cx).unwrap();
            (written, dropped, read, one, of_cache())
        };
        // 390 pages: ten slabs of 39; their tree: seven leaves and a root in one slab of 14.
        assert_eq!(stages(Filesystem::EXT4), ((PAGES, 10 + 2), 0, 0, 1, 0));
        assert_eq!(
            stages(Filesystem::EXT4_METADATA).2,
            PAGES,
            "a device's own page is read in blocks"
        );
        let ((none, _), ..) = stages(Filesystem::XFS);
        assert_eq!(none, 0, "XFS writes ranges");
    }
}
