//! Per-CPU batches: list operations that share a hold of `lru_lock` (rules/lru#batches).
//!
//! A page in a batch carries an extra reference. The entry that fills a batch drains it; so does
//! [`Kernel::lru_add_drain`].
//!
//! | batch | filled by | charged when drained |
//! |---|---|---|
//! | add | faults, page cache, swap-in, put-back | a move a page |
//! | rotate | the end of writeback, from interrupts | a move a page |
//! | deactivate file, deactivate, lazy free | invalidation, MADV_COLD, MADV_FREE | a move a page |
//! | activate | [`Kernel::mark_accessed`] | an activation a page (finding the page included) |
//! | mlock | `mlock_page`, `munlock_page` | a move a page |
//!
//! Synchronisation: a CPU's batches are behind its batch lock, which is held while one of them
//! drains, because the kernel does not leave the CPU then. Interrupts may hit the holder, so the
//! batch that they fill has a separate lock. That lock is released before `lru_lock` is taken, and
//! interrupts need no other. `pending` shows without the lock whether there is anything to drain. A
//! remote reader may see an old value, and miss an entry that is being added.

use core::hint::cold_path;

use super::LockedLru;
use super::generations::slot_of_page;
use super::mlock::MlockOp;
use crate::host::{Cost, CpuId, Cx, Devices, Host, Lock, Phase};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags};
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicU8, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::vmstat::{GroupStat, VmEvent};

/// The effect of a batch on its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum BatchKind {
    /// Onto the list its flags name.
    Add = 0,
    /// To the tail of the inactive list (end of writeback). Filled from interrupts.
    Rotate = 1,
    /// Out of the way, after a failed invalidation.
    DeactivateFile = 2,
    /// To the inactive list (MADV_COLD).
    Deactivate = 3,
    /// To the inactive file list (MADV_FREE).
    LazyFree = 4,
    /// To the active list (mark_accessed).
    Activate = 5,
    /// To the unevictable list or back: filled by `mlock_page`, `mlock_new_page`, `munlock_page`.
    Mlock = 6,
}

impl BatchKind {
    /// Number of kinds.
    pub const COUNT: usize = 7;
    /// In the order in which they are drained.
    pub const ALL: [BatchKind; Self::COUNT] = [
        BatchKind::Add,
        BatchKind::Rotate,
        BatchKind::DeactivateFile,
        BatchKind::Deactivate,
        BatchKind::LazyFree,
        BatchKind::Activate,
        BatchKind::Mlock,
    ];

    /// Is the batch any use for a page with these flags? Looked at when the page is queued.
    #[inline(always)]
    fn wants(self, page: &Page) -> bool {
        let flags = page.flags();
        let has = |these| flags.contains(these);
        if matches!(self, BatchKind::Add | BatchKind::Mlock) {
            return true;
        }
        if has(PageFlags::UNEVICTABLE) {
            return false;
        }
        match self {
            BatchKind::Add | BatchKind::Mlock | BatchKind::DeactivateFile => true,
            BatchKind::Rotate => {
                has(PageFlags::LRU) && !flags.intersects(PageFlags::LOCKED | PageFlags::DIRTY)
            }
            // Listed pages are never ACTIVE under MGLRU.
            BatchKind::Deactivate if slot_of_page(flags).is_some() => true,
            BatchKind::Deactivate => has(PageFlags::LRU | PageFlags::ACTIVE),
            BatchKind::LazyFree => {
                has(PageFlags::LRU | PageFlags::SWAPBACKED)
                    && !has(PageFlags::SWAPCACHE)
                    && page.is_anon()
            }
            BatchKind::Activate => has(PageFlags::LRU) && !has(PageFlags::ACTIVE),
        }
    }
}

/// Most folios that are looked up or written together up to 6.8 (`PAGEVEC_SIZE`): two words short
/// of two cache lines of the kernel's pointers. [`Kernel::lookup_batch`] has the policy's number.
pub(crate) const PAGEVEC: usize = 15;

/// Most pages that are looked up together, or wait for the same operation: `reclaim.lru-batch` says
/// at how many of them it is done (rules/lru#batches).
pub(crate) const BATCH_MAX: usize = 31;

/// Pages that wait for the same operation on the LRU lists, a reference held on each (a pagevec).
#[doc(alias = "folio_batch")]
#[doc(alias = "pagevec")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    len: u32,
    folios: [Folio; BATCH_MAX],
}

impl Batch {
    /// The pages, oldest first.
    #[inline(always)]
    pub fn pages(&self) -> &[Folio] {
        &self.folios[..self.len as usize]
    }

