//! Composite works on the model and on this computer, side by side.
//!
//! Calibration measures primitives, and the model puts them together. A prediction is the test of
//! that: works that calibration never runs, as jobs on a simulated machine with the calibrated
//! costs, beside the same works here.
//!
//! A job ends when its task does, and its time has a beginning and an end that belong to no round.
//! So a work runs with two numbers of rounds, and the time of a round is the difference.

use std::sync::atomic::AtomicBool;

pub use highwater_calibrate::works::Work;
use highwater_calibrate::{Options, Spread, works};
use highwater_files::input::InputError;
use highwater_files::machine_file::MachineFile;
use highwater_files::policy_file;
use highwater_plan::experiment::{Experiment, Quiet, RunPlan, run};
use highwater_results::Document;
use highwater_runs::workload::{Registry, RunError};

/// Rounds of the two runs.
const ROUNDS: [u32; 2] = [4, 12];

/// A work on the model and on this computer.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The work.
    pub work: Work,
    /// Nanoseconds of a round on the model, or why it cannot run there.
    pub model_ns: Result<f64, String>,
    /// The same on this computer, or why it could not be measured.
    pub here: Result<Spread, String>,
}

impl Prediction {
    /// The model's time as a multiple of this computer's.
    pub fn ratio(&self) -> Option<f64> {
        let here = self.here.as_ref().ok()?.median;
        let model = *self.model_ns.as_ref().ok()?;
        (here > 0.0 && model > 0.0).then(|| model / here)
    }

    /// How far the two are apart, whichever is larger: 1 is none.
    pub fn factor(&self) -> Option<f64> {
        self.ratio().map(|ratio| ratio.max(1.0 / ratio))
    }
}

/// Runs each work on the model: nanoseconds of a round, or why it cannot run there, in the order of
/// [`Work::ALL`].
///
/// # Errors
/// If the policy does not exist or a job cannot run on the machine.
pub fn model(machine: &MachineFile, policy: &str) -> Result<Vec<Result<f64, String>>, RunError> {
    let nr_cpus: usize = machine.machine.nodes.iter().map(|node| node.cpus.len()).sum();
    let time = |work: &Work| {
        Ok(match work {
            Work::TcpStream(_) if nr_cpus < 2 => Err("the machine has one CPU".to_owned()),
            Work::TcpStream(size) => Ok(message_ns(*size, machine, policy)?),
            work => Ok(round_ns(*work, machine, policy)?),
        })
    };
    Work::ALL.iter().map(time).collect()
}

