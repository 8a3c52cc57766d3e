//! The calls on a connection. None of them waits for the other end: a program waits in
//! [`Kernel::tcp_wait`] and calls again.

use alloc::sync::Arc;

use super::buffers::{Block, Buffers, SEGMENT, Wanted};
use super::{Connection, End, Holds};
use crate::host::{Cost, CpuId, Cx, Devices, HZ, Lock};
use crate::kernel::Kernel;
use crate::memcg::{Must, Side};
use crate::page::{PAGE_SIZE, PageFlags};
use crate::page_alloc::Gfp;
use crate::sync::order::LockClass;
use crate::units::{Error, GroupId, Order};
use crate::wait::WaitQueue;

/// Blocks that payload is cut from: 32 KiB, else single pages.
pub const BLOCK_ORDER: Order = Order(3);
/// Request flags of such a block on real kernels (captured netperf trace): it may not reclaim, and
/// may fail.
pub const BLOCK_GFP: Gfp = Gfp::GFP_NOWAIT
    .union(Gfp::IO)
    .union(Gfp::FS)
    .union(Gfp::NOWARN)
    .union(Gfp::NORETRY)
    .union(Gfp::COMP);

/// Bytes of a send buffer on the loopback device: twice the initial congestion window of 10
/// segments, each of which counts as the next power of two above the MSS and an skb (`ss -tm` shows
/// `tb2626560`).
const SEND_BUFFER: u64 = 2 * 10 * (131_072 + 256);
/// The largest send buffer (`tcp_wmem`) is "between 64K and 4MB, depending on RAM size"
/// (Documentation/networking/ip-sysctl): a share of memory here.
const SEND_BUFFER_SHARE: u64 = 128;
const SEND_BUFFER_RANGE: (u64, u64) = (64 << 10, 4 << 20);

/// Timer ticks after which a segment that was dropped is sent again: the least retransmission
/// timeout of Linux, 200 ms (`ip route`: `rto_min`).
const RETRANSMIT_JIFFIES: u64 = HZ / 5;

/// Bytes that one copy takes.
const COPY: usize = PAGE_SIZE;
static PAYLOAD: [u8; COPY] = [0; COPY];

impl<H: Devices> Connection<H> {
    /// Bytes that the receiver may read now.
    pub fn nr_unread(&self, cpu: CpuId) -> u64 {
        self.state.lock(cpu).nr_unread()
    }

    /// True if nothing can come any more: the sender closed and all is read, or the connection was
    /// reset.
    pub fn is_at_end(&self, cpu: CpuId) -> bool {
        self.state.lock(cpu).is_at_end()
    }

    /// Segments that arrived so far.
    pub fn nr_segments(&self, cpu: CpuId) -> u64 {
        self.state.lock(cpu).nr_segments()
    }

    pub(crate) fn holds(&self, cpu: CpuId) -> Holds {
        self.state.lock(cpu).holds()
    }
}

impl<H: Devices> Kernel<H> {
    /// Opens a connection on the loopback device. The sending end belongs to the running task's
    /// group; the other one to nobody, until a task accepts it.
    #[doc(alias = "tcp_v4_connect")]
    pub fn tcp_connect(&self, cx: &Cx<'_, H>) -> Arc<Connection<H>> {
        cx.host.charge(Cost::Syscall, 1);
        let group = self.group_of_new_socket(cx);
        let bytes =
            self.mem.populated_zones().map(|zone| zone.managed()).sum::<u64>() * PAGE_SIZE as u64;
        let (least, most) = SEND_BUFFER_RANGE;
        let limit = SEND_BUFFER.min((bytes / SEND_BUFFER_SHARE).clamp(least, most));
        let mut all = self.connections.lock(cx.cpu());
        let id = all.next;
        all.next += 1;
        let connection = Arc::new(Connection {
            id,
            state: cx.host.new_lock(LockClass::Workload, Buffers::new(group, limit)),
            changed: WaitQueue::new(cx.host),
        });
        all.open.insert(id, Arc::clone(&connection));
        connection
    }

    /// The running task takes the receiving end. Its group pays for it from now on, and for what
    /// has arrived, whatever its limit.
    #[doc(alias = "inet_csk_accept")]
    pub fn tcp_accept(&self, cx: &Cx<'_, H>, connection: &Connection<H>) {
        cx.host.charge(Cost::Syscall, 1);
        let group = self.group_of_new_socket(cx);
        let pages = connection.state.lock(cx.cpu()).accept(group);
        let _ = self.charge_socket(cx, (group, pages), Side::Program, Must::Succeed);
    }

    /// Sends up to `bytes` bytes. Returns how many the send buffer took: fewer if it is full, or if
    /// there is no memory for more.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the other end is closed (EPIPE), [`Error::Killed`].
    #[doc(alias = "tcp_sendmsg")]
    pub fn tcp_send(
        &self,
        cx: &Cx<'_, H>,
        connection: &Connection<H>,
        bytes: u64,
    ) -> Result<u64, Error> {
        connection.state.lock(cx.cpu()).nr_sending += 1;
        let sent = self.send_bytes(cx, connection, bytes);
        let is_forgotten = {
            let mut state = connection.state.lock(cx.cpu());
            state.nr_sending -= 1;
            state.is_to_be_forgotten()
        };
        if is_forgotten {
            // The receiver closed meanwhile, and left the blocks to this task, which wrote to them.
            self.forget(cx, connection);
        }
        sent
    }

