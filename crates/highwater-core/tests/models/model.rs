//! The naive model: which frames are in use, by whom.

use highwater_core::page::{Order, Pfn};

/// A block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) pfn: u32,
    pub(crate) order: u8,
    pub(crate) compound: bool,
}

/// Sets of frames, nothing clever.
pub(crate) struct Model {
    /// In use, by whichever block.
    owned: Vec<bool>,
    blocks: Vec<Block>,
    pub(crate) nr_used: u64,
}

impl Model {
    pub(crate) fn new(nr_frames: usize) -> Model {
        Model { owned: vec![false; nr_frames], blocks: Vec::new(), nr_used: 0 }
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// A block was handed out: nobody may own any of its frames.
    pub(crate) fn took(&mut self, block: Block) {
        let size = 1u32 << block.order;
        assert_eq!(block.pfn % size, 0, "{block:?} is not aligned");
        for pfn in block.pfn..block.pfn + size {
            assert!(!self.owned[pfn as usize], "frame {pfn:#x} of {block:?} is in use");
            self.owned[pfn as usize] = true;
        }
        self.nr_used += u64::from(size);
        self.blocks.push(block);
    }

    /// The block at an index is about to be freed.
    pub(crate) fn gives(&mut self, index: usize) -> Block {
        let block = self.blocks.swap_remove(index);
        self.disown(block.pfn, 1 << block.order);
        block
    }

    /// All but the first page of a block are about to be freed.
    pub(crate) fn gives_tail(&mut self, index: usize) -> Block {
        let block = self.blocks[index];
        self.blocks[index].order = 0;
        self.disown(block.pfn + 1, (1 << block.order) - 1);
        block
    }

    fn disown(&mut self, pfn: u32, nr: u32) {
        for frame in &mut self.owned[pfn as usize..(pfn + nr) as usize] {
            assert!(*frame);
            *frame = false;
        }
        self.nr_used -= u64::from(nr);
    }

    /// Does a block of this very order start here?
    pub(crate) fn may_free(&self, pfn: Pfn, order: Order) -> bool {
        self.blocks.iter().any(|b| b.pfn == pfn.0 && b.order == order.0)
    }
}
