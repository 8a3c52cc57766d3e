//! The memory of a filesystem's write bios (rules/writeback#bio-memory).
//!
//! While a filesystem writes a file back it does not know how many pages will follow each other, so
//! each of its bios has room for 256: a vector of 4096 bytes, a page. Random writes make a bio of nearly
//! every page, and each takes a page of memory until it is done. They come from slabs of eight, or of one where
//! there are no eight pages in a row; then from a reserve of two (buffer heads: ext4)
//! or 32 (iomap: XFS) that is shared by all, and then the flusher reclaims directly. Where buffer heads
//! are in use it may not wait for any I/O meanwhile (`GFP_NOIO`): it can take clean pages only, finds
//! none among dirty and anonymous ones, and goes through the lists from top to bottom. With iomap it may
//! swap (`GFP_NOFS`). If that fails too it waits for a vector to come back.
//!
//! Captured stutterp runs show it: up to 29 pages scanned for each that direct
//! reclaim got, five of six of them anonymous, while kswapd needed 2.7.
//!
//! A slab of eight stays until all of them are back, and a few empty ones are kept. So the vectors of a first burst,
//! when there was memory, serve those that follow: a flusher that had to ask for each anew, or that waited for one of
//! the reserve, which lie at the end of a queue that the disk takes seconds for, would leave pages dirty that reclaim
//! waits for.
//!
//! Left out: slabs that a CPU has for itself; vectors of reads, which are as long as they need to be.
//!
//! Synchronisation: what is kept is behind a `Table` lock, which is never held while pages are
//! allocated or freed. Vectors come back in interrupts, which free no pages: the next to submit a bio
//! of any kind frees the slabs that are too many.

use alloc::vec::Vec;

use super::BioVector;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{Order, PageFlags, Pfn};
use crate::page_alloc::Gfp;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::vmstat::NodeStat;
use crate::wait::WaitQueue;

/// Slabs with a vector to spare above which an empty one is freed (`min_partial`).
const KEPT_MAX: usize = 6;
/// Order of a slab where there is such a block.
const SLAB_ORDER: Order = Order(3);

/// By which of the kernel's libraries a filesystem writes its files. It decides what may be done for the
/// memory of a bio, and when a writer is throttled.
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

/// A block of pages, each a vector.
#[derive(Clone, Copy, Debug)]
struct Slab {
    first: Pfn,
    order: Order,
    /// Vectors that are not in use, a bit each.
    free: u8,
}

impl Slab {
    /// None in use.
    const fn whole(first: Pfn, order: Order) -> Slab {
        Slab { first, order, free: ((1_u16 << (1 << order.0)) - 1) as u8 }
    }

    const fn is_whole(self) -> bool {
        self.free == Slab::whole(self.first, self.order).free
    }

    /// The bit of a vector of this slab.
    fn bit(self, vector: Pfn) -> Option<u8> {
        let at = vector.0.checked_sub(self.first.0)?;
        (u64::from(at) < self.order.pages()).then(|| 1 << at)
    }
}

/// What is there.
#[derive(Debug, Default)]
struct Kept {
    slabs: Vec<Slab>,
    /// Of each reserve, in use.
    reserve_used: [u32; 2],
}

impl Kept {
    /// A vector of a slab that has one to spare, of one in use first: what is empty may go one day.
    fn take(&mut self) -> Option<Pfn> {
        let at = self.slabs.iter().position(|slab| slab.free != 0 && !slab.is_whole());
        let at = at.or_else(|| self.slabs.iter().position(|slab| slab.free != 0))?;
        let slab = &mut self.slabs[at];
        let offset = slab.free.trailing_zeros();
        slab.free &= !(1 << offset);
        Some(slab.first.add(offset))
    }

    fn put(&mut self, vector: Pfn) {
        let mut slabs = self.slabs.iter_mut();
        let found = slabs.find_map(|slab| slab.bit(vector).map(|bit| (slab, bit)));
        debug_assert!(found.is_some(), "a vector that is not ours: {vector:?}");
        if let Some((slab, bit)) = found {
            slab.free |= bit;
        }
    }

    fn nr_to_spare(&self) -> usize {
        self.slabs.iter().filter(|slab| slab.free != 0).count()
    }
}

/// All vectors of a kernel.
pub struct BioVectors<H: Devices> {
    /// `Table` class.
    kept: H::Lock<Kept>,
    /// Slabs with a vector to spare, to see without the lock that they are not too many; a stale look frees
    /// one a bio later.
    nr_to_spare: AtomicUsize,
    /// Those for whom there is no memory, by reserve.
    wait: [WaitQueue<H>; 2],
}

