//! A file's pages by index, with marks and shadows.
//!
//! ```text
//! Tree      chunks: one for 2^18 indices (1 GiB)
//!  Chunk    groups: one for 2^12
//!   Group   nodes:  one for 2^6; bitmaps of those that exist and of those with a marked page
//!    Node   64 slots
//! ```
//!
//! Groups and chunks exist only while they have entries, so the cost of a sparse file depends on
//! its pages. The kernel's tree has a node wherever there is a [`Node`] here, above the first of
//! them one for each group, and one for each chunk; each is an object of [`super::node_memory`],
//! which the caller passes in and gets back. A folio that fills whole nodes is one entry of the
//! node above, so the nodes under it have no memory in the kernel, and no object here. (Not
//! modelled: the levels above chunks, one node for 64 GiB; and the kernel's saving of the node when
//! only page 0 is cached.)
//!
//! A tree is plain data; [`super::File`] says which locks it needs.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;

use super::node::{Node, SLOT_BITS, SLOTS};
use super::node_memory::Objects;
use crate::lru::Shadow;
use crate::page::Pfn;
use crate::slab::ObjectId;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Empty,
    /// A page.
    Page(Pfn),
    /// What an evicted page left.
    Shadow(Shadow),
    /// Of a file that lives in memory: the swap slot of a page, as `swap` packs it.
    Swapped(u32),
}

/// A mark on a page of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Dirty.
    Dirty = 0,
    /// Under writeback.
    Writeback = 1,
    /// To be written by a sync that is under way.
    ToWrite = 2,
}

impl Mark {
    /// Number of marks.
    pub const COUNT: usize = 3;
    /// All.
    pub const ALL: [Mark; Self::COUNT] = [Mark::Dirty, Mark::Writeback, Mark::ToWrite];
}

/// A file's tree from index to page, shadow or swap slot.
#[doc(alias = "xarray")]
#[doc(alias = "radix_tree_root")]
#[derive(Debug, Default)]
pub struct Tree {
    chunks: Vec<Option<Box<Chunk>>>,
    nr_pages: u64,
    nr_marked: [u64; Mark::COUNT],
    nr_shadow_nodes: u64,
}

/// `2^18` indices.
#[derive(Debug)]
struct Chunk {
    groups: [Option<Box<Group>>; SLOTS],
    /// Bit i: group i exists.
    exists: u64,
    object: Option<ObjectId>,
}

/// `2^12` indices.
#[derive(Debug)]
struct Group {
    nodes: [Option<Box<Node>>; SLOTS],
    /// Bit i: node i exists.
    exists: u64,
    /// Bit i of word m: node i has a page with mark m.
    marked: [u64; Mark::COUNT],
    object: Option<ObjectId>,
}

/// What storing an entry changed.
#[derive(Debug)]
pub struct Stored {
    /// The old entry.
    pub old: Entry,
    /// The index's node holds shadows only from now on (true), or no longer (false).
    pub shadow_only: Option<(ObjectId, bool)>,
    /// Memory of nodes that are gone.
    pub freed: Objects,
}

/// A node, as walks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// First index, divided by 64.
    pub number: u32,
    /// Its memory.
    pub object: ObjectId,
    /// Its pages.
    pub nr_pages: u32,
    /// Its shadows.
    pub nr_shadows: u32,
    /// Its swap slots.
    pub nr_swapped: u32,
}

const GROUP_SHIFT: u32 = 2 * SLOT_BITS;
const CHUNK_SHIFT: u32 = 3 * SLOT_BITS;

/// Position of an index in its node, of its node in its group, of its group in its chunk.
const fn slot(index: u32) -> usize {
    index as usize & (SLOTS - 1)
}

const fn node_slot(index: u32) -> usize {
    (index >> SLOT_BITS) as usize & (SLOTS - 1)
}

const fn group_slot(index: u32) -> usize {
    (index >> GROUP_SHIFT) as usize & (SLOTS - 1)
}

const fn chunk_number(index: u32) -> usize {
    (index >> CHUNK_SHIFT) as usize
}

/// The bits of `word` at and above `from`.
const fn bits_from(word: u64, from: usize) -> u64 {
    word & (u64::MAX << from)
}