    /// Adds a page; how many there are now.
    #[inline(always)]
    fn push(&mut self, folio: Folio) -> u32 {
        self.folios[self.len as usize] = folio;
        self.len += 1;
        self.len
    }
}

/// The batches of one CPU that only tasks fill.
#[derive(Debug, Default)]
pub struct Batches {
    /// By [`BatchKind`]; that of `Rotate` stays empty.
    batches: [Batch; BatchKind::COUNT],
    /// What to do with each page of the mlock batch.
    mlock_ops: [MlockOp; BATCH_MAX],
}

impl Batches {
    /// The pages of a batch.
    pub fn pages(&self, kind: BatchKind) -> &[Folio] {
        self.batches[kind as usize].pages()
    }
}

/// All LRU batches of one CPU (pagevecs).
#[doc(alias = "cpu_fbatches")]
#[doc(alias = "lru_pvecs")]
pub struct CpuBatches<H: Host> {
    tasks: H::CpuLock<Batches>,
    rotate: H::CpuLock<Batch>,
    /// Bit of each kind in `tasks` that has pages.
    pending: AtomicU8,
    /// Pages in `rotate`.
    nr_rotate: AtomicU8,
    /// Entries that fill a batch.
    full_at: u32,
}

impl<H: Host> CpuBatches<H> {
    pub(super) fn new(host: &H, cpu: CpuId, mem: &PageAllocator<H>) -> Self {
        let full_at = u32::from(mem.policy.reclaim.lru_batch).clamp(1, BATCH_MAX as u32);
        CpuBatches {
            tasks: host.new_cpu_lock(LockClass::LruBatch, cpu, Batches::default()),
            rotate: host.new_cpu_lock(LockClass::LruBatch, cpu, Batch::default()),
            pending: AtomicU8::new(0),
            nr_rotate: AtomicU8::new(0),
            full_at,
        }
    }

    /// Nothing waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.pending.load(Relaxed) == 0 && self.nr_rotate.load(Relaxed) == 0
    }

    /// Empties the interrupts' batch while its lock is held, so no interrupt finds it full.
    fn take_rotate(&self, rotate: &mut Batch) -> Batch {
        self.nr_rotate.store(0, Relaxed);
        core::mem::take(rotate)
    }

    /// Every waiting page and its operation (for the audit).
    pub(crate) fn each(&self, cpu: CpuId, mut visit: impl FnMut(BatchKind, Folio)) {
        let tasks = self.tasks.lock(cpu);
        for kind in BatchKind::ALL {
            tasks.pages(kind).iter().for_each(|&folio| visit(kind, folio));
        }
        drop(tasks);
        self.rotate.lock(cpu).pages().iter().for_each(|&folio| visit(BatchKind::Rotate, folio));
    }

    /// Pages that wait.
    pub fn len(&self, cx: &Cx<'_, H>) -> usize {
        let tasks = self.tasks.lock(cx.cpu());
        let waiting: usize = tasks.batches.iter().map(|batch| batch.pages().len()).sum();
        waiting + usize::from(self.nr_rotate.load(Relaxed))
    }
}

impl<H: Devices> Kernel<H> {
    /// Most folios that are looked up or written together: 15, or more if batches are larger
    /// (rules/lru#lookups).
    #[inline]
    pub(crate) fn lookup_batch(&self) -> usize {
        usize::from(self.mem.policy.reclaim.lru_batch).clamp(PAGEVEC, BATCH_MAX)
    }

    /// Queues a page for a batch operation on this CPU, taking a reference, unless the operation
    /// would not change it; a full batch is drained.
    #[inline]
    pub fn lru_batch(&self, cx: &Cx<'_, H>, kind: BatchKind, folio: Folio) {
        let page = self.mem.map.page(folio);
        if kind.wants(page) {
            page.get::<H>(1);
            match kind {
                BatchKind::Rotate => self.rotate_push(cx, folio),
                _ => self.batch_push(cx, kind, folio, MlockOp::default()),
            }
        }
    }

    /// Adds a page to its LRU list with this CPU's add batch (`folio_add_lru`).
    #[doc(alias = "folio_add_lru")]
    #[doc(alias = "lru_cache_add")]
    #[inline]
    pub fn lru_add(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.note_taken(cx, folio.nr_pages());
        if self.is_mglru() {
            cold_path();
            self.begin_generation(cx, folio);
        }
        self.lru_batch(cx, BatchKind::Add, folio);
    }

