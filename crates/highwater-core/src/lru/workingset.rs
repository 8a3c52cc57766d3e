//! Shadows of evicted pages, and refaults (rules/workingset#refault).
//!
//! Each set of lists has a clock, `nonresident_age`, that counts evictions and activations. A
//! shadow keeps the time of the eviction. At a refault, the distance is the number of additional
//! pages with which the lists would have kept the page. If the distance is at most the size of the
//! competing lists, the page belongs to the working set and starts active.
//!
//! Synchronisation: the clocks are atomic.
//!
//! From: `page_cache`, `swap` · to: [`super::balance`] (the cost of a refault).

use core::cell::Cell;
use core::hint::cold_path;

use super::balance::Effort;
use super::{LruKind, LruVec, PageType};
use crate::host::{Cx, Devices, TaskLocal};
use crate::kernel::Kernel;
use crate::page::{Folio, Page, PageFlags};
use crate::page_alloc::Relief;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::bump;
use crate::units::{GroupId, LruVecId};
use crate::vmstat::{NodeStat, Reader};

/// Pages that came back at the running task's demand, or were read ahead with those: how many so
/// far, anonymous pages and those of files ([`PageType`]).
#[derive(Debug, Default)]
pub struct Refaults(pub [Cell<u64>; 2]);

impl TaskLocal for Refaults {}

/// What stays of an evicted page: when it was evicted, from which lists, and whether it was
/// workingset.
///
/// ```text
/// 62..27 clock, modulo 2^36 | 26..1 index of the lists | 0 workingset
/// ```
///
/// Machines that need the kernel's bucketing (more than 2^36 pages) are beyond this model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadow(pub u64);

impl Shadow {
    /// How long it is.
    pub(crate) const BITS: u32 = Self::CLOCK_SHIFT + Self::CLOCK_MASK.count_ones();
    const VEC_SHIFT: u32 = 1;
    /// 1,024 nodes of 65,536 memory cgroups.
    const VEC_MASK: u64 = (1 << 26) - 1;
    const CLOCK_SHIFT: u32 = 27;
    /// Clocks are compared modulo this plus one.
    pub(super) const CLOCK_MASK: u64 = (1 << 36) - 1;

    /// Makes the shadow of a page of the lists `vec` that was evicted at `clock`.
    #[doc(alias = "pack_shadow")]
    pub const fn new(clock: u64, vec: LruVecId, is_workingset: bool) -> Shadow {
        Shadow(
            (clock & Self::CLOCK_MASK) << Self::CLOCK_SHIFT
                | (vec.idx() as u64 & Self::VEC_MASK) << Self::VEC_SHIFT
                | is_workingset as u64,
        )
    }

    /// The lists it was evicted from.
    pub const fn vec(self) -> LruVecId {
        LruVecId::new((self.0 >> Self::VEC_SHIFT & Self::VEC_MASK) as usize)
    }

    /// It had been deactivated before.
    pub const fn is_workingset(self) -> bool {
        self.0 & 1 != 0
    }

    /// The clock at the eviction, or what stands in its place.
    pub(super) const fn clock(self) -> u64 {
        self.0 >> Self::CLOCK_SHIFT & Self::CLOCK_MASK
    }

    /// How far the clock went since.
    pub const fn distance(self, clock: u64) -> u64 {
        clock.wrapping_sub(self.0 >> Self::CLOCK_SHIFT) & Self::CLOCK_MASK
    }
}

impl<H: Devices> Kernel<H> {
    /// Ages the clock of an evicted page's lists and returns the shadow to leave in its place.
    ///
    /// Linux: same name.
    ///
    /// `target`: the memory cgroup whose reclaim evicts the page. Its clock counts, and the shadow
    /// names it, not the page's owner.
    #[inline(always)]
    pub fn workingset_eviction(&self, (folio, page): (Folio, &Page), target: GroupId) -> Shadow {
        if self.is_mglru() {
            return self.generation_eviction((folio, page));
        }
        if self.mem.groups.is_on() {
            cold_path();
            return self.eviction_of_group((folio, page), target);
        }
        let id = self.lruvec_of(page);
        let vec = self.lru.vec(id);
        let clock = vec.nonresident_age.load(Relaxed);
        // Before 5.9 anonymous pages leave no trace; their shadows are not looked at either.
        if self.mem.policy.reclaim.anon_workingset || page.is_file_lru() {
            age::<H>(vec, folio.nr_pages());
        }
        Shadow::new(clock, id, page.is(PageFlags::WORKINGSET))
    }

