//! The connection: a bounded queue of fragments between one sender and one receiver.

use std::collections::VecDeque;

use highwater_core::host::{Cost, Cx, Lock, Tasks};
use highwater_core::page::{Order, Pfn};
use highwater_core::sync::order::LockClass;

/// Bytes of a full segment on the loopback device: half of the 64 KiB window that a receiver first
/// offers (`ss -ti` on Linux 6.18 shows `mss:32768`).
const SEGMENT: usize = 32 << 10;

/// Bytes in a block, one reference to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub pfn: Pfn,
    pub order: Order,
    pub offset: usize,
    pub len: usize,
}

/// An item in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Data(Fragment),
    EndOfPhase,
}

struct State<T> {
    items: VecDeque<Item>,
    /// Bytes in `items`.
    queued: usize,
    /// Bytes that have left in segments and are not read yet. The others wait at the sender.
    readable: usize,
    /// Unread bytes of each segment that has left, oldest first. A segment is acknowledged when
    /// its last byte is read.
    segments: VecDeque<usize>,
    /// Segments that have left since the connection began.
    nr_segments: u64,
    sender: Option<T>,
    receiver: Option<T>,
    closed: bool,
}

impl<T> State<T> {
    /// Nothing was sent yet.
    fn new() -> State<T> {
        State {
            items: VecDeque::new(),
            queued: 0,
            readable: 0,
            segments: VecDeque::new(),
            nr_segments: 0,
            sender: None,
            receiver: None,
            closed: false,
        }
    }

    /// Bytes that may leave now: whole segments, and less than a segment if none is
    /// unacknowledged (Nagle's rule, RFC 896) or at the end of a phase.
    fn due(&self, all: bool) -> usize {
        let unsent = self.queued - self.readable;
        let part = unsent % SEGMENT;
        let alone = self.segments.is_empty() && unsent < SEGMENT;
        if all || alone { unsent } else { unsent - part }
    }

    /// The next `bytes` bytes leave in segments.
    fn leave(&mut self, bytes: usize) {
        self.readable += bytes;
        self.nr_segments += bytes.div_ceil(SEGMENT) as u64;
        self.segments.extend((0..bytes).step_by(SEGMENT).map(|at| SEGMENT.min(bytes - at)));
    }

    /// `read` bytes were read. Returns how many segments that ended.
    fn acknowledge(&mut self, mut read: usize) -> usize {
        let before = self.segments.len();
        while let Some(front) = self.segments.front_mut().filter(|_| read > 0) {
            let part = read.min(*front);
            *front -= part;
            read -= part;
            if *front == 0 {
                self.segments.pop_front();
            }
        }
        before - self.segments.len()
    }
}

/// One direction of a connection.
pub struct Flow<H: Tasks> {
    state: H::Lock<State<H::Task>>,
    limit: usize,
}

impl<H: Tasks> Flow<H> {
    /// A connection with at most `limit` bytes in flight (but always room for one message).
    pub fn new(host: &H, limit: usize) -> Flow<H> {
        Flow { state: host.new_lock(LockClass::Workload, State::new()), limit }
    }

    /// Waits until `bytes` more fit. False once the receiver is gone.
    pub(super) fn reserve(&self, cx: &Cx<'_, H>, bytes: usize) -> bool {
        loop {
            let mut state = self.state.lock(cx.cpu());
            if state.closed {
                return false;
            }
            if state.queued == 0 || state.queued + bytes <= self.limit {
                return true;
            }
            let due = state.due(false);
            if due == 0 {
                state.sender = Some(cx.host.current());
            }
            drop(state);
            match due {
                0 => cx.host.park("socket buffer space"),
                due => self.transmit(cx, due),
            }
        }
    }

    /// Queues a message, or the end of a phase, and sends the segments that may leave.
    pub(super) fn send(&self, cx: &Cx<'_, H>, items: &mut Vec<Item>) {
        let mut state = self.state.lock(cx.cpu());
        let mut ends = false;
        for item in items.drain(..) {
            match item {
                Item::Data(fragment) => state.queued += fragment.len,
                Item::EndOfPhase => ends = true,
            }
            state.items.push_back(item);
        }
        let due = state.due(ends);
        drop(state);
        if due > 0 || ends {
            self.transmit(cx, due);
        }
    }

    /// Sends the next `bytes` bytes in segments and wakes the receiver if it waits. The sender
    /// pays: on the loopback device it also delivers. Only the sender queues and sends, so the bytes
    /// are still there when the lock is taken again.
    fn transmit(&self, cx: &Cx<'_, H>, bytes: usize) {
        cx.host.charge(Cost::SegmentSend, bytes.div_ceil(SEGMENT) as u32);
        let mut state = self.state.lock(cx.cpu());
        state.leave(bytes);
        let waiting = state.receiver.take();
        drop(state);
        if let Some(task) = waiting {
            cx.host.unpark(&task);
        }
    }

