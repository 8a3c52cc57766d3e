//! The memory of tree nodes: real pages, as the kernel's slab takes them.
//!
//! A node of a file's tree is an object of 576 bytes. Objects come from slabs; a slab is one block
//! of pages, reclaimable, of the smallest order that holds enough objects for the machine's CPUs
//! ([`SlabShape`]). If that order cannot be had, a single page does. A slab goes back to the
//! allocator when its last object is freed, unless few other slabs have free objects.
//!
//! Captured 6.1 systems with two CPUs show it: a cold file of 139,776 pages (2,220 nodes) makes 158
//! order-1 blocks of 14 objects, `GFP_NOWAIT|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|
//! __GFP_RECLAIMABLE`. What the kernel keeps on each CPU besides is left out.
//!
//! The second thing kept here is the list of nodes that hold nothing but shadows, oldest first, by
//! the memory node their objects lie on: what the shrinker of rules/workingset#shadow-nodes works
//! through.
//!
//! Synchronisation: [`NodeMemory`] is behind a `Table` lock, which is never held while pages are
//! allocated or freed. Objects for an insertion are taken before any lock ([`Kernel::tree_objects`]).

use alloc::vec::Vec;

use super::File;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::{FileId, Order, PageFlags, Pfn};
use crate::page_alloc::{Account, Gfp};
use crate::vmstat::NodeStat;
use crate::zone::NodeId;

/// Bytes of a node (`struct xa_node`).
const OBJECT_BYTES: usize = 576;
/// Slabs with free objects that a memory node keeps although they are empty (`min_partial`).
const MIN_PARTIAL: u32 = 5;
/// Most nodes one insertion adds.
const MAX_OBJECTS: usize = 3;

/// Names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// No object.
    pub const NONE: ObjectId = ObjectId(u32::MAX);
}

/// A few objects: what an insertion may need, what a removal left over.
#[derive(Debug, Default)]
pub struct Objects {
    ids: [Option<ObjectId>; MAX_OBJECTS],
}

impl Objects {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ids.iter().flatten().count()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ids[0].is_none()
    }

    /// Adds one; there is room for three.
    pub fn push(&mut self, id: ObjectId) {
        let free = self.ids.iter_mut().find(|place| place.is_none());
        debug_assert!(free.is_some(), "more than three nodes at a time");
        if let Some(place) = free {
            *place = Some(id);
        }
    }

    /// Takes one.
    pub fn pop(&mut self) -> Option<ObjectId> {
        self.ids.iter_mut().rev().find_map(Option::take)
    }
}

impl Extend<ObjectId> for Objects {
    fn extend<I: IntoIterator<Item = ObjectId>>(&mut self, ids: I) {
        ids.into_iter().for_each(|id| self.push(id));
    }
}

/// Size of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlabShape {
    /// Of the block.
    pub order: Order,
    /// Objects in it.
    pub objects: u32,
}

impl SlabShape {
    /// The smallest order with at least `4 * (bits(cpus) + 1)` objects, so that more CPUs refill
    /// less often; order 3 at most.
    const fn for_cpus(cpus: usize) -> SlabShape {
        let bits = usize::BITS - cpus.leading_zeros();
        let wanted = 4 * (bits + 1);
        let mut shape = SlabShape::of_order(Order::ZERO);
        while shape.objects < wanted && shape.order.0 < Order::COSTLY.0 {
            shape = SlabShape::of_order(Order(shape.order.0 + 1));
        }
        shape
    }

    const fn of_order(order: Order) -> SlabShape {
        let bytes = crate::page::PAGE_SIZE << order.0;
        SlabShape { order, objects: (bytes / OBJECT_BYTES) as u32 }
    }
}

/// A block of pages that objects are cut from.
#[derive(Clone, Copy, Debug)]
struct Slab {
    pfn: Pfn,
    order: Order,
    node: u16,
    /// Objects in it; 0 = the slot of a slab that is gone.
    objects: u32,
    in_use: u32,
    first_free: u32,
    /// Neighbours on the list of slabs with free objects.
    next: u32,
    prev: u32,
}

