//! Hogs: anonymous memory, written repeatedly.

use highwater_core::host::{Cx, Devices, NS_PER_JIFFY};
use highwater_core::kernel::{Error, Kernel};
use highwater_core::vm::Mm;

use super::Stop;
use super::memory::{Memory, Swept};
use crate::process;

/// Behaviour of a hog after a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HogHabit {
    /// Sweeps its one mapping again at once (mmtests).
    SweepOn,
    /// Keeps its memory and sleeps until it is stopped (stutter).
    Rest,
    /// Sleeps for a number of ticks, unmaps, maps anew (the program that the captured kernel ran).
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
    /// Behaviour after a sweep.
    pub habit: HogHabit,
    /// Ends the hog.
    pub stop: &'a Stop,
}

impl<H: Devices> Hog<'_, H> {
    /// Runs until stopped; returns the number of complete sweeps. A process that the OOM killer
    /// chose ends early.
    ///
    /// # Errors
    /// If a call fails for another reason.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<u64, Error> {
        self.stop.enlist(cx);
        let mm = process::start(self.kernel, cx)?;
        let sweeps = self.sweeps(cx, &mm);
        process::end(self.kernel, cx, &mm);
        sweeps
    }

    fn sweeps(&self, cx: &Cx<'_, H>, mm: &Mm<H>) -> Result<u64, Error> {
        let mut memory = Memory::map(self.kernel, cx, mm, self.pages)?;
        let mut sweeps = 0;
        while memory.sweep(self.kernel, cx, mm, self.stop)? == Swept::All {
            sweeps += 1;
            match self.habit {
                HogHabit::SweepOn => {}
                HogHabit::Rest => {
                    // Asleep, it is killed within a tick.
                    while !self.stop.is_set() && !cx.is_dying() {
                        cx.host.sleep_ns(NS_PER_JIFFY);
                    }
                    break;
                }
                HogHabit::RemapAfter { jiffies } => {
                    cx.host.sleep_ns(jiffies * NS_PER_JIFFY);
                    memory.unmap(self.kernel, cx, mm)?;
                    memory = Memory::map(self.kernel, cx, mm, self.pages)?;
                }
            }
        }
        Ok(sweeps)
    }
}
