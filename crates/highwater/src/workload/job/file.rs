//! A job as it is written: files, tasks, phases.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use highwater_sim::cpu::Nice;
use highwater_workloads::jobs::{Arrivals, Pattern, Spacing};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::plan::DEPTH_MAX;
use crate::workload::params::{Bytes, Param, Params, Problem};

/// Tasks of one's own: what they do to memory and files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobParams {
    /// Seconds of virtual time after which the job ends, if its tasks have not ended before.
    pub seconds: f64,
    /// Files, as they are on the disk when the job begins; nothing of them is in memory.
    pub file: Vec<JobFile>,
    /// Tasks.
    pub task: Vec<JobTask>,
}

impl Default for JobParams {
    fn default() -> JobParams {
        JobParams { seconds: 10.0, file: Vec::new(), task: Vec::new() }
    }
}

impl Params for JobParams {
    const PARAMS: &'static [Param] = &[
        Param {
            field: "seconds",
            doc: "Seconds of virtual time after which the job ends, if its tasks have not ended before.",
            rules: &["must be above 0"],
        },
        Param {
            field: "file",
            doc: "Files, as they are on the disk when the job begins; nothing of them is in memory.",
            rules: &[],
        },
        Param { field: "task", doc: "Tasks.", rules: &[] },
    ];

    fn problem(&self) -> Option<Problem> {
        super::plan::problem(self)
    }
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobFile {
    /// What phases call it.
    pub name: String,
    /// How large it is: bytes (`64M`), or a share of memory (`25%`).
    pub size: Amount,
    /// It is in memory, not on a disk, and empty at first: tmpfs, or memory that processes share. It can be swapped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub memory: bool,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobTask {
    /// What it is called, in results too.
    pub name: String,
    /// How many of it run at once.
    #[serde(default = "one")]
    pub count: u32,
    /// How often it goes through its phases; without it once. 0: until the job ends.
    #[serde(default = "once")]
    pub rounds: u64,
    /// The job does not wait for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub background: bool,
    /// It does not begin with the job: a phase of another task forks it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forked: bool,
    /// The CPU that it runs on; its copies run on those after that, and from CPU 0 on again. Without it any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u16>,
    /// The node whose CPUs it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// How much it gives way to others that want its CPU: each step is a factor of 1.25 between their shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *Nice::RANGE.start(), max = *Nice::RANGE.end()))]
    pub nice: Option<i8>,
    /// Its memory cgroup. There are none yet: a task that names one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it does, in order.
    pub phase: Vec<JobPhase>,
}

/// A phase: one thing, done so often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobPhase {
    /// What it does.
    #[serde(rename = "do")]
    pub action: Do,
    /// The area, file or task that it does it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// What its operations are called in results; without it nobody measures them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// `map`: how much memory, bytes (`64M`) or a share of the machine's (`25%`); without it `file` is mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amount>,
    /// `map`: the file that is mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// `map`: what is written goes to the file.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// `map`: it is only read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// `map`: it begins at a multiple of this many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Bytes>,
    /// `touch`: to write, not to read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub write: bool,
    /// `touch`: to read and to write back, as `x += 1` does.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update: bool,
    /// `read`, `write`, `append`: bytes of a block; without it 64K.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// `touch`, `read`, `write`: which pages or blocks: `sequential` (the default), `stride N`, `except N` (all but every N-th), `uniform`,
    /// `zipf EXPONENT`, `hot SHARE ACCESSES`, `drift SHARE EVERY`, `jump SHARE EVERY`, `chase`. `advise` with one says it page by page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternText>,
    /// `advise`: what for. `map`: `hugepage` or `nohugepage`, from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceName>,
    /// `compute`, `sleep`: microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<f64>,
    /// `set`: the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
    /// How many times. Without any of `times`, `passes`, `seconds` and `forever`: as often as there are pages or blocks, else once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// So many times as often as there are pages or blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<f64>,
    /// For how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Until the job ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forever: bool,
    /// Operations a second, whether or not those before have ended (an open loop); latency counts from the moment of arrival. Without it each
    /// begins when the one before has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How they arrive: `poisson` (the default), `steady`, `bursts N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<SpacingText>,
    /// `read`, `write`, `append`, `fsync`: how many may be under way at once, as asynchronous I/O has them; without it one. Together they do as
    /// much as one alone would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DEPTH_MAX))]
    pub depth: Option<u32>,
    /// Only in the task's `first` round, or in its `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
}

impl JobPhase {
    /// A phase that says no more than what it does.
    pub fn new(action: Do) -> JobPhase {
        JobPhase {
            action,
            of: None,
            op: None,
            size: None,
            file: None,
            shared: false,
            read_only: false,
            align: None,
            write: false,
            update: false,
            bytes: None,
            pattern: None,
            advice: None,
            us: None,
            value: None,
            times: None,
            passes: None,
            seconds: None,
            forever: false,
            rate: None,
            arrivals: None,
            depth: None,
            only: None,
        }
    }