/// Reading.
impl Tree {
    /// Pages in the tree.
    #[inline(always)]
    pub fn nr_pages(&self) -> u64 {
        self.nr_pages
    }

    fn group(&self, index: u32) -> Option<&Group> {
        self.chunks.get(chunk_number(index))?.as_ref()?.groups[group_slot(index)].as_deref()
    }

    #[inline]
    fn node(&self, index: u32) -> Option<&Node> {
        self.group(index)?.nodes[node_slot(index)].as_deref()
    }

    /// Returns the entry at an index.
    #[doc(alias = "xa_load")]
    #[inline]
    pub fn get(&self, index: u32) -> Entry {
        self.node(index).map_or(Entry::Empty, |node| node.get(slot(index)))
    }

    /// The page at an index.
    #[inline]
    pub fn page(&self, index: u32) -> Option<Pfn> {
        match self.get(index) {
            Entry::Page(pfn) => Some(pfn),
            _ => None,
        }
    }

    /// Hands the pages at `from`, `from + 1`, ... to `f` until one is missing, `max` were seen, or
    /// `f` says to stop (false).
    pub fn run(&self, from: u32, max: u32, mut f: impl FnMut(u32, Pfn) -> bool) {
        let end = from.saturating_add(max);
        let mut index = from;
        while index < end {
            let Some(node) = self.node(index) else { return };
            let stop = end.min((index | (SLOTS as u32 - 1)).saturating_add(1));
            while index < stop {
                let Entry::Page(pfn) = node.get(slot(index)) else { return };
                if !f(index, pfn) {
                    return;
                }
                index += 1;
            }
        }
    }

    /// Hands the pages of `from..end` to `f`, ascending, until it says to stop (false).
    pub fn walk(&self, from: u32, end: u32, mut f: impl FnMut(u32, Pfn) -> bool) {
        let mut at = Some(from);
        while let Some(from) = at.filter(|&from| from < end) {
            let Some((base, node)) = self.next_node(from, None) else { return };
            let first = if base < from { slot(from) } else { 0 };
            let mut left = bits_from(node.pages(), first);
            while left != 0 {
                let slot = left.trailing_zeros();
                left &= left - 1;
                let Entry::Page(pfn) = node.get(slot as usize) else { continue };
                if base + slot >= end || !f(base + slot, pfn) {
                    return;
                }
            }
            at = base.checked_add(SLOTS as u32);
        }
    }

    /// True if the page at an index has the mark.
    pub fn is_marked(&self, index: u32, mark: Mark) -> bool {
        self.node(index).is_some_and(|node| node.marked(mark) & (1 << slot(index)) != 0)
    }

    /// True if any page has the mark.
    pub fn any_marked(&self, mark: Mark) -> bool {
        self.nr_marked[mark as usize] != 0
    }

    /// Pages that have the mark.
    pub fn nr_marked(&self, mark: Mark) -> u64 {
        self.nr_marked[mark as usize]
    }

    /// Finds the first page at or after `from` that has the mark.
    #[doc(alias = "xas_find_marked")]
    pub fn next_marked(&self, from: u32, mark: Mark) -> Option<(u32, Pfn)> {
        if !self.any_marked(mark) {
            return None;
        }
        self.next_bit(from, Some(mark), |node| node.marked(mark))
    }

    /// The first page at or after `from`.
    pub fn next_page(&self, from: u32) -> Option<(u32, Pfn)> {
        self.next_bit(from, None, Node::pages)
    }

    fn next_bit(
        &self,
        from: u32,
        mark: Option<Mark>,
        bits: impl Fn(&Node) -> u64,
    ) -> Option<(u32, Pfn)> {
        let mut from = from;
        loop {
            let (base, node) = self.next_node(from, mark)?;
            let first = if base < from { slot(from) } else { 0 };
            let left = bits_from(bits(node), first);
            if left != 0 {
                let slot = left.trailing_zeros();
                if let Entry::Page(pfn) = node.get(slot as usize) {
                    return Some((base + slot, pfn));
                }
            }
            from = base.checked_add(SLOTS as u32)?;
        }
    }

