//! The queues of a connection, and the pages for which each of its sockets is charged.
//!
//! Nothing here charges or allocates: methods return the pages that the caller has to charge or to
//! uncharge, so the sums can be tested without a machine.

use alloc::collections::VecDeque;

use super::Holds;
use crate::page::{PAGE_SIZE, Pfn};
use crate::units::{GroupId, Order};

/// Bytes that the receiver offers at first, and here always: one segment of the loopback device.
/// Its MTU is 65,536, an IPv4 packet has at most 65,535 bytes, and the headers take 52 (20 of IP,
/// 20 of TCP, 12 of the timestamp option).
pub(super) const WINDOW: u64 = 65_535 - 52;

/// Bytes of a full segment: TCP sends at most half of the largest window it was offered (`TCP_INFO`
/// of a new loopback connection on Linux 6.18: `snd_mss` 32,741).
pub(super) const SEGMENT: u64 = WINDOW / 2;

/// Bytes that an skb counts beyond its payload (its `truesize`): `struct sk_buff` in whole cache
/// lines (256), and its head of 1 KiB. The head holds protocol headers and `skb_shared_info` (320
/// bytes), which do not fit the size class of 512 bytes. (Since 6.3 small heads have a cache of
/// their own; 6.18 counts 832. The difference is 1.4 % of a full segment.)
pub(super) const SKB_BYTES: u64 = 256 + 1024;

/// A socket with fewer bytes in its queue gets its next skb whatever its group's limit: the first
/// number of `tcp_wmem` and `tcp_rmem` (Documentation/networking/ip-sysctl: memory that each TCP
/// socket is guaranteed).
pub(super) const GUARANTEED: u64 = 4096;

const PAGE: u64 = PAGE_SIZE as u64;

/// A block of payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// Bytes written to it.
    pub(super) filled: u64,
}

impl Block {
    fn bytes(&self) -> u64 {
        PAGE << self.order.0
    }

    pub(super) fn room(&self) -> u64 {
        self.bytes() - self.filled
    }
}

/// Bytes and pages of a socket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Socket {
    pub(super) group: GroupId,
    /// Bytes in its queues, with those of the skbs.
    used: u64,
    /// Pages that its group is charged for; at least `used`, in whole pages.
    charged: u64,
    is_closed: bool,
}

impl Socket {
    /// Pages to charge before `bytes` more fit.
    fn wanted(&self, bytes: u64) -> u64 {
        (self.used + bytes).div_ceil(PAGE).saturating_sub(self.charged)
    }

    /// Takes bytes off. Returns the whole pages that are not needed any more.
    #[must_use]
    fn shrink(&mut self, bytes: u64) -> u64 {
        self.used -= bytes;
        let spare = self.charged - self.used.div_ceil(PAGE);
        self.charged -= spare;
        spare
    }

    /// True if its next skb is guaranteed to it.
    fn is_guaranteed(&self) -> bool {
        self.used < GUARANTEED
    }
}

/// A wish for pages, which the caller charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) group: GroupId,
    pub(super) pages: u64,
    /// The protocol guarantees this memory.
    pub(super) is_guaranteed: bool,
}

/// Pages to uncharge.
pub(super) type Spare = (GroupId, u64);

/// The state of a connection.
pub(super) struct Buffers {
    pub(super) sender: Socket,
    pub(super) receiver: Socket,
    /// Payload of skbs that wait at the sender, oldest first.
    unsent: VecDeque<u64>,
    /// Payload of skbs that were sent and are not acknowledged.
    flight: VecDeque<u64>,
    /// Skbs that arrived: bytes that are not read yet, and all.
    arrived: VecDeque<(u64, u64)>,
    nr_unread: u64,
    nr_segments: u64,
    /// Blocks that hold the bytes, oldest first; the last one is written to.
    pub(super) blocks: VecDeque<Block>,
    /// Bytes of the oldest block that were read.
    nr_read_of_first: u64,
    /// Most bytes in the sender's queues.
    limit: u64,
    /// Some task is delivering a segment.
    pub(super) is_delivering: bool,
    /// Timer tick before which a dropped segment is not sent again.
    pub(super) retry_at: u64,
    /// The sender was refused memory, and nothing was freed since.
    pub(super) is_throttled: bool,
    /// Tasks that are sending: each may write to the last block.
    pub(super) nr_sending: u32,
}