    /// When operations of an open loop begin.
    pub(super) fn arrivals(&self) -> Option<Arrivals> {
        let spacing = self.arrivals.map_or(Spacing::Poisson, |text| text.0);
        self.rate.map(|rate| Arrivals { rate, spacing })
    }
}

/// A round of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    /// The first.
    First,
    /// The last; of tasks that go on until the job ends there is none.
    Last,
}

const fn one() -> u32 {
    1
}

const fn once() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(is: &bool) -> bool {
    !*is
}

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Do {
    /// Maps memory of its own (`size`), or a file (`file`), as the area `of`.
    Map,
    /// Unmaps the area `of`.
    Unmap,
    /// Touches pages of the area `of`.
    Touch,
    /// Reads blocks of the file `of`.
    Read,
    /// Writes blocks of the file `of`.
    Write,
    /// Writes blocks of the file `of` one behind the other, from its start again when it is full.
    Append,
    /// Has the file `of` written to its disk.
    Fsync,
    /// Says what the area or file `of` will be used for (`advice`).
    Advise,
    /// Locks the area `of` into memory.
    Lock,
    /// Takes that back.
    Unlock,
    /// Starts another program: all areas are gone.
    Exec,
    /// Ends the task now, whatever would come; with `only = "last"` or `"first"` in that round.
    Exit,
    /// Starts the task `of` with a copy of this one's memory, and goes on.
    Fork,
    /// Has the CPU for `us`, and uses no memory.
    Compute,
    /// Sleeps for `us`.
    Sleep,
    /// Waits until all copies of the task `of` have ended.
    Wait,
    /// Has all memory compacted, as writing to `/proc/sys/vm/compact_memory` does.
    Compact,
    /// Drops clean caches, as writing `value` to `/proc/sys/vm/drop_caches` does: 1 the page cache, 2 inodes, dentries and
    /// other slab, 3 both. What is dirty stays.
    DropCaches,
    /// Sets the sysctl `of` to `value`: `vm.compaction_proactiveness`, or `vm.drop_caches` (the same as `drop-caches`).
    Set,
    /// Sets the task's memory policy to `of`: `local`, `bind NODES`, `interleave NODES`, `preferred NODE`, `preferred-many NODES`; nodes
    /// are `0,2`, or `all`.
    Policy,
    /// A step is over that is called `of`: counters are told of each step. `{n}` in it is the number of the round, `{2n}` twice that. Without
    /// `of` the first step begins; what was before is no step's.
    Mark,
}

impl Do {
    /// As it is written.
    pub(super) fn name(self) -> String {
        // A word in kebab case: all of them have that form.
        toml::Value::try_from(self)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// What memory or a file will be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceName {
    /// As usual.
    Normal,
    /// In order.
    Sequential,
    /// At random: no readahead.
    Random,
    /// Soon: a file is read now.
    Willneed,
    /// Not any more: memory is unmapped, a file's pages are dropped.
    Dontneed,
    /// Its contents may be dropped (memory).
    Free,
    /// Not soon (memory).
    Cold,
    /// It is reclaimed now (memory).
    Pageout,
    /// Huge pages (memory).
    Hugepage,
    /// No huge pages (memory).
    Nohugepage,
}

/// Bytes, or a share of the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many.
    Bytes(u64),
    /// Such a share.
    Share(f64),
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        let Some(percent) = text.trim().strip_suffix('%') else {
            return crate::input::size::parse_size(text).map(Amount::Bytes);
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=6400.0).contains(&percent) => Ok(Amount::Share(percent / 100.0)),
            _ => Err(format!("\"{text}\" is no share of memory, as \"25%\" is")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Bytes(bytes) => f.write_str(&crate::input::size::size_text(*bytes)),
            Amount::Share(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

/// A pattern, as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatternText(pub Pattern);

impl FromStr for PatternText {
    type Err = String;

    fn from_str(text: &str) -> Result<PatternText, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let numbers: Vec<&str> = words.collect();
        let number = |at: usize, what: &str| -> Result<f64, String> {
            let value = numbers.get(at).and_then(|word| word.parse().ok());
            value
                .filter(|value: &f64| value.is_finite() && *value > 0.0)
                .ok_or_else(|| format!("\"{text}\": {name} wants {what}, a number above 0"))
        };
        let share = |at: usize, what: &str| {
            let share = number(at, what)?;
            (share <= 1.0)
                .then_some(share)
                .ok_or_else(|| format!("\"{text}\": {what} is at most 1"))
        };
        let (pattern, wanted) = match name {
            "sequential" => (Pattern::Sequential, 0),
            "uniform" => (Pattern::Uniform, 0),
            "chase" => (Pattern::Chase, 0),
            "stride" => (Pattern::Strided(number(0, "how many")? as u64), 1),
            "except" => (Pattern::Except(number(0, "how many")? as u64), 1),
            "zipf" => (Pattern::Zipf(number(0, "its exponent")?), 1),
            "hot" => {
                let (share, accesses) = (share(0, "the hot share")?, share(1, "its accesses")?);
                (Pattern::Hot { share, accesses }, 2)
            }
            "drift" | "jump" => {
                let (share, every) = (share(0, "the window")?, number(1, "accesses")? as u64);
                match name {
                    "drift" => (Pattern::Drift { share, every }, 2),
                    _ => (Pattern::Jump { share, every }, 2),
                }
            }
            other => {
                let known = [
                    "sequential",
                    "stride",
                    "except",
                    "uniform",
                    "zipf",
                    "hot",
                    "drift",
                    "jump",
                    "chase",
                ];
                return Err(crate::input::names::unknown("pattern", other, &known));
            }
        };
        match numbers.len() == wanted {
            true => Ok(PatternText(pattern)),
            false => Err(format!("\"{text}\": {name} takes {wanted} numbers")),
        }
    }
}

impl fmt::Display for PatternText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Pattern::Sequential => f.write_str("sequential"),
            Pattern::Strided(n) => write!(f, "stride {n}"),
            Pattern::Except(n) => write!(f, "except {n}"),
            Pattern::Uniform => f.write_str("uniform"),
            Pattern::Zipf(exponent) => write!(f, "zipf {exponent}"),
            Pattern::Hot { share, accesses } => write!(f, "hot {share} {accesses}"),
            Pattern::Drift { share, every } => write!(f, "drift {share} {every}"),
            Pattern::Jump { share, every } => write!(f, "jump {share} {every}"),
            Pattern::Chase => f.write_str("chase"),
        }
    }
}

