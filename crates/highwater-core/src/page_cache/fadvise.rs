//! posix_fadvise (spec 04 §5).

use super::OpenFile;
use crate::host::{Cx, Devices};
use crate::kernel::Kernel;

/// Advice on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Readahead as usual.
    Normal,
    /// Twice the readahead.
    Sequential,
    /// No readahead.
    Random,
    /// Read it now.
    WillNeed,
    /// Drop it.
    DontNeed,
    /// Nothing in 6.1.
    NoReuse,
}

impl<H: Devices> Kernel<H> {
    /// Applies advice to bytes `pos..pos+len` (`len` 0 = to the end).
    pub fn fadvise(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, pos: u64, len: u64, advice: Advice) {
        let _ = (cx, open, pos, len, advice);
        todo!()
    }
}