    /// Moves a page marked RECLAIM to the LRU tail when its writeback ends, if it is clean and on a
    /// list. From interrupts.
    #[doc(alias = "folio_rotate_reclaimable")]
    #[doc(alias = "rotate_reclaimable_page")]
    pub fn lru_rotate(&self, cx: &Cx<'_, H>, folio: Folio) {
        self.lru_batch(cx, BatchKind::Rotate, folio);
    }

    /// Drains this CPU's LRU batches.
    ///
    /// Linux: same name.
    #[inline]
    pub fn lru_add_drain(&self, cx: &Cx<'_, H>) {
        self.lru_add_drain_cpu(cx, cx.cpu());
    }

    /// Drains the LRU batches of one CPU, in table order, then mlock's.
    ///
    /// Linux: same name.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    #[inline]
    pub fn lru_add_drain_cpu(&self, cx: &Cx<'_, H>, cpu: CpuId) {
        if !self.lru.batches[cpu.idx()].is_empty() {
            self.drain_cpu(cx, cpu);
        }
    }

    /// Drains the LRU batches of every CPU.
    ///
    /// Linux: same name.
    pub fn lru_add_drain_all(&self, cx: &Cx<'_, H>) {
        for cpu in 0..self.lru.batches.len() {
            self.lru_add_drain_cpu(cx, CpuId(cpu as u16));
        }
    }

    /// Makes a page active while it waits in this CPU's add batch; false if it does not wait there.
    #[doc(alias = "__lru_cache_activate_folio")]
    #[doc(alias = "__lru_cache_activate_page")]
    pub(super) fn activate_in_add_batch(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let cpu = cx.cpu();
        let batches = &self.lru.batches[cpu.idx()];
        if batches.pending.load(Relaxed) & (1 << BatchKind::Add as u8) == 0 {
            return false;
        }
        let tasks = batches.tasks.lock(cpu);
        let found = tasks.pages(BatchKind::Add).iter().rev().any(|&p| p == folio);
        if found {
            self.mem.map.page(folio).flag_set::<H>(PageFlags::ACTIVE);
        }
        found
    }

    /// The page's reference is taken.
    #[inline]
    pub(super) fn batch_push(&self, cx: &Cx<'_, H>, kind: BatchKind, folio: Folio, op: MlockOp) {
        let cpu = cx.cpu();
        let batches = &self.lru.batches[cpu.idx()];
        let mut tasks = batches.tasks.lock(cpu);
        let len = tasks.batches[kind as usize].push(folio);
        if kind == BatchKind::Mlock {
            tasks.mlock_ops[len as usize - 1] = op;
        }
        if len == batches.full_at || folio.is_large() {
            self.drain_kind(cx, kind, &mut tasks, batches);
        } else if len == 1 {
            batches.pending.store(batches.pending.load(Relaxed) | 1 << kind as u8, Relaxed);
        }
    }

    fn rotate_push(&self, cx: &Cx<'_, H>, folio: Folio) {
        let cpu = cx.cpu();
        let batches = &self.lru.batches[cpu.idx()];
        let full = {
            let mut rotate = batches.rotate.lock(cpu);
            let len = rotate.push(folio);
            if len != batches.full_at && !folio.is_large() {
                batches.nr_rotate.store(len as u8, Relaxed);
                return;
            }
            batches.take_rotate(&mut rotate)
        };
        self.rotate_pages(cx, &full);
    }

    #[inline(never)]
    fn drain_cpu(&self, cx: &Cx<'_, H>, cpu: CpuId) {
        let _phase = cx.phase(Phase::Drain);
        let batches = &self.lru.batches[cpu.idx()];
        let (first, rest) = (1 << BatchKind::Add as u8, !(1 << BatchKind::Add as u8));
        if batches.pending.load(Relaxed) & first != 0 {
            let mut tasks = batches.tasks.lock(cx.cpu());
            self.drain_kind(cx, BatchKind::Add, &mut tasks, batches);
        }
        self.drain_rotate(cx, batches);
        if batches.pending.load(Relaxed) & rest != 0 {
            let mut tasks = batches.tasks.lock(cx.cpu());
            for kind in BatchKind::ALL {
                if kind != BatchKind::Add && tasks.batches[kind as usize].len != 0 {
                    self.drain_kind(cx, kind, &mut tasks, batches);
                }
            }
        }
    }

