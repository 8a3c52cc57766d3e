//! The receiving side: copies fragments out and frees blocks with their last reference.

use highwater_core::host::{Cost, Cx, Tasks};
use highwater_core::page_alloc::PageAllocator;

use super::flow::{Flow, Fragment, Item};
use super::{NetperfError, Plan, stream_byte};

/// The receiver's results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes of each phase.
    pub phase_bytes: Vec<u64>,
    /// Time at which each phase's last byte was copied out, ns.
    pub phase_end_ns: Vec<u64>,
}

/// The receiving task.
pub struct Receiver<'a, H: Tasks> {
    /// The memory.
    pub memory: &'a PageAllocator<H>,
    /// The connection.
    pub flow: &'a Flow<H>,
    /// The expected messages.
    pub plan: &'a Plan,
}

impl<H: Tasks> Receiver<'_, H> {
    /// Receives the whole plan.
    ///
    /// # Errors
    /// If a byte differs from the byte sent, or a block cannot be freed. The connection is then
    /// closed and its fragments are freed.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<Received, NetperfError> {
        let result = self.receive_all(cx);
        if result.is_err() {
            self.flow.close(cx);
            for item in self.flow.leftovers(cx) {
                if let Item::Data(fragment) = item {
                    // The first error is the one to report.
                    let _ = self.memory.free(cx, fragment.pfn, fragment.order);
                }
            }
        }
        result
    }

    fn receive_all(&self, cx: &Cx<'_, H>) -> Result<Received, NetperfError> {
        let mut received = Received::default();
        let mut taken = Vec::new();
        let mut offset = 0u64;
        let largest = self.plan.phases.iter().map(|p| p.size).max().unwrap_or(0);
        let mut buffer = vec![0u8; largest];
        for phase in &self.plan.phases {
            let mut bytes = 0;
            'phase: loop {
                let nr_segments = self.flow.receive(cx, phase.size, &mut taken);
                cx.host.charge(Cost::Syscall, 1);
                cx.host.charge(Cost::PacketReceive, 1);
                cx.host.charge(Cost::SegmentReceive, nr_segments as u32);
                for (item, whole) in taken.drain(..) {
                    let Item::Data(fragment) = item else { break 'phase };
                    self.consume(cx, &fragment, &mut buffer, offset)?;
                    offset += fragment.len as u64;
                    bytes += fragment.len as u64;
                    if whole {
                        let free = self.memory.free(cx, fragment.pfn, fragment.order);
                        let pfn = fragment.pfn.0;
                        free.map_err(|reason| NetperfError::Free { pfn, reason })?;
                    }
                }
            }
            received.phase_bytes.push(bytes);
            received.phase_end_ns.push(cx.host.now_ns());
        }
        Ok(received)
    }

    fn consume(
        &self,
        cx: &Cx<'_, H>,
        fragment: &Fragment,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), NetperfError> {
        let dst = &mut buffer[..fragment.len];
        cx.host.frame_read(fragment.pfn, fragment.offset, dst);
        if !H::HAS_DATA {
            return Ok(());
        }
        for at in [0, fragment.len - 1] {
            let (found, expected) = (dst[at], stream_byte(offset + at as u64));
            if found != expected {
                let offset = offset + at as u64;
                return Err(NetperfError::Corrupt { offset, found, expected });
            }
        }
        Ok(())
    }
}
