//! Small programs that were run on a real Linux 6.1 and counted there.
//!
//! Each program makes its files, comes to a quiet moment ([`Moment::Start`]) and goes through its
//! steps; after each the caller reads the counters ([`Moment::Step`]). Sizes are fractions of the
//! machine's memory. What the programs do is told in rules/benchmarks#scenarios; what
//! the real kernel counted is in `reference/linux-6.1/scenarios`.
//!
//! Key types: [`Scenario`] (program and parameters), [`Ground`] (where it runs),
//! [`Baseline`] (what else was in memory).

mod baseline;
mod files;
mod program;

pub use baseline::{Baseline, Held, IdleLists, ZoneFree};
pub use files::Ground;
pub use program::Moment;

use highwater_core::host::{Cx, Devices};
use highwater_core::kernel::Error;
use highwater_core::zone::{MemoryPolicy, NodeId, NodeMask};

/// File sizes and mappings are multiples of this many pages.
const GRAIN: u64 = 256;

/// A program and its parameters: fractions of memory, and counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scenario {
    /// Reads a file over and over.
    Cyclic {
        /// Size of the file.
        file: f64,
        /// Passes.
        passes: u32,
    },
    /// Reads a hot file between passes over a cold one.
    HotCold {
        /// Size of the hot file.
        hot: f64,
        /// Rounds.
        rounds: u32,
        /// Size of the cold file.
        cold: f64,
    },
    /// Touches anonymous memory in order, over and over; unmaps it.
    Anon {
        /// Size of the mapping.
        size: f64,
        /// Passes.
        passes: u32,
    },
    /// Touches random pages of anonymous memory.
    AnonRand {
        /// Size of the mapping.
        size: f64,
        /// Touches per page of it.
        touches: f64,
    },
    /// Touches anonymous memory and reads a file, in turn.
    Mixed {
        /// Size of the mapping.
        anon: f64,
        /// Size of the file.
        file: f64,
        /// Rounds.
        rounds: u32,
    },
    /// Writes random pages of a file, then syncs it.
    RandWrite {
        /// Size of the file.
        file: f64,
        /// Writes per page of it.
        writes: f64,
    },
    /// Breaks memory up, fills it with a file, then writes memory for which huge pages are asked.
    Thp {
        /// Size of that memory.
        anon: f64,
        /// Size of the file; 0 = none.
        cache: f64,
        /// Memory that is touched, and then given back but for every eighth page; 0 = none.
        fragment: f64,
    },
    /// Breaks memory up, reads a file into the holes, and has everything compacted, twice.
    CompactManual {
        /// Memory that is touched, and then given back in part.
        fragment: f64,
        /// Of that, one page in so many stays.
        stride: u32,
        /// Size of the file; 0 = none.
        cache: f64,
    },
    /// Breaks memory up, sets `vm.compaction_proactiveness` and looks on for 20 seconds.
    CompactProactive {
        /// Memory that is touched, and then given back in part.
        fragment: f64,
        /// Of that, one page in so many stays.
        stride: u32,
        /// What the sysctl is set to, percent.
        percent: u32,
    },
    /// As `Thp`, with or without advice; and what there is three seconds later.
    CompactThp {
        /// Size of the memory.
        anon: f64,
        /// Memory that is touched, and then given back but for every eighth page; 0 = none.
        fragment: f64,
        /// Size of the file; 0 = none.
        cache: f64,
        /// Huge pages are asked for.
        advise: bool,
    },
    /// Touches anonymous memory twice under a memory policy; unmaps it.
    NumaAnon {
        /// Size of the mapping.
        size: f64,
        /// Where its memory is to come from.
        policy: NumaMode,
    },
    /// Reads a file, touches anonymous memory, and does both again.
    NumaFileAnon {
        /// Size of the file.
        file: f64,
        /// Size of the mapping.
        anon: f64,
    },
    /// Maps a file, reads each page of it, unmaps it; streams another; does it again.
    Zap {
        /// Size of the mapped file.
        file: f64,
        /// Times.
        maps: u32,
        /// Size of the other one.
        cold: f64,
    },
}

/// The memory policy of a program, by Linux's number of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaMode {
    /// 0, 4: local.
    Local,
    /// 1: node 1 first.
    Preferred,
    /// 2: node 1 only.
    Bind,
    /// 3: all nodes in turn.
    Interleave,
    /// 5: node 1 first, as a set.
    PreferredMany,
}

