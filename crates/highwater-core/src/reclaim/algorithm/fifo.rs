//! FIFO: first in, first out, without checking uses.
//!
//! It is the baseline for all others. A page is reclaimed when it reaches the tail, used or not. So
//! there is no walk of mappings, and only pages that cannot be reclaimed are rotated. That is cheap
//! per page, and the worst choice for a page in use: it is read back at once, and goes through the
//! queue again.
//!
//! Pages that other parts of the kernel made ACTIVE move to the head of the queue as in
//! [`super::clock`], whose queues these are.
//!
//! From: [`super`] · to: [`super::clock`].

use super::{At, Busy, Marks, ReclaimAlgorithm, Rules};
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;
use crate::reclaim::Control;
use crate::units::LruVecId;
use crate::zone::NodeId;

/// The algorithm.
pub(super) struct Fifo;

const NOBODY_LOOKS: Rules = Rules { uses: None, busy: Busy::Keep, marks: Marks::TakenOff };

impl<H: Devices> ReclaimAlgorithm<H> for Fifo {
    fn shrink(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, at: At, sc: &mut Control) -> u64 {
        kernel.shrink_queues(cx, at, sc, NOBODY_LOOKS)
    }

    fn age(&self, _: &Kernel<H>, _: &Cx<'_, H>, _: At, _: &mut Control) {}

    fn candidates(&self, kernel: &Kernel<H>, node: NodeId) -> u64 {
        kernel.queued_on(node)
    }

    fn run_done(&self, _: &Kernel<H>, _: LruVecId) {}
}
