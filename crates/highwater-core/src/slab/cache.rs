//! The slabs of one cache: which objects are free, which slabs have some.

use alloc::vec::Vec;

use crate::page::{Order, PAGE_SIZE, Pfn};
use crate::units::GroupId;
use crate::zone::NodeId;

/// Slabs with free objects that a memory node keeps although they are empty (`min_partial`).
const MIN_PARTIAL: u32 = 5;

/// Names an object of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// No object.
    pub const NONE: ObjectId = ObjectId(u32::MAX);
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
    /// Chooses the smallest slab order with at least `4 * (bits(cpus) + 1)` objects, so that more
    /// CPUs refill less often; order 3 at most.
    #[doc(alias = "calculate_order")]
    const fn for_cpus(cpus: usize, bytes: usize) -> SlabShape {
        let bits = usize::BITS - cpus.leading_zeros();
        let wanted = 4 * (bits + 1);
        let mut shape = SlabShape::smallest(bytes);
        while shape.objects < wanted && shape.order.0 < Order::COSTLY.0 {
            shape = SlabShape::of_order(Order(shape.order.0 + 1), bytes);
        }
        shape
    }

    const fn of_order(order: Order, bytes: usize) -> SlabShape {
        SlabShape { order, objects: ((PAGE_SIZE << order.0) / bytes) as u32 }
    }

    /// The smallest block that holds an object.
    const fn smallest(bytes: usize) -> SlabShape {
        let mut shape = SlabShape::of_order(Order::ZERO, bytes);
        while shape.objects == 0 {
            shape = SlabShape::of_order(Order(shape.order.0 + 1), bytes);
        }
        shape
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

/// Slabs with free objects of one memory node. Links are numbers of slabs; [`NIL`] = none.
#[derive(Clone, Copy, Debug)]
struct Partial {
    first: u32,
    nr: u32,
}

const NIL: u32 = u32::MAX;

/// A slab cache: all slabs of one kind of object.
#[doc(alias = "kmem_cache")]
#[derive(Debug)]
pub struct SlabCache {
    pub(super) shape: SlabShape,
    pub(super) smallest: SlabShape,
    slabs: Vec<Slab>,
    /// Of a free object: the next one of its slab. `shape.objects` for each slab.
    next_free: Vec<u32>,
    free_slots: Vec<u32>,
    /// By object: the memory cgroup that pays for it; as long as it has to be.
    owners: Vec<GroupId>,
    partial: Vec<Partial>,
    /// The node of the newest slab.
    last: NodeId,
}

impl SlabCache {
    /// No slabs.
    pub fn new(object_bytes: usize, nr_cpus: usize, nr_nodes: usize) -> Self {
        SlabCache {
            shape: SlabShape::for_cpus(nr_cpus, object_bytes),
            smallest: SlabShape::smallest(object_bytes),
            slabs: Vec::new(),
            next_free: Vec::new(),
            free_slots: Vec::new(),
            owners: Vec::new(),
            partial: alloc::vec![Partial { first: NIL, nr: 0 }; nr_nodes],
            last: NodeId(0),
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

    /// The frame an object's slab starts at.
    pub(crate) fn pfn_of(&self, id: ObjectId) -> Pfn {
        self.slabs[self.slab_of(id)].pfn
    }

    /// The memory node an object lies on.
    pub(crate) fn node_of(&self, id: ObjectId) -> NodeId {
        NodeId(self.slabs[self.slab_of(id)].node)
    }

    /// A memory cgroup pays for an object.
    pub(crate) fn set_owner(&mut self, id: ObjectId, owner: GroupId) {
        let at = id.0 as usize;
        if at >= self.owners.len() {
            self.owners.resize(at + 1, GroupId::ROOT);
        }
        self.owners[at] = owner;
    }

    /// The memory cgroup that pays for an object; the root if none does.
    pub(crate) fn owner_of(&self, id: ObjectId) -> GroupId {
        self.owners.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The group that pays for each object; the root pays for unaccounted ones.
    pub(crate) fn owners(&self) -> impl Iterator<Item = GroupId> {
        self.owners.iter().copied()
    }

    /// Forgets the memory cgroup that pays for an object, and returns it.
    pub(super) fn take_owner(&mut self, id: ObjectId) -> GroupId {
        self.owners.get_mut(id.0 as usize).map(core::mem::take).unwrap_or_default()
    }

    fn slab_of(&self, id: ObjectId) -> usize {
        (id.0 / self.shape.objects) as usize
    }

    /// An object of a slab that has one free, on a node.
    pub(super) fn take(&mut self, node: NodeId) -> Option<ObjectId> {
        let number = self.partial[node.idx()].first;
        let slab = self.slabs.get_mut(number as usize)?;
        let id = slab.first_free;
        slab.first_free = self.next_free[id as usize];
        slab.in_use += 1;
        if slab.in_use == slab.objects {
            self.unlink_partial(number);
        }
        Some(ObjectId(id))
    }

    /// The same of the node that the newest slab lies on (rules/slab#nodes).
    pub(super) fn take_from_last(&mut self) -> Option<ObjectId> {
        self.take(self.last)
    }

    /// Adds an empty slab.
    pub(super) fn add_slab(&mut self, pfn: Pfn, shape: SlabShape, node: NodeId) {
        self.last = node;
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
            self.next_free.resize(self.slabs.len() * self.shape.objects as usize, NIL);
        } else {
            self.slabs[number as usize] = slab;
        }
        for id in first..first + shape.objects {
            let is_last = id + 1 == first + shape.objects;
            self.next_free[id as usize] = if is_last { NIL } else { id + 1 };
        }
        self.link_partial(number);
    }

    /// Takes an object back; a slab to free if that was its last.
    pub(super) fn give(&mut self, id: ObjectId) -> Option<(Pfn, Order)> {
        let number = self.slab_of(id);
        let slab = &mut self.slabs[number];
        debug_assert!(slab.in_use > 0, "an object is freed twice");
        self.next_free[id.0 as usize] = slab.first_free;
        slab.first_free = id.0;
        slab.in_use -= 1;
        let (node, in_use) = (usize::from(slab.node), slab.in_use);
        if in_use + 1 == slab.objects {
            self.link_partial(number as u32);
        }
        if in_use != 0 || self.partial[node].nr < MIN_PARTIAL {
            return None;
        }
        self.unlink_partial(number as u32);
        self.free_slots.push(number as u32);
        let slab = &mut self.slabs[number];
        slab.objects = 0;
        Some((slab.pfn, slab.order))
    }

    fn link_partial(&mut self, number: u32) {
        let partial = &mut self.partial[usize::from(self.slabs[number as usize].node)];
        let first = core::mem::replace(&mut partial.first, number);
        partial.nr += 1;
        let slab = &mut self.slabs[number as usize];
        (slab.next, slab.prev) = (first, NIL);
        if let Some(first) = self.slabs.get_mut(first as usize) {
            first.prev = number;
        }
    }

    fn unlink_partial(&mut self, number: u32) {
        let Slab { next, prev, node, .. } = self.slabs[number as usize];
        let partial = &mut self.partial[usize::from(node)];
        partial.nr -= 1;
        match self.slabs.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => partial.first = next,
        }
        if let Some(next) = self.slabs.get_mut(next as usize) {
            next.prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::CacheKind;

    const NODE_BYTES: usize = CacheKind::TreeNode.object_bytes();

    #[test]
    fn slabs_hold_more_on_larger_machines() {
        let shape = |cpus| {
            let SlabShape { order, objects } = SlabShape::for_cpus(cpus, NODE_BYTES);
            (order.0, objects)
        };
        assert_eq!([1, 2, 3, 4, 8, 12, 48].map(shape).map(|s| s.0), [1, 1, 1, 2, 2, 2, 2]);
        assert_eq!((shape(2), shape(8), shape(128)), ((1, 14), (2, 28), (3, 56)));
    }

    /// A separate order (rules/slab#shape).
    #[test]
    fn large_objects_get_blocks_that_hold_them() {
        let shape = |kind: CacheKind| {
            let shape = SlabShape::for_cpus(2, kind.object_bytes());
            (shape.order.0, shape.objects)
        };
        assert_eq!(CacheKind::ALL.len(), 5);
        assert_eq!(shape(CacheKind::BufferHead), (0, 39));
        assert_eq!(shape(CacheKind::Dentry), (0, 21));
        assert_eq!(shape(CacheKind::Inode), (2, 16));
        assert_eq!(shape(CacheKind::Process), (3, 3));
        assert_eq!(SlabShape::smallest(CacheKind::Process.object_bytes()).order, Order(2));
    }

    #[test]
    fn objects_come_from_slabs_and_go_back() {
        let mut memory = SlabCache::new(NODE_BYTES, 2, 1);
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
        memory.add_slab(Pfn(7000), memory.smallest, node);
        let pages: Vec<_> = (0..7).filter_map(|_| memory.take(node)).collect();
        assert!(pages.iter().all(|&id| memory.pfn_of(id) == Pfn(7000)), "the newest slab first");
    }
}
