//! The memory of a filesystem's write bios (rules/writeback#bio-memory).
//!
//! When a filesystem writes a file back, it does not know how many pages are contiguous. So each of
//! its bios has room for 256 pages: a vector of 4096 bytes, one page. Random writes make a bio for
//! nearly every page, and each bio takes a page of memory until it is done. Vectors come from four
//! sources, in this order: a slab with a few empty ones; the allocator without reclaim; a shared
//! reserve of two (buffer heads: ext4) or 32 (iomap: XFS); and direct reclaim by the flusher.
//!
//! With buffer heads, this reclaim must not wait for any I/O (`GFP_NOIO`). It can take clean pages
//! only, finds none among dirty and anonymous ones, and scans the lists from top to bottom. With
//! iomap it may swap (`GFP_NOFS`). If reclaim fails too, the flusher waits for a vector and gets
//! the first that comes back: a returned vector refills an empty reserve first. (The reserve's own
//! vectors were taken last. They lie at the end of a queue for which a slow disk needs many
//! seconds. A flusher that waited for only those would leave all pages dirty meanwhile.)
//!
//! A captured stutterp run shows it: 29 pages scanned for each that direct reclaim got, five of six
//! of them anonymous, while kswapd needed 2.7.
//!
//! Not modelled: slabs of eight pages where eight contiguous ones are free; vectors of reads, which
//! have exactly the length that they need.
//!
//! Synchronisation: kept vectors are behind a `Table` lock, which is never held while pages are
//! allocated or freed. Vectors come back in interrupts, which free no pages. The next task that
//! submits a bio of any kind frees the surplus.

use alloc::vec::Vec;

use super::BioVector;
use crate::host::{Cx, Devices, Lock, Stall};
use crate::kernel::Kernel;
use crate::page::{Order, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::vmstat::NodeStat;
use crate::wait::WaitQueue;

/// Empty slabs of this size that are kept (`min_partial`: half the logarithm of 4096).
const KEPT_MAX: usize = 6;

/// The kernel library with which a filesystem writes its files. It decides how memory for a bio may
/// be reclaimed, and when a writer is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// With buffer heads (ext4).
    BufferHeads = 0,
    /// With iomap (XFS).
    Iomap = 1,
}

impl Writer {
    const fn gfp(self) -> Gfp {
        match self {
            Writer::BufferHeads => Gfp::GFP_NOIO,
            Writer::Iomap => Gfp::GFP_NOFS,
        }
    }

    /// Vectors in reserve.
    const fn reserve(self) -> u32 {
        match self {
            Writer::BufferHeads => 2,
            Writer::Iomap => 32,
        }
    }
}

/// Vectors that are not in use.
#[derive(Debug, Default)]
struct Kept {
    free: Vec<Pfn>,
    /// Of each reserve, in use.
    reserve_used: [u32; 2],
}

/// All vectors of a kernel.
pub struct BioVectors<H: Devices> {
    /// `Table` class.
    kept: H::Lock<Kept>,
    /// Vectors in `kept`, to see without the lock that they are not too many; a stale look frees them
    /// a bio later.
    nr_kept: AtomicUsize,
    /// Those for whom there is no memory, by reserve.
    wait: [WaitQueue<H>; 2],
}

