//! Writers: buffered writes at random offsets.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::File;

use super::Stop;

/// How a writer chooses where to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterHabit {
    /// Files round robin, each block of a file once per pass in random order (fio).
    OncePerPass,
    /// Any block, independent of the last (the program that the captured kernel ran).
    Anywhere,
}

/// A writer.
pub struct Writer<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Its files, preallocated, all of one size.
    pub files: &'a [Arc<File<H>>],
    /// Bytes of one write; offsets are multiples of it.
    pub block_bytes: u64,
    /// Where it writes.
    pub habit: WriterHabit,
    /// Of its random choices.
    pub seed: u64,
    /// Ends it.
    pub stop: &'a Stop,
}

impl<H: Devices> Writer<'_, H> {
    /// Runs until stopped; bytes written.
    ///
    /// # Errors
    /// If a write fails.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        let _ = cx;
        todo!()
    }
}
