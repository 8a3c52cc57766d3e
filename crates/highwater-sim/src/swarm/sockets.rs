//! Connections of a swarm: programs open them, fill their buffers, read what others sent, and close
//! them, in whatever group they are.

use std::sync::Arc;

use highwater_core::kernel::Error;
use highwater_core::net::{Connection, End};
use highwater_core::page::PAGE_SIZE;

use super::draw::Draw;
use super::worker::Worker;
use crate::host::SimHost;

/// Most connections of a run. The memory of their buffers cannot be reclaimed; a send buffer has a
/// 128th of memory at most.
const OPEN_MAX: u64 = 8;
/// Timer ticks that a task waits for the other end, at most.
const WAIT_JIFFIES: u64 = 50;

type Open = Arc<Connection<SimHost>>;

/// Ends of connections that a task has. A connection has one task on each end.
#[derive(Default)]
pub(super) struct Ends {
    sending: Vec<Open>,
    receiving: Vec<Open>,
}

impl Worker<'_, '_> {
    /// Does something with a connection. Refusals are part of the game: a group may be at its
    /// limit, and the other end may be gone.
    pub(super) fn use_sockets(&mut self) {
        self.shared.spend(5);
        let (kernel, cx) = (self.kernel, self.cx);
        match self.sockets.below(10) {
            0 | 1 => self.connect(),
            2..=4 => self.send(),
            5..=7 => self.receive(),
            8 => {
                let end = if self.sockets.one_in(2) { End::Sender } else { End::Receiver };
                if let Some(connection) = self.any_end(end) {
                    let jiffies = self.sockets.magnitude(1, WAIT_JIFFIES);
                    kernel.tcp_wait(cx, &connection, end, jiffies);
                }
            }
            _ => {
                let end = if self.sockets.one_in(2) { End::Sender } else { End::Receiver };
                if let Some(connection) = self.any_end(end) {
                    self.close(&connection, end);
                }
            }
        }
    }

    fn connect(&mut self) {
        let nr_open = &self.shared.nr_sockets;
        if nr_open.get() >= OPEN_MAX {
            return;
        }
        nr_open.set(nr_open.get() + 1);
        let connection = self.kernel.tcp_connect(self.cx);
        self.ends.sending.push(Arc::clone(&connection));
        self.shared.listening.borrow_mut().push(connection);
    }

    fn send(&mut self) {
        let Some(connection) = self.any_end(End::Sender) else { return };
        let most = (self.shared.options.reach * PAGE_SIZE as u64).min(4 << 20);
        let bytes = self.sockets.magnitude(1, most);
        self.shared.spend(bytes / PAGE_SIZE as u64);
        match self.kernel.tcp_send(self.cx, &connection, bytes) {
            Ok(sent) => assert!(sent <= bytes, "{sent} bytes of {bytes}"),
            Err(Error::Killed) => assert!(self.cx.is_dying(), "a task that is not to die"),
            // The other end is gone.
            Err(Error::Invalid) => self.close(&connection, End::Sender),
            Err(error) => panic!("send: {error}"),
        }
    }

    fn receive(&mut self) {
        let (kernel, cx) = (self.kernel, self.cx);
        if self.ends.receiving.is_empty() || self.sockets.one_in(4) {
            let next = self.shared.listening.borrow_mut().pop();
            if let Some(connection) = next {
                kernel.tcp_accept(cx, &connection);
                self.ends.receiving.push(connection);
            }
        }
        let Some(connection) = self.any_end(End::Receiver) else { return };
        let bytes = self.sockets.magnitude(1, 1 << 20);
        let received = kernel.tcp_receive(cx, &connection, bytes);
        assert!(received <= bytes, "{received} bytes of {bytes}");
        if connection.is_at_end(cx.cpu()) {
            self.close(&connection, End::Receiver);
        }
    }

    fn any_end(&mut self, end: End) -> Option<Open> {
        let open = match end {
            End::Sender => &self.ends.sending,
            End::Receiver => &self.ends.receiving,
        };
        (!open.is_empty()).then(|| self.sockets.pick(open))
    }

    /// Closes one of the task's ends; also the other one, if no task has accepted it.
    fn close(&mut self, connection: &Open, end: End) {
        let (kernel, cx) = (self.kernel, self.cx);
        let is_other = |other: &Open| !Arc::ptr_eq(other, connection);
        kernel.tcp_close(cx, connection, end);
        let mut is_gone = end == End::Receiver;
        match end {
            End::Sender => {
                self.ends.sending.retain(is_other);
                let mut listening = self.shared.listening.borrow_mut();
                let before = listening.len();
                listening.retain(is_other);
                if listening.len() < before {
                    drop(listening);
                    kernel.tcp_close(cx, connection, End::Receiver);
                    is_gone = true;
                }
            }
            End::Receiver => self.ends.receiving.retain(is_other),
        }
        if is_gone {
            let nr_open = &self.shared.nr_sockets;
            nr_open.set(nr_open.get() - 1);
        }
    }

    /// The task ends.
    pub(super) fn close_sockets(&mut self) {
        while let Some(connection) = self.ends.sending.last().cloned() {
            self.close(&connection, End::Sender);
        }
        while let Some(connection) = self.ends.receiving.last().cloned() {
            self.close(&connection, End::Receiver);
        }
    }
}