    /// Empties a batch of the locked ones.
    fn drain_kind(
        &self,
        cx: &Cx<'_, H>,
        kind: BatchKind,
        tasks: &mut Batches,
        batches: &CpuBatches<H>,
    ) {
        let pages = tasks.pages(kind);
        match kind {
            BatchKind::Mlock => self.apply_mlock(cx, pages, &tasks.mlock_ops),
            BatchKind::Add if !self.mem.policy.unmap.drains_lru => self.add_used(cx, pages),
            _ => self.apply_batch(cx, kind, pages),
        }
        self.release_pages(cx, pages);
        tasks.batches[kind as usize].len = 0;
        batches.pending.store(batches.pending.load(Relaxed) & !(1 << kind as u8), Relaxed);
    }

    /// Puts the pages of an add batch onto their lists, but for those that nothing uses any more:
    /// the batch has their last reference, so they are freed with it (7.2, rules/unmap#drains).
    #[inline(never)]
    fn add_used(&self, cx: &Cx<'_, H>, pages: &[Folio]) {
        let (mut used, mut nr) = ([Folio::default(); BATCH_MAX], 0);
        for &folio in pages.iter().filter(|&&folio| self.mem.map.page(folio).refcount() > 1) {
            used[nr] = folio;
            nr += 1;
        }
        self.apply_batch(cx, BatchKind::Add, &used[..nr]);
    }

    /// Empties the batch that interrupts fill; its lock is not held meanwhile.
    fn drain_rotate(&self, cx: &Cx<'_, H>, batches: &CpuBatches<H>) {
        if batches.nr_rotate.load(Relaxed) != 0 {
            let waiting = batches.take_rotate(&mut batches.rotate.lock(cx.cpu()));
            self.rotate_pages(cx, &waiting);
        }
    }

    fn rotate_pages(&self, cx: &Cx<'_, H>, batch: &Batch) {
        self.apply_batch(cx, BatchKind::Rotate, batch.pages());
        self.release_pages(cx, batch.pages());
    }

    /// Applies a batch's operation to its pages under `lru_lock`.
    #[doc(alias = "folio_batch_move_lru")]
    #[doc(alias = "pagevec_lru_move_fn")]
    fn apply_batch(&self, cx: &Cx<'_, H>, kind: BatchKind, pages: &[Folio]) {
        let mut held = None;
        let mut counts = Counts::default();
        for &folio in pages {
            let page = self.mem.map.page(folio);
            // New pages are on no list. Others may have left theirs since they were queued.
            if kind != BatchKind::Add && !page.flag_test_clear::<H>(PageFlags::LRU) {
                continue;
            }
            self.relock_lru(cx, &mut held, page);
            if let Some(lru) = &mut held {
                let moved = match kind {
                    BatchKind::Add => add(lru, page, folio, &mut counts),
                    BatchKind::Rotate => rotate(lru, page, folio, &mut counts),
                    BatchKind::DeactivateFile => deactivate_file(lru, page, folio, &mut counts),
                    BatchKind::Deactivate => deactivate(lru, page, folio, &mut counts),
                    BatchKind::LazyFree => lazy_free(lru, page, folio, &mut counts),
                    BatchKind::Activate => activate(lru, page, folio, &mut counts),
                    BatchKind::Mlock => false,
                };
                lru.add_work(moved.into());
            }
            page.flag_set::<H>(PageFlags::LRU);
        }
        drop(held);
        self.count_batch(cx, &counts);
    }

    fn count_batch(&self, cx: &Cx<'_, H>, counts: &Counts) {
        let events = [
            (VmEvent::UnevictablePgsCulled, counts.culled),
            (VmEvent::UnevictablePgsRescued, counts.rescued),
            (VmEvent::Pgrotated, counts.rotated),
            (VmEvent::Pgdeactivate, counts.deactivated),
            (VmEvent::Pglazyfree, counts.lazy_freed),
            (VmEvent::Pgactivate, counts.activated),
        ];
        for (event, pages) in events {
            if pages != 0 {
                self.mem.events.add(cx.cpu(), event, pages);
            }
        }
    }
}

/// Events of one drain.
#[derive(Default)]
struct Counts {
    culled: u64,
    rescued: u64,
    rotated: u64,
    deactivated: u64,
    lazy_freed: u64,
    activated: u64,
}

/// The pages of a folio that counts.
fn pages_if(folio: Folio, counts: bool) -> u64 {
    if counts { folio.nr_pages() } else { 0 }
}

// The operations: page by page, its lists locked, its LRU flag cleared. True if it moved.

type Locked<'a, 'h, H> = LockedLru<'a, 'h, H>;