impl Buffers {
    pub(super) fn new(group: GroupId, limit: u64) -> Buffers {
        Buffers {
            sender: Socket { group, ..Socket::default() },
            // Until it is accepted, nobody pays for it.
            receiver: Socket::default(),
            unsent: VecDeque::new(),
            flight: VecDeque::new(),
            arrived: VecDeque::new(),
            nr_unread: 0,
            nr_segments: 0,
            blocks: VecDeque::new(),
            nr_read_of_first: 0,
            limit,
            is_delivering: false,
            retry_at: 0,
            is_throttled: false,
            nr_sending: 0,
        }
    }

    /// True if the sender's buffer takes more bytes.
    pub(super) fn has_room(&self) -> bool {
        self.sender.used < self.limit
    }

    /// True if a sender that waits for room goes on: a third of its buffer is free.
    pub(super) fn has_much_room(&self) -> bool {
        self.sender.used <= self.limit - self.limit / 3 && !self.is_throttled
    }

    /// True if nothing can come any more.
    pub(super) fn is_at_end(&self) -> bool {
        self.nr_unread == 0
            && (self.receiver.is_closed || (self.sender.is_closed && self.unsent.is_empty()))
    }

    /// Bytes that the receiver may read.
    pub(super) fn nr_unread(&self) -> u64 {
        self.nr_unread
    }

