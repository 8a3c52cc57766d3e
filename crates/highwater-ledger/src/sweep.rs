//! The plan of a sweep in its directory (`sweep.json`), and the parts that processes run.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use highwater_plan::experiment::unit::{UnitId, UnitStoreError};
use highwater_plan::plan::{Options, Plan, PlanError, PlannedUnit};
use highwater_results::contents::SWEEP_FILE;
use highwater_results::input;

use crate::ledger::{Ledger, io_error};
use crate::place;

/// Kind and version of the file.
pub const SCHEMA: &str = "highwater.sweep/1";

/// Why a directory is not the one of a sweep.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SweepError {
    /// It cannot be read or written.
    #[error(transparent)]
    Place(#[from] UnitStoreError),
    /// The file is not the JSON of a plan; the reason ends with line and column.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// Another version wrote it.
    #[error("{}: field `schema`: expected \"{SCHEMA}\", found \"{found}\"", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it names.
        found: String,
    },
    /// It has another plan.
    #[error("{}: is of another sweep ({command_line})", path.display())]
    Another {
        /// The file.
        path: PathBuf,
        /// The other sweep.
        command_line: String,
    },
    /// The plan's units cannot be named.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The plan of a sweep: what runs, unit by unit. Every process with an equal plan writes the same
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Kind and version of the file.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Version of Highwater that wrote it.
    pub version: String,
    /// Name of the experiment or job.
    pub experiment: String,
    /// The command that runs the same in one process, word by word.
    pub command_line: Vec<String>,
    /// The options as the text of a plan file, with names of files as the sweep was given them.
    pub plan: String,
    /// Keys that vary, the slowest first; empty if the sweep has one point.
    pub keys: Vec<String>,
    /// Units, point by point: machine by machine, seed by seed, policy by policy, part by part. Two
    /// points may have the same unit.
    pub units: Vec<SweepUnit>,
}

/// A unit: a policy on a machine with a seed, or a part of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepUnit {
    /// Its id: 64 hexadecimal digits. Its file is `units/<id>.parquet`.
    #[serde(with = "id_as_text")]
    #[schemars(with = "String", extend("pattern" = "^[0-9a-f]{64}$"))]
    pub id: UnitId,
    /// Number of its point, from 0.
    pub point: usize,
    /// Values of the keys at the point, as text.
    pub values: Vec<String>,
    /// Name of the machine.
    pub machine: String,
    /// Name of the policy.
    pub policy: String,
    /// Heading of the policy in reports.
    pub label: String,
    /// The seed.
    pub seed: u64,
    /// Number of the part, from 0.
    pub part: usize,
    /// Estimated CPU seconds, right to a factor of 2; missing without an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

mod id_as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::UnitId;

    pub(super) fn serialize<S: Serializer>(id: &UnitId, writer: S) -> Result<S::Ok, S::Error> {
        writer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<UnitId, D::Error> {
        String::deserialize(reader)?.parse().map_err(D::Error::custom)
    }
}

impl Sweep {
    /// The plan that follows from options.
    ///
    /// # Errors
    /// As [`Plan::units`].
    pub fn of(options: &Options, plan: &Plan) -> Result<Sweep, PlanError> {
        // How many run at a time is no part of what runs.
        let options = Options { jobs: None, said: None, ..options.clone() };
        let unit = |unit: PlannedUnit| SweepUnit {
            id: unit.id,
            point: unit.point,
            values: plan.points[unit.point].values.clone(),
            machine: unit.machine,
            policy: unit.policy,
            label: unit.label,
            seed: unit.seed,
            part: unit.part,
            seconds: unit.seconds,
        };
        let experiment = plan.points.first().map(|point| point.run.experiment.name.clone());
        Ok(Sweep {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: experiment.unwrap_or_default(),
            command_line: options.command_line(),
            plan: options.to_toml(),
            keys: plan.keys.clone(),
            units: plan.units()?.into_iter().map(unit).collect(),
        })
    }

