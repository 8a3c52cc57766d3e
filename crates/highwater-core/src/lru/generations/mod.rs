//! Generations: the lists of the multi-generational LRU (rules/mglru#state).
//!
//! ```text
//!            youngest (max)                          oldest (min)
//!  seq         7           6      │      5             4
//!  pages     used since    active │   inactive      evicted next
//!            the last walk        │
//!  slot = seq mod 4    3    2            1             0
//! ```
//!
//! Each type has two to four generations, numbered by a sequence that only grows. A page carries
//! the *slot* of its generation in its flags; sizes go by these. Its list may be another one: a use
//! that an aging finds changes the number of the page, without the lock of the lists, and the page
//! moves when eviction meets it ([`sort`]). The two youngest generations count as active in all
//! statistics.
//!
//! * [`mod@entry`]: where pages enter · [`marks`]: how often they were read · [`feedback`]: of
//!   refaults · [`queue`]: the lists · [`sort`]: sorting and isolation · [`aging`]: new generations ·
//!   [`tokens`]: evictions and refaults
//!
//! Synchronisation: lists and sequence numbers change under `lru_lock`, and are read without
//! it. Sizes and feedback are atomic. The walk's state has its own lock.
//!
//! From: `lru::{locked, batch, access, workingset}` · to: `reclaim::algorithm::mglru`.

mod aging;
mod entry;
mod feedback;
mod marks;
mod queue;
mod sort;
#[cfg(test)]
mod tests;
mod tokens;

use alloc::boxed::Box;

pub(crate) use aging::{Iteration, WalkState};
pub(crate) use entry::{End, entry};
pub(crate) use feedback::Feedback;
pub(crate) use marks::{ALL_MARKS, marked, set_refs};
pub(crate) use queue::Queues;
pub(crate) use sort::{SCAN_BATCH, SortMode, Sorted};

use super::LockedLru;
use crate::config::{Algorithm, FirstUse, MglruPolicy};
use crate::host::{CpuId, Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags};
use crate::page_alloc::PageAllocator;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::order::LockClass;
use crate::units::{LruKind, LruVecId, PageType};
use crate::wait::WaitQueue;
use crate::zone::ZoneType;

/// Generations at most.
#[doc(alias = "MAX_NR_GENS")]
pub(crate) const GENERATIONS: usize = 4;
/// Tiers of a generation.
#[doc(alias = "MAX_NR_TIERS")]
pub(crate) const NR_TIERS: usize = 4;

const SLOT: u32 = PageFlags::GENERATION.bits() & PageFlags::GENERATION.bits().wrapping_neg();

/// The place of a generation.
#[doc(alias = "lru_gen_from_seq")]
pub(crate) const fn slot_of(seq: u64) -> usize {
    (seq % GENERATIONS as u64) as usize
}

/// The place of a page's generation; none if it is in none.
#[doc(alias = "folio_lru_gen")]
pub(crate) fn slot_of_page(flags: PageFlags) -> Option<usize> {
    let field = (flags & PageFlags::GENERATION).bits() / SLOT;
    (field as usize).checked_sub(1)
}

fn slot_flags(slot: usize) -> PageFlags {
    PageFlags::from_bits_retain((slot as u32 + 1) * SLOT)
}

/// The generations that pages of a type are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The oldest.
    pub min: u64,
    /// The youngest.
    pub max: u64,
}

impl Window {
    /// How many these are.
    pub(crate) const fn len(self) -> u64 {
        self.max - self.min + 1
    }
}

/// The generations of one set of lists, but for the lists.
#[doc(alias = "lru_gen_folio")]
#[doc(alias = "lru_gen_struct")]
pub(crate) struct Generations<H: Tasks> {
    max: AtomicU64,
    min: [AtomicU64; 2],
    /// Pages by slot, type and zone type.
    sizes: [[[AtomicU64; ZoneType::COUNT]; 2]; GENERATIONS],
    pub(crate) feedback: Feedback,
    /// The present walk over address spaces; `Table` class.
    pub(crate) walk: H::Lock<WalkState>,
    /// Tasks that wait for a generation that others make.
    pub(crate) has_aged: WaitQueue<H>,
}

