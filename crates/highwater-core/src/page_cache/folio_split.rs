//! A truncation that cuts a large folio splits it first (rules/large-folios#truncation), and so does
//! a migration that has no frames for it.
//!
//! A dirty folio cannot be split: the filesystem's record of its blocks would have to be taken
//! apart too. It stays as it is, pages beyond the end of the file included, until it is written and
//! reclaimed.
//!
//! Linux leaves the pieces at the folio's place on its list; here they go to the head, as pages
//! that are put back.
//!
//! From: [`super::truncate`], `migrate::large` · to: `lru`, `vm::rmap`.

use alloc::vec::Vec;

use super::folios::NODE_PAGES;
use super::{File, Mappings};
use crate::config::FolioCut;
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::page::{BlockFlags, Folio, Order, PageFlags, PageMapping};
use crate::page_alloc::Gfp;
use crate::vmstat::VmEvent;

/// The flags of a folio that each piece of it has.
const INHERITED: PageFlags = PageFlags::UPTODATE
    .union(PageFlags::USED)
    .union(PageFlags::ACTIVE)
    .union(PageFlags::WORKINGSET)
    .union(PageFlags::MARKS);

/// The references to a folio that is split besides its tree's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    /// The isolation's.
    Mover = 1,
    /// The same, and the caller's.
    MoverAndCaller = 2,
}

/// The pieces of a folio of an order that is cut at page `at` of it, as (first page, order),
/// ascending.
fn pieces(order: Order, at: u32, cut: FolioCut) -> Vec<(u32, Order)> {
    if cut == FolioCut::Pages {
        return (0..1 << order.0).map(|page| (page, Order::ZERO)).collect();
    }
    let (mut found, mut start) = (Vec::new(), 0);
    for order in (0..order.0).rev() {
        let middle = start + (1 << order);
        // The half without the page stays whole.
        if at < middle {
            found.push((middle, Order(order)));
        } else {
            found.push((start, Order(order)));
            start = middle;
        }
    }
    found.push((start, Order::ZERO));
    found.sort_unstable();
    found
}

impl<H: Devices> Kernel<H> {
    /// Splits the folio that lies on both sides of page `first` of a file, if there is one. If it
    /// cannot be split, it is removed whole if it is clean, and stays whole if it is dirty.
    #[doc(alias = "truncate_inode_partial_folio")]
    pub(super) fn cut_folio(&self, cx: &Cx<'_, H>, file: &File<H>, first: u32) {
        let crosses = |folio: Folio| folio.is_large() && self.mem.map.indices_of(folio).0 < first;
        let found = file.tree.lock(cx.cpu()).page(first);
        if !found.is_some_and(|pfn| crosses(self.mem.map.folio(pfn))) {
            return;
        }
        let Some(folio) = self.find_lock_page(cx, file, first) else { return };
        if crosses(folio) {
            self.wait_on_writeback(cx, folio);
            self.unmap_everywhere(cx, folio);
            self.lru_add_drain(cx);
            let at = first - self.mem.map.page(folio).index();
            if let Some(head) = self.split_file_folio(cx, file, folio, at) {
                self.unlock_page(cx, head);
                self.put_page(cx, head);
                return;
            }
            if !self.mem.map.page(folio).is(PageFlags::DIRTY) {
                // Takes over the lock and the reference.
                self.truncate_locked(cx, file, &[folio]);
                return;
            }
        }
        self.unlock_page(cx, folio);
        self.put_page(cx, folio);
    }

    /// Splits a locked, unmapped folio of a file at page `at` of it. Its first piece stays locked,
    /// with the caller's reference. None if the folio is dirty, or another task uses it.
    #[doc(alias = "try_folio_split")]
    #[doc(alias = "folio_split")]
    fn split_file_folio(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        folio: Folio,
        at: u32,
    ) -> Option<Folio> {
        let split = self.try_split_file_folio(cx, file, folio, at);
        self.count_split(cx, folio, split.is_some());
        split
    }

    /// A split of a folio of a file succeeded, or did not.
    fn count_split(&self, cx: &Cx<'_, H>, folio: Folio, is_split: bool) {
        if folio.order() == Order(9) {
            let event = match is_split {
                true => VmEvent::ThpSplitPage,
                false => VmEvent::ThpSplitPageFailed,
            };
            self.mem.events.add(cx.cpu(), event, 1);
        }
    }

    /// Splits a locked, unmapped folio of a file into single pages, for a caller that has isolated
    /// it and then has them isolated. False if it is dirty, or another task uses it.
    #[doc(alias = "split_folio_to_list")]
    pub(crate) fn split_isolated_folio(&self, cx: &Cx<'_, H>, folio: Folio) -> bool {
        let PageMapping::File(id) = self.mem.map.page(folio).mapping() else { return false };
        let Some(file) = self.file(cx, id) else { return false };
        let parts = pieces(folio.order(), 0, FolioCut::Pages);
        let is_split =
            self.is_splittable(folio) && self.split_into(cx, &file, folio, (&parts, Users::Mover));
        self.count_split(cx, folio, is_split);
        is_split
    }