/// An object: free, in use, or in use by a node that holds shadows only.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// Free: the next free object of the slab. Listed: neighbours on the list of shadow-only nodes.
    next: u32,
    prev: u32,
    /// Listed: whose node it is.
    file: u32,
    number: u32,
    is_listed: bool,
}

/// Lists of one memory node. Links are numbers of slabs or objects; [`NIL`] = none.
#[derive(Clone, Copy, Debug)]
struct Lists {
    /// Slabs with free objects.
    partial: u32,
    nr_partial: u32,
    /// Shadow-only nodes, oldest and newest.
    oldest: u32,
    newest: u32,
    nr_listed: u64,
}

const NIL: u32 = u32::MAX;

/// All slabs.
#[derive(Debug)]
pub struct NodeMemory {
    shape: SlabShape,
    slabs: Vec<Slab>,
    /// `shape.objects` for each slab.
    objects: Vec<Object>,
    free_slots: Vec<u32>,
    lists: Vec<Lists>,
}

impl NodeMemory {
    /// No slabs.
    pub fn new(nr_cpus: usize, nr_nodes: usize) -> Self {
        let lists = Lists { partial: NIL, nr_partial: 0, oldest: NIL, newest: NIL, nr_listed: 0 };
        NodeMemory {
            shape: SlabShape::for_cpus(nr_cpus),
            slabs: Vec::new(),
            objects: Vec::new(),
            free_slots: Vec::new(),
            lists: alloc::vec![lists; nr_nodes],
        }
    }

    /// Slabs: first frame, order, objects in use.
    pub fn slabs(&self) -> impl Iterator<Item = (Pfn, Order, u32)> {
        self.slabs.iter().filter(|s| s.objects != 0).map(|s| (s.pfn, s.order, s.in_use))
    }

    /// Objects in use.
    pub fn in_use(&self) -> u64 {
        self.slabs.iter().map(|slab| u64::from(slab.in_use)).sum()
    }

    /// Shadow-only nodes whose objects lie on a memory node.
    pub fn nr_listed(&self, node: NodeId) -> u64 {
        self.lists[node.idx()].nr_listed
    }

    /// The frame an object's slab starts at.
    pub(crate) fn pfn_of(&self, id: ObjectId) -> Pfn {
        self.slabs[self.slab_of(id)].pfn
    }

    fn slab_of(&self, id: ObjectId) -> usize {
        (id.0 / self.shape.objects) as usize
    }

    /// An object of a slab that has one free, on a node.
    fn take(&mut self, node: NodeId) -> Option<ObjectId> {
        let number = self.lists[node.idx()].partial;
        let slab = self.slabs.get_mut(number as usize)?;
        let id = slab.first_free;
        slab.first_free = self.objects[id as usize].next;
        slab.in_use += 1;
        if slab.in_use == slab.objects {
            self.unlink_partial(number);
        }
        Some(ObjectId(id))
    }

    /// Adds an empty slab.
    fn add_slab(&mut self, pfn: Pfn, shape: SlabShape, node: NodeId) {
        let number = self.free_slots.pop().unwrap_or(self.slabs.len() as u32);
        let first = number * self.shape.objects;
        let slab = Slab {
            pfn,
            order: shape.order,
            node: node.0,
            objects: shape.objects,
            in_use: 0,
            first_free: first,
            next: NIL,
            prev: NIL,
        };
        if number as usize == self.slabs.len() {
            self.slabs.push(slab);
            let empty = Object { next: NIL, prev: NIL, file: 0, number: 0, is_listed: false };
            self.objects.resize(self.slabs.len() * self.shape.objects as usize, empty);
        } else {
            self.slabs[number as usize] = slab;
        }
        for id in first..first + shape.objects {
            let is_last = id + 1 == first + shape.objects;
            self.objects[id as usize].next = if is_last { NIL } else { id + 1 };
        }
        self.link_partial(number);
    }

