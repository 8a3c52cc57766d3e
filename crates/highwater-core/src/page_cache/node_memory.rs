//! The memory of tree nodes: objects of a slab cache, as in the kernel. Also the list of nodes that
//! hold only shadows.
//!
//! A node of a file's tree is an object of 576 bytes ([`CacheKind::TreeNode`]). Objects for an insertion are
//! taken before any lock ([`Kernel::tree_objects`]).
//!
//! This module also has the list of nodes that hold only shadows, oldest first, by the memory node
//! of their objects. The shrinker of rules/workingset#shadow-nodes works through it.
//!
//! Synchronisation: [`ShadowNodes`] is behind a `Table` lock.

use alloc::vec::Vec;

use super::File;
use crate::config::MemcgStats;
use crate::host::{Cx, Devices, Lock};
use crate::kernel::Kernel;
use crate::page::PAGE_SIZE;
use crate::page::{FileId, Pfn};
use crate::page_alloc::{Account, Gfp};
use crate::slab::{CacheKind, ObjectId};
use crate::units::{GroupId, LruKind};
use crate::vmstat::{GroupStat, NodeStat};
use crate::zone::NodeId;

/// Most nodes one insertion adds.
const MAX_OBJECTS: usize = 3;

/// A few objects: those that an insertion may need, or those that a removal left over.
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

/// A node that holds shadows only.
#[derive(Clone, Copy, Debug)]
struct Listed {
    /// Neighbours on the list.
    next: u32,
    prev: u32,
    /// The file of the node.
    file: u32,
    number: u32,
    is_listed: bool,
}

const UNLISTED: Listed = Listed { next: NIL, prev: NIL, file: 0, number: 0, is_listed: false };

/// The list of one memory node. Links are numbers of objects; [`NIL`] = none.
#[derive(Clone, Copy, Debug)]
struct List {
    /// Oldest and newest.
    oldest: u32,
    newest: u32,
    nr_listed: u64,
}

const NIL: u32 = u32::MAX;

/// The nodes that hold shadows only, by the memory cgroup that pays for them and by memory node.
#[derive(Debug)]
pub struct ShadowNodes {
    /// By object.
    objects: Vec<Listed>,
    lists: Vec<List>,
    nr_nodes: usize,
}

/// The memory cgroup that pays for a tree node, and the memory node that it lies on.
type Owner = (GroupId, NodeId);

impl ShadowNodes {
    /// None, of so many groups (the root counts) and memory nodes.
    pub fn new(nr_groups: usize, nr_nodes: usize) -> Self {
        let list = List { oldest: NIL, newest: NIL, nr_listed: 0 };
        let lists = alloc::vec![list; nr_groups * nr_nodes];
        ShadowNodes { objects: Vec::new(), lists, nr_nodes }
    }

    fn set(&self, (group, node): Owner) -> usize {
        group.idx() * self.nr_nodes + node.idx()
    }

    /// Number of listed nodes whose objects are on a memory node, of all groups.
    ///
    /// # Panics
    /// If the machine has no such node.
    pub fn nr_listed(&self, node: NodeId) -> u64 {
        self.lists[node.idx()..].iter().step_by(self.nr_nodes).map(|list| list.nr_listed).sum()
    }

    /// The same of one group.
    fn nr_of(&self, owner: Owner) -> u64 {
        self.lists[self.set(owner)].nr_listed
    }

    /// A group was removed: its parent pays for its nodes, which are younger than the parent's.
    pub(crate) fn reparent(&mut self, from: GroupId, to: GroupId) {
        for node in (0..self.nr_nodes).map(|node| NodeId(node as u16)) {
            let (from, into) = (self.set((from, node)), self.set((to, node)));
            let empty = List { oldest: NIL, newest: NIL, nr_listed: 0 };
            let moved = core::mem::replace(&mut self.lists[from], empty);
            if moved.nr_listed == 0 {
                continue;
            }
            let list = &mut self.lists[into];
            let newest = core::mem::replace(&mut list.newest, moved.newest);
            list.nr_listed += moved.nr_listed;
            match self.objects.get_mut(newest as usize) {
                Some(last) => last.next = moved.oldest,
                None => list.oldest = moved.oldest,
            }
            self.objects[moved.oldest as usize].prev = newest;
        }
    }