/// Puts a page of the add batch onto the list its flags name.
#[doc(alias = "lru_add_fn")]
#[doc(alias = "__pagevec_lru_add_fn")]
fn add<H: Devices>(lru: &mut Locked<H>, page: &Page, folio: Folio, n: &mut Counts) -> bool {
    let was_unevictable = page.flag_test_clear::<H>(PageFlags::UNEVICTABLE);
    if page.is_evictable() {
        n.rescued += pages_if(folio, was_unevictable);
    } else {
        page.flag_clear::<H>(PageFlags::ACTIVE);
        page.flag_set::<H>(PageFlags::UNEVICTABLE);
        n.culled += pages_if(folio, !was_unevictable);
    }
    lru.link_head(folio);
    true
}

/// Moves a page to the tail of its inactive list.
#[doc(alias = "lru_move_tail_fn")]
#[doc(alias = "pagevec_move_tail_fn")]
fn rotate<H: Devices>(lru: &mut Locked<H>, page: &Page, folio: Folio, n: &mut Counts) -> bool {
    if page.is(PageFlags::UNEVICTABLE) {
        return false;
    }
    lru.unlink(folio);
    page.flag_clear::<H>(PageFlags::ACTIVE);
    lru.link_tail(folio);
    n.rotated += folio.nr_pages();
    true
}

/// Deactivates a file page that could not be invalidated, to the tail if it is clean.
#[doc(alias = "lru_deactivate_file_fn")]
fn deactivate_file<H: Devices>(
    lru: &mut Locked<H>,
    page: &Page,
    folio: Folio,
    n: &mut Counts,
) -> bool {
    let flags = page.flags();
    if flags.contains(PageFlags::UNEVICTABLE) || page.is_mapped() {
        return false;
    }
    lru.unlink(folio);
    page.flag_clear::<H>(PageFlags::ACTIVE | PageFlags::USED);
    if flags.intersects(PageFlags::DIRTY | PageFlags::WRITEBACK) {
        // Writeback's end moves it on to the tail.
        page.flag_set::<H>(PageFlags::RECLAIM);
        lru.link_head(folio);
    } else {
        lru.link_tail(folio);
        n.rotated += folio.nr_pages();
    }
    // Under MGLRU a listed page is not ACTIVE, so nothing is counted.
    let deactivated = pages_if(folio, flags.contains(PageFlags::ACTIVE));
    n.deactivated += deactivated;
    lru.count_for_group(GroupStat::Pgdeactivate, deactivated);
    true
}

/// Moves an active page to the head of its inactive list.
#[doc(alias = "lru_deactivate_fn")]
fn deactivate<H: Devices>(lru: &mut Locked<H>, page: &Page, folio: Folio, n: &mut Counts) -> bool {
    let is_listed = slot_of_page(page.flags()).is_some();
    if !page.is(PageFlags::ACTIVE) && !is_listed || page.is(PageFlags::UNEVICTABLE) {
        return false;
    }
    lru.unlink(folio);
    page.flag_clear::<H>(PageFlags::ACTIVE | PageFlags::USED);
    lru.link_head(folio);
    n.deactivated += folio.nr_pages();
    lru.count_for_group(GroupStat::Pgdeactivate, folio.nr_pages());
    true
}

/// Moves an anonymous page that MADV_FREE gave up to the inactive file list.
#[doc(alias = "lru_lazyfree_fn")]
fn lazy_free<H: Devices>(lru: &mut Locked<H>, page: &Page, folio: Folio, n: &mut Counts) -> bool {
    let flags = page.flags();
    let keeps_content = flags.intersects(PageFlags::SWAPCACHE | PageFlags::UNEVICTABLE);
    if keeps_content || !flags.contains(PageFlags::SWAPBACKED) || !page.is_anon() {
        return false;
    }
    lru.unlink(folio);
    page.flag_clear::<H>(PageFlags::ACTIVE | PageFlags::REFERENCED | PageFlags::SWAPBACKED);
    lru.link_head(folio);
    n.lazy_freed += folio.nr_pages();
    lru.count_for_group(GroupStat::Pglazyfree, folio.nr_pages());
    true
}

/// Moves an inactive page to the head of its active list.
#[doc(alias = "folio_activate_fn")]
#[doc(alias = "__activate_page")]
fn activate<H: Devices>(lru: &mut Locked<H>, page: &Page, folio: Folio, n: &mut Counts) -> bool {
    if page.flags().intersects(PageFlags::ACTIVE | PageFlags::UNEVICTABLE) {
        return false;
    }
    lru.set_cost(Cost::MarkActivate);
    lru.unlink(folio);
    page.flag_set::<H>(PageFlags::ACTIVE);
    lru.link_head(folio);
    n.activated += folio.nr_pages();
    lru.count_for_group(GroupStat::Pgactivate, folio.nr_pages());
    true
}
