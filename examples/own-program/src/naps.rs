//! A custom workload.
//!
//! ```text
//! cargo run --release -- compare naps.toml
//! cargo run --release -- run naps --mem 256M --cpus 2
//! cargo run --release -- explain naps.toml --worst 1
//! cargo run --release -- show workload naps
//! ```
//!
//! Each task allocates memory, touches all of it, frees it, and sleeps. How long does a round take
//! while other tasks do the same?

use highwater::core::Kernel;
use highwater::core::host::{Cx, Host};
use highwater::core::kernel::Error;
use highwater::core::vm::{Access, Backing, VmaFlags};
use highwater::machine_file::MachineFile;
use highwater::params;
use highwater::results::{Better, Counters, Metric, TableKind, Times};
use highwater::sim::engine::{JoinHandle, Placement};
use highwater::sim::host::SimHost;
use highwater::workload::harness::{self, Timed};
use highwater::workload::outcome::snapshot;
use highwater::workload::{Outcome, RunError, Unit, Workload};

params! {
    /// Parameters of the naps.
    pub struct Params {
        /// Number of tasks.
        tasks: u32 = 4, |p| (1..=64).contains(&p.tasks) => "must be between 1 and 64";
        /// Number of rounds of each task.
        rounds: u32 = 20, |p| p.rounds > 0 => "must be at least 1";
        /// Memory per task, as a fraction of all memory divided by the number of tasks.
        share: f64 = 0.5, |p| p.share > 0.0 && p.share <= 0.9 => "must be above 0 and at most 0.9";
        /// Sleep between two rounds, microseconds.
        nap_us: u64 = 500;
    }
}

/// The workload.
pub struct Naps;

impl Workload for Naps {
    type Params = Params;

    const NAME: &'static str = "naps";
    const ABOUT: &'static str = "tasks take memory, use it, give it back, and sleep";
    const NOT_NATIVE: Option<&'static str> = Some("naps are taken in virtual time only");

    fn run(params: &Params, unit: &Unit<'_>) -> Result<Outcome, RunError> {
        let mut machine = harness::boot(unit, harness::config(unit)?)?;
        let before = snapshot(&machine.kernel.mem);
        let pages = (harness::managed_pages(unit) as f64 * params.share) as u32 / params.tasks;
        let tasks: Vec<Task> = (0..params.tasks)
            .map(|task| {
                let params = params.clone();
                machine.spawn_task(format!("nap/{task}"), Placement::Anywhere, move |cx, kernel| {
                    harness::timed(cx, || rounds(kernel, cx, &params, pages))
                })
            })
            .collect();
        harness::run_to_end(&mut machine)?;
        let mut times = Times::default();
        let mut samples = Vec::new();
        for task in &tasks {
            let rounds = harness::finished(task, &mut times)?;
            let rounds = rounds.map_err(|error| RunError::of(Self::NAME, error))?;
            samples.extend(rounds.iter().map(|&ns| ("round".to_owned(), ns as f64 / 1e6)));
        }
        times.elapsed_ns = machine.sim().now_ns();
        let explained = harness::ended(&machine, unit)?;
        let counters = Counters::difference(&before, &snapshot(&machine.kernel.mem));
        harness::settle_and_audit(&mut machine, |_, _| {})?;
        Ok(Outcome { samples, counters, times, explained, ..Outcome::default() })
    }

    fn metrics(_: &Params, _: &[MachineFile]) -> Vec<Metric> {
        vec![Metric::new(Self::NAME, "milliseconds", Better::Lower, TableKind::VariableTime)]
    }
}

type Task = JoinHandle<Timed<Result<Vec<u64>, Error>>>;

/// The work of one task; returns the time of each round in nanoseconds.
fn rounds(
    kernel: &Kernel<SimHost>,
    cx: &Cx<'_, SimHost>,
    params: &Params,
    pages: u32,
) -> Result<Vec<u64>, Error> {
    let mm = kernel.create_mm(cx)?;
    // From here on, the OOM killer can choose this task.
    mm.add_task(cx);
    let mut rounds = Vec::new();
    for _ in 0..params.rounds {
        cx.host.sleep_and_op_begin(params.nap_us * 1000);
        let from = cx.host.now_ns();
        let flags = VmaFlags::READ | VmaFlags::WRITE;
        let start = kernel.mmap(cx, &mm, pages, 1, flags, Backing::Anon)?;
        kernel.touch_range(cx, &mm, start, pages, Access::Write)?;
        kernel.munmap(cx, &mm, start, pages)?;
        rounds.push(cx.host.now_ns() - from);
        cx.host.op_end("round");
    }
    kernel.exit_mm(cx, &mm);
    mm.remove_task(cx);
    Ok(rounds)
}
