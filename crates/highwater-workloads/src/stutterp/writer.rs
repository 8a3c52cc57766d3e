//! Writers: buffered writes at random offsets.

use std::sync::Arc;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, OpenFile};

use super::Stop;
use crate::process;
use crate::random::Random;

/// A writer's choice of offsets.
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
    /// Bytes of one write; offsets are multiples of it. A file smaller than that is one block.
    pub block_bytes: u64,
    /// Its choice of offsets.
    pub habit: WriterHabit,
    /// Seed of its random choices.
    pub seed: u64,
    /// Ends the writer.
    pub stop: &'a Stop,
}

impl<H: Devices> Writer<'_, H> {
    /// Runs until stopped; returns the bytes written. A process that the OOM killer chose ends
    /// early.
    ///
    /// # Errors
    /// If a write fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        self.stop.enlist(cx);
        let mm = process::start(self.kernel, cx)?;
        let written = self.write(cx);
        process::end(self.kernel, cx, &mm);
        written
    }

    fn write(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        let open: Vec<Arc<OpenFile<H>>> =
            self.files.iter().map(|file| self.kernel.open(cx, file)).collect();
        let mut targets = Targets::new(self.habit, self.seed, &self.blocks());
        let mut written = 0;
        while !self.stop.is_set() {
            let Some((file, block)) = targets.next() else { return Ok(written) };
            match self.write_block(cx, &open[file], block) {
                Ok(bytes) => written += bytes,
                Err(Error::Killed) => return Ok(written),
                Err(error) => return Err(error),
            }
            cx.host.user_point();
        }
        Ok(written)
    }

    /// Blocks of each file.
    fn blocks(&self) -> Vec<u64> {
        self.files.iter().map(|file| (room(file) / self.block_bytes.max(1)).max(1)).collect()
    }

    fn write_block(&self, cx: &Cx<'_, H>, open: &OpenFile<H>, block: u64) -> Result<u64, Error> {
        let start = block * self.block_bytes;
        let len = self.block_bytes.min(room(&open.file) - start);
        let mut done = 0;
        while done < len && !self.stop.is_set() {
            // A signal makes a write short; the next write returns the error.
            done += self.kernel.file_write(cx, open, start + done, len - done)?;
        }
        Ok(done)
    }
}

/// Maximum size of a file, bytes.
fn room<H: Devices>(file: &File<H>) -> u64 {
    u64::from(file.spec.max_pages) * PAGE_SIZE as u64
}

/// Choice of the next write.
struct Targets {
    habit: WriterHabit,
    random: Random,
    /// Blocks of each file.
    blocks: Vec<u64>,
    /// The rest of each file's pass; the last is next.
    left: Vec<Vec<u64>>,
    next_file: usize,
}

impl Targets {
    fn new(habit: WriterHabit, seed: u64, blocks: &[u64]) -> Self {
        let left = vec![Vec::new(); blocks.len()];
        Targets { habit, random: Random::new(seed), blocks: blocks.to_vec(), left, next_file: 0 }
    }

    /// File and block; `None` if there are no files.
    fn next(&mut self) -> Option<(usize, u64)> {
        let nr_files = self.blocks.len();
        if nr_files == 0 {
            return None;
        }
        match self.habit {
            WriterHabit::Anywhere => {
                let file = if nr_files == 1 { 0 } else { self.random.below(nr_files as u64) };
                let file = file as usize;
                Some((file, self.random.below(self.blocks[file])))
            }
            WriterHabit::OncePerPass => {
                let file = self.next_file;
                self.next_file = (file + 1) % nr_files;
                if self.left[file].is_empty() {
                    self.left[file].extend(0..self.blocks[file]);
                    self.random.shuffle(&mut self.left[file]);
                }
                Some((file, self.left[file].pop()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_take_turns_and_each_block_comes_once_per_pass() {
        let mut targets = Targets::new(WriterHabit::OncePerPass, 7, &[5, 5]);
        let pass = |targets: &mut Targets| {
            let mut blocks = [vec![], vec![]];
            for turn in 0..10 {
                let (file, block) = targets.next().unwrap();
                assert_eq!(file, turn % 2);
                blocks[file].push(block);
            }
            blocks
        };
        let (first, second) = (pass(&mut targets), pass(&mut targets));
        assert_ne!(first, second, "a new order each time");
        for mut blocks in first.into_iter().chain(second) {
            blocks.sort_unstable();
            assert_eq!(blocks, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn anywhere_repeats_itself() {
        let mut targets = Targets::new(WriterHabit::Anywhere, 7, &[8]);
        let drawn: Vec<u64> = (0..8).filter_map(|_| Some(targets.next()?.1)).collect();
        let mut distinct = drawn.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(drawn.iter().all(|&block| block < 8) && distinct.len() < 8);
        assert_eq!(Targets::new(WriterHabit::Anywhere, 7, &[]).next(), None);
    }
}