    /// The file of a directory.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join(SWEEP_FILE)
    }

    /// Reads the plan of a directory; none if it has none.
    ///
    /// # Errors
    /// If the file cannot be read, or is no plan.
    pub fn read(dir: &Path) -> Result<Option<Sweep>, SweepError> {
        let path = Sweep::path(dir);
        if !path.exists() {
            return Ok(None);
        }
        let text = input::read_text(&path, input::DOCUMENT_BYTES_MAX)
            .map_err(|source| io_error(&path, source))?;
        let sweep: Sweep = match serde_json::from_str(&text) {
            Ok(sweep) => sweep,
            Err(source) => return Err(SweepError::Json { path, source }),
        };
        match sweep.schema == SCHEMA {
            true => Ok(Some(sweep)),
            false => Err(SweepError::Version { path, found: sweep.schema }),
        }
    }

    /// Writes the plan to its directory, unless an equal one is there, and returns that of the
    /// directory. Results that name its command have the same bytes whichever process writes them.
    ///
    /// # Errors
    /// [`SweepError::Another`] if the directory has another plan, unless that is to be replaced; or if
    /// the file cannot be written.
    pub fn keep(&self, ledger: &Ledger, replaces: bool) -> Result<Sweep, SweepError> {
        let path = Sweep::path(ledger.dir());
        let known = match Sweep::read(ledger.dir()) {
            Ok(known) => known,
            // The old plan goes anyway.
            Err(_) if replaces => None,
            Err(error) => return Err(error),
        };
        match known {
            Some(known) if self.is_same(&known) => return Ok(known),
            Some(known) if !replaces => {
                let command_line = known.command_line.join(" ");
                return Err(SweepError::Another { path, command_line });
            }
            _ => {}
        }
        let text = match self.to_text() {
            Ok(text) => text,
            Err(source) => return Err(SweepError::Json { path, source }),
        };
        place::write(ledger.dir(), SWEEP_FILE, text.as_bytes())
            .map_err(|source| io_error(&path, source))?;
        Ok(self.clone())
    }

    /// Whether both run the same units for the same results, in whatever words that was said.
    pub fn is_same(&self, other: &Sweep) -> bool {
        (&self.keys, &self.units) == (&other.keys, &other.units)
    }

    /// The ids of all units, each once.
    pub fn ids(&self) -> BTreeSet<UnitId> {
        self.units.iter().map(|unit| unit.id).collect()
    }

    /// The text of the file: a line for each unit.
    fn to_text(&self) -> Result<String, serde_json::Error> {
        let head = serde_json::to_string_pretty(&Sweep { units: Vec::new(), ..self.clone() })?;
        let lines = self.units.iter().map(serde_json::to_string);
        let lines = lines.collect::<Result<Vec<_>, _>>()?.join(",\n    ");
        let list = match lines.is_empty() {
            true => "[]".to_owned(),
            false => format!("[\n    {lines}\n  ]"),
        };
        // The list is the last key.
        let (head, end) = head.rsplit_once("[]").unwrap_or((&head, ""));
        Ok(format!("{head}{list}{end}\n"))
    }
}

/// A part of the units of a sweep: of `of` processes the one with this number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    number: usize,
    of: usize,
}

/// A text that is no [`Share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be I/N with I from 1 to N: 1/8 is the first of 8 parts")]
pub struct NoShare;

impl FromStr for Share {
    type Err = NoShare;

    fn from_str(text: &str) -> Result<Share, NoShare> {
        let (number, of) = text.split_once('/').ok_or(NoShare)?;
        let [number, of] = [number, of].map(str::parse);
        match (number, of) {
            (Ok(number), Ok(of)) => Share::new(number, of).ok_or(NoShare),
            _ => Err(NoShare),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Share {
    /// All units.
    pub const ALL: Share = Share { number: 1, of: 1 };

    /// Part `number`, from 1, of `of` parts; none if there is no such part.
    pub fn new(number: usize, of: usize) -> Option<Share> {
        (1..=of).contains(&number).then_some(Share { number, of })
    }

    /// Its units of these: those whose rank by id leaves the remainder `number - 1` when it is divided
    /// by the number of parts.
    pub fn part_of(self, ids: &BTreeSet<UnitId>) -> Vec<UnitId> {
        ids.iter().skip(self.number - 1).step_by(self.of).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_in_one_part() {
        let ids: BTreeSet<UnitId> = (0..10).map(|nr| UnitId::of(&nr.to_string())).collect();
        let parts: Vec<Vec<UnitId>> =
            (1..=3).map(|number| Share::new(number, 3).unwrap().part_of(&ids)).collect();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3, 3]);
        assert_eq!(parts.concat().into_iter().collect::<BTreeSet<_>>(), ids);
        assert_eq!(parts[1][0], *ids.iter().nth(1).unwrap());
        assert_eq!(Share::ALL.part_of(&ids).len(), 10);
        assert_eq!("2/3".parse(), Ok(Share { number: 2, of: 3 }));
        for wrong in ["0/2", "3/2", "1", "1/0", "/2", "1/2/3", "-1/2", "a/b", ""] {
            assert_eq!(wrong.parse::<Share>(), Err(NoShare), "{wrong}");
        }
    }
}