impl NumaMode {
    const ALL: [NumaMode; 6] = [
        NumaMode::Local,
        NumaMode::Preferred,
        NumaMode::Bind,
        NumaMode::Interleave,
        NumaMode::Local,
        NumaMode::PreferredMany,
    ];

    /// As the kernel is told.
    fn policy(self) -> MemoryPolicy {
        let second = NodeId(1);
        match self {
            NumaMode::Local => MemoryPolicy::Default,
            NumaMode::Preferred => MemoryPolicy::Preferred(second),
            NumaMode::Bind => MemoryPolicy::Bind(NodeMask::of(second)),
            NumaMode::Interleave => MemoryPolicy::Interleave(NodeMask::ALL),
            NumaMode::PreferredMany => MemoryPolicy::PreferredMany(NodeMask::of(second)),
        }
    }
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// No such program.
    #[error(
        "no program \"{0}\" (known: cyclic, hotcold, anon, anonrand, mixed, randwrite, thp, compact-manual, compact-proactive, compact-thp, numa-anon, numa-policy, numa-fileanon, zap)"
    )]
    Unknown(String),
    /// Parameters that the program does not have.
    #[error("{name} takes {expected} parameters, not {found}")]
    Count {
        /// The program.
        name: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// A parameter out of range.
    #[error("parameter {index} of {name}: {value} is not {wanted}")]
    Range {
        /// The program.
        name: &'static str,
        /// Which one, from 0.
        index: usize,
        /// Its value.
        value: f64,
        /// What it has to be.
        wanted: &'static str,
    },
    /// A call failed.
    #[error("{doing}: {error}")]
    Call {
        /// What the program did.
        doing: &'static str,
        /// Why it failed.
        error: Error,
    },
    /// The files do not fit the disk.
    #[error("a file of {0} pages does not fit the disk")]
    DiskFull(u64),
}

/// Most passes, rounds or maps: a bound on how long a bad file can keep us busy.
const COUNT_MAX: f64 = 10_000.0;
/// Most memory sizes that a file or mapping may have.
const SIZE_MAX: f64 = 64.0;

impl Scenario {
    /// A program by the name and parameters of a captured file.
    ///
    /// # Errors
    /// If there is no such program, or a parameter makes no sense.
    pub fn new(name: &str, params: &[f64]) -> Result<Scenario, ScenarioError> {
        let parse = |name: &'static str, expected: usize| {
            let found = params.len();
            let count_error = ScenarioError::Count { name, expected, found };
            if found == expected { Ok(Params { name, values: params }) } else { Err(count_error) }
        };
        Ok(match name {
            "cyclic" => {
                let p = parse("cyclic", 2)?;
                Scenario::Cyclic { file: p.size(0)?, passes: p.count(1)? }
            }
            "hotcold" => {
                let p = parse("hotcold", 3)?;
                Scenario::HotCold { hot: p.size(0)?, rounds: p.count(1)?, cold: p.size(2)? }
            }
            "anon" => {
                let p = parse("anon", 2)?;
                Scenario::Anon { size: p.size(0)?, passes: p.count(1)? }
            }
            "anonrand" => {
                let p = parse("anonrand", 2)?;
                Scenario::AnonRand { size: p.size(0)?, touches: p.size(1)? }
            }
            "mixed" => {
                let p = parse("mixed", 3)?;
                Scenario::Mixed { anon: p.size(0)?, file: p.size(1)?, rounds: p.count(2)? }
            }
            "randwrite" => {
                let p = parse("randwrite", 2)?;
                Scenario::RandWrite { file: p.size(0)?, writes: p.size(1)? }
            }
            "thp" => {
                let p = parse("thp", 3)?;
                Scenario::Thp { anon: p.size(0)?, cache: p.part(1)?, fragment: p.part(2)? }
            }
            "compact-manual" => {
                let p = parse("compact-manual", 3)?;
                let (fragment, stride) = (p.size(0)?, p.count(1)?);
                Scenario::CompactManual { fragment, stride, cache: p.part(2)? }
            }
            "compact-proactive" => {
                let p = parse("compact-proactive", 3)?;
                let (fragment, stride) = (p.size(0)?, p.count(1)?);
                Scenario::CompactProactive { fragment, stride, percent: p.percent(2)? }
            }
            "compact-thp" => {
                let p = parse("compact-thp", 4)?;
                let (anon, fragment, cache) = (p.size(0)?, p.part(1)?, p.part(2)?);
                Scenario::CompactThp { anon, fragment, cache, advise: p.percent(3)? != 0 }
            }
            "numa-anon" => {
                let p = parse("numa-anon", 1)?;
                Scenario::NumaAnon { size: p.size(0)?, policy: NumaMode::Local }
            }
            "numa-policy" => {
                let p = parse("numa-policy", 2)?;
                Scenario::NumaAnon { size: p.size(0)?, policy: p.mode(1)? }
            }
            "numa-fileanon" => {
                let p = parse("numa-fileanon", 2)?;
                Scenario::NumaFileAnon { file: p.size(0)?, anon: p.size(1)? }
            }
            "zap" => {
                let p = parse("zap", 3)?;
                Scenario::Zap { file: p.size(0)?, maps: p.count(1)?, cold: p.size(2)? }
            }
            other => return Err(ScenarioError::Unknown(other.to_owned())),
        })
    }

    /// Runs the program in the calling task.
    ///
    /// # Errors
    /// If a call fails: what was done before stands.
    pub fn run<H: Devices>(
        &self,
        ground: &Ground<'_, H>,
        cx: &Cx<'_, H>,
        at: &mut dyn FnMut(Moment<'_>),
    ) -> Result<(), ScenarioError> {
        program::run(self, ground, cx, at)
    }
}

