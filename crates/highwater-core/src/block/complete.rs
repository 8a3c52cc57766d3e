//! What the end of a transfer means to each page (spec 04 §8.5).

use super::Bio;
use crate::host::{Cx, Devices, IoError};
use crate::kernel::Kernel;

impl<H: Devices> Kernel<H> {
    /// Ends one bio: unlocks what was read, ends writeback of what was written.
    pub(super) fn end_bio(&self, cx: &Cx<'_, H>, bio: &Bio, result: Result<(), IoError>) {
        let _ = (cx, bio, result);
        todo!()
    }
}