impl<H: Devices> BioVectors<H> {
    pub(super) fn new(host: &H) -> Self {
        BioVectors {
            kept: host.new_lock(LockClass::Table, Kept::default()),
            nr_to_spare: AtomicUsize::new(0),
            wait: [WaitQueue::new(host), WaitQueue::new(host)],
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// Memory for a bio that a file's pages are written with. May reclaim; no lock is held.
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
        // They come back when their I/O is done: it must be under way. The first that does will do, of the
        // reserve or not: those of the reserve were taken last, and a slow disk may have seconds of work
        // before it gets to them.
        self.plug_flush(cx);
        let mut vector = BioVector::Inline;
        self.block.vectors.wait[writer as usize].wait(cx, "memory for a bio", || {
            let kept = self.kept_vector(cx).map(BioVector::Page);
            let found = kept.or_else(|| self.reserved_vector(cx, writer));
            vector = found.unwrap_or_default();
            found.is_some()
        });
        vector
    }

    /// A bio is done with its memory. From interrupts.
    pub(super) fn put_bio_vector(&self, cx: &Cx<'_, H>, vector: BioVector) {
        let vectors = &self.block.vectors;
        match vector {
            BioVector::Inline => {}
            BioVector::Page(pfn) => {
                {
                    let mut kept = vectors.kept.lock(cx.cpu());
                    kept.put(pfn);
                    vectors.nr_to_spare.store(kept.nr_to_spare(), Relaxed);
                }
                // It fills up a reserve that somebody has emptied, before it goes anywhere else.
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

    /// Frees empty slabs that are too many. No lock is held.
    #[inline]
    pub(super) fn trim_bio_vectors(&self, cx: &Cx<'_, H>) {
        while self.block.vectors.nr_to_spare.load(Relaxed) > KEPT_MAX {
            let Some(Slab { first, order, .. }) = self.slab_to_free(cx) else { return };
            self.mem.map.page(first).init_flags(PageFlags::empty());
            self.count_vectors(cx, first, -(order.pages() as i64));
            let freed = self.mem.free(cx, first, order);
            debug_assert!(freed.is_ok(), "a slab that is not ours: {freed:?}");
        }
    }

    fn slab_to_free(&self, cx: &Cx<'_, H>) -> Option<Slab> {
        let vectors = &self.block.vectors;
        let mut kept = vectors.kept.lock(cx.cpu());
        let at = kept.slabs.iter().position(|slab| slab.is_whole())?;
        let slab = (kept.nr_to_spare() > KEPT_MAX).then(|| kept.slabs.remove(at));
        vectors.nr_to_spare.store(kept.nr_to_spare(), Relaxed);
        slab
    }

    /// One that is there already.
    fn kept_vector(&self, cx: &Cx<'_, H>) -> Option<Pfn> {
        let vectors = &self.block.vectors;
        let mut kept = vectors.kept.lock(cx.cpu());
        let pfn = kept.take();
        vectors.nr_to_spare.store(kept.nr_to_spare(), Relaxed);
        pfn
    }

    /// One of a new slab: of eight if there are eight pages in a row, for which nobody is bothered.
    fn new_vector(&self, cx: &Cx<'_, H>, gfp: Gfp) -> Option<BioVector> {
        let node = self.mem.cpu_node(cx.cpu());
        let try_order = |gfp: Gfp, order: Order| {
            let first = self.mem.alloc(cx, self, gfp, order, node, None)?;
            Some(Slab::whole(first, order))
        };
        let slab = try_order(gfp.difference(Gfp::RECLAIM), SLAB_ORDER)
            .or_else(|| try_order(gfp, Order::ZERO))?;
        self.mem.map.page(slab.first).init_flags(PageFlags::PINNED);
        self.count_vectors(cx, slab.first, slab.order.pages() as i64);
        let mut kept = self.block.vectors.kept.lock(cx.cpu());
        kept.slabs.push(slab);
        drop(kept);
        self.kept_vector(cx).map(BioVector::Page)
    }

    fn count_vectors(&self, cx: &Cx<'_, H>, pfn: Pfn, delta: i64) {
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
        let taken: Vec<_> = (0..80).map(|_| kernel.bio_vector(&cx, Writer::BufferHeads)).collect();
        assert!(taken.iter().all(|vector| matches!(vector, BioVector::Page(_))));
        assert_eq!(before - free(), 80, "ten slabs");
        taken[1..].iter().for_each(|&vector| kernel.put_bio_vector(&cx, vector));
        kernel.trim_bio_vectors(&cx);
        kernel.mem.drain_all(&cx, None);
        let kept = 8 * KEPT_MAX as i64;
        assert_eq!(before - free(), kept, "of one a vector is in use");
        assert!(matches!(kernel.bio_vector(&cx, Writer::Iomap), BioVector::Page(_)));
        assert_eq!(before - free(), kept, "one of those");
    }

    #[test]
    fn a_slab_is_of_one_page_where_there_are_no_eight() {
        let host = Rc::new(Manual::default());
        let (kernel, cx) = (kernel(&host, &[DISK]), Cx::new(&*host, CpuId(0)));
        let mut held = Vec::new();
        while let Some(pfn) = kernel.mem.alloc(
            &cx,
            &kernel,
            Gfp::NOWARN | Gfp::NORETRY,
            SLAB_ORDER,
            kernel.mem.cpu_node(cx.cpu()),
            None,
        ) {
            held.push(pfn);
        }
        let free = || kernel.mem.nr_free_pages() as i64;
        let before = free();
        let BioVector::Page(vector) = kernel.bio_vector(&cx, Writer::BufferHeads) else {
            panic!("there are single pages")
        };
        kernel.mem.drain_all(&cx, None);
        assert_eq!(before - free(), 1);
        kernel.put_bio_vector(&cx, BioVector::Page(vector));
        assert_eq!(kernel.kept_vector(&cx), Some(vector));
        for pfn in held {
            kernel.mem.free(&cx, pfn, SLAB_ORDER).expect("it is ours");
        }
    }

    #[test]
    fn vectors_of_a_slab_in_use_are_taken_first() {
        let mut kept = Kept::default();
        kept.slabs = [16, 32].map(|first| Slab::whole(Pfn(first), SLAB_ORDER)).to_vec();
        assert_eq!(kept.take(), Some(Pfn(16)));
        kept.slabs.rotate_left(1);
        assert_eq!(kept.take(), Some(Pfn(17)), "not one of the slab that nobody uses");
        kept.put(Pfn(16));
        assert_eq!((kept.take(), kept.nr_to_spare()), (Some(Pfn(16)), 2));
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