impl<H: Devices> BioVectors<H> {
    pub(super) fn new(host: &H) -> Self {
        BioVectors {
            kept: host.new_lock(LockClass::Table, Kept::default()),
            nr_kept: AtomicUsize::new(0),
            wait: [WaitQueue::new(host), WaitQueue::new(host)],
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Allocates the memory of a bio that writes pages of a file, from the mempool if need be. May
    /// reclaim; no lock is held.
    #[doc(alias = "bio_alloc_bioset")]
    pub(crate) fn bio_vector(&self, cx: &Cx<'_, H>, writer: Writer) -> BioVector {
        if let Some(pfn) = self.kept_vector(cx) {
            return BioVector::Page(pfn);
        }
        let quiet = Gfp::NOWARN | Gfp::NORETRY | Gfp::NOMEMALLOC;
        if let Some(vector) = self.new_vector(cx, Gfp::GFP_NOWAIT | quiet) {
            return vector;
        }
        if let Some(vector) = self.reserved_vector(cx, writer) {
            return vector;
        }
        if let Some(vector) = self.new_vector(cx, writer.gfp() | quiet) {
            return vector;
        }
        // They come back when their I/O is done: it must be under way.
        self.plug_flush(cx);
        let _stall = cx.stall(Stall::Io);
        let mut vector = BioVector::Inline;
        self.block.vectors.wait[writer as usize].wait(cx, "memory for a bio", || {
            let found = self.awaited_vector(cx, writer);
            vector = found.unwrap_or_default();
            found.is_some()
        });
        vector
    }

    /// The vector that ends the wait, if it is available.
    fn awaited_vector(&self, cx: &Cx<'_, H>, writer: Writer) -> Option<BioVector> {
        let kept = self.kept_vector(cx);
        kept.map(BioVector::Page).or_else(|| self.reserved_vector(cx, writer))
    }

    /// Returns a bio's memory to its mempool or cache. From interrupts.
    #[doc(alias = "bio_put")]
    pub(super) fn put_bio_vector(&self, cx: &Cx<'_, H>, vector: BioVector) {
        let vectors = &self.block.vectors;
        match vector {
            BioVector::Inline => {}
            BioVector::Page(pfn) => {
                {
                    let mut kept = vectors.kept.lock(cx.cpu());
                    kept.free.push(pfn);
                    vectors.nr_kept.store(kept.free.len(), Relaxed);
                }
                if let Some(wait) = vectors.wait.iter().find(|wait| wait.has_waiters()) {
                    wait.wake_one(cx.host, cx.cpu());
                }
            }
            BioVector::Reserve(of) => {
                vectors.kept.lock(cx.cpu()).reserve_used[of] -= 1;
                vectors.wait[of].wake_one(cx.host, cx.cpu());
            }
        }
    }

    /// Frees surplus vectors. No lock is held.
    #[inline]
    pub(super) fn trim_bio_vectors(&self, cx: &Cx<'_, H>) {
        while self.block.vectors.nr_kept.load(Relaxed) > KEPT_MAX {
            let Some(pfn) = self.kept_vector(cx) else { return };
            self.mem.map.page(pfn).init_flags(PageFlags::empty());
            self.count_vector(cx, pfn, -1);
            let freed = self.mem.free(cx, pfn, Order::ZERO);
            debug_assert!(freed.is_ok(), "a vector that is not ours: {freed:?}");
        }
    }

    /// A vector that is already allocated.
    fn kept_vector(&self, cx: &Cx<'_, H>) -> Option<Pfn> {
        let vectors = &self.block.vectors;
        let mut kept = vectors.kept.lock(cx.cpu());
        let pfn = kept.free.pop();
        vectors.nr_kept.store(kept.free.len(), Relaxed);
        pfn
    }

    fn new_vector(&self, cx: &Cx<'_, H>, gfp: Gfp) -> Option<BioVector> {
        let node = self.mem.cpu_node(cx.cpu());
        let pfn = self.mem.alloc(cx, self, gfp, Order::ZERO, node, None)?;
        self.mem.map.page(pfn).init_flags(PageFlags::PINNED);
        self.count_vector(cx, pfn, 1);
        Some(BioVector::Page(pfn))
    }

    fn count_vector(&self, cx: &Cx<'_, H>, pfn: Pfn, delta: i64) {
        if let Some(zone) = self.mem.zone_of(pfn) {
            let stats = &self.mem.node(zone.node).stats;
            stats.add(cx.cpu(), NodeStat::SlabUnreclaimable as usize, delta);
        }
    }

    fn reserved_vector(&self, cx: &Cx<'_, H>, writer: Writer) -> Option<BioVector> {
        let mut kept = self.block.vectors.kept.lock(cx.cpu());
        let used = &mut kept.reserve_used[writer as usize];
        (*used < writer.reserve()).then(|| {
            *used += 1;
            BioVector::Reserve(writer as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;

    use super::super::manual::{DISK, Manual, kernel};
    use super::*;
    use crate::host::CpuId;

    #[test]
    fn who_writes_decides_what_may_be_waited_for() {
        assert_eq!(Writer::BufferHeads.gfp(), Gfp::GFP_NOIO);
        assert_eq!(Writer::Iomap.gfp(), Gfp::GFP_NOFS);
    }

    #[test]
    fn few_are_kept() {
        let host = Rc::new(Manual::default());
        let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
        let free = || kernel.mem.nr_free_pages() as i64;
        let before = free();
        let taken: Vec<_> = (0..10).map(|_| kernel.bio_vector(&cx, Writer::BufferHeads)).collect();
        assert!(taken.iter().all(|vector| matches!(vector, BioVector::Page(_))));
        taken.into_iter().for_each(|vector| kernel.put_bio_vector(&cx, vector));
        kernel.trim_bio_vectors(&cx);
        kernel.mem.drain_all(&cx, None);
        assert_eq!(before - free(), KEPT_MAX as i64);
        assert!(matches!(kernel.bio_vector(&cx, Writer::Iomap), BioVector::Page(_)));
        kernel.mem.drain_all(&cx, None);
        assert_eq!(before - free(), KEPT_MAX as i64, "one of those");
    }

    #[test]
    fn who_waits_takes_what_comes_back() {
        let host = Rc::new(Manual::default());
        let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
        let writer = Writer::BufferHeads;
        let vector = kernel.bio_vector(&cx, writer);
        while kernel.reserved_vector(&cx, writer).is_some() {}
        assert_eq!(kernel.awaited_vector(&cx, writer), None, "all are in use");
        kernel.put_bio_vector(&cx, vector);
        assert_eq!(
            kernel.awaited_vector(&cx, writer),
            Some(vector),
            "though it was not of the reserve"
        );
    }

    #[test]
    fn the_reserve_is_small_and_comes_back() {
        let host = Rc::new(Manual::default());
        let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
        let writer = Writer::BufferHeads;
        let taken: Vec<_> = (0..2).filter_map(|_| kernel.reserved_vector(&cx, writer)).collect();
        assert_eq!(taken, [BioVector::Reserve(0); 2]);
        assert_eq!(kernel.reserved_vector(&cx, writer), None);
        assert!(kernel.reserved_vector(&cx, Writer::Iomap).is_some(), "another reserve");
        kernel.put_bio_vector(&cx, taken[0]);
        assert!(kernel.reserved_vector(&cx, writer).is_some());
    }
}