    /// True if an end is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed || self.receiver.is_closed
    }

    /// Segments that arrived so far.
    pub(super) fn nr_segments(&self) -> u64 {
        self.nr_segments
    }

    /// Bytes that may be added to the last skb, or to a new one.
    pub(super) fn room_of_skb(&self) -> u64 {
        match self.unsent.back() {
            Some(&bytes) if bytes < SEGMENT => SEGMENT - bytes,
            _ => SEGMENT,
        }
    }

    /// Bytes that the sender's socket grows by if it queues `bytes` more of payload.
    fn growth(&self, bytes: u64) -> u64 {
        let is_new = self.unsent.back().is_none_or(|&last| last >= SEGMENT);
        if is_new { bytes + SKB_BYTES } else { bytes }
    }

    /// The pages to charge before `bytes` are queued.
    pub(super) fn wanted_to_send(&self, bytes: u64) -> Wanted {
        wanted(&self.sender, self.growth(bytes))
    }

    /// Queues bytes that are in the last block, with `charged` more pages. Returns pages that are
    /// too many by now.
    pub(super) fn queue(&mut self, bytes: u64, charged: u64) -> Spare {
        let growth = self.growth(bytes);
        match self.unsent.back_mut() {
            Some(last) if *last < SEGMENT => *last += bytes,
            _ => self.unsent.push_back(bytes),
        }
        if let Some(block) = self.blocks.back_mut() {
            block.filled += bytes;
        }
        self.sender.charged += charged;
        self.sender.used += growth;
        (self.sender.group, self.sender.shrink(0))
    }

    /// The next segment that may leave, in bytes of payload: one that the window has room for, and
    /// that is full, or all there is while nothing is unacknowledged (Nagle's rule, RFC 896).
    pub(super) fn next_segment(&self) -> Option<u64> {
        let bytes = *self.unsent.front()?;
        let is_due = bytes >= SEGMENT || self.unsent.len() > 1 || self.flight.is_empty();
        let is_open = !self.receiver.is_closed && self.nr_unread + bytes <= WINDOW;
        (is_due && is_open).then_some(bytes)
    }

    /// The pages to charge before a segment of `bytes` arrives.
    pub(super) fn wanted_to_receive(&self, bytes: u64) -> Wanted {
        wanted(&self.receiver, bytes + SKB_BYTES)
    }

    /// The next segment arrives. The receiver acknowledges the first one at once, and from then on
    /// every second one (RFC 5681, section 4.2). Returns pages that each end does not need any
    /// more.
    fn deliver(&mut self, charged: u64) -> [Spare; 2] {
        let Some(bytes) = self.unsent.pop_front() else { return [(GroupId::ROOT, 0); 2] };
        self.flight.push_back(bytes);
        self.arrived.push_back((bytes, bytes));
        self.nr_unread += bytes;
        self.nr_segments += 1;
        self.receiver.charged += charged;
        self.receiver.used += bytes + SKB_BYTES;
        let spare = (self.receiver.group, self.receiver.shrink(0));
        let acknowledged = match self.nr_segments % 2 {
            1 => self.acknowledge(),
            _ => 0,
        };
        [spare, (self.sender.group, acknowledged)]
    }

    /// The same for a segment of `bytes` that was judged and paid for a moment ago, with the lock
    /// given up since; `None` if it cannot arrive. Meanwhile the connection may have been reset, or
    /// accepted by another group. Or the receiver has read, and gave back the page of which this
    /// segment was to use the rest.
    pub(super) fn deliver_as_wanted(&mut self, bytes: u64, paid: Wanted) -> Option<[Spare; 2]> {
        let now = self.wanted_to_receive(bytes);
        let is_as_before = self.next_segment() == Some(bytes)
            && now.group == paid.group
            && now.pages <= paid.pages;
        is_as_before.then(|| self.deliver(paid.pages))
    }

    /// Everything that arrived is acknowledged: the sender frees its skbs.
    fn acknowledge(&mut self) -> u64 {
        let freed: u64 = self.flight.drain(..).map(|bytes| bytes + SKB_BYTES).sum();
        self.is_throttled &= freed == 0;
        self.sender.shrink(freed)
    }

    /// Reads `bytes` bytes, of those that arrived, and acknowledges all that arrived. Returns pages
    /// that each end does not need any more.
    pub(super) fn read(&mut self, bytes: u64) -> [Spare; 2] {
        let mut left = bytes;
        let mut freed = 0;
        while left > 0
            && let Some((unread, whole)) = self.arrived.front_mut()
        {
            let part = left.min(*unread);
            *unread -= part;
            left -= part;
            if *unread == 0 {
                freed += *whole + SKB_BYTES;
                self.arrived.pop_front();
            }
        }
        self.nr_unread -= bytes - left;
        self.nr_read_of_first += bytes - left;
        let of_receiver = self.receiver.shrink(freed);
        let of_sender = self.acknowledge();
        [(self.receiver.group, of_receiver), (self.sender.group, of_sender)]
    }

    /// The first bytes that are not read: where they lie, and how many there.
    pub(super) fn next_to_read(&self, wanted: u64) -> Option<(Pfn, u64, u64)> {
        let first = self.blocks.front()?;
        let len = wanted.min(self.nr_unread).min(first.filled - self.nr_read_of_first);
        Some((first.pfn, self.nr_read_of_first, len))
    }

    /// A block that was filled and read.
    pub(super) fn take_read_block(&mut self) -> Option<Block> {
        let first = self.blocks.front()?;
        if first.room() > 0 || self.nr_read_of_first < first.filled {
            return None;
        }
        self.nr_read_of_first = 0;
        self.blocks.pop_front()
    }

    /// The receiver's socket has a group from now on. Returns the pages that it has to pay for.
    pub(super) fn accept(&mut self, group: GroupId) -> u64 {
        self.receiver.group = group;
        self.receiver.charged
    }

    /// The sender ends: what it queued still goes out.
    pub(super) fn close_sender(&mut self) {
        self.sender.is_closed = true;
    }

    /// The receiver ends: the connection is reset, so that nothing is queued or sent any more.
    pub(super) fn reset(&mut self) {
        self.receiver.is_closed = true;
        self.nr_unread = 0;
        self.is_throttled = false;
    }

    /// The receiver is gone, and no task is about to write to a block.
    pub(super) fn is_to_be_forgotten(&self) -> bool {
        self.receiver.is_closed && self.nr_sending == 0
    }

    /// After a reset: frees one skb, the receiver's first. Returns the pages that its socket does
    /// not need any more; `None`: there is no skb left.
    pub(super) fn free_skb(&mut self) -> Option<Spare> {
        debug_assert!(self.receiver.is_closed, "only a reset throws skbs away");
        if let Some((_, bytes)) = self.arrived.pop_front() {
            return Some((self.receiver.group, self.receiver.shrink(bytes + SKB_BYTES)));
        }
        let bytes = self.flight.pop_front().or_else(|| self.unsent.pop_front())?;
        Some((self.sender.group, self.sender.shrink(bytes + SKB_BYTES)))
    }

    /// The sockets name no group any more. Returns those that they named.
    pub(super) fn take_groups(&mut self) -> [GroupId; 2] {
        [core::mem::take(&mut self.sender.group), core::mem::take(&mut self.receiver.group)]
    }

    /// A summary for audits.
    pub(super) fn holds(&self) -> Holds {
        let end = |socket: &Socket| (socket.group, socket.charged);
        Holds {
            ends: [end(&self.sender), end(&self.receiver)],
            blocks: self.blocks.iter().map(|block| (block.pfn, block.order)).collect(),
        }
    }
}

