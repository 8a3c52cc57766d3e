//! A machine whose memory a test fills, for the steps of the liveness phase one by one.

use highwater_core::page::Order;
use highwater_core::page_alloc::Gfp;
use highwater_core::page_cache::FileSpec;
use highwater_core::zone::Mark;

use super::liveness::usable_pages;
use super::run::Director;
use super::{Failure, Options};
use crate::digest::DigestPlan;

/// Seeds among which [`FullMachine::boot`] looks for its machine.
const SEEDS: std::ops::Range<u64> = 0..1000;

/// A machine without swap that has a file in memory larger than its memory.
pub struct FullMachine {
    director: Director,
}

impl FullMachine {
    /// Boots the machine and makes its files, which are empty. No program runs.
    ///
    /// # Errors
    /// If the machine does not boot.
    ///
    /// # Panics
    /// If no seed of a thousand has such a machine.
    pub fn boot() -> Result<FullMachine, Failure> {
        let options = SEEDS.map(Options::draw).find(fits).expect("a seed with such a file");
        let mut director = Director::boot(&options, DigestPlan::default(), None)?;
        director.make_files();
        Ok(FullMachine { director })
    }

    /// Fills the memory, so that it stays full when per-CPU lists have been flushed.
    ///
    /// # Errors
    /// If a program does not end, or an audit finds an error.
    ///
    /// # Panics
    /// If the program that fills it did not come to its end.
    pub fn fill(&mut self) -> Result<(), Failure> {
        for _ in 0..4 {
            self.fill_once()?;
            self.director.audit_at_rest("after filling")?;
        }
        Ok(())
    }

    /// Writes to the files in memory until none takes a page more, and takes the last pages as
    /// ballast.
    fn fill_once(&mut self) -> Result<(), Failure> {
        let filler = self.director.program("filler", |cx, shared| {
            let kernel = &shared.machine.kernel;
            for file in shared.files.borrow().iter().filter(|file| file.is_memory()) {
                let open = kernel.open(cx, file);
                let bytes = u64::from(file.spec.max_pages) << 12;
                let mut pos = 0;
                while pos < bytes
                    && let Ok(written) = kernel.file_write(cx, &open, pos, 4096)
                {
                    pos += written;
                }
            }
            let (mem, mut taken) = (&kernel.mem, Vec::new());
            let node = mem.cpu_node(cx.cpu());
            while let Some(pfn) = mem.alloc(cx, &**kernel, Gfp::GFP_KERNEL, Order::ZERO, node, None)
            {
                shared.blocks.borrow_mut().insert(pfn);
                taken.push((pfn, Order::ZERO));
            }
            taken
        });
        self.director.run_to_end()?;
        self.director.ballast.extend(filler.take().expect("the filler ended"));
        Ok(())
    }

    /// Pages above the high watermarks that programs can get without reclaim.
    pub fn usable_pages(&self) -> u64 {
        usable_pages(&self.director.machine.kernel.mem, Mark::High)
    }

    /// Checks that a kernel that refuses programs really has no memory for them.
    ///
    /// # Errors
    /// If pages are free, or can be reclaimed.
    pub fn check_refusal(&self) -> Result<(), Failure> {
        self.director.check_refusal()
    }

    /// Frees the ballast and the files in memory.
    ///
    /// # Errors
    /// If the program that does it does not end.
    pub fn make_room(&mut self) -> Result<(), Failure> {
        self.director.make_room()
    }

    /// Goes through the liveness phase.
    ///
    /// # Errors
    /// If a program does not end, or an audit finds an error.
    pub fn let_finish(&mut self) -> Result<(), Failure> {
        self.director.let_finish()
    }
}

fn fits(options: &Options) -> bool {
    let zones = options.machine.nodes.iter().flat_map(|node| &node.zones);
    let managed: u64 = zones.map(|zone| zone.managed).sum();
    let is_large =
        |file: &FileSpec| file.filesystem.is_memory && u64::from(file.max_pages) > managed;
    options.swap.is_empty()
        && options.machine.nr_cpus() == 1
        && options.nr_groups == 0
        && options.files.iter().any(is_large)
}