impl<H: Tasks> Generations<H> {
    /// The generations of empty lists; none under another algorithm.
    pub(super) fn new(host: &H, mem: &PageAllocator<H>) -> Option<Box<Self>> {
        let is_on = mem.policy.reclaim.algorithm == Algorithm::Mglru;
        is_on.then(|| {
            Box::new(Generations {
                max: AtomicU64::new(GENERATIONS as u64 - 1),
                min: Default::default(),
                sizes: Default::default(),
                feedback: Feedback::default(),
                walk: host.new_lock(LockClass::Table, WalkState::default()),
                has_aged: WaitQueue::new(host),
            })
        })
    }

    /// The empty lists go to another memory cgroup, which remembers nothing. Sequence numbers grow
    /// on: a reclaimer of the old group may still be here.
    pub(super) fn start_again(&self, cpu: CpuId) {
        let oldest = self.max() + 1 - GENERATIONS as u64;
        self.min.iter().for_each(|min| min.store(oldest, Relaxed));
        self.feedback.reset();
        self.walk.lock(cpu).start_again(self.max());
    }

    /// The youngest generation, of both types.
    pub(crate) fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// The generations of a type.
    pub(crate) fn window(&self, page_type: PageType) -> Window {
        Window { min: self.min[page_type as usize].load(Relaxed), max: self.max() }
    }

    /// A place belongs to one of the two youngest generations.
    fn is_active(&self, slot: usize) -> bool {
        let max = self.max();
        slot == slot_of(max) || slot == slot_of(max - 1)
    }

    /// Pages of a type in a generation.
    pub(crate) fn size(&self, seq: u64, page_type: PageType) -> u64 {
        // While a page changes its generation, one of the two may have one too few.
        let zones = self.sizes[slot_of(seq)][page_type as usize].iter();
        zones.map(|size| (size.load(Relaxed) as i64).max(0) as u64).sum()
    }

    /// The size as it is, for audits.
    pub(crate) fn exact_size(&self, slot: usize, page_type: PageType, zone: usize) -> i64 {
        self.sizes[slot][page_type as usize][zone].load(Relaxed) as i64
    }

    fn resize(&self, slot: usize, page_type: PageType, zone: ZoneType, delta: i64) {
        let size = &self.sizes[slot][page_type as usize][zone.idx()];
        if H::THREADED {
            size.fetch_add(delta as u64, Relaxed);
        } else {
            size.store(size.load(Relaxed).wrapping_add(delta as u64), Relaxed);
        }
    }
}

impl<H: Devices> Kernel<H> {
    /// The generations of some lists.
    #[inline]
    pub(crate) fn generations(&self, vec: LruVecId) -> Option<&Generations<H>> {
        self.lru.vec(vec).generations.as_deref()
    }

    /// The algorithm is this one.
    #[inline]
    pub(crate) fn is_mglru(&self) -> bool {
        self.mem.policy.reclaim.algorithm == Algorithm::Mglru
    }

    pub(crate) fn mglru_policy(&self) -> &MglruPolicy {
        &self.mem.policy.reclaim.mglru
    }

    /// The list in the statistics that a page with these flags counts on.
    pub(crate) fn list_of(&self, vec: LruVecId, flags: PageFlags) -> LruKind {
        let list = LruKind::of(flags);
        match (self.generations(vec), slot_of_page(flags), list.page_type()) {
            (Some(gens), Some(slot), Some(page_type)) => {
                LruKind::new(page_type, gens.is_active(slot))
            }
            _ => list,
        }
    }

    /// A page with these flags counts in another generation from now on.
    fn recount(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        (folio, page): (Folio, &Page),
        flags: PageFlags,
        [from, to]: [Option<usize>; 2],
    ) {
        let Some(gens) = self.generations(vec) else { return };
        let page_type = match flags.contains(PageFlags::SWAPBACKED) {
            true => PageType::Anon,
            false => PageType::File,
        };
        let zone = page.zone_id();
        let pages = folio.nr_pages() as i64;
        let kind = |slot: usize| LruKind::new(page_type, gens.is_active(slot));
        for (slot, delta) in [(from, -pages), (to, pages)] {
            let Some(slot) = slot else { continue };
            gens.resize(slot, page_type, zone.zone_type(), delta);
            if from.map(kind) != to.map(kind) {
                self.lru_count(cx, vec, zone, kind(slot), delta);
            }
        }
    }

