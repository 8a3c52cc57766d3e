//! The simulated machine's files as real files, at virtual times (`--cgroupfs`): `/proc` and the
//! tree of memory cgroups, in the text of the policy's kernel, so that a parser for Linux reads
//! them.
//!
//! ```text
//! DIR/proc, DIR/sys                          the machine now
//! DIR/000012.500s/proc/{meminfo, vmstat, ...}    the machine at 12.5 s (Keep::Each)
//!                 /proc/PID/{stat, status, ...}
//!                 /sys/fs/cgroup/[GROUP/]memory.*
//! ```
//!
//! Reading does not affect the simulation: nothing is locked, charged or flushed. So a run has the
//! same results with and without files, and the same seed has the same bytes in them. A list that
//! is in use at that moment (a task waits for another lock while it holds this one's) keeps the
//! number of the time before.
//!
//! | module | writes |
//! |---|---|
//! | [`machine`] | `/proc` but for processes |
//! | [`process`] | `/proc/PID` |
//! | [`group`] | `/sys/fs/cgroup` |
//! | [`place`] | the files to a directory, each one whole |
//!
//! Key type: [`KernelFiles`].
//!
//! From: [`crate::workload::harness`].

mod group;
mod machine;
mod place;
mod process;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use highwater_core::Kernel;
use highwater_core::config::{KernelVersion, Policy};
use highwater_core::memcg::stat_not_modelled;
use highwater_core::proc::MEMINFO_NOT_MODELLED;
use highwater_sim::engine::{Look, Sim};
use highwater_sim::host::SimHost;

use machine::Seen;
pub use place::{Place, note_units};

/// Texts by their paths below the directory.
type Texts = BTreeMap<String, String>;

/// Which files stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The files of each time, in a directory with the time's name.
    Each,
    /// The latest files.
    Latest,
}

/// Writes the files of one unit of work.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    every_ns: u64,
    work: Arc<Mutex<Work>>,
}

#[derive(Debug)]
struct Work {
    place: Place,
    seen: Seen,
    /// The first failure. Nothing is written after it.
    failed: Option<io::Error>,
}

impl KernelFiles {
    /// Files in this place, each time so much virtual time has passed, and at the end of the run.
    pub fn new(place: Place, every_ns: u64) -> KernelFiles {
        let work = Work { place, seen: Seen::default(), failed: None };
        KernelFiles { every_ns: every_ns.max(1), work: Arc::new(Mutex::new(work)) }
    }

    /// Begins to write. `kernel` must not keep the kernel alive: the simulation owns this.
    pub(crate) fn start(
        &self,
        sim: &Sim,
        kernel: impl Fn() -> Option<Rc<Kernel<SimHost>>> + 'static,
    ) {
        let me = self.clone();
        sim.sample_every(self.every_ns, move |at_ns, look| {
            if let Some(kernel) = kernel() {
                me.lock().take(at_ns, &kernel, look);
            }
        });
    }

    /// Writes the files of the run's end.
    pub(crate) fn finish(&self, sim: &Sim, kernel: &Kernel<SimHost>) {
        let at_ns = sim.now_ns();
        sim.look(|look| self.lock().take(at_ns, kernel, look));
    }

    /// The error that ended the writing, if one did.
    pub fn failure(&self) -> Option<String> {
        let work = self.lock();
        let error = work.failed.as_ref()?;
        let reason = highwater_results::words::refusal(error);
        Some(format!("{}: {reason}", work.place.dir().display()))
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn take(&mut self, at_ns: u64, kernel: &Kernel<SimHost>, look: &Look<'_>) {
        if self.failed.is_some() {
            return;
        }
        let texts = self.texts(at_ns, kernel, look);
        self.failed = self.place.write(at_ns, texts).err();
    }

    fn texts(&mut self, at_ns: u64, kernel: &Kernel<SimHost>, look: &Look<'_>) -> Texts {
        let mut texts = Texts::new();
        self.seen.see(kernel);
        machine::files(&mut texts, kernel, look, &mut self.seen, at_ns);
        let hierarchy = if kernel.mem.groups.is_v1() { "1:memory:" } else { "0::" };
        let pids = process::files(&mut texts, &self.seen, &look.tasks(), hierarchy);
        group::files(&mut texts, kernel, &pids, &self.seen, (at_ns, look));
        texts
    }
}

/// A sentence about all that the files of a policy's kernel do not show.
pub fn not_modelled(policy: &Policy) -> String {
    let kernel = policy.counters();
    let zeros: Vec<&str> = stat_not_modelled(kernel).collect();
    let mut meminfo = MEMINFO_NOT_MODELLED.to_vec();
    if kernel < KernelVersion::new(5, 19) {
        meminfo.retain(|name| !name.starts_with("Zswap"));
    }
    format!(
        "always 0: {} in meminfo; {} in memory.stat; in PID/stat page faults and times of start. \
         Left out: /proc/stat, pressure files of the root group, memory.numa_stat, memory.zswap.*, other controllers",
        meminfo.join(", "),
        zeros.join(", ")
    )
}

/// Writes a line; a `String` takes all that is written to it.
macro_rules! line {
    ($text:expr, $($words:tt)*) => {{
        use std::fmt::Write as _;
        let _ = writeln!($text, $($words)*);
    }};
}
use line;

/// Refuses a directory that holds something else than such files; makes it, and empties one that
/// does.
///
/// # Errors
/// The reason, in words.
pub fn prepare(dir: &Path) -> Result<(), String> {
    place::prepare(dir)
}
