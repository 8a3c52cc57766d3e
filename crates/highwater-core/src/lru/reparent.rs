//! A removed group's pages go to its parent (7.2; rules/memory-cgroups#removal).
//!
//! Up to 6.12 the pages of a removed group stay on its lists until they are reclaimed, so the group
//! stays too, without a name. From 7.2 on its lists go behind the tails of its parent's, and the
//! parent owns the pages. Only swap slots name the group after that.
//!
//! Synchronisation: a page on a list changes its owner while it is isolated. A page on no list
//! (in a batch, or isolated by others) changes it under the lock of the lists that it would be put
//! on, once these are empty. So the locks of both groups' lists are never held together, and
//! whoever waits for one of them looks at the page's owner again.
//!
//! From: `syscall::groups` · to: counters of both groups.

use alloc::vec::Vec;

use super::balance::Balance;
use super::generations::{GENERATIONS, slot_of};
use super::isolate::take;
use super::release::BATCH;
use super::{LruKind, LruLists, PageType};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::page::{BlockFlags, Folio, Page, PageFlags, PageMapping, Pfn};
use crate::units::{GroupId, LruVecId, NodeId};
use crate::vmstat::USER_LEVELS;

/// A removed group and its parent.
#[derive(Clone, Copy)]
struct Heirs {
    from: GroupId,
    to: GroupId,
}

impl<H: Devices> Kernel<H> {
    /// Moves the lists of a removed group behind its parent's, and the ownership of all users'
    /// pages with them. Waits while others take pages off these lists.
    ///
    /// Linux: the lists are spliced as a whole, and pages name a token that the parent gets (7.2).
    pub(crate) fn reparent_lru(&self, cx: &Cx<'_, H>, from: GroupId, to: GroupId) {
        let heirs = Heirs { from, to };
        for node in self.mem.nodes() {
            let [old, new] = [from, to].map(|group| self.lru.id_of_group(group, node.id));
            let cost = loop {
                for list in &LruKind::ALL[..4] {
                    self.splice_tail(cx, [old, new], *list, heirs);
                }
                if let Some(cost) = self.hand_up_unlisted(cx, [old, new], node.id, heirs) {
                    break cost;
                }
                cx.host.sleep_jiffies(1);
            };
            self.lock_lru(cx, new).lists.balance.absorb(&cost);
            // The sizes of lists changed as pages moved.
            for item in USER_LEVELS {
                let pages = self.mem.groups.own(from, node.id, item);
                self.mem.groups.add(cx.cpu(), (from, node.id), item, -pages);
                self.mem.groups.add(cx.cpu(), (to, node.id), item, pages);
            }
        }
    }

    /// Moves one list behind the parent's, newest first, without those that others are taking off.
    #[doc(alias = "lru_reparent_memcg")]
    fn splice_tail(&self, cx: &Cx<'_, H>, [old, new]: [LruVecId; 2], list: LruKind, heirs: Heirs) {
        let map: &[Page] = &self.mem.map;
        loop {
            let mut taken: Vec<Folio> = Vec::with_capacity(BATCH);
            let mut lru = self.lock_lru(cx, old);
            let mut take_from = |pages: &mut dyn Iterator<Item = Pfn>| {
                let takeable = pages.filter(|pfn| take::<H>(&map[pfn.idx()], true));
                let room = BATCH - taken.len();
                taken.extend(takeable.take(room).map(|pfn| self.mem.map.folio(pfn)));
            };
            match (&lru.lists.queues, self.generations(old), list.page_type()) {
                (Some(queues), Some(gens), Some(page_type)) => {
                    // Younger generations first: older ones go behind them.
                    let window = gens.window(page_type);
                    for slot in (window.min..=window.max).rev().map(slot_of) {
                        take_from(&mut queues.of_generation(map, (slot, page_type)));
                    }
                }
                _ => take_from(&mut lru.lists.lists[list as usize].iter(map)),
            }
            for &folio in &taken {
                lru.unlink(folio);
                self.hand_up_folio(folio, heirs.from, heirs.to);
            }
            drop(lru);
            if taken.is_empty() {
                return;
            }
            self.link_isolated(cx, new, &taken);
        }
    }

    /// Puts isolated pages behind the tails of the lists that their flags name.
    fn link_isolated(&self, cx: &Cx<'_, H>, vec: LruVecId, pages: &[Folio]) {
        let mut lru = self.lock_lru(cx, vec);
        for &folio in pages {
            self.mem.map.page(folio).flag_set::<H>(PageFlags::LRU);
            lru.link_tail(folio);
        }
        drop(lru);
        self.release_pages(cx, pages);
    }

    /// Gives the parent the pages that are on no list, and those of the unevictable list, which is
    /// not linked. Returns the balance of the old lists; none, and nothing is done, if they are not
    /// empty.
    fn hand_up_unlisted(
        &self,
        cx: &Cx<'_, H>,
        [old, new]: [LruVecId; 2],
        node: NodeId,
        heirs: Heirs,
    ) -> Option<Balance> {
        let mut unevictable: Vec<Folio> = Vec::new();
        let mut lru = self.lock_lru(cx, old);
        let has_queued = lru.lists.queues.as_ref().is_some_and(|queues| {
            let places = (0..GENERATIONS).flat_map(|slot| PageType::ALL.map(|t| (slot, t)));
            places.into_iter().any(|(slot, page_type)| !queues.is_empty(slot, page_type))
        });
        if has_queued || lru.lists.lists.iter().any(|list| !list.is_empty()) {
            return None;
        }
        for pfn in self.mem.map.touched() {
            let page = self.mem.map.page(pfn);
            let is_head = page.has(BlockFlags::USED) && page.node() == node;
            if !is_head || self.mem.groups.owner(pfn) != heirs.from {
                continue;
            }
            let flags = page.flags();
            let is_users =
                page.mapping() != PageMapping::None || flags.contains(PageFlags::SWAPCACHE);
            let folio = self.mem.map.folio(pfn);
            if flags.contains(PageFlags::LRU) && take::<H>(page, true) {
                lru.unlink(folio);
                unevictable.push(folio);
            } else if !is_users || flags.contains(PageFlags::UNEVICTABLE) {
                // Kernel memory follows the token. The others leave with their last reference.
                continue;
            }
            self.hand_up_folio(folio, heirs.from, heirs.to);
        }
        let rule = self.mem.policy.reclaim.balance;
        let LruLists { balance, .. } = &mut *lru.lists;
        let cost = core::mem::replace(balance, Balance::new(rule));
        drop(lru);
        self.link_isolated(cx, new, &unevictable);
        Some(cost)
    }
}