    /// Makes the shadow on a kernel with memory cgroups. The clocks of the groups above count it
    /// too; the shadow names the id of the group, which another group may have later.
    #[inline(never)]
    fn eviction_of_group(&self, (folio, page): (Folio, &Page), target: GroupId) -> Shadow {
        let node = page.node();
        let vec = self.lru.id_of_group(target, node);
        let clock = self.lru.vec(vec).nonresident_age.load(Relaxed);
        if self.mem.policy.reclaim.anon_workingset || page.is_file_lru() {
            self.age_lists(vec, folio.nr_pages());
        }
        let named = self.lru.id_of_group(GroupId(self.memcg.id(target)), node);
        Shadow::new(clock, named, page.is(PageFlags::WORKINGSET))
    }

    /// The lists whose reclaim left a shadow; none if their group is gone.
    pub(super) fn lists_of_shadow(&self, shadow: Shadow) -> Option<LruVecId> {
        if !self.mem.groups.is_on() {
            return Some(shadow.vec());
        }
        let (id, node) = (self.lru.group_of(shadow.vec()), self.lru.node_of(shadow.vec()));
        Some(self.lru.id_of_group(self.memcg.by_id(id.0)?, node))
    }

    /// Advances the clock of some lists and of those of all groups above.
    pub(super) fn age_lists(&self, vec: LruVecId, pages: u64) {
        if !self.mem.groups.is_on() {
            age::<H>(self.lru.vec(vec), pages);
            return;
        }
        let node = self.lru.node_of(vec);
        for group in self.memcg.tree.ancestors(self.lru.group_of(vec)) {
            age::<H>(self.lru.vec(self.lru.id_of_group(group, node)), pages);
        }
    }

    /// Counts the refault of a page for which a shadow was found, and decides whether the page
    /// starts active. Called before the page is added to a list.
    ///
    /// Linux: same name.
    pub fn workingset_refault(&self, cx: &Cx<'_, H>, folio: Folio, shadow: Shadow) {
        if self.is_mglru() {
            return self.generation_refault(cx, folio, shadow);
        }
        let page = self.mem.map.page(folio);
        let page_type = PageType::of(page);
        let counts_anon = self.mem.policy.reclaim.anon_workingset;
        if page_type == PageType::Anon && !counts_anon {
            return;
        }
        let nr = folio.nr_pages();
        // Of the page's owner, if there are memory cgroups; else of the lists it was evicted from.
        let owner = self.mem.groups.owner_if_on(folio);
        let count = |item| self.count_workingset(cx, shadow.vec(), (folio, page), item);
        count(NodeStat::WorkingsetRefaultAnon);
        self.note_refault(cx, page_type, nr);

        let Some(evictor) = self.lists_of_shadow(shadow) else { return };
        let Some(vec) = self.lru.find(evictor) else {
            debug_assert!(false, "a shadow of lists that do not exist");
            return;
        };
        if owner.is_some() {
            self.flush_group_stats(cx, Reader::Refault, self.lru.group_of(evictor));
        }
        let distance = shadow.distance(vec.nonresident_age.load(Relaxed));
        let has_swap =
            counts_anon && self.can_swap() && owner.is_none_or(|owner| self.swap_room(owner) > 0);
        let size = |list| self.pages_of_lists(evictor, list);
        if distance > workingset_size(page_type, has_swap, size) {
            return;
        }
        page.flag_set::<H>(PageFlags::ACTIVE);
        let own = match owner {
            Some(owner) => self.lru.id_of_group(owner, page.node()),
            None => evictor,
        };
        self.age_lists(own, nr);
        count(NodeStat::WorkingsetActivateAnon);
        if shadow.is_workingset() {
            page.flag_set::<H>(PageFlags::WORKINGSET);
            self.lru_note_cost(cx, self.lruvec_of(page), page_type, Effort::io(nr));
            count(NodeStat::WorkingsetRestoreAnon);
        }
    }

    /// Counts an event of a page's type at its owner, or, without memory cgroups, at the node of
    /// the lists `vec`. `item`: the event for anonymous pages.
    pub(super) fn count_workingset(
        &self,
        cx: &Cx<'_, H>,
        vec: LruVecId,
        (folio, page): (Folio, &Page),
        item: NodeStat,
    ) {
        let item = NodeStat::ALL[item as usize + PageType::of(page) as usize];
        if self.mem.groups.owner_if_on(folio).is_some() {
            self.mem.account_page(cx.cpu(), (folio, page)).plus(item);
        } else {
            let stats = &self.mem.node(self.lru.node_of(vec)).stats;
            stats.add(cx.cpu(), item as usize, folio.nr_pages() as i64);
        }
    }