    /// A node, whose object is on `on`, holds only shadows from now on: it becomes the youngest of
    /// its list.
    fn list(&mut self, id: ObjectId, on: Owner, file: FileId, number: u32) {
        if self.objects.len() <= id.0 as usize {
            self.objects.resize(id.0 as usize + 1, UNLISTED);
        }
        let set = self.set(on);
        let list = &mut self.lists[set];
        let newest = core::mem::replace(&mut list.newest, id.0);
        list.nr_listed += 1;
        match self.objects.get_mut(newest as usize) {
            Some(newest) => newest.next = id.0,
            None => list.oldest = id.0,
        }
        let object = &mut self.objects[id.0 as usize];
        debug_assert!(!object.is_listed);
        *object = Listed { next: NIL, prev: newest, file: file.0, number, is_listed: true };
    }

    /// A node is on the list no longer.
    fn unlist(&mut self, id: ObjectId, on: Owner) {
        let Listed { next, prev, is_listed, .. } = self.objects[id.0 as usize];
        debug_assert!(is_listed);
        let set = self.set(on);
        let list = &mut self.lists[set];
        list.nr_listed -= 1;
        if prev == NIL {
            list.oldest = next;
        } else {
            self.objects[prev as usize].next = next;
        }
        if next == NIL {
            list.newest = prev;
        } else {
            self.objects[next as usize].prev = prev;
        }
        self.objects[id.0 as usize].is_listed = false;
    }

