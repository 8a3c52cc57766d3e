//! The latency worker: sleeps, maps, touches, unmaps; its times are the benchmark's samples.

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::{Error, Kernel};

use super::Stop;

/// The latency worker.
pub struct Latency<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Size of its mapping.
    pub pages: u32,
    /// Sleep before each operation; part of the reported time.
    pub sleep_ns: u64,
    /// Name of its operations, for explanations: `mmap-48`.
    pub name: &'a str,
    /// Ends it.
    pub stop: &'a Stop,
}

impl<H: Devices> Latency<'_, H> {
    /// Runs until stopped; the time of each operation, nanoseconds.
    ///
    /// # Errors
    /// If a call fails other than by the OOM killer.
    pub fn run(&self, cx: &Cx<'_, H>) -> Result<Vec<u64>, Error> {
        let _ = cx;
        todo!()
    }
}
