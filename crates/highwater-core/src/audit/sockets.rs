//! Sockets: the blocks that hold a connection's bytes are memory of the kernel, and each belongs to
//! one connection.

use alloc::collections::BTreeSet;
use alloc::format;

use super::kernel::KernelAudit;
use super::{AuditError, Rule};
use crate::host::{Devices, Lock};
use crate::page::{BlockFlags, PageFlags};

impl<H: Devices> KernelAudit<'_, '_, H> {
    pub(super) fn sockets(&self) -> Result<(), AuditError> {
        let mut seen = BTreeSet::new();
        let open = self.k.connections.lock(self.cx.cpu());
        for connection in open.open.values() {
            for (pfn, order) in connection.holds(self.cx.cpu()).blocks {
                let page = self.page(pfn);
                let is_right = page.has(BlockFlags::USED)
                    && page.order() == order
                    && page.is(PageFlags::PINNED)
                    && seen.insert(pfn);
                if !is_right {
                    let found = format!("holds bytes of a socket, has {:?}", page.flags());
                    return self.broken(pfn, Rule::KernelMemory, found);
                }
            }
        }
        Ok(())
    }
}
