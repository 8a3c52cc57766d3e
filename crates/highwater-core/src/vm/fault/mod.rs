//! Faults (spec 04 §2).

use super::Space;
use crate::host::{Cx, Devices};
use crate::kernel::{Error, Kernel};

/// What a program does to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
}

/// How an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The page was mapped.
    None,
    /// A fault without I/O.
    Minor,
    /// A fault that had to wait for I/O.
    Major,
}

impl<H: Devices> Kernel<H> {
    /// One access of a program to a virtual page: sets the entry's bits, or faults until it can.
    ///
    /// # Errors
    /// No such area or access ([`Error::Fault`]), a page that could not be read ([`Error::Io`]), no
    /// memory although somebody was killed ([`Error::NoMemory`]), or the task is to die
    /// ([`Error::Killed`]).
    pub fn touch(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        vpn: u32,
        access: Access,
    ) -> Result<Fault, Error> {
        let _ = (cx, space, vpn, access);
        todo!()
    }

    /// As the fault of an access, on behalf of the kernel: no exception is taken.
    pub(super) fn fault_in(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        vpn: u32,
        access: Access,
    ) -> Result<Fault, Error> {
        let _ = (cx, space, vpn, access);
        todo!()
    }
}