    fn is_splittable(&self, folio: Folio) -> bool {
        let page = self.mem.map.page(folio);
        let busy = PageFlags::DIRTY | PageFlags::WRITEBACK | PageFlags::PINNED;
        !page.is_mapped() && !page.flags().intersects(busy)
    }

    fn try_split_file_folio(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        folio: Folio,
        at: u32,
    ) -> Option<Folio> {
        if !self.is_splittable(folio) || !self.isolate_page(cx, folio) {
            return None;
        }
        let parts = pieces(folio.order(), at, self.mem.policy.folio.truncate);
        if !self.split_into(cx, file, folio, (&parts, Users::MoverAndCaller)) {
            self.putback_page(cx, folio);
            return None;
        }
        cx.charge(Cost::LruMove, parts.len() as u32);
        for &(first, order) in &parts {
            self.putback_page(cx, Folio::new(folio.pfn().add(first), order));
        }
        Some(Folio::new(folio.pfn(), parts[0].1))
    }

    /// Splits a locked, unmapped, isolated folio of a file.
    fn split_into(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        folio: Folio,
        (parts, users): (&[(u32, Order)], Users),
    ) -> bool {
        let page = self.mem.map.page(folio);
        // Nodes whose slots were one entry with others' get memory of their own.
        let index = page.index();
        let mut nodes: Vec<u32> = parts
            .iter()
            .filter(|(_, order)| order.pages() < NODE_PAGES.into())
            .map(|(first, _)| (index + first) / NODE_PAGES * NODE_PAGES)
            .collect();
        nodes.dedup();
        if !self.give_nodes(cx, file, &nodes) {
            return false;
        }
        self.release_buffers(cx, (folio, page));
        let _xa = file.xa_lock.lock(cx.cpu());
        let _tree = file.tree.lock(cx.cpu());
        let Some(frozen) = page.freeze::<H>(folio.nr_pages() as u32 + users as u32) else {
            return false;
        };
        frozen.keep();
        self.make_pieces(folio, parts, users);
        true
    }

    /// Memory for the tree nodes at some indices that have none; false if there is none to be had.
    fn give_nodes(&self, cx: &Cx<'_, H>, file: &File<H>, indices: &[u32]) -> bool {
        for &index in indices {
            let Some(mut spare) = self.tree_objects(cx, 1, Gfp::GFP_NOFS) else { return false };
            {
                let _xa = file.xa_lock.lock(cx.cpu());
                file.tree.lock(cx.cpu()).give_node(index, &mut spare);
            }
            self.return_tree_objects(cx, spare);
        }
        true
    }

    /// Gives each piece of a folio its own descriptor. Each has a reference of the isolation
    /// besides the tree's, the first one also the caller's.
    fn make_pieces(&self, folio: Folio, parts: &[(u32, Order)], users: Users) {
        let map = &self.mem.map;
        let head = map.page(folio);
        let (flags, owner, index) = (head.flags(), head.mapping(), head.index());
        debug_assert!(matches!(owner, PageMapping::File(_)));
        let (migratetype, group) = (head.migratetype(), self.mem.groups.owner_if_on(folio));
        map.dissolve_folio(folio);
        for &(first, order) in parts {
            let frame = folio.pfn().add(first);
            let page = map.page(frame);
            page.set(BlockFlags::USED, order, migratetype);
            let piece = map.make_folio(frame, order);
            if let Some(group) = group {
                self.mem.groups.set_owner(frame, group);
            }
            if first != 0 {
                page.init_flags(flags & INHERITED);
                page.set_mapping(owner, index + first);
            }
            if order.0 > 0 {
                map.reset_frames(piece);
            }
            let users = if first == 0 { users } else { Users::Mover };
            page.unfreeze(order.pages() as u32 + users as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(order: u8, at: u32) -> Vec<(u32, u8)> {
        let all = pieces(Order(order), at, FolioCut::Halves);
        all.into_iter().map(|(first, order)| (first, order.0)).collect()
    }

    /// rules/large-folios#truncation.
    #[test]
    fn a_cut_folio_becomes_halves_down_to_the_page() {
        assert_eq!(halves(5, 8), [(0, 3), (8, 0), (9, 0), (10, 1), (12, 2), (16, 4)]);
        assert_eq!(halves(5, 9), [(0, 3), (8, 0), (9, 0), (10, 1), (12, 2), (16, 4)]);
        assert_eq!(
            halves(5, 27).iter().map(|piece| piece.1).collect::<Vec<_>>(),
            [4, 3, 1, 0, 0, 2]
        );
        assert_eq!(halves(1, 1), [(0, 0), (1, 0)]);
        assert_eq!(pieces(Order(2), 3, FolioCut::Pages).len(), 4);
    }
}