    /// The first node that holds an index at or after `from` (and a page with the mark, if one is
    /// asked for), with its first index.
    fn next_node(&self, from: u32, mark: Option<Mark>) -> Option<(u32, &Node)> {
        let mut chunk_nr = chunk_number(from);
        let (mut group_nr, mut node_nr) = (group_slot(from), node_slot(from));
        while let Some(chunk) = self.chunks.get(chunk_nr) {
            let exists = chunk.as_ref().map_or(0, |chunk| bits_from(chunk.exists, group_nr));
            let found = chunk.as_ref().filter(|_| exists != 0);
            let Some(chunk) = found else {
                (chunk_nr, group_nr, node_nr) = (chunk_nr + 1, 0, 0);
                continue;
            };
            let next = exists.trailing_zeros() as usize;
            if next != group_nr {
                (group_nr, node_nr) = (next, 0);
            }
            if let Some(group) = &chunk.groups[group_nr] {
                let nodes = mark.map_or(group.exists, |mark| group.marked[mark as usize]);
                let nodes = bits_from(nodes, node_nr);
                let next = nodes.trailing_zeros() as usize;
                if let Some(Some(node)) = group.nodes.get(next) {
                    let base = (chunk_nr << CHUNK_SHIFT | group_nr << GROUP_SHIFT) as u32;
                    return Some((base | (next << SLOT_BITS) as u32, node));
                }
            }
            (group_nr, node_nr) = (group_nr + 1, 0);
            if group_nr == SLOTS {
                (chunk_nr, group_nr) = (chunk_nr + 1, 0);
            }
        }
        None
    }

    /// Finds the first slot at or after `from` without a page, within `max` slots.
    #[doc(alias = "page_cache_next_miss")]
    pub fn next_missing(&self, from: u32, max: u32) -> Option<u32> {
        let end = u64::from(from) + u64::from(max);
        let mut index = u64::from(from);
        while index < end {
            let at = u32::try_from(index).ok()?;
            let pages = self.node(at).map_or(0, Node::pages);
            let run = (!pages >> slot(at)).trailing_zeros() as u64;
            let in_node = (SLOTS - slot(at)) as u64;
            index += run.min(in_node);
            if run < in_node {
                return u32::try_from(index).ok().filter(|_| index < end);
            }
        }
        None
    }

    /// Counts the pages that lie without a gap right before `index`, at most `max`.
    #[doc(alias = "page_cache_prev_miss")]
    pub fn run_before(&self, index: u32, max: u32) -> u32 {
        let mut run = 0;
        while run < max && run < index {
            let last = index - 1 - run;
            let pages = self.node(last).map_or(0, Node::pages);
            let in_node = slot(last) as u32 + 1;
            let here = (!(pages << (SLOTS as u32 - in_node))).leading_zeros().min(in_node);
            run += here;
            if here < in_node {
                break;
            }
        }
        run.min(max)
    }

    /// The first index from `from` on that holds a swap slot, and the slot.
    pub fn next_swapped(&self, from: u32) -> Option<(u32, u32)> {
        let mut at = from;
        loop {
            let (base, node) = self.next_node(at, None)?;
            if node.nr_swapped() != 0 {
                let first = slot(at.max(base));
                let found = (first..SLOTS).find_map(|slot| match node.get(slot) {
                    Entry::Swapped(word) => Some((base + slot as u32, word)),
                    _ => None,
                });
                if found.is_some() {
                    return found;
                }
            }
            at = base.checked_add(SLOTS as u32)?;
        }
    }

    /// Number of nodes that hold shadows only (`workingset_nodes`).
    pub fn shadow_nodes(&self) -> u64 {
        self.nr_shadow_nodes
    }