    fn send_bytes(
        &self,
        cx: &Cx<'_, H>,
        connection: &Connection<H>,
        bytes: u64,
    ) -> Result<u64, Error> {
        cx.host.charge(Cost::Syscall, 1);
        cx.host.charge(Cost::PacketSend, 1);
        let mut done = 0;
        while done < bytes {
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            let (room, block) = {
                let state = connection.state.lock(cx.cpu());
                if state.is_closed() {
                    return Err(Error::Invalid);
                }
                if !state.has_room() {
                    break;
                }
                let last = state.blocks.back().filter(|block| block.room() > 0);
                (state.room_of_skb(), last.copied())
            };
            let block = match block {
                Some(block) => block,
                None => match self.new_block(cx) {
                    Some(block) => {
                        let mut state = connection.state.lock(cx.cpu());
                        if state.is_closed() {
                            drop(state);
                            self.free_block(cx, block);
                            return Err(Error::Invalid);
                        }
                        state.blocks.push_back(block);
                        block
                    }
                    None => break,
                },
            };
            let part = (bytes - done).min(room).min(block.room()).min(COPY as u64);
            cx.host.frame_write(block.pfn, block.filled as usize, &PAYLOAD[..part as usize]);
            if !self.queue(cx, connection, part) {
                break;
            }
            done += part;
            if part == room {
                self.transmit(cx, connection);
            }
        }
        self.transmit(cx, connection);
        if cx.is_dying() { Err(Error::Killed) } else { Ok(done) }
    }

    /// Charges the sender for bytes that lie in the last block, and queues them; false if its group
    /// refuses. Bytes for a connection that was reset meanwhile are dropped.
    fn queue(&self, cx: &Cx<'_, H>, connection: &Connection<H>, bytes: u64) -> bool {
        let (mut payer, mut charged) = (GroupId::ROOT, 0);
        let spare = loop {
            let Wanted { group, pages, is_guaranteed } = {
                let mut state = connection.state.lock(cx.cpu());
                let wanted = state.wanted_to_send(bytes);
                if state.is_closed() {
                    // A reset, while this task waited for memory: the socket names no group any
                    // more.
                    break (payer, charged);
                }
                if wanted.pages <= charged {
                    break state.queue(bytes, charged);
                }
                wanted
            };
            let more = (group, pages - charged);
            if !self.charge_socket(cx, more, Side::Program, must(is_guaranteed)) {
                self.uncharge_socket(cx, group, charged);
                connection.state.lock(cx.cpu()).is_throttled = true;
                return false;
            }
            (payer, charged) = (group, pages);
        };
        self.uncharge_socket(cx, spare.0, spare.1);
        true
    }

    /// Sends the segments that may leave. On the loopback device the sender also delivers them, in
    /// a soft interrupt. A segment for which the receiver gets no memory is dropped, and sent again
    /// after the retransmission timeout.
    #[doc(alias = "tcp_write_xmit")]
    fn transmit(&self, cx: &Cx<'_, H>, connection: &Connection<H>) {
        let mut has_sent = false;
        loop {
            let (bytes, wanted) = {
                let mut state = connection.state.lock(cx.cpu());
                let is_due = !state.is_delivering && state.retry_at <= cx.host.jiffies();
                let Some(bytes) = state.next_segment().filter(|_| is_due) else { break };
                state.is_delivering = true;
                (bytes, state.wanted_to_receive(bytes))
            };
            cx.host.charge(Cost::SegmentSend, 1);
            let Wanted { group, pages, is_guaranteed } = wanted;
            let must = must(is_guaranteed);
            let is_charged = self.charge_socket(cx, (group, pages), Side::SoftInterrupt, must);
            let mut state = connection.state.lock(cx.cpu());
            state.is_delivering = false;
            if !is_charged {
                state.retry_at = cx.host.jiffies() + RETRANSMIT_JIFFIES;
                break;
            }
            let nothing_arrived = [(group, pages), (GroupId::ROOT, 0)];
            let spare = state.deliver_as_wanted(bytes, wanted).unwrap_or(nothing_arrived);
            drop(state);
            self.uncharge_ends(cx, spare);
            has_sent = true;
        }
        if has_sent {
            connection.changed.wake_all(cx.host, cx.cpu());
        }
    }

