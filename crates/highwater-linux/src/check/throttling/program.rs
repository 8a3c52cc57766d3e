//! The captured programs as tasks: writers, hogs, a latency worker.

use std::sync::Arc;

use highwater_core::host::NS_PER_JIFFY;
use highwater_core::kernel::Error;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{File, FileSpec, Filesystem};
use highwater_results::import::linux61::Throttling as Captured;
use highwater_sim::engine::{JoinHandle, Placement};
use highwater_sim::host::SimHost;
use highwater_sim::machine::SimMachine;
use highwater_workloads::stutterp::{
    Chooser, Hog, HogHabit, Latency, Stop, Writer, WriterHabit, worker_seed,
};

use super::super::machine;

/// The latency worker's sleep.
pub(super) const SLEEP_NS: u64 = 5_000_000;
/// A hog's sleep between two sweeps, where the file does not say.
const HOG_SLEEP_MS: u64 = 500;

type Worker<T> = JoinHandle<Result<T, Error>>;

/// All workers.
pub(super) struct Workers {
    writers: Vec<Worker<u64>>,
    hogs: Vec<Worker<u64>>,
    latency: Worker<Vec<u64>>,
}

impl Workers {
    /// Starts the program. Hogs without a size in the file share what is free now, minus the
    /// headroom that they leave.
    pub(super) fn start(
        machine: &SimMachine,
        captured: &Captured,
        stop: &Arc<Stop>,
        seed: u64,
    ) -> Workers {
        let pages_of = |bytes: u64| (bytes / PAGE_SIZE as u64) as u32;
        let file_pages = pages_of(captured.file_bytes_each);
        let block_bytes = captured.write_bytes;
        let writers = (0..captured.writers).map(|number| {
            // ext4, as captured. The files are preallocated, so writing a page reads nothing first.
            let start = u64::from(number) * u64::from(file_pages);
            let spec = FileSpec::new(Filesystem::EXT4, machine::DATA, start, file_pages);
            let files: [Arc<File<SimHost>>; 1] =
                [machine.kernel.create_file(&machine.outside(), spec)];
            let stop = Arc::clone(stop);
            let seed = worker_seed(seed, Chooser::Writer, number);
            machine.spawn_task(
                format!("writer/{number}"),
                Placement::Anywhere,
                move |cx, kernel| {
                    let habit = WriterHabit::Anywhere;
                    Writer { kernel, files: &files, block_bytes, habit, seed, stop: &stop }.run(cx)
                },
            )
        });
        let writers = writers.collect();
        let pages = pages_of(captured.hog_bytes_each.unwrap_or_else(|| {
            let free: u64 =
                machine.kernel.mem.populated_zones().map(|zone| zone.nr_free_pages_exact()).sum();
            let all = (free * PAGE_SIZE as u64).saturating_sub(captured.room_bytes);
            all / u64::from(captured.hogs.max(1))
        }));
        let jiffies =
            captured.hog_sleep_ms.unwrap_or(HOG_SLEEP_MS).saturating_mul(1_000_000) / NS_PER_JIFFY;
        let hogs = (0..captured.hogs).map(|number| {
            let stop = Arc::clone(stop);
            machine.spawn_task(format!("hog/{number}"), Placement::Anywhere, move |cx, kernel| {
                let habit = HogHabit::RemapAfter { jiffies };
                Hog { kernel, pages, habit, stop: &stop }.run(cx)
            })
        });
        let hogs = hogs.collect();
        let pages = pages_of(captured.latency_bytes);
        let (name, stop) = (format!("mmap-{}", captured.workers), Arc::clone(stop));
        let latency = machine.spawn_task("latency", Placement::Anywhere, move |cx, kernel| {
            Latency { kernel, pages, sleep_ns: SLEEP_NS, name: &name, stop: &stop }.run(cx)
        });
        Workers { writers, hogs, latency }
    }

    /// Times of the latency worker's operations; the OOM killer may have ended any of the others.
    pub(super) fn end(self) -> Result<Vec<u64>, Error> {
        for worker in self.writers.iter().chain(&self.hogs) {
            worker.take().transpose()?;
        }
        Ok(self.latency.take().transpose()?.unwrap_or_default())
    }
}