    /// Takes up to `bytes` bytes, waiting for the first. A fragment that does not fit whole is
    /// split and its rest stays queued. Only the part with the fragment's end carries its
    /// reference. Returns how many segments were read to their end.
    pub(super) fn receive(
        &self,
        cx: &Cx<'_, H>,
        bytes: usize,
        into: &mut Vec<(Item, bool)>,
    ) -> usize {
        loop {
            let mut state = self.state.lock(cx.cpu());
            let ends = matches!(state.items.front(), Some(Item::EndOfPhase));
            if state.readable == 0 && !ends {
                state.receiver = Some(cx.host.current());
                drop(state);
                cx.host.park("data on the socket");
                continue;
            }
            let before = state.readable;
            let bytes = bytes.min(before);
            take(&mut state, bytes, into);
            let read = before - state.readable;
            let nr_acknowledged = state.acknowledge(read);
            // The sender sleeps until a third of the buffer is free, or until all that it sent is
            // acknowledged and the rest may follow.
            let roomy = state.queued <= self.limit - self.limit / 3 || state.due(false) > 0;
            let waiting = if roomy { state.sender.take() } else { None };
            drop(state);
            if let Some(task) = waiting {
                cx.host.unpark(&task);
            }
            return nr_acknowledged;
        }
    }

    /// The receiver stops; a waiting sender wakes up and sees it.
    pub(super) fn close(&self, cx: &Cx<'_, H>) {
        let mut state = self.state.lock(cx.cpu());
        state.closed = true;
        let waiting = state.sender.take();
        drop(state);
        if let Some(task) = waiting {
            cx.host.unpark(&task);
        }
    }

    /// Segments that have left since the connection began.
    pub fn nr_segments(&self, cx: &Cx<'_, H>) -> u64 {
        self.state.lock(cx.cpu()).nr_segments
    }

    /// All items that are still queued (after both sides stopped).
    pub(super) fn leftovers(&self, cx: &Cx<'_, H>) -> Vec<Item> {
        self.state.lock(cx.cpu()).items.drain(..).collect()
    }
}

/// Takes `bytes` readable bytes, or the end of a phase if that is next.
fn take<T>(state: &mut State<T>, bytes: usize, into: &mut Vec<(Item, bool)>) {
    let mut left = bytes;
    while left > 0 || into.is_empty() {
        let Some(front) = state.items.front_mut() else { return };
        match front {
            Item::EndOfPhase => {
                // The end of a phase is returned alone.
                if into.is_empty() {
                    into.push((Item::EndOfPhase, false));
                    state.items.pop_front();
                }
                return;
            }
            Item::Data(fragment) if fragment.len > left => {
                let part = Fragment { len: left, ..*fragment };
                fragment.offset += left;
                fragment.len -= left;
                into.push((Item::Data(part), false));
                state.queued -= left;
                state.readable -= left;
                return;
            }
            Item::Data(fragment) => {
                left -= fragment.len;
                state.queued -= fragment.len;
                state.readable -= fragment.len;
                into.push((Item::Data(*fragment), true));
                state.items.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues `bytes` and lets leave what may.
    fn send(state: &mut State<()>, bytes: usize, ends: bool) -> usize {
        state.queued += bytes;
        let due = state.due(ends);
        state.leave(due);
        due
    }

    fn read(state: &mut State<()>, bytes: usize) -> usize {
        state.queued -= bytes;
        state.readable -= bytes;
        state.acknowledge(bytes)
    }

    #[test]
    fn less_than_a_segment_waits_for_the_acknowledgement() {
        let mut state = State::new();
        assert_eq!(send(&mut state, 64, false), 64, "nothing is unacknowledged");
        assert_eq!(send(&mut state, 64, false), 0);
        assert_eq!(send(&mut state, SEGMENT, false), SEGMENT, "a whole one always leaves");
        assert_eq!(read(&mut state, 63), 0);
        assert_eq!(state.due(false), 0);
        assert_eq!(read(&mut state, 1 + SEGMENT), 2);
        assert_eq!(state.due(false), 64);
        assert_eq!(state.nr_segments, 2);
    }

    #[test]
    fn the_end_of_a_phase_takes_everything_along() {
        let mut state = State::new();
        assert_eq!(send(&mut state, 2 * SEGMENT + 100, false), 2 * SEGMENT);
        assert_eq!(send(&mut state, 0, true), 100);
        assert_eq!(state.segments, [SEGMENT, SEGMENT, 100]);
        assert_eq!(read(&mut state, SEGMENT + 1), 1);
        assert_eq!(read(&mut state, SEGMENT + 99), 2);
    }
}
