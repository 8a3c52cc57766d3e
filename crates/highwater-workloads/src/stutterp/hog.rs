//! Hogs: anonymous memory written over and over.

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::Space;

use super::Stop;
use super::memory::{Memory, Swept};
use crate::process;

/// What a hog does after a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HogHabit {
    /// Sweeps its one mapping again at once (mmtests).
    SweepOn,
    /// Sleeps for so many ticks, unmaps, maps anew (the program that the captured kernel ran).
    RemapAfter {
        /// Ticks.
        jiffies: u64,
    },
}

/// A hog.
pub struct Hog<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Size of its mapping.
    pub pages: u32,
    /// What it does after a sweep.
    pub habit: HogHabit,
    /// Ends it.
    pub stop: &'a Stop,
}

impl<H: Devices> Hog<'_, H> {
    /// Runs until stopped; how many sweeps were whole. A process that the OOM killer chose ends early.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        self.stop.enlist(cx);
        let space = process::start(self.kernel, cx)?;
        let sweeps = self.sweeps(cx, &space);
        process::end(self.kernel, cx, &space);
        sweeps
    }

    fn sweeps(&self, cx: &Cx<'_, H>, space: &Space<H>) -> Result<u64, Error> {
        let mut memory = Memory::map(self.kernel, cx, space, self.pages)?;
        let mut sweeps = 0;
        while memory.sweep(self.kernel, cx, space, self.stop)? == Swept::All {
            sweeps += 1;
            if let HogHabit::RemapAfter { jiffies } = self.habit {
                cx.host.sleep_ns(jiffies * highwater_core::host::NS_PER_JIFFY);
                memory.unmap(self.kernel, cx, space)?;
                memory = Memory::map(self.kernel, cx, space, self.pages)?;
            }
        }
        Ok(sweeps)
    }
}
