//! The estimated size of a plan, reported before it starts.

use std::fmt;

use highwater_results::words::count;

use super::RunPlan;
use highwater_files::machine_file::MachineFile;
use highwater_runs::workload::HostKind;

/// Host memory in bytes for a simulated page frame in use: the measurement on the book's
/// performance page, rounded up.
const BYTES_PER_FRAME: u64 = 56;

/// How much work a plan is. Prints as one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Machines, policies, seeds of each.
    pub shape: [usize; 3],
    /// Runs: a policy on a machine with a seed each.
    pub nr_runs: usize,
    /// Units of work, over all runs.
    pub nr_units: usize,
    /// How many of them run at a time.
    pub jobs: usize,
    /// Real time, within a factor of two; `None`: unknown.
    pub seconds: Option<f64>,
    /// Memory of those that run at a time; `None`: real memory, as large as the machine.
    pub bytes: Option<u64>,
}

impl RunPlan {
    /// Upper limit of the virtual time of all units, in seconds; `None`: unknown.
    pub fn virtual_seconds(&self) -> Option<f64> {
        let per_machine = self.policies.len() * self.experiment.iterations as usize;
        let of_machine = |machine: &MachineFile| {
            let job = self.experiment.job_on(&machine.name);
            let parts = (0..job.units(machine)).map(|part| job.virtual_seconds(machine, part));
            parts.sum::<Option<f64>>().map(|sum| sum * per_machine as f64)
        };
        self.machines.iter().map(of_machine).sum()
    }

    /// How much work this is.
    pub fn work(&self) -> Work {
        let per_machine = self.policies.len() * self.experiment.iterations as usize;
        let (mut nr_units, mut seconds, mut largest) = (0, Some(0.0), 0u64);
        for machine in &self.machines {
            let job = self.experiment.job_on(&machine.name);
            let parts = job.units(machine);
            nr_units += parts * per_machine;
            for part in 0..parts {
                let of_part = job.seconds(machine, part).map(|s| s * per_machine as f64);
                seconds = seconds.zip(of_part).map(|(sum, more)| sum + more);
            }
            largest = largest.max(machine.machine.end_pfn() * BYTES_PER_FRAME);
        }
        let is_simulated = self.host == HostKind::Sim;
        let jobs = if is_simulated { self.jobs.max(1).min(nr_units.max(1)) } else { 1 };
        Work {
            shape: [self.machines.len(), self.policies.len(), self.experiment.iterations as usize],
            nr_runs: self.machines.len() * per_machine,
            nr_units,
            jobs,
            seconds: seconds.filter(|_| is_simulated).map(|s| s / jobs as f64),
            bytes: is_simulated.then(|| largest.saturating_mul(jobs as u64)),
        }
    }
}

impl Work {
    /// This and another one, one after the other.
    #[must_use]
    pub fn and(self, other: Work) -> Work {
        let [machines, policies, seeds] = self.shape;
        let more = other.shape;
        Work {
            // Points of a grid have the same policies and seeds, unless these are varied.
            shape: [machines.max(more[0]), policies.max(more[1]), seeds.max(more[2])],
            nr_runs: self.nr_runs + other.nr_runs,
            nr_units: self.nr_units + other.nr_units,
            jobs: self.jobs.max(other.jobs),
            seconds: self.seconds.zip(other.seconds).map(|(mine, more)| mine + more),
            bytes: self.bytes.zip(other.bytes).map(|(mine, more)| mine.max(more)),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nr_runs = self.nr_runs;
        write!(f, "{} (", count(nr_runs, "run"))?;
        let [machines, policies, seeds] = self.shape;
        write!(f, "{}, ", count(machines, "machine"))?;
        write!(f, "{}, ", count(policies, "policy"))?;
        write!(f, "{})", count(seeds, "seed"))?;
        if self.nr_units != nr_runs {
            write!(f, ", {} in all", count(self.nr_units, "step"))?;
        }
        if self.jobs > 1 {
            write!(f, ", {} at a time", self.jobs)?;
        }
        match self.seconds {
            Some(s) if s < 2.0 => write!(f, "; seconds")?,
            Some(s) if s < 90.0 => write!(f, "; about {s:.0} s")?,
            Some(s) if s < 5400.0 => write!(f, "; about {:.0} min", s / 60.0)?,
            Some(s) => write!(f, "; about {:.1} h", s / 3600.0)?,
            None => {}
        }
        match self.bytes {
            Some(bytes) => write!(f, ", up to {} MiB", bytes.div_ceil(1 << 20)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_one_line() {
        let work = Work {
            shape: [1, 2, 3],
            nr_runs: 6,
            nr_units: 6,
            jobs: 2,
            seconds: Some(12.4),
            bytes: Some(5 << 20),
        };
        let text = "6 runs (1 machine, 2 policies, 3 seeds), 2 at a time; about 12 s, up to 5 MiB";
        assert_eq!(work.to_string(), text);
        let native =
            Work { shape: [1; 3], nr_runs: 1, nr_units: 6, jobs: 1, seconds: None, bytes: None };
        assert_eq!(native.to_string(), "1 run (1 machine, 1 policy, 1 seed), 6 steps in all");
        let long = |seconds| Work { seconds: Some(seconds), ..work }.to_string();
        assert!(long(0.3).contains("; seconds,") && long(7200.0).contains("; about 2.0 h,"));
    }
}