/// How operations arrive, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpacingText(pub Spacing);

impl FromStr for SpacingText {
    type Err = String;

    fn from_str(text: &str) -> Result<SpacingText, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["poisson"] => Ok(SpacingText(Spacing::Poisson)),
            ["steady"] => Ok(SpacingText(Spacing::Steady)),
            ["bursts", n] => match n.parse() {
                Ok(n) if n > 0 => Ok(SpacingText(Spacing::Bursts(n))),
                _ => Err(format!("\"{text}\": of how many operations is a burst?")),
            },
            _ => Err(format!("\"{text}\": arrivals are poisson, steady or bursts N")),
        }
    }
}

impl fmt::Display for SpacingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Spacing::Poisson => f.write_str("poisson"),
            Spacing::Steady => f.write_str("steady"),
            Spacing::Bursts(n) => write!(f, "bursts {n}"),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Bytes(_) => serializer.collect_str(self),
            // Whole percents as they are written; others exactly.
            Amount::Share(share) => match self.to_string().parse() == Ok(*self) {
                true => serializer.collect_str(self),
                false => serializer.serialize_f64(*share),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        struct Reader;

        impl de::Visitor<'_> for Reader {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes, as \"64M\", or a share of memory, as \"25%\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Amount, E> {
                match (0.0..=64.0).contains(&share) {
                    true => Ok(Amount::Share(share)),
                    false => Err(E::custom(format!("{share} is no share of memory, as 0.25 is"))),
                }
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "Bytes, as `64M`, or a share of the machine's memory, as `25%` or 0.25; shares are whole MiB.";
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "number", "minimum": 0, "maximum": 64 }], "description": about })
    }
}

/// Reads and writes a type as its text.
macro_rules! as_text {
    ($($type:ident: $about:literal,)*) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $about })
            }
        }
    )* };
}

as_text! {
    PatternText: "A pattern and its numbers, as `zipf 0.99`.",
    SpacingText: "`poisson`, `steady`, or `bursts N`.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in [
            "sequential",
            "stride 8",
            "except 8",
            "zipf 0.99",
            "hot 0.1 0.9",
            "drift 0.2 100",
            "jump 0.2 5",
            "chase",
        ] {
            assert_eq!(text.parse::<PatternText>().unwrap().to_string(), text);
        }
        for text in ["poisson", "steady", "bursts 12"] {
            assert_eq!(text.parse::<SpacingText>().unwrap().to_string(), text);
        }
        assert_eq!("25%".parse(), Ok(Amount::Share(0.25)));
        for (text, amount) in [("64M", Amount::Bytes(64 << 20)), ("150%", Amount::Share(1.5))] {
            assert_eq!((text.parse(), amount.to_string()), (Ok(amount), text.to_owned()));
        }
    }

    #[test]
    fn what_is_none_says_what_would_be() {
        let pattern = |text: &str| text.parse::<PatternText>().unwrap_err();
        assert!(pattern("zipff 1").contains("did you mean zipf?"), "{}", pattern("zipff 1"));
        assert_eq!(pattern("zipf"), "\"zipf\": zipf wants its exponent, a number above 0");
        assert_eq!(pattern("hot 1.5 0.5"), "\"hot 1.5 0.5\": the hot share is at most 1");
        assert_eq!(pattern("uniform 3"), "\"uniform 3\": uniform takes 0 numbers");
        assert!("bursts x".parse::<SpacingText>().unwrap_err().contains("of how many"));
        assert!("-1%".parse::<Amount>().unwrap_err().contains("no share"));
        // As a fraction, too: what captured files have.
        let phase: JobPhase = toml::from_str("do = \"map\"\nsize = 1.3\n").unwrap();
        assert_eq!(phase.size, Some(Amount::Share(1.3)));
        assert!(toml::from_str::<JobPhase>("do = \"map\"\nsize = -1.0\n").is_err());
    }
}
