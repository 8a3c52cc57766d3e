//! netperf TCP_STREAM over loopback as a memory workload (study 002).
//!
//! ```text
//!  sender, CPU A                    socket buffer                 receiver, CPU B
//!  order-3 block, cut into   -->  fragments, bounded  -->   copies each fragment out,
//!  fragments as it sends                                    frees a block with its last one
//! ```
//!
//! So one CPU only allocates and the other only frees: A can never take the pages that the frees
//! leave on B's per-CPU lists. Payload lies in page fragments cut from order-3 blocks (order 0 if
//! there is none), as the kernel's per-task page fragment does. Each call costs a system call and
//! its protocol work, each wait a wakeup, so small sends are bound by the cost of calls. Data
//! travels in segments, and each segment costs both sides: small messages gather while a segment is
//! unacknowledged (Nagle's rule), large ones fill segments of 32 KiB.
//!
//! Key types: [`Plan`] (the messages to send), [`Flow`] (the connection), [`Sender`], [`Receiver`].
//! Synchronisation: the flow's queue is behind one lock; a block's last reference frees it.

mod flow;
mod plan;
mod receiver;
mod sender;

pub use flow::Flow;
pub use plan::{Phase, Plan, Stop};
pub use receiver::{Received, Receiver};
pub use sender::{BlockUses, Sender, Sent};

/// The reason why a run cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetperfError {
    /// No page could be allocated, not even a single one.
    #[error("out of memory while sending {size}-byte messages")]
    OutOfMemory {
        /// Message size of the phase.
        size: usize,
    },
    /// A fragment did not hold the bytes that were sent.
    #[error("byte {offset} of the stream is {found:#04x}, sent was {expected:#04x}")]
    Corrupt {
        /// Position in the stream.
        offset: u64,
        /// The byte in the frame.
        found: u8,
        /// The byte that was sent.
        expected: u8,
    },
    /// The allocator refused to free a block.
    #[error("block at frame {pfn:#x}: {reason}")]
    Free {
        /// First frame.
        pfn: u32,
        /// The allocator's error.
        reason: highwater_core::page_alloc::FreeError,
    },
}

/// The byte at a position of the stream; 251 is prime, so that a shifted page shows.
#[inline(always)]
const fn stream_byte(offset: u64) -> u8 {
    (offset % PATTERN_PERIOD as u64) as u8
}

/// Period of the stream's pattern.
const PATTERN_PERIOD: usize = 251;