    /// Takes an object back; a slab to free if that was its last.
    fn give(&mut self, id: ObjectId) -> Option<(Pfn, Order)> {
        debug_assert!(!self.objects[id.0 as usize].is_listed, "freed a node that is listed");
        let number = self.slab_of(id);
        let slab = &mut self.slabs[number];
        self.objects[id.0 as usize].next = slab.first_free;
        slab.first_free = id.0;
        slab.in_use -= 1;
        let (node, in_use) = (usize::from(slab.node), slab.in_use);
        if in_use + 1 == slab.objects {
            self.link_partial(number as u32);
        }
        if in_use != 0 || self.lists[node].nr_partial < MIN_PARTIAL {
            return None;
        }
        self.unlink_partial(number as u32);
        self.free_slots.push(number as u32);
        let slab = &mut self.slabs[number];
        slab.objects = 0;
        Some((slab.pfn, slab.order))
    }

    fn link_partial(&mut self, number: u32) {
        let lists = &mut self.lists[usize::from(self.slabs[number as usize].node)];
        let first = core::mem::replace(&mut lists.partial, number);
        lists.nr_partial += 1;
        let slab = &mut self.slabs[number as usize];
        (slab.next, slab.prev) = (first, NIL);
        if let Some(first) = self.slabs.get_mut(first as usize) {
            first.prev = number;
        }
    }

    fn unlink_partial(&mut self, number: u32) {
        let Slab { next, prev, node, .. } = self.slabs[number as usize];
        let lists = &mut self.lists[usize::from(node)];
        lists.nr_partial -= 1;
        match self.slabs.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => lists.partial = next,
        }
        if let Some(next) = self.slabs.get_mut(next as usize) {
            next.prev = prev;
        }
    }

    /// A node holds nothing but shadows from now on: the youngest of its list.
    fn list(&mut self, id: ObjectId, file: FileId, number: u32) {
        let lists =
            &mut self.lists[usize::from(self.slabs[(id.0 / self.shape.objects) as usize].node)];
        let newest = core::mem::replace(&mut lists.newest, id.0);
        lists.nr_listed += 1;
        match self.objects.get_mut(newest as usize) {
            Some(newest) => newest.next = id.0,
            None => lists.oldest = id.0,
        }
        let object = &mut self.objects[id.0 as usize];
        debug_assert!(!object.is_listed);
        *object = Object { next: NIL, prev: newest, file: file.0, number, is_listed: true };
    }

    /// A node is on the list no longer.
    fn unlist(&mut self, id: ObjectId) {
        let Object { next, prev, is_listed, .. } = self.objects[id.0 as usize];
        debug_assert!(is_listed);
        let lists =
            &mut self.lists[usize::from(self.slabs[(id.0 / self.shape.objects) as usize].node)];
        lists.nr_listed -= 1;
        if prev == NIL {
            lists.oldest = next;
        } else {
            self.objects[prev as usize].next = next;
        }
        if next == NIL {
            lists.newest = prev;
        } else {
            self.objects[next as usize].prev = prev;
        }
        self.objects[id.0 as usize].is_listed = false;
    }

    /// The oldest shadow-only node of a memory node: its object, file, number.
    fn oldest(&self, node: NodeId) -> Option<(ObjectId, FileId, u32)> {
        let id = self.lists[node.idx()].oldest;
        let object = self.objects.get(id as usize)?;
        Some((ObjectId(id), FileId(object.file), object.number))
    }
}

impl<H: Devices> Kernel<H> {
    /// Memory for `nr` nodes; none if there is none. May reclaim as far as `gfp` allows. No lock is
    /// held.
    pub(super) fn tree_objects(&self, cx: &Cx<'_, H>, nr: usize, gfp: Gfp) -> Option<Objects> {
        let mut objects = Objects::default();
        while objects.len() < nr {
            let node = self.mem.cpu_node(cx.cpu());
            let taken = self.node_memory.lock(cx.cpu()).take(node);
            match taken {
                Some(id) => objects.push(id),
                None => match self.grow_node_memory(cx, node, gfp) {
                    Some(on) if on == node => {}
                    // Memory of another node: nobody looks for it there, so it is used at once.
                    Some(on) => objects.extend(self.node_memory.lock(cx.cpu()).take(on)),
                    None => {
                        self.return_tree_objects(cx, objects);
                        return None;
                    }
                },
            }
        }
        Some(objects)
    }