/// Measures each work on this computer, in the order of [`Work::ALL`].
///
/// # Errors
/// As [`highwater_calibrate::run`].
pub fn here(
    options: &Options,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Result<Spread, String>>, String> {
    works::run(options, progress)
}

/// Nanoseconds of a round on the model.
fn round_ns(work: Work, machine: &MachineFile, policy: &str) -> Result<f64, RunError> {
    let [few, many] = ROUNDS;
    let (first, second) =
        (elapsed_ns(work, few, machine, policy)?, elapsed_ns(work, many, machine, policy)?);
    Ok((second - first) / f64::from(many - few))
}

fn elapsed_ns(
    work: Work,
    rounds: u32,
    machine: &MachineFile,
    policy: &str,
) -> Result<f64, RunError> {
    let document = ran(work, &job(work, rounds), machine, policy)?;
    let elapsed = document.runs.iter().map(|run| run.times.elapsed_s()).sum::<f64>();
    Ok(elapsed * 1e9)
}

/// Nanoseconds of a message of a stream on the model.
fn message_ns(size: usize, machine: &MachineFile, policy: &str) -> Result<f64, RunError> {
    let text = format!(
        "name = \"tcp\"\ntitle = \"tcp\"\nworkload = \"netperf-tcp\"\niterations = 1\n\
         [[policy]]\nname = \"6.1\"\nlabel = \"6.1\"\n[[machine]]\nname = \"small-vm\"\n\
         [netperf-tcp]\nsizes = [{size}]\nms-per-size = 20\nwarmup = \"16M\"\n"
    );
    let document = ran(Work::TcpStream(size), &text, machine, policy)?;
    let mbit_per_s: Vec<f64> =
        document.runs.iter().flat_map(|run| &run.samples).map(|sample| sample.value).collect();
    let mean = mbit_per_s.iter().sum::<f64>() / mbit_per_s.len().max(1) as f64;
    Ok(size as f64 * 8e3 / mean)
}

fn ran(work: Work, text: &str, machine: &MachineFile, policy: &str) -> Result<Document, RunError> {
    let refused = |error: InputError| RunError::Costs(error.to_string());
    let file = format!("predict/{}.toml", work.name());
    let experiment = Experiment::parse(&Registry::default(), &file, text).map_err(refused)?;
    let policy = policy_file::load(policy).map_err(refused)?;
    let label = policy.name.clone();
    let plan = RunPlan::new(experiment, vec![machine.clone()], vec![(policy, label)]);
    run(&plan, &Quiet, &AtomicBool::new(false))
}

/// A work as a job of so many rounds.
fn job(work: Work, rounds: u32) -> String {
    let phase = |keys: &str| format!("[[task.phase]]\n{keys}\n");
    let map = |keys: &str, bytes: usize| {
        phase(&format!("do = \"map\"\nof = \"m\"\nsize = \"{}K\"\n{keys}", bytes >> 10))
    };
    let touch = phase("do = \"touch\"\nof = \"m\"\nwrite = true");
    let unmap = phase("do = \"unmap\"\nof = \"m\"");
    let file = |bytes: usize| format!("[[file]]\nname = \"f\"\nsize = \"{}K\"\n", bytes >> 10);
    let read = |keys: &str| phase(&format!("do = \"read\"\nof = \"f\"\n{keys}"));
    let of_file = |bytes: usize, shared: bool| {
        let first = read("bytes = \"1M\"\nonly = \"first\"");
        let map = map(&format!("file = \"f\"\nshared = {shared}"), bytes);
        (file(bytes), format!("{first}{map}{touch}{unmap}"))
    };
    let (files, phases) = match work {
        Work::MapUnmap => {
            (String::new(), format!("{}{unmap}", map("advice = \"nohugepage\"", works::MAPPED)))
        }
        Work::PageFault1 => {
            let map = map("advice = \"nohugepage\"", works::TOUCHED);
            (String::new(), format!("{map}{touch}{unmap}"))
        }
        Work::PageFault2 => of_file(works::WRITTEN, false),
        Work::PageFault3 => of_file(works::WRITTEN, true),
        Work::CachedRead4K => (file(works::CACHED), read("bytes = \"4K\"")),
        Work::CachedRead1M => (file(works::CACHED), read("bytes = \"1M\"")),
        Work::ColdRead => {
            let drop = phase("do = \"advise\"\nof = \"f\"\nadvice = \"dontneed\"");
            (file(works::COLD), format!("{}{drop}", read("bytes = \"1M\"")))
        }
        Work::FsyncLog => {
            let log = phase("do = \"append\"\nof = \"log\"\nbytes = \"4K\"\ntimes = 1");
            let sync = phase("do = \"fsync\"\nof = \"log\"");
            ("[[file]]\nname = \"log\"\nsize = \"0\"\n".to_owned(), format!("{log}{sync}"))
        }
        // A workload of its own.
        Work::TcpStream(_) => (String::new(), String::new()),
    };
    format!(
        "title = \"{}\"\nseconds = 600\n{files}[[task]]\nname = \"work\"\nrounds = {rounds}\n{phases}",
        work.about()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> MachineFile {
        let text = "costs = \"server-3ghz\"\n[[node]]\nmemory = \"256M\"\ncpus = \"0-1\"\n\
                    [[disk]]\nmodel = \"nvme\"\nsize = \"1G\"\nsource = \"test\"\n";
        MachineFile::parse("m.toml", text).unwrap()
    }

    #[test]
    fn every_work_runs_on_the_model_and_costs_what_its_pieces_do() {
        let machine = machine();
        let all = model(&machine, "6.1").unwrap();
        assert_eq!(all.len(), Work::ALL.len());
        let of = |wanted: Work| {
            let at = Work::ALL.iter().position(|work| *work == wanted).unwrap();
            *all[at].as_ref().unwrap()
        };
        for work in Work::ALL {
            assert!(of(work) > 0.0 && of(work).is_finite(), "{work:?}: {}", of(work));
        }
        // A message is a call at least, and a large one takes longer.
        assert!(of(Work::TcpStream(1024)) > 500.0);
        assert!(of(Work::TcpStream(1024)) < of(Work::TcpStream(16_384)));
        // 4096 faults of about 700 ns, and their unmapping.
        let fault = of(Work::PageFault1) / 4096.0;
        assert!((500.0..1500.0).contains(&fault), "{fault}");
        // 4096 reads of 4 KiB of about 350 ns, more than the same by 1 MiB.
        let read = of(Work::CachedRead4K) / 4096.0;
        assert!((200.0..1000.0).contains(&read), "{read}");
        assert!(of(Work::CachedRead1M) < of(Work::CachedRead4K));
        assert!(of(Work::ColdRead) > of(Work::CachedRead1M));
        assert_eq!(model(&machine, "6.1").unwrap(), all, "nothing here depends on a clock");
    }
}