struct Params<'a> {
    name: &'static str,
    values: &'a [f64],
}

impl Scenario {
    /// The program keeps to the CPUs of the first node.
    pub fn is_on_first_node(&self) -> bool {
        matches!(self, Scenario::NumaAnon { .. } | Scenario::NumaFileAnon { .. })
    }
}

impl Params<'_> {
    fn size(&self, index: usize) -> Result<f64, ScenarioError> {
        let value = self.values[index];
        let ok = value.is_finite() && value > 0.0 && value <= SIZE_MAX;
        ok.then_some(value).ok_or_else(|| self.range(index, "above 0 and at most 64"))
    }

    /// A size that may be nothing.
    fn part(&self, index: usize) -> Result<f64, ScenarioError> {
        if self.values[index] == 0.0 { Ok(0.0) } else { self.size(index) }
    }

    fn count(&self, index: usize) -> Result<u32, ScenarioError> {
        let value = self.values[index];
        let ok = value.fract() == 0.0 && (1.0..=COUNT_MAX).contains(&value);
        ok.then_some(value as u32)
            .ok_or_else(|| self.range(index, "a whole number between 1 and 10000"))
    }

    fn percent(&self, index: usize) -> Result<u32, ScenarioError> {
        let value = self.values[index];
        let ok = value.fract() == 0.0 && (0.0..=100.0).contains(&value);
        ok.then_some(value as u32)
            .ok_or_else(|| self.range(index, "a whole number between 0 and 100"))
    }

    fn mode(&self, index: usize) -> Result<NumaMode, ScenarioError> {
        let value = self.values[index];
        let mode = (value.fract() == 0.0 && value >= 0.0).then_some(value as usize);
        mode.and_then(|mode| NumaMode::ALL.get(mode).copied())
            .ok_or_else(|| self.range(index, "a policy's number, 0 to 5"))
    }

    fn range(&self, index: usize, wanted: &'static str) -> ScenarioError {
        ScenarioError::Range { name: self.name, index, value: self.values[index], wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked() {
        let cyclic = Scenario::new("cyclic", &[0.8, 3.0]);
        assert_eq!(cyclic, Ok(Scenario::Cyclic { file: 0.8, passes: 3 }));
        let error = |name: &str, params: &[f64]| {
            Scenario::new(name, params).expect_err("bad parameters").to_string()
        };
        assert_eq!(
            error("zap", &[0.3, 1.5, 1.0]),
            "parameter 1 of zap: 1.5 is not a whole number between 1 and 10000"
        );
        assert_eq!(
            error("anon", &[0.0, 1.0]),
            "parameter 0 of anon: 0 is not above 0 and at most 64"
        );
        assert_eq!(error("mixed", &[0.5]), "mixed takes 3 parameters, not 1");
        let thp = Scenario::new("thp", &[0.3, 0.0, 0.6]);
        assert_eq!(thp, Ok(Scenario::Thp { anon: 0.3, cache: 0.0, fragment: 0.6 }));
        assert!(error("thp", &[0.0, 0.0, 0.6]).contains("is not above 0"));
        assert!(error("thb", &[0.3, 0.0, 0.6]).starts_with("no program \"thb\""));
    }
}