fn wanted(socket: &Socket, bytes: u64) -> Wanted {
    Wanted {
        group: socket.group,
        pages: socket.wanted(bytes),
        is_guaranteed: socket.is_guaranteed(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const A: GroupId = GroupId(1);
    const B: GroupId = GroupId(2);

    /// A connection from group A to group B with a send buffer of `limit` bytes.
    fn connection(limit: u64) -> Buffers {
        let mut buffers = Buffers::new(A, limit);
        assert_eq!(buffers.accept(B), 0);
        buffers
    }

    /// Queues bytes in parts of a page, and sends what may leave whenever an skb is full.
    fn send(buffers: &mut Buffers, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let room = buffers.room_of_skb();
            let part = left.min(PAGE).min(room);
            let wanted = buffers.wanted_to_send(part);
            assert_eq!(buffers.queue(part, wanted.pages), (A, 0));
            left -= part;
            if part == room || left == 0 {
                deliver(buffers);
            }
        }
    }

    fn deliver(buffers: &mut Buffers) {
        while let Some(bytes) = buffers.next_segment() {
            let wanted = buffers.wanted_to_receive(bytes);
            let [spare, _] = buffers.deliver(wanted.pages);
            assert_eq!(spare, (B, 0));
        }
    }

    fn charged(buffers: &Buffers) -> (u64, u64) {
        (buffers.sender.charged, buffers.receiver.charged)
    }

    #[test]
    fn a_segment_is_half_of_the_first_window() {
        assert_eq!((WINDOW, SEGMENT), (65_483, 32_741));
    }

    /// 1 MiB that nobody reads. Two segments fill the window. The first is acknowledged, the second
    /// is paid for by both ends: (2 · 34,021) bytes = 17 pages, and (34,021 + 983,094 bytes of 31
    /// skbs) = 259 pages.
    #[test]
    fn a_mebibyte_that_nobody_reads() {
        let mut buffers = connection(2_626_560);
        send(&mut buffers, 1 << 20);
        assert_eq!((buffers.nr_segments, buffers.nr_unread), (2, 2 * SEGMENT));
        assert_eq!((buffers.flight.len(), buffers.unsent.len()), (1, 31));
        assert_eq!(charged(&buffers), (259, 17));
        let pages = |bytes: u64| bytes.div_ceil(PAGE);
        assert_eq!(pages(SEGMENT + 983_094 + 32 * SKB_BYTES), 259);
        assert_eq!(pages(2 * (SEGMENT + SKB_BYTES)), 17);
    }

    #[test]
    fn a_read_frees_both_queues() {
        let mut buffers = connection(1 << 20);
        send(&mut buffers, 2 * SEGMENT);
        // The second segment is unacknowledged.
        assert_eq!(charged(&buffers), (9, 17));
        // An skb stays until its last byte is read; the acknowledgement comes with the read.
        assert_eq!(buffers.read(SEGMENT - 1), [(B, 0), (A, 9)]);
        assert_eq!(buffers.read(1), [(B, 8), (A, 0)]);
        assert_eq!(buffers.read(SEGMENT), [(B, 9), (A, 0)]);
        assert_eq!((charged(&buffers), buffers.nr_unread), ((0, 0), 0));
    }

    #[test]
    fn less_than_a_segment_waits_for_the_acknowledgement() {
        let mut buffers = connection(1 << 20);
        send(&mut buffers, 100);
        assert_eq!(
            (buffers.nr_segments, buffers.flight.len()),
            (1, 0),
            "the first is acknowledged"
        );
        send(&mut buffers, 100);
        assert_eq!((buffers.nr_segments, buffers.flight.len()), (2, 1));
        send(&mut buffers, 100);
        assert_eq!(buffers.nr_segments, 2, "one is unacknowledged");
        let _ = buffers.read(200);
        deliver(&mut buffers);
        assert_eq!(buffers.nr_segments, 3);
    }

    /// The receiver holds one segment, 34,021 bytes in 9 pages. The next one would fit in 8 more,
    /// because 2,843 bytes of the ninth are free. Then the first is read and all pages go back.
    #[test]
    fn a_segment_that_was_paid_for_too_little_does_not_arrive() {
        let mut buffers = connection(1 << 20);
        send(&mut buffers, SEGMENT);
        let wanted = buffers.wanted_to_send(SEGMENT);
        assert_eq!(buffers.queue(SEGMENT, wanted.pages), (A, 0));
        let paid = buffers.wanted_to_receive(SEGMENT);
        assert_eq!(paid.pages, 8);
        assert_eq!(buffers.read(SEGMENT), [(B, 9), (A, 0)]);
        assert_eq!(buffers.deliver_as_wanted(SEGMENT, paid), None, "it needs 9 pages by now");
        let enough = buffers.wanted_to_receive(SEGMENT);
        let other = Wanted { group: A, ..enough };
        assert_eq!(buffers.deliver_as_wanted(SEGMENT, other), None, "another group paid");
        assert_eq!(buffers.deliver_as_wanted(SEGMENT - 1, enough), None, "another segment");
        assert!(buffers.deliver_as_wanted(SEGMENT, enough).is_some());
        assert_eq!((buffers.nr_segments, charged(&buffers).1), (2, 9));
    }

    #[test]
    fn the_buffer_of_the_sender_is_bounded() {
        let mut buffers = connection(3 * 4096);
        assert!(buffers.has_room());
        send(&mut buffers, SEGMENT);
        send(&mut buffers, SEGMENT);
        assert!(!buffers.has_room() && !buffers.has_much_room());
        let _ = buffers.read(2 * SEGMENT);
        assert!(buffers.has_room() && buffers.has_much_room());
    }

    #[test]
    fn the_first_bytes_of_a_socket_are_guaranteed() {
        let mut buffers = connection(1 << 20);
        assert!(buffers.wanted_to_send(1000).is_guaranteed);
        send(&mut buffers, SEGMENT);
        assert!(!buffers.wanted_to_receive(SEGMENT).is_guaranteed);
        assert!(buffers.wanted_to_send(100).is_guaranteed, "all was acknowledged");
    }

    #[test]
    fn a_reset_frees_everything() {
        let mut buffers = connection(1 << 20);
        send(&mut buffers, 10 * SEGMENT);
        let (sender, receiver) = charged(&buffers);
        buffers.reset();
        let freed: Vec<Spare> = core::iter::from_fn(|| buffers.free_skb()).collect();
        // Skb by skb, the receiver's first.
        assert_eq!((freed.len(), &freed[..2]), (11, &[(B, 8), (B, 9)][..]));
        let of =
            |group| freed.iter().filter(|spare| spare.0 == group).map(|spare| spare.1).sum::<u64>();
        assert_eq!((of(A), of(B)), (sender, receiver));
        assert_eq!((charged(&buffers), buffers.is_at_end()), ((0, 0), true));
        assert_eq!(buffers.next_segment(), None);
    }

    #[test]
    fn what_was_queued_goes_out_after_the_sender_closed() {
        let mut buffers = connection(1 << 20);
        send(&mut buffers, 3 * SEGMENT);
        buffers.close_sender();
        assert!(buffers.is_closed() && !buffers.is_at_end());
        let _ = buffers.read(2 * SEGMENT);
        deliver(&mut buffers);
        let _ = buffers.read(SEGMENT);
        assert!(buffers.is_at_end());
        assert_eq!(charged(&buffers), (0, 0));
    }
}
