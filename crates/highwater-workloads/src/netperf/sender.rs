//! The sending side: cuts messages into fragments of order-3 blocks.

use std::collections::BTreeMap;

use highwater_core::host::{Cost, Cx, Tasks};
use highwater_core::net::{BLOCK_GFP, BLOCK_ORDER};
use highwater_core::page::{Order, PAGE_SIZE, Pfn};
use highwater_core::page_alloc::{Gfp, PageAllocator, Relief};

use super::flow::{Flow, Fragment, Item};
use super::{NetperfError, PATTERN_PERIOD, Phase, Plan, Stop, stream_byte};

/// Allocations per first frame of a block, `(pfn, order)` as key.
pub type BlockUses = BTreeMap<(u32, u8), u64>;

/// The sender's results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of all phases.
    pub bytes: u64,
    /// Start of each phase, ns.
    pub phase_start_ns: Vec<u64>,
    /// Allocations per block during measured phases.
    pub uses: BlockUses,
    /// Blocks that had to be single pages.
    pub nr_fallback: u64,
}

/// The sending task.
pub struct Sender<'a, H: Tasks, R> {
    /// The memory.
    pub memory: &'a PageAllocator<H>,
    /// Called when memory is short.
    pub relief: &'a R,
    /// The connection.
    pub flow: &'a Flow<H>,
    /// The messages to send.
    pub plan: &'a Plan,
}

/// The block that fragments are cut from; holds one reference.
#[derive(Clone, Copy, Debug)]
struct Block {
    pfn: Pfn,
    order: Order,
    offset: usize,
}

impl Block {
    fn left(&self) -> usize {
        (PAGE_SIZE << self.order.0) - self.offset
    }
}

impl<H: Tasks, R: Relief<H>> Sender<'_, H, R> {
    /// Sends the whole plan.
    ///
    /// # Errors
    /// If not even a single page could be allocated.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<Sent, NetperfError> {
        let mut sent = Sent::default();
        let mut block = None;
        let mut result = Ok(());
        let mut end = vec![Item::EndOfPhase];
        for phase in &self.plan.phases {
            sent.phase_start_ns.push(cx.host.now_ns());
            if result.is_ok() {
                result = self.phase(cx, phase, &mut block, &mut sent);
            }
            self.flow.send(cx, &mut end);
            end.push(Item::EndOfPhase);
        }
        if let Some(Block { pfn, order, .. }) = block {
            let free = self.memory.free(cx, pfn, order);
            result = result.and(free.map_err(|reason| NetperfError::Free { pfn: pfn.0, reason }));
        }
        result.map(|()| sent)
    }

    fn phase(
        &self,
        cx: &Cx<'_, H>,
        phase: &Phase,
        block: &mut Option<Block>,
        sent: &mut Sent,
    ) -> Result<(), NetperfError> {
        let start_ns = cx.host.now_ns();
        let mut bytes = 0;
        let source: Vec<u8> = (0..(phase.size + PATTERN_PERIOD) as u64).map(stream_byte).collect();
        let mut items = Vec::new();
        let name = format!("send-{}", phase.size);
        loop {
            let done = match phase.stop {
                Stop::Bytes(limit) => bytes >= limit,
                Stop::Time { ns } => cx.host.now_ns() - start_ns >= ns,
            };
            if done {
                return Ok(());
            }
            if phase.measured {
                cx.host.op_begin();
            }
            if !self.flow.reserve(cx, phase.size) {
                return Ok(());
            }
            cx.host.charge(Cost::Syscall, 1);
            cx.host.charge(Cost::PacketSend, 1);
            let mut left = phase.size;
            while left > 0 {
                let current = match block {
                    Some(current) => current,
                    None => block.insert(self.refill(cx, phase, sent)?),
                };
                let len = left.min(current.left());
                let from = (sent.bytes % PATTERN_PERIOD as u64) as usize;
                cx.host.frame_write(current.pfn, current.offset, &source[from..from + len]);
                let Block { pfn, order, offset } = *current;
                items.push(Item::Data(Fragment { pfn, order, offset, len }));
                current.offset += len;
                sent.bytes += len as u64;
                bytes += len as u64;
                left -= len;
                if current.left() == 0 {
                    // The last fragment takes over the block's reference.
                    *block = None;
                } else {
                    self.memory.map.page(pfn).get_ref();
                }
            }
            self.flow.send(cx, &mut items);
            if phase.measured {
                cx.host.op_end(&name);
            }
        }
    }

    /// A fresh block: order 3, else a single page.
    fn refill(
        &self,
        cx: &Cx<'_, H>,
        phase: &Phase,
        sent: &mut Sent,
    ) -> Result<Block, NetperfError> {
        let node = self.memory.cpu_node(cx.cpu());
        let ask = |gfp, order| {
            let pfn = self.memory.alloc(cx, self.relief, gfp, order, node, None)?;
            Some(Block { pfn, order, offset: 0 })
        };
        let block = ask(BLOCK_GFP, BLOCK_ORDER).or_else(|| {
            sent.nr_fallback += 1;
            ask(Gfp::GFP_KERNEL, Order::ZERO)
        });
        let block = block.ok_or(NetperfError::OutOfMemory { size: phase.size })?;
        if phase.measured {
            *sent.uses.entry((block.pfn.0, block.order.0)).or_default() += 1;
        }
        Ok(block)
    }
}
