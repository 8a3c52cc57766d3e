//! The reader: random reads of a set of files.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page_cache::{File, OpenFile};

use super::Stop;
use crate::process;
use crate::random::Random;

/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;
/// Reads of one file before the next file.
const READS_PER_FILE: u32 = 16;

/// The reader: a random file, 16 reads of 1 MiB at random offsets, the next file.
pub struct Reader<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Its files, all of one size.
    pub files: &'a [Arc<File<H>>],
    /// Seed of its random choices.
    pub seed: u64,
    /// Ends the reader.
    pub stop: &'a Stop,
}

impl<H: Devices> Reader<'_, H> {
    /// Runs until stopped; returns the bytes read. A process that the OOM killer chose ends early.
    ///
    /// # Errors
    /// If a read fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        self.stop.enlist(cx);
        let mm = process::start(self.kernel, cx)?;
        let read = self.read(cx);
        process::end(self.kernel, cx, &mm);
        read
    }

    fn read(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        let open: Vec<Arc<OpenFile<H>>> =
            self.files.iter().map(|file| self.kernel.open(cx, file)).collect();
        let mut random = Random::new(self.seed);
        let mut read = 0;
        while !self.stop.is_set() && !open.is_empty() {
            let open = &open[random.below(open.len() as u64) as usize];
            let blocks = (open.file.size() / READ_BYTES).max(1);
            for _ in 0..READS_PER_FILE {
                let pos = random.below(blocks) * READ_BYTES;
                match self.kernel.file_read(cx, open, pos, READ_BYTES) {
                    Ok(bytes) => read += bytes,
                    Err(Error::Killed) => return Ok(read),
                    Err(error) => return Err(error),
                }
                cx.host.user_point();
                if self.stop.is_set() {
                    break;
                }
            }
        }
        Ok(read)
    }
}
