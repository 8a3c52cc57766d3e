//! Connections of a job: a task connects and sends, another one accepts and receives, or nobody
//! does.
//!
//! Connections have names, which tasks share. Each `connect` opens one more connection of that
//! name; a task that receives takes the oldest that no task has taken, as a server's `accept` does.
//!
//! Key types: [`Sockets`] (connections that wait for a receiver), [`Ends`] (those of a task).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use highwater_core::host::{Cx, Devices, HZ};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::net::{Connection, End};

use super::run::Running;

/// Timer ticks between two looks whether the job has ended.
const LOOK_JIFFIES: u64 = HZ / 10;
/// Time between two looks for a connection to accept.
const ACCEPT_NS: u64 = 1_000_000;

/// Errors of sends, in the words of messages.
const NOT_CONNECTED: Error = Error::Limit("the task has not connected (ENOTCONN)");
const CLOSED: Error = Error::Limit("the other end is closed (EPIPE)");

/// Connections of a job that no task has accepted, by the number of their name, oldest first.
pub struct Sockets<H: Devices>(RefCell<BTreeMap<usize, VecDeque<Arc<Connection<H>>>>>);

impl<H: Devices> Default for Sockets<H> {
    fn default() -> Self {
        Sockets(RefCell::default())
    }
}

impl<H: Devices> Sockets<H> {
    /// The job has ended: what waits for a receiver is gone.
    pub fn close_all(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        for connection in self.0.take().into_values().flatten() {
            kernel.tcp_close(cx, &connection, End::Receiver);
        }
    }

    fn take(&self, socket: usize) -> Option<Arc<Connection<H>>> {
        self.0.borrow_mut().get_mut(&socket)?.pop_front()
    }
}

type Open<H> = BTreeMap<usize, Arc<Connection<H>>>;

/// Ends of connections that a task has, by the number of their name.
pub(super) struct Ends<H: Devices> {
    sending: RefCell<Open<H>>,
    receiving: RefCell<Open<H>>,
}

impl<H: Devices> Default for Ends<H> {
    fn default() -> Self {
        Ends { sending: RefCell::default(), receiving: RefCell::default() }
    }
}

impl<H: Devices> Ends<H> {
    /// Closes the task's ends of a name.
    pub(super) fn close(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>, socket: usize) {
        for (open, end) in [(&self.sending, End::Sender), (&self.receiving, End::Receiver)] {
            let known = open.borrow_mut().remove(&socket);
            if let Some(connection) = known {
                kernel.tcp_close(cx, &connection, end);
            }
        }
    }

    /// The task ends.
    pub(super) fn close_all(&self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        for (open, end) in [(&self.sending, End::Sender), (&self.receiving, End::Receiver)] {
            for connection in open.take().into_values() {
                kernel.tcp_close(cx, &connection, end);
            }
        }
    }
}

impl<H: Devices> Running<'_, '_, H> {
    /// Opens a connection. If no task of the job receives from it (`is_unread`), this task has both
    /// ends.
    pub(super) fn connect(&self, socket: usize, is_unread: bool) {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        self.ends.close(kernel, cx, socket);
        let connection = kernel.tcp_connect(cx);
        self.ends.sending.borrow_mut().insert(socket, Arc::clone(&connection));
        if is_unread {
            kernel.tcp_accept(cx, &connection);
            self.ends.receiving.borrow_mut().insert(socket, connection);
        } else {
            let mut waiting = self.ground.sockets.0.borrow_mut();
            waiting.entry(socket).or_default().push_back(connection);
        }
    }

    /// Sends bytes; waits for room in the send buffer, if it does. Returns how many were not sent.
    pub(super) fn send(&self, socket: usize, bytes: u64, waits: bool) -> Result<u64, Error> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let open = self.ends.sending.borrow().get(&socket).cloned();
        let connection = open.ok_or(NOT_CONNECTED)?;
        let mut left = bytes;
        loop {
            left -= match kernel.tcp_send(cx, &connection, left) {
                Err(Error::Invalid) => return Err(CLOSED),
                sent => sent?,
            };
            if left == 0 || !waits || (self.ground.is_over)() {
                return Ok(left);
            }
            kernel.tcp_wait(cx, &connection, End::Sender, LOOK_JIFFIES);
        }
    }

    /// Receives bytes, and waits for them; less at the end of a connection. The next call accepts
    /// another one then.
    pub(super) fn receive(&self, socket: usize, bytes: u64) -> Result<(), Error> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        let Some(connection) = self.accepted(socket)? else { return Ok(()) };
        let mut left = bytes;
        while left > 0 && !(self.ground.is_over)() {
            left -= kernel.tcp_receive(cx, &connection, left);
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            if connection.is_at_end(cx.cpu()) {
                self.ends.receiving.borrow_mut().remove(&socket);
                kernel.tcp_close(cx, &connection, End::Receiver);
                return Ok(());
            }
            if left > 0 {
                kernel.tcp_wait(cx, &connection, End::Receiver, LOOK_JIFFIES);
            }
        }
        Ok(())
    }

    /// The connection that the task receives from, accepted if need be; `None`: the job ended
    /// before a task connected.
    fn accepted(&self, socket: usize) -> Result<Option<Arc<Connection<H>>>, Error> {
        let (kernel, cx) = (self.ground.kernel, self.cx);
        loop {
            let known = self.ends.receiving.borrow().get(&socket).cloned();
            if known.is_some() {
                return Ok(known);
            }
            if let Some(connection) = self.ground.sockets.take(socket) {
                kernel.tcp_accept(cx, &connection);
                self.ends.receiving.borrow_mut().insert(socket, connection);
            } else if (self.ground.is_over)() {
                return Ok(None);
            } else {
                cx.host.sleep_ns(ACCEPT_NS);
            }
            if cx.is_dying() {
                return Err(Error::Killed);
            }
        }
    }
}