    /// The running task brought evicted pages back.
    pub(super) fn note_refault(&self, cx: &Cx<'_, H>, page_type: PageType, pages: u64) {
        let refaults = &cx.local::<Refaults>().0[page_type as usize];
        refaults.set(refaults.get() + pages);
    }

    /// Records the activation counts that the next reclaim of these lists compares with.
    ///
    /// Linux: same name.
    pub fn snapshot_refaults(&self, vec: LruVecId) {
        for page_type in PageType::ALL {
            let count = self.refault_activations(vec, page_type);
            self.lru.vec(vec).refaults[page_type as usize].store(count, Relaxed);
        }
    }

    /// Pages of a type were activated by refaults since the last snapshot of these lists
    /// (rules/workingset#snapshot).
    pub fn refaults_changed(&self, vec: LruVecId, page_type: PageType) -> bool {
        let before = self.lru.vec(vec).refaults[page_type as usize].load(Relaxed);
        self.refault_activations(vec, page_type) != before
    }

    /// As the kernel reads it: of the node, without per-CPU counts that are not folded yet; of the
    /// subtree of a memory cgroup, as of the last flush.
    fn refault_activations(&self, vec: LruVecId, page_type: PageType) -> u64 {
        let item = NodeStat::WorkingsetActivateAnon as usize + page_type as usize;
        let node = self.lru.node_of(vec);
        match self.mem.groups.is_on() {
            true => self.mem.groups.seen(self.lru.group_of(vec), node, NodeStat::ALL[item]),
            false => self.mem.node(node).stats.read(item),
        }
    }

    /// Advances the clock of a folio's lists by its pages.
    #[doc(alias = "workingset_age_nonresident")]
    #[inline]
    pub fn age_nonresident(&self, folio: Folio) {
        self.age_lists(self.lruvec_of(self.mem.map.page(folio)), folio.nr_pages());
    }
}

/// Lets a clock go on.
#[inline(always)]
fn age<H: Devices>(vec: &LruVec<H>, pages: u64) {
    if H::THREADED {
        vec.nonresident_age.fetch_add(pages, Relaxed);
    } else {
        bump(&vec.nonresident_age, pages);
    }
}

/// Pages that compete with a refaulting page of a type: pages that it could have evicted had it
/// stayed. Before 5.9 (`has_swap` is false then) active file pages only.
#[inline(always)]
fn workingset_size(page_type: PageType, has_swap: bool, size: impl Fn(LruKind) -> u64) -> u64 {
    let mut pages = size(LruKind::ActiveFile);
    if page_type == PageType::Anon {
        pages += size(LruKind::InactiveFile);
    }
    if has_swap {
        pages += size(LruKind::ActiveAnon);
        if page_type == PageType::File {
            pages += size(LruKind::InactiveAnon);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: LruVecId = LruVecId::new(0);

    #[test]
    fn a_shadow_keeps_what_it_was_given() {
        let shadow = Shadow::new((1 << 36) + 7, LruVecId::new(319), true);
        assert_eq!(
            (shadow.vec(), shadow.is_workingset(), shadow.distance(107)),
            (LruVecId::new(319), true, 100)
        );
        assert!(!Shadow::new(7, FIRST, false).is_workingset());
    }

    /// The clock of a shadow wraps around (rules/workingset#refault).
    #[test]
    fn distances_count_modulo_the_clock() {
        assert_eq!(Shadow::new(900_000, FIRST, false).distance(1_000_000), 100_000);
        assert_eq!(Shadow::new((1 << 36) - 100, FIRST, false).distance(50), 150);
        assert_eq!(Shadow::new((1 << 36) - 100, FIRST, false).distance((1 << 36) + 50), 150);
    }

    /// By type and with or without swap (rules/workingset#competing).
    #[test]
    fn a_working_set_is_what_competes() {
        let sizes = |inactive_anon, inactive_file| {
            move |list| match list {
                LruKind::InactiveAnon => inactive_anon,
                LruKind::ActiveAnon => 20_000,
                LruKind::InactiveFile => inactive_file,
                LruKind::ActiveFile => 60_000,
                LruKind::Unevictable => 1 << 40,
            }
        };
        let size = workingset_size;
        assert_eq!(size(PageType::File, true, sizes(15_000, 50_000)), 95_000);
        assert_eq!(size(PageType::File, true, sizes(20_000, 50_000)), 100_000);
        assert_eq!(size(PageType::Anon, true, sizes(15_000, 50_000)), 130_000);
        assert_eq!(size(PageType::Anon, false, sizes(15_000, 50_000)), 110_000);
        assert_eq!(size(PageType::File, false, sizes(15_000, 50_000)), 60_000);
    }
}