    /// The oldest shadow-only node of a group on a memory node: its object, file, number.
    fn oldest(&self, of: Owner) -> Option<(ObjectId, FileId, u32)> {
        let id = self.lists[self.set(of)].oldest;
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
            let Some(id) = self.slab_take(cx, CacheKind::TreeNode, gfp) else {
                self.return_tree_objects(cx, objects);
                return None;
            };
            objects.push(id);
        }
        Some(objects)
    }

    /// Gives memory of nodes back; the pages that went back to the allocator.
    pub(super) fn return_tree_objects(&self, cx: &Cx<'_, H>, mut objects: Objects) -> u64 {
        let mut pages = 0;
        while let Some(id) = objects.pop() {
            pages += self.slab_give(cx, CacheKind::TreeNode, id);
        }
        pages
    }

    /// Keeps the list of shadow-only nodes and its counter as a tree says. The caller holds
    /// `xa_lock`, so changes of one node come in order.
    #[doc(alias = "workingset_update_node")]
    pub(super) fn note_shadow_only(
        &self,
        cx: &Cx<'_, H>,
        file: &File<H>,
        index: u32,
        (object, is_shadow_only): (ObjectId, bool),
    ) {
        let (pfn, on) = {
            let cache = self.slab(CacheKind::TreeNode).lock(cx.cpu());
            let payer = self.memcg.payer_of(cache.owner_of(object));
            (cache.pfn_of(object), (payer, cache.node_of(object)))
        };
        let mut nodes = self.shadow_nodes.lock(cx.cpu());
        if is_shadow_only {
            nodes.list(object, on, file.id, index >> super::node::SLOT_BITS);
        } else {
            nodes.unlist(object, on);
        }
        drop(nodes);
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
        self.shadow_nodes.lock(cx.cpu()).nr_listed(node)
    }

    /// Number of listed shadow nodes that a memory cgroup pays for.
    pub(crate) fn shadow_nodes_of(&self, cx: &Cx<'_, H>, group: GroupId, node: NodeId) -> u64 {
        self.shadow_nodes.lock(cx.cpu()).nr_of((group, node))
    }

    /// Pages by which a memory cgroup's shadows are bounded: those of its lists, and of its slabs.
    /// In 6.12 the group's own (rules/memory-cgroups#shrinkers); before, also those of the groups below.
    pub(crate) fn pages_of_group(&self, group: GroupId, node: NodeId) -> u64 {
        let groups = &self.mem.groups;
        let slabs = [GroupStat::SlabReclaimable, GroupStat::SlabUnreclaimable];
        let (lists, bytes): (u64, u64) = match self.mem.policy.memcg.stats {
            MemcgStats::RstatPerGroup => {
                let list = |list: LruKind| groups.own(group, node, list.node_stat()).max(0) as u64;
                let slab = |item| groups.own_count(group, node, item).max(0) as u64;
                (LruKind::ALL[..4].iter().copied().map(list).sum(), slabs.map(slab).iter().sum())
            }
            MemcgStats::Batches | MemcgStats::RstatGlobal => {
                let vec = self.lru.id_of_group(group, node);
                let list = |&list: &LruKind| self.pages_of_lists(vec, list);
                let slab = |item| groups.seen_count(group, item);
                (LruKind::ALL[..4].iter().map(list).sum(), slabs.map(slab).iter().sum())
            }
        };
        lists + bytes / PAGE_SIZE as u64
    }

    /// Drops up to `nr` shadow-only nodes of a memory node, oldest first: the nodes dropped, and
    /// the pages that went back to the allocator. No lock is held.
    pub fn drop_shadow_nodes(&self, cx: &Cx<'_, H>, node: NodeId, nr: u64) -> (u64, u64) {
        self.drop_shadow_nodes_of(cx, GroupId::ROOT, node, nr)
    }

    /// The same of those that a memory cgroup pays for.
    pub(crate) fn drop_shadow_nodes_of(
        &self,
        cx: &Cx<'_, H>,
        group: GroupId,
        node: NodeId,
        nr: u64,
    ) -> (u64, u64) {
        let of = (group, node);
        let (mut nodes, mut pages) = (0, 0);
        for _ in 0..nr {
            let oldest = self.shadow_nodes.lock(cx.cpu()).oldest(of);
            let Some((object, id, number)) = oldest else { break };
            // A file whose last handle is gone was truncated: its nodes are off the list, or about
            // to leave it.
            let Some(file) = self.file(cx, id) else { break };
            let xa = file.xa_lock.lock(cx.cpu());
            let index = number << super::node::SLOT_BITS;
            let dropped = file.tree.lock(cx.cpu()).drop_shadows(index, object);
            let Some(freed) = dropped else { continue };
            self.note_shadow_only(cx, &file, index, (object, false));
            let pfn = self.slab(CacheKind::TreeNode).lock(cx.cpu()).pfn_of(object);
            drop(xa);
            self.account_object(cx, pfn).plus(NodeStat::WorkingsetNodereclaim);
            pages += self.free_tree_nodes(cx, freed);
            nodes += 1;
        }
        (nodes, pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_oldest_first() {
        let mut nodes = ShadowNodes::new(1, 2);
        let [here, there] = [0, 1].map(|node| (GroupId::ROOT, NodeId(node)));
        let (ids, far) = ([3, 0, 7].map(ObjectId), ObjectId(9));
        nodes.list(far, there, FileId(3), 30);
        for (at, &id) in ids.iter().enumerate() {
            nodes.list(id, here, FileId(1), at as u32);
        }
        nodes.unlist(ids[1], here);
        assert_eq!(nodes.oldest(here), Some((ids[0], FileId(1), 0)));
        nodes.unlist(ids[0], here);
        assert_eq!(nodes.oldest(here), Some((ids[2], FileId(1), 2)));
        nodes.list(ids[0], here, FileId(2), 5);
        nodes.unlist(ids[2], here);
        assert_eq!(nodes.oldest(here), Some((ids[0], FileId(2), 5)));
        assert_eq!((nodes.nr_of(here), nodes.nr_of(there)), (1, 1));
        nodes.unlist(far, there);
        assert_eq!(nodes.oldest(there), None);
    }
}