    /// All nodes that hold slots, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeInfo> {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (base, node) = self.next_node(from?, None)?;
            from = base.checked_add(SLOTS as u32);
            Some(NodeInfo {
                number: base >> SLOT_BITS,
                object: node.object,
                nr_pages: node.pages().count_ones(),
                nr_shadows: node.nr_shadows(),
                nr_swapped: node.nr_swapped(),
            })
        })
    }

    /// Objects that its nodes are made of, those above the slots included.
    pub fn nr_objects(&self) -> u64 {
        let chunks = || self.chunks.iter().flatten();
        let groups = || chunks().flat_map(|chunk| chunk.groups.iter().flatten());
        let upper = chunks().filter(|chunk| chunk.object.is_some()).count()
            + groups().filter(|group| group.object.is_some()).count();
        let nodes = groups().flat_map(|group| group.nodes.iter().flatten());
        let with_object = nodes.filter(|node| node.object != ObjectId::NONE).count();
        (upper + with_object) as u64
    }

    /// First index of the first node with shadows among those for `from..end`.
    pub fn next_shadow_node(&self, from: u32, end: u32) -> Option<u32> {
        let mut from = from;
        loop {
            let (base, node) = self.next_node(from, None)?;
            if base >= end {
                return None;
            }
            if node.nr_shadows() != 0 {
                return Some(base);
            }
            from = base.checked_add(SLOTS as u32)?;
        }
    }

    /// The slots of an index's node that hold shadows, as bits.
    pub fn shadows_in_node(&self, index: u32) -> u64 {
        let Some(node) = self.node(index) else { return 0 };
        let is_shadow = |slot: &usize| matches!(node.get(*slot), Entry::Shadow(_));
        (0..SLOTS).filter(is_shadow).fold(0, |bits, slot| bits | 1 << slot)
    }
}

/// Changing.
impl Tree {
    #[inline(always)]
    fn node_mut(&mut self, index: u32) -> Option<&mut Node> {
        let chunk = self.chunks.get_mut(chunk_number(index))?.as_mut()?;
        chunk.groups[group_slot(index)].as_mut()?.nodes[node_slot(index)].as_deref_mut()
    }

    /// Nodes that storing something at an index would add.
    pub fn nodes_missing(&self, index: u32) -> usize {
        let chunk = self.chunks.get(chunk_number(index)).and_then(Option::as_ref);
        let group = chunk.and_then(|chunk| chunk.groups[group_slot(index)].as_ref());
        if let Some(node) = group.and_then(|group| group.nodes[node_slot(index)].as_ref()) {
            return usize::from(node.object == ObjectId::NONE);
        }
        let (has_group_node, has_chunk_node) = Self::upper_nodes(index);
        let group = has_group_node && group.is_none_or(|group| group.object.is_none());
        let chunk = has_chunk_node && chunk.is_none_or(|chunk| chunk.object.is_none());
        1 + usize::from(group) + usize::from(chunk)
    }

    /// Is there a node for the group, and for the chunk, of an index, if nothing lies beyond it?
    const fn upper_nodes(index: u32) -> (bool, bool) {
        (index >= 1 << SLOT_BITS, index >= 1 << GROUP_SHIFT)
    }

    /// Stores an entry at an index of the tree. Memory of nodes that this adds is taken from
    /// `spare`, which must have as many as [`Tree::nodes_missing`] says.
    #[doc(alias = "xas_store")]
    pub fn store(&mut self, index: u32, entry: Entry, spare: &mut Objects) -> Stored {
        if entry == Entry::Empty && self.node(index).is_none() {
            return Stored { old: entry, shadow_only: None, freed: Objects::default() };
        }
        if self.chunks.len() <= chunk_number(index) {
            self.chunks.resize_with(chunk_number(index) + 1, || None);
        }
        let (has_group_node, has_chunk_node) = Self::upper_nodes(index);
        let chunk = self.chunks[chunk_number(index)].get_or_insert_with(|| Box::new(Chunk::new()));
        let group = &mut chunk.groups[group_slot(index)];
        let group = group.get_or_insert_with(|| Box::new(Group::new()));
        let node = group.nodes[node_slot(index)].get_or_insert_with(|| {
            if has_chunk_node && chunk.object.is_none() {
                chunk.object = spare.pop();
            }
            if has_group_node && group.object.is_none() {
                group.object = spare.pop();
            }
            Box::new(Node::new(spare.pop().unwrap_or(ObjectId::NONE)))
        });
        let was_shadow_only = node.is_shadow_only();
        if node.object == ObjectId::NONE {
            node.object = spare.pop().unwrap_or(ObjectId::NONE);
        }
        chunk.exists |= 1 << group_slot(index);
        group.exists |= 1 << node_slot(index);

        let bit = 1 << slot(index);
        for mark in Mark::ALL {
            self.nr_marked[mark as usize] -= u64::from(node.marked(mark) & bit != 0);
        }
        let old = node.set(slot(index), entry);
        for mark in Mark::ALL {
            if node.marked(mark) == 0 {
                group.marked[mark as usize] &= !(1 << node_slot(index));
            }
        }
        self.nr_pages -= u64::from(matches!(old, Entry::Page(_)));
        self.nr_pages += u64::from(matches!(entry, Entry::Page(_)));
        let is_shadow_only = node.is_shadow_only();
        let shadow_only =
            (was_shadow_only != is_shadow_only).then_some((node.object, is_shadow_only));
        self.nr_shadow_nodes -= u64::from(was_shadow_only);
        self.nr_shadow_nodes += u64::from(is_shadow_only);
        let is_empty = node.is_empty();
        let freed = if is_empty { self.prune(index) } else { Objects::default() };
        Stored { old, shadow_only, freed }
    }