    /// Receives up to `bytes` bytes. 0 means that there are none now, and none will come if
    /// [`Connection::is_at_end`].
    #[doc(alias = "tcp_recvmsg")]
    pub fn tcp_receive(&self, cx: &Cx<'_, H>, connection: &Connection<H>, bytes: u64) -> u64 {
        cx.host.charge(Cost::Syscall, 1);
        cx.host.charge(Cost::PacketReceive, 1);
        let mut done = 0;
        while done < bytes {
            let next = connection.state.lock(cx.cpu()).next_to_read(bytes - done);
            let Some((pfn, offset, len)) = next.filter(|(.., len)| *len > 0) else { break };
            cx.host.frame_copy_out(pfn, offset as usize, len as usize);
            let (spare, block) = {
                let mut state = connection.state.lock(cx.cpu());
                (state.read(len), state.take_read_block())
            };
            self.uncharge_ends(cx, spare);
            if let Some(block) = block {
                self.free_block(cx, block);
            }
            done += len;
        }
        if done > 0 {
            cx.host.charge(Cost::SegmentReceive, done.div_ceil(SEGMENT) as u32);
            // The window is open again.
            self.transmit(cx, connection);
            connection.changed.wake_all(cx.host, cx.cpu());
        }
        done
    }

    /// Waits until the end can go on, for `jiffies` timer ticks at most. A sender waits until a
    /// third of its buffer is free, a receiver until bytes arrive, and both until the other end is
    /// gone. A task that is to die stops waiting.
    #[doc(alias = "sk_stream_wait_memory")]
    #[doc(alias = "sk_wait_data")]
    pub fn tcp_wait(&self, cx: &Cx<'_, H>, connection: &Connection<H>, end: End, jiffies: u64) {
        // Segments that were dropped are sent again.
        self.transmit(cx, connection);
        let (why, is_sender) = match end {
            End::Sender => ("socket buffer space", true),
            End::Receiver => ("data on the socket", false),
        };
        let can_go_on = || {
            let state = connection.state.lock(cx.cpu());
            match is_sender {
                true => state.is_closed() || state.has_much_room(),
                false => state.nr_unread() > 0 || state.is_at_end(),
            }
        };
        connection.changed.wait_jiffies_killable(cx, why, jiffies, can_go_on);
        if is_sender {
            connection.state.lock(cx.cpu()).is_throttled = false;
        }
        self.transmit(cx, connection);
    }

    /// Closes an end. Bytes that the sender queued still go out. A receiver that closes resets the
    /// connection: bytes that it has not read are gone.
    ///
    /// Linux: same name.
    pub fn tcp_close(&self, cx: &Cx<'_, H>, connection: &Connection<H>, end: End) {
        cx.host.charge(Cost::Syscall, 1);
        match end {
            End::Sender => connection.state.lock(cx.cpu()).close_sender(),
            End::Receiver => {
                let is_unused = {
                    let mut state = connection.state.lock(cx.cpu());
                    state.reset();
                    state.is_to_be_forgotten()
                };
                if is_unused {
                    self.forget(cx, connection);
                }
            }
        }
        self.transmit(cx, connection);
        connection.changed.wake_all(cx.host, cx.cpu());
    }

    /// A connection without a receiver is gone: its skbs are freed one by one, so that each goes
    /// through the CPU's stock, then its blocks; its sockets name no group.
    fn forget(&self, cx: &Cx<'_, H>, connection: &Connection<H>) {
        if self.connections.lock(cx.cpu()).open.remove(&connection.id).is_none() {
            return;
        }
        loop {
            let freed = connection.state.lock(cx.cpu()).free_skb();
            let Some((group, pages)) = freed else { break };
            self.uncharge_socket(cx, group, pages);
        }
        let (blocks, groups) = {
            let mut state = connection.state.lock(cx.cpu());
            let blocks = core::mem::take(&mut state.blocks);
            (blocks, state.take_groups())
        };
        blocks.into_iter().for_each(|block| self.free_block(cx, block));
        groups.into_iter().for_each(|group| self.forget_socket(cx, group));
    }

    fn uncharge_ends(&self, cx: &Cx<'_, H>, spare: [(GroupId, u64); 2]) {
        spare.into_iter().for_each(|(group, pages)| self.uncharge_socket(cx, group, pages));
    }

    /// A fresh block: order 3, else a single page.
    #[doc(alias = "skb_page_frag_refill")]
    fn new_block(&self, cx: &Cx<'_, H>) -> Option<Block> {
        let node = self.mem.cpu_node(cx.cpu());
        let ask = |gfp, order| {
            let pfn = self.mem.alloc(cx, self, gfp, order, node, None)?;
            Some(Block { pfn, order, filled: 0 })
        };
        let block = ask(BLOCK_GFP, BLOCK_ORDER).or_else(|| ask(Gfp::GFP_KERNEL, Order::ZERO))?;
        self.mem.map.page(block.pfn).init_flags(PageFlags::PINNED);
        Some(block)
    }

    fn free_block(&self, cx: &Cx<'_, H>, block: Block) {
        self.mem.map.page(block.pfn).flag_clear::<H>(PageFlags::PINNED);
        let freed = self.mem.free(cx, block.pfn, block.order);
        debug_assert!(freed.is_ok(), "a block that was allocated: {freed:?}");
    }
}

const fn must(is_guaranteed: bool) -> Must {
    if is_guaranteed { Must::Succeed } else { Must::MayFail }
}
