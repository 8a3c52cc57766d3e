//! Slots and nodes of large folios.
//!
//! A folio of fewer pages than a node has is stored slot by slot in one node. A larger one fills
//! whole nodes. In the kernel it is one entry of the node above them, so the nodes under it have no
//! memory: their object is [`ObjectId::NONE`] until a smaller entry needs them.

use alloc::boxed::Box;

use super::{Chunk, Entry, Group, Objects, SLOTS, Tree, chunk_number, group_slot};
use crate::slab::ObjectId;

impl Tree {
    /// Nodes that storing a folio of `nr` pages would add. One that fills whole nodes is an entry
    /// of the node above them, so only that needs memory.
    pub fn nodes_missing_for(&self, index: u32, nr: u32) -> usize {
        if nr < SLOTS as u32 {
            return self.nodes_missing(index);
        }
        let (_, has_chunk_node) = Self::upper_nodes(index);
        let chunk = self.chunks.get(chunk_number(index)).and_then(Option::as_ref);
        let group = chunk.and_then(|chunk| chunk.groups[group_slot(index)].as_ref());
        let has_object = group.is_some_and(|group| group.object.is_some());
        let chunk_has_object = chunk.is_some_and(|chunk| chunk.object.is_some());
        usize::from(!has_object) + usize::from(has_chunk_node && !chunk_has_object)
    }

    /// Gives the nodes above those of an index their memory, before a folio that fills whole nodes
    /// is stored.
    pub fn give_upper(&mut self, index: u32, spare: &mut Objects) {
        if self.chunks.len() <= chunk_number(index) {
            self.chunks.resize_with(chunk_number(index) + 1, || None);
        }
        let (_, has_chunk_node) = Self::upper_nodes(index);
        let chunk = self.chunks[chunk_number(index)].get_or_insert_with(|| Box::new(Chunk::new()));
        if has_chunk_node && chunk.object.is_none() {
            chunk.object = spare.pop();
        }
        let group = &mut chunk.groups[group_slot(index)];
        let group = group.get_or_insert_with(|| Box::new(Group::new()));
        if group.object.is_none() {
            group.object = spare.pop();
        }
    }

    /// Gives the node of an index memory of its own, unless it has some.
    pub fn give_node(&mut self, index: u32, spare: &mut Objects) {
        if let Some(node) = self.node_mut(index).filter(|node| node.object == ObjectId::NONE) {
            node.object = spare.pop().unwrap_or(ObjectId::NONE);
        }
    }

    /// True if one of `nr` indices has a page or a swap slot.
    pub fn is_any_taken(&self, index: u32, nr: u32) -> bool {
        (index..index + nr)
            .any(|index| matches!(self.get(index), Entry::Page(_) | Entry::Swapped(_)))
    }
}
