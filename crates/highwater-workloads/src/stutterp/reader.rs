//! The reader: random reads of a set of files.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::File;

use super::Stop;

/// The reader: a random file, 16 reads of 1 MiB at random offsets, the next file.
pub struct Reader<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Its files, all of one size.
    pub files: &'a [Arc<File<H>>],
    /// Of its random choices.
    pub seed: u64,
    /// Ends it.
    pub stop: &'a Stop,
}

impl<H: Devices> Reader<'_, H> {
    /// Runs until stopped; bytes read.
    ///
    /// # Errors
    /// If a read fails.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        let _ = cx;
        todo!()
    }
}
