//! The connection: a bounded queue of fragments between one sender and one receiver.

use std::collections::VecDeque;

use highwater_core::host::{Cx, Lock, Tasks};
use highwater_core::page::{Order, Pfn};
use highwater_core::sync::order::LockClass;

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
    queued: usize,
    sender: Option<T>,
    receiver: Option<T>,
    closed: bool,
}

/// One direction of a connection.
pub struct Flow<H: Tasks> {
    state: H::Lock<State<H::Task>>,
    limit: usize,
}

impl<H: Tasks> Flow<H> {
    /// A connection with at most `limit` bytes in flight (but always room for one message).
    pub fn new(host: &H, limit: usize) -> Flow<H> {
        let state = State {
            items: VecDeque::new(),
            queued: 0,
            sender: None,
            receiver: None,
            closed: false,
        };
        Flow { state: host.new_lock(LockClass::Workload, state), limit }
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
            state.sender = Some(cx.host.current());
            drop(state);
            cx.host.park("socket buffer space");
        }
    }

    /// Queues a message and wakes the receiver if it waits.
    pub(super) fn send(&self, cx: &Cx<'_, H>, items: &mut Vec<Item>) {
        let mut state = self.state.lock(cx.cpu());
        for item in items.drain(..) {
            if let Item::Data(fragment) = item {
                state.queued += fragment.len;
            }
            state.items.push_back(item);
        }
        let waiting = state.receiver.take();
        drop(state);
        if let Some(task) = waiting {
            cx.host.unpark(&task);
        }
    }

    /// Takes up to `bytes` bytes, waiting for the first. A fragment that does not fit whole is
    /// split and its rest stays queued. Only the part with the fragment's end carries its
    /// reference.
    pub(super) fn receive(&self, cx: &Cx<'_, H>, bytes: usize, into: &mut Vec<(Item, bool)>) {
        loop {
            let mut state = self.state.lock(cx.cpu());
            if state.items.is_empty() {
                state.receiver = Some(cx.host.current());
                drop(state);
                cx.host.park("data on the socket");
                continue;
            }
            take(&mut state, bytes, into);
            // The sender sleeps until a third of the buffer is free.
            let roomy = state.queued <= self.limit - self.limit / 3;
            let waiting = if roomy { state.sender.take() } else { None };
            drop(state);
            if let Some(task) = waiting {
                cx.host.unpark(&task);
            }
            return;
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

    /// All items that are still queued (after both sides stopped).
    pub(super) fn leftovers(&self, cx: &Cx<'_, H>) -> Vec<Item> {
        self.state.lock(cx.cpu()).items.drain(..).collect()
    }
}

fn take<T>(state: &mut State<T>, bytes: usize, into: &mut Vec<(Item, bool)>) {
    let mut left = bytes;
    while left > 0 {
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
                return;
            }
            Item::Data(fragment) => {
                left -= fragment.len;
                state.queued -= fragment.len;
                into.push((Item::Data(*fragment), true));
                state.items.pop_front();
            }
        }
    }
}
