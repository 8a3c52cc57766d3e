//! Stalls that pressure counts, for hosts that account them as `/proc/pressure` does
//! (rules/pressure).
//!
//! Stalls are scopes: [`Cx::stall`] begins one, dropping the scope ends it. They nest. A host
//! without accounting does nothing here.

use super::{Cx, Host};

/// The resource that a stalled task lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stall {
    /// Memory: it reclaims or compacts, or waits for a page that was reclaimed not long ago. Counts while the task runs,
    /// too.
    Memory,
    /// A device: counts while the task sleeps (`in_iowait`).
    Io,
}

impl Stall {
    /// Every kind.
    pub const ALL: [Stall; 2] = [Stall::Memory, Stall::Io];
}

/// A stall that lasts until this is dropped.
#[must_use]
pub struct StallScope<'a, H: Host> {
    host: &'a H,
    stall: Stall,
}

impl<'h, H: Host> Cx<'h, H> {
    /// Marks the running task as stalled, for pressure, until the scope is dropped.
    ///
    /// Linux: marks memory stalls only, and takes stalls for I/O from `in_iowait`; here both are
    /// marked.
    #[doc(alias = "psi_memstall_enter")]
    #[doc(alias = "psi_memstall_leave")]
    #[inline(always)]
    pub fn stall(&self, stall: Stall) -> StallScope<'h, H> {
        self.host.stall_begin(stall);
        StallScope { host: self.host, stall }
    }
}

impl<H: Host> Drop for StallScope<'_, H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.host.stall_end(self.stall);
    }
}