    /// Moves a page whose use page tables show to the youngest generation, or gives it its first
    /// mark. (The mark is that of 7.2.) Changes its number only; true if its generation changed.
    #[doc(alias = "folio_update_gen")]
    pub(crate) fn promote(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let vec = self.lruvec_of(page);
        let Some(gens) = self.generations(vec) else { return false };
        let (rule, youngest) = (self.mglru_policy().first_use, slot_of(gens.max()));
        let before = page.flag_update::<H>(|flags| Some(promoted(rule, flags, youngest)));
        let [from, to] = [before, promoted(rule, before, youngest)].map(slot_of_page);
        if from != to {
            self.recount(cx, vec, (folio, page), before, [from, to]);
        }
        from != to
    }
}

/// The flags of a page after a use.
fn promoted(rule: FirstUse, flags: PageFlags, youngest: usize) -> PageFlags {
    let is_first =
        rule == FirstUse::Marks && !flags.intersects(PageFlags::REFERENCED | PageFlags::WORKINGSET);
    // Isolated by some task: it learns of the use.
    if slot_of_page(flags).is_none() || is_first {
        return flags | PageFlags::REFERENCED;
    }
    let rest = (flags - ALL_MARKS - PageFlags::GENERATION) | slot_flags(youngest);
    match rule {
        FirstUse::Promotes => rest,
        FirstUse::Marks => rest | PageFlags::WORKINGSET,
    }
}

/// Generations of the lists that are locked.
impl<'a, H: Devices> LockedLru<'a, '_, H> {
    /// Puts a page into the generation that its flags name; false if these lists have none, or the
    /// page belongs on the unevictable list.
    #[inline]
    pub(super) fn join_generation(&mut self, folio: Folio, flags: PageFlags, end: End) -> bool {
        if self.lists.queues.is_none() || flags.contains(PageFlags::UNEVICTABLE) {
            return false;
        }
        self.enter(folio, flags, end);
        true
    }

    #[inline(never)]
    fn enter(&mut self, folio: Folio, flags: PageFlags, end: End) {
        let kernel = self.kernel;
        let page = kernel.mem.map.page(folio);
        let Some(gens) = kernel.generations(self.id) else { return };
        let (policy, page_type) = (kernel.mglru_policy(), PageType::of(page));
        let seq = entry(policy.read_entry, gens.window(page_type), flags, end);
        let forgets = flags.contains(PageFlags::ACTIVE) && !policy.active_keeps_marks;
        let gone = match forgets {
            true => PageFlags::ACTIVE | PageFlags::REFERENCED | PageFlags::MARKS,
            false => PageFlags::ACTIVE,
        };
        self.put_into((folio, page), slot_of(seq), gone, end);
    }

    /// Puts a page on no list into a generation.
    fn put_into(&mut self, (folio, page): (Folio, &Page), slot: usize, gone: PageFlags, end: End) {
        let kernel = self.kernel;
        page.flag_replace::<H>(gone | PageFlags::GENERATION, slot_flags(slot));
        kernel.recount(self.cx, self.id, (folio, page), page.flags(), [None, Some(slot)]);
        let place = (slot, PageType::of(page), page.zone_id().zone_type());
        if let Some(queues) = &mut self.lists.queues {
            queues.join(&kernel.mem.map, place, folio.pfn(), end);
        }
    }

    /// Takes a page out of its generation; false if it is in none. Unless reclaim takes it, it is
    /// ACTIVE afterwards if the generation is.
    #[inline]
    pub(super) fn leave_generation(&mut self, folio: Folio, flags: PageFlags) -> bool {
        if self.lists.queues.is_none() || slot_of_page(flags).is_none() {
            return false;
        }
        self.leave(folio, Leaving::Moved);
        true
    }

    #[inline(never)]
    fn leave(&mut self, folio: Folio, why: Leaving) {
        let kernel = self.kernel;
        let page = kernel.mem.map.page(folio);
        let Some(gens) = kernel.generations(self.id) else { return };
        let before = page.flag_update::<H>(|flags| {
            let slot = slot_of_page(flags)?;
            let is_active = why == Leaving::Moved && gens.is_active(slot);
            let set = if is_active { PageFlags::ACTIVE } else { PageFlags::empty() };
            Some((flags - PageFlags::GENERATION) | set)
        });
        kernel.recount(self.cx, self.id, (folio, page), before, [slot_of_page(before), None]);
        if let Some(queues) = &mut self.lists.queues {
            queues.leave(&kernel.mem.map, page.zone_id().zone_type(), folio.pfn());
        }
    }
}

/// Why a page leaves its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// To be reclaimed.
    Isolated,
    /// For anything else.
    Moved,
}