    /// Adds a slab; the node it lies on. First as the kernel tries under the tree's lock, without
    /// reclaim; then with all that `gfp` allows, for a single page.
    fn grow_node_memory(&self, cx: &Cx<'_, H>, node: NodeId, gfp: Gfp) -> Option<NodeId> {
        let shape = self.node_memory.lock(cx.cpu()).shape;
        let single = SlabShape::of_order(Order::ZERO);
        let quiet = Gfp::RECLAIMABLE | Gfp::NOWARN;
        let atomic = Gfp::GFP_NOWAIT | quiet;
        let tries = [
            (shape, atomic | Gfp::NORETRY | Gfp::COMP),
            (single, atomic),
            (single, gfp & (Gfp::RECLAIM | Gfp::IO | Gfp::FS | Gfp::NORETRY) | quiet),
        ];
        for (shape, gfp) in tries {
            if let Some(pfn) = self.mem.alloc(cx, self, gfp, shape.order, node, None) {
                self.mem.map.page(pfn).init_flags(PageFlags::SLAB);
                let zone = self.mem.map.page(pfn).zone_id();
                let account = self.mem.account_pages(cx.cpu(), zone, shape.order.pages());
                account.plus(NodeStat::SlabReclaimable);
                let on = self.mem.zone_of(pfn).map_or(node, |zone| zone.node);
                self.node_memory.lock(cx.cpu()).add_slab(pfn, shape, on);
                return Some(on);
            }
        }
        None
    }

    /// Gives memory of nodes back; the pages that went back to the allocator.
    pub(super) fn return_tree_objects(&self, cx: &Cx<'_, H>, mut objects: Objects) -> u64 {
        let mut pages = 0;
        while let Some(id) = objects.pop() {
            let slab = self.node_memory.lock(cx.cpu()).give(id);
            if let Some((pfn, order)) = slab {
                let zone = self.mem.map.page(pfn).zone_id();
                let account = self.mem.account_pages(cx.cpu(), zone, order.pages());
                account.minus(NodeStat::SlabReclaimable);
                self.mem.map.page(pfn).init_flags(PageFlags::empty());
                let freed = self.mem.free(cx, pfn, order);
                debug_assert!(freed.is_ok(), "a slab that is not ours: {freed:?}");
                pages += order.pages();
            }
        }
        pages
    }

    /// Keeps the list of shadow-only nodes and its counter as a tree says. The caller holds
    /// `xa_lock`, so changes of one node come in order.
    pub(super) fn note_shadow_only(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        (object, is_shadow_only): (ObjectId, bool),
    ) {
        let mut memory = self.node_memory.lock(cx.cpu());
        if is_shadow_only {
            memory.list(object, file.id, index >> super::node::SLOT_BITS);
        } else {
            memory.unlist(object);
        }
        let pfn = memory.pfn_of(object);
        drop(memory);
        let account = self.account_object(cx, pfn);
        match is_shadow_only {
            true => account.plus(NodeStat::WorkingsetNodes),
            false => account.minus(NodeStat::WorkingsetNodes),
        };
    }

