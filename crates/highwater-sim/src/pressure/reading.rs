//! Totals, averages, and the texts of `/proc/pressure`.

use std::fmt;

use super::account::{NR_TOLD, Told};

/// Share of an average that is kept from one period to the next: `exp(-2 s / window)`
/// (rules/pressure#averages), for 10, 60 and 300 seconds.
const KEPT: [f64; 3] = [0.818_730_753_077_981_8, 0.967_216_100_482_005_9, 0.993_355_506_255_034_4];
const NS_PER_US: u64 = 1000;

/// The resources that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A CPU.
    Cpu,
    /// Memory.
    Memory,
    /// A device.
    Io,
}

impl Resource {
    /// All resources, in the order of their names.
    pub const ALL: [Resource; 3] = [Resource::Cpu, Resource::Io, Resource::Memory];

    /// The name of its file in `/proc/pressure`.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
            Resource::Io => "io",
        }
    }
}

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Line {
    /// Percent of the time, over the last 10, 60 and 300 seconds.
    pub averages: [f64; 3],
    /// Microseconds since boot.
    pub total_us: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [avg10, avg60, avg300] = self.averages;
        write!(f, "avg10={avg10:.2} avg60={avg60:.2} avg300={avg300:.2} total={}", self.total_us)
    }
}

/// A file; its text ends each line.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Lines {
    /// At least one task waited.
    pub some: Line,
    /// All non-idle tasks waited. For CPUs of the whole machine it is not defined, and 0.
    pub full: Line,
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "some {}", self.some)?;
        writeln!(f, "full {}", self.full)
    }
}

/// Content of the files of `/proc/pressure`, or of the pressure files of a memory cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Reading {
    lines: [Line; NR_TOLD],
}

impl Reading {
    /// The same for the whole machine, of which Linux does not define "full" for CPUs.
    pub(super) fn of_machine(mut self) -> Reading {
        self.lines[Told::CpuFull as usize] = Line::default();
        self
    }

    /// A resource's file.
    pub fn of(&self, resource: Resource) -> Lines {
        let line = |told: Told| self.lines[told as usize];
        match resource {
            Resource::Cpu => Lines { some: line(Told::CpuSome), full: line(Told::CpuFull) },
            Resource::Memory => {
                Lines { some: line(Told::MemorySome), full: line(Told::MemoryFull) }
            }
            Resource::Io => Lines { some: line(Told::IoSome), full: line(Told::IoFull) },
        }
    }
}

/// Totals and averages so far.
#[derive(Debug)]
pub(super) struct Averages {
    /// Begin and end of the period.
    since_ns: u64,
    due_at_ns: u64,
    totals_ns: [u64; NR_TOLD],
    percents: [[f64; 3]; NR_TOLD],
}

impl Averages {
    /// The first period is from `since_ns` to `due_at_ns`.
    pub(super) fn new(since_ns: u64, due_at_ns: u64) -> Averages {
        let (totals_ns, percents) = ([0; NR_TOLD], Default::default());
        Averages { since_ns, due_at_ns, totals_ns, percents }
    }

    pub(super) const fn due_at_ns(&self) -> u64 {
        self.due_at_ns
    }

    /// Updates totals and averages at the end of a period; the next one ends at `next_due_ns`.
    #[doc(alias = "update_averages")]
    #[doc(alias = "calc_avgs")]
    pub(super) fn pass(&mut self, passed_ns: [u64; NR_TOLD], next_due_ns: u64) {
        // A group that is made within a period has a shorter one at first.
        let period_ns = self.due_at_ns.saturating_sub(self.since_ns).max(1);
        (self.since_ns, self.due_at_ns) = (self.due_at_ns, next_due_ns);
        for (told, passed_ns) in passed_ns.into_iter().enumerate() {
            // Includes the work of tasks that ran ahead of the end of the period.
            let percent = 100.0 * passed_ns.min(period_ns) as f64 / period_ns as f64;
            self.totals_ns[told] += passed_ns;
            for (average, kept) in self.percents[told].iter_mut().zip(KEPT) {
                *average = *average * kept + percent * (1.0 - kept);
            }
        }
    }

    /// `passed_ns`: since the last period.
    pub(super) fn read(&self, passed_ns: [u64; NR_TOLD]) -> Reading {
        let mut lines = [Line::default(); NR_TOLD];
        for (told, line) in lines.iter_mut().enumerate() {
            line.averages = self.percents[told];
            line.total_us = (self.totals_ns[told] + passed_ns[told]) / NS_PER_US;
        }
        Reading { lines }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PERIOD_NS;
    use super::*;

    /// Always stalled: after ten seconds the average over ten is 1 - 1/e.
    #[test]
    fn averages_decay_by_their_windows() {
        let mut averages = Averages::new(0, PERIOD_NS);
        let pass = |averages: &mut Averages, passed_ns| {
            averages.pass([passed_ns; NR_TOLD], averages.due_at_ns() + PERIOD_NS);
        };
        for _ in 0..5 {
            pass(&mut averages, PERIOD_NS);
        }
        let lines = averages.read([0; NR_TOLD]).of(Resource::Memory);
        assert_eq!(
            lines.to_string(),
            "some avg10=63.21 avg60=15.35 avg300=3.28 total=10000000\n\
             full avg10=63.21 avg60=15.35 avg300=3.28 total=10000000\n"
        );
        let cpu = averages.read([0; NR_TOLD]).of_machine().of(Resource::Cpu);
        assert_eq!(cpu.full.to_string(), "avg10=0.00 avg60=0.00 avg300=0.00 total=0");
        // 300 seconds of nothing.
        (0..150).for_each(|_| pass(&mut averages, 0));
        let some = averages.read([0; NR_TOLD]).of(Resource::Io).some;
        assert_eq!(some.to_string(), "avg10=0.00 avg60=0.10 avg300=1.21 total=10000000");
    }
}