    /// As [`Tree::store`] of a shadow over an unmarked page, which is reclaim's common case: above
    /// the slot only counts change. Returns the node's memory if the node holds only shadows from
    /// now on. `None`, and nothing changes, if the slot has something else.
    #[inline(always)]
    pub fn evict(&mut self, index: u32, pfn: Pfn, shadow: Shadow) -> Option<Option<ObjectId>> {
        let Some(node) = self.node_mut(index) else {
            cold_path();
            return None;
        };
        if !node.evict(slot(index), pfn, shadow) {
            cold_path();
            return None;
        }
        let shadow_only = node.is_shadow_only().then_some(node.object);
        self.nr_pages -= 1;
        self.nr_shadow_nodes += u64::from(shadow_only.is_some());
        Some(shadow_only)
    }

    /// Puts another page in the place of one, with its marks; false if that one is not there.
    pub fn replace(&mut self, index: u32, old: Pfn, new: Pfn) -> bool {
        self.node_mut(index).is_some_and(|node| node.replace(slot(index), old, new))
    }

    /// Removes the empty node of an index, and empty levels above it.
    fn prune(&mut self, index: u32) -> Objects {
        let mut freed = Objects::default();
        let Some(Some(chunk)) = self.chunks.get_mut(chunk_number(index)) else { return freed };
        if let Some(group) = &mut chunk.groups[group_slot(index)] {
            if let Some(node) = group.nodes[node_slot(index)].take()
                && node.object != ObjectId::NONE
            {
                freed.push(node.object);
            }
            group.exists &= !(1 << node_slot(index));
            if group.exists != 0 {
                return freed;
            }
            freed.extend(group.object);
        }
        chunk.groups[group_slot(index)] = None;
        chunk.exists &= !(1 << group_slot(index));
        if chunk.exists == 0 {
            freed.extend(chunk.object);
            self.chunks[chunk_number(index)] = None;
            while let Some(None) = self.chunks.last() {
                self.chunks.pop();
            }
        }
        freed
    }

    /// Drops all shadows of the node of an index, if it holds nothing else. None if it does, or if
    /// there is no such node, or its memory is not `object` (it is another one by now).
    pub fn drop_shadows(&mut self, index: u32, object: ObjectId) -> Option<Objects> {
        let node =
            self.node(index).filter(|node| node.object == object && node.is_shadow_only())?;
        debug_assert!(node.nr_shadows() > 0);
        self.nr_shadow_nodes -= 1;
        Some(self.prune(index))
    }

    /// Sets or clears a mark on a page.
    pub fn mark(&mut self, index: u32, mark: Mark, on: bool) {
        let Some(Some(chunk)) = self.chunks.get_mut(chunk_number(index)) else { return };
        let Some(group) = &mut chunk.groups[group_slot(index)] else { return };
        let Some(node) = &mut group.nodes[node_slot(index)] else { return };
        if !node.mark(slot(index), mark, on) {
            return;
        }
        let nr = &mut self.nr_marked[mark as usize];
        *nr = if on { *nr + 1 } else { *nr - 1 };
        let bit = 1 << node_slot(index);
        let marked = &mut group.marked[mark as usize];
        *marked = if node.marked(mark) != 0 { *marked | bit } else { *marked & !bit };
    }
}

impl Chunk {
    fn new() -> Self {
        Chunk { groups: [const { None }; SLOTS], exists: 0, object: None }
    }
}

impl Group {
    fn new() -> Self {
        Group { nodes: [const { None }; SLOTS], exists: 0, marked: [0; Mark::COUNT], object: None }
    }
}

mod folios;
#[cfg(test)]
mod tests;