    /// The counters of a tree node, by where its memory is.
    fn account_object(&self, cx: &Cx<'_, H>, pfn: Pfn) -> Account<'_, H> {
        self.mem.account_pages(cx.cpu(), self.mem.map.page(pfn).zone_id(), 1)
    }

    /// Nodes that hold shadows only and lie on a memory node.
    pub fn shadow_nodes(&self, cx: &Cx<'_, H>, node: NodeId) -> u64 {
        self.node_memory.lock(cx.cpu()).nr_listed(node)
    }

    /// Drops up to `nr` shadow-only nodes of a memory node, oldest first: the nodes dropped, and
    /// the pages that went back to the allocator. For the shrinker: no lock is held.
    pub fn drop_shadow_nodes(&self, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> (u64, u64) {
        let (mut nodes, mut pages) = (0, 0);
        for _ in 0..nr {
            let oldest = self.node_memory.lock(cx.cpu()).oldest(node);
            let Some((object, id, number)) = oldest else { break };
            // A file whose last handle is gone was truncated: its nodes are not listed any more, or
            // are about to leave the list.
            let Some(file) = self.file(cx, id) else { break };
            let xa = file.xa_lock.lock(cx.cpu());
            let index = number << super::node::SLOT_BITS;
            let dropped = file.tree.lock(cx.cpu()).drop_shadows(index, object);
            let Some(freed) = dropped else { continue };
            self.note_shadow_only(cx, &file, index, (object, false));
            let pfn = self.node_memory.lock(cx.cpu()).pfn_of(object);
            drop(xa);
            self.account_object(cx, pfn).plus(NodeStat::WorkingsetNodereclaim);
            pages += self.return_tree_objects(cx, freed);
            nodes += 1;
        }
        (nodes, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_hold_more_on_larger_machines() {
        let shape = |cpus| {
            let SlabShape { order, objects } = SlabShape::for_cpus(cpus);
            (order.0, objects)
        };
        assert_eq!([1, 2, 3, 4, 8, 12, 48].map(shape).map(|s| s.0), [1, 1, 1, 2, 2, 2, 2]);
        assert_eq!((shape(2), shape(8), shape(128)), ((1, 14), (2, 28), (3, 56)));
    }

    #[test]
    fn objects_come_from_slabs_and_go_back() {
        let mut memory = NodeMemory::new(2, 1);
        let node = NodeId(0);
        assert_eq!(memory.take(node), None);
        for slab in 0..10 {
            memory.add_slab(Pfn(100 * slab), memory.shape, node);
        }
        let ids: Vec<_> = core::iter::from_fn(|| memory.take(node)).collect();
        assert_eq!((ids.len(), memory.in_use()), (140, 140));
        let freed: Vec<_> = ids.iter().filter_map(|&id| memory.give(id)).collect();
        assert_eq!(freed.len(), 6, "all but four of ten empty slabs go");
        assert_eq!((memory.in_use(), memory.slabs().count()), (0, 4));
        memory.add_slab(Pfn(7000), SlabShape::of_order(Order::ZERO), node);
        let pages: Vec<_> = (0..7).filter_map(|_| memory.take(node)).collect();
        assert!(pages.iter().all(|&id| memory.pfn_of(id) == Pfn(7000)), "the newest slab first");
    }

    #[test]
    fn the_list_is_oldest_first() {
        let mut memory = NodeMemory::new(1, 2);
        let (here, there) = (NodeId(0), NodeId(1));
        memory.add_slab(Pfn(1), memory.shape, here);
        memory.add_slab(Pfn(9), memory.shape, there);
        let ids = [memory.take(here), memory.take(here), memory.take(here)].map(Option::unwrap);
        let far = memory.take(there).unwrap();
        memory.list(far, FileId(3), 30);
        for (at, &id) in ids.iter().enumerate() {
            memory.list(id, FileId(1), at as u32);
        }
        memory.unlist(ids[1]);
        assert_eq!(memory.oldest(here), Some((ids[0], FileId(1), 0)));
        memory.unlist(ids[0]);
        assert_eq!(memory.oldest(here), Some((ids[2], FileId(1), 2)));
        memory.list(ids[0], FileId(2), 5);
        memory.unlist(ids[2]);
        assert_eq!(memory.oldest(here), Some((ids[0], FileId(2), 5)));
        assert_eq!((memory.nr_listed(here), memory.nr_listed(there)), (1, 1));
        memory.unlist(far);
        assert_eq!(memory.oldest(there), None);
    }
}
