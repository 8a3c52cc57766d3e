//! TCP connections on the loopback device, as far as they hold memory
//! (rules/memory-cgroups#sockets).
//!
//! ```text
//!  sender's socket                                   receiver's socket
//!  +-----------------+----------------------+        +---------------------+
//!  | not sent yet    | sent, not            |  --->  | received, not read  |  ---> program
//!  |                 | acknowledged         |        | (at most a window)  |
//!  +-----------------+----------------------+        +---------------------+
//!            bytes lie once, in blocks of order 3 that both sockets refer to
//! ```
//!
//! A program's bytes are copied into blocks of order 3, and wait in socket buffers (skbs) of a
//! segment each. The sender's socket pays for an skb until it is acknowledged, the receiver's from
//! its arrival until it is read. So an unacknowledged segment is paid for twice, although its bytes
//! lie in memory once.
//!
//! | file | has |
//! |---|---|
//! | [`buffers`] | the queues of a connection, and what each socket is charged for (sums) |
//! | [`tcp`] | the calls: connect, accept, send, receive, close |
//!
//! Not modelled: growth of the receive window, the protocol's own limits (`tcp_mem`), objects of
//! sockets, the memory of skb heads. A delayed acknowledgement has no timer: it comes with the next
//! segment, or when the receiver reads.
//!
//! Key types: [`Connection`], [`End`]. Synchronisation: a connection has one lock, which is not
//! held while memory is allocated or charged.
//!
//! From: programs · to: `page_alloc`, `memcg`.

mod buffers;
mod tcp;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;

use crate::host::Devices;
use crate::units::GroupId;
use crate::wait::WaitQueue;
use buffers::Buffers;
pub use tcp::{BLOCK_GFP, BLOCK_ORDER};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that connected.
    Sender,
    /// The one that accepts.
    Receiver,
}

/// A connection through which one task sends and one receives.
#[doc(alias = "tcp_sock")]
pub struct Connection<H: Devices> {
    id: u32,
    state: H::Lock<Buffers>,
    /// Both ends sleep here: for room, for bytes.
    changed: WaitQueue<H>,
}

/// Open connections by number; `Table` class.
pub(crate) struct Connections<H: Devices> {
    pub(crate) open: alloc::collections::BTreeMap<u32, Arc<Connection<H>>>,
    next: u32,
}

impl<H: Devices> Default for Connections<H> {
    fn default() -> Self {
        Connections { open: alloc::collections::BTreeMap::new(), next: 0 }
    }
}

/// A connection, for audits.
pub(crate) struct Holds {
    /// Each end's group, and the pages that it is charged for.
    pub(crate) ends: [(GroupId, u64); 2],
    /// Blocks of payload.
    pub(crate) blocks: alloc::vec::Vec<(crate::page::Pfn, crate::units::Order)>,
}
