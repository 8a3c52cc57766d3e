//! madvise (spec 04 §3.7).

use super::Space;
use crate::host::{Cx, Devices};
use crate::kernel::{Error, Kernel};

/// Advice on a range of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Clears SEQUENTIAL and RANDOM.
    Normal,
    /// Read in order: not kept.
    Sequential,
    /// Read at random: no readahead.
    Random,
    /// Unmap; anonymous contents are lost.
    DontNeed,
    /// Contents may be dropped.
    Free,
    /// Not needed soon.
    Cold,
    /// Reclaim now.
    PageOut,
    /// Huge pages.
    HugePage,
    /// No huge pages.
    NoHugePage,
}

impl<H: Devices> Kernel<H> {
    /// Applies advice to a range.
    ///
    /// # Errors
    /// If part of the range is not mapped, or the advice does not fit what is there.
    pub fn madvise(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        pages: u32,
        advice: Advice,
    ) -> Result<(), Error> {
        let _ = (cx, space, start, pages, advice);
        todo!()
    }
}
