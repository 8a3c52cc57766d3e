//! A job as it is written: files, tasks, phases.

use highwater_sim::cpu::Nice;
use highwater_workloads::jobs::{Arrivals, Spacing};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::plan::DEPTH_MAX;
use super::text::{Amount, PatternText, SpacingText};
use crate::workload::params::{Param, Params, Problem};
use highwater_files::input::size::Bytes;

/// Tasks of one's own: what they do to memory and files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobParams {
    /// Seconds of virtual time after which the job ends, if its tasks have not ended before.
    pub seconds: f64,
    /// Disks that are plugged in for the job, beside those of the machine, written as a machine's are.
    pub disk: Vec<JobDisk>,
    /// Files, as they are on the disk when the job begins; nothing of them is in memory.
    pub file: Vec<JobFile>,
    /// Tasks.
    pub task: Vec<JobTask>,
}

impl Default for JobParams {
    fn default() -> JobParams {
        JobParams { seconds: 10.0, disk: Vec::new(), file: Vec::new(), task: Vec::new() }
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
            field: "disk",
            doc: "Disks that are plugged in for the job, beside those of the machine, written as a machine's are.",
            rules: &[],
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

/// A disk, as a machine's file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobDisk(pub toml::Table);

impl JobDisk {
    /// The name that job files use.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.get("name")?.as_str()
    }
}

impl JsonSchema for JobDisk {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JobDisk".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        highwater_files::schema::machine::disk(generator)
    }
}

/// Keys of a job that are true or false, at any depth.
pub const FLAGS: [&str; 10] = [
    "memory",
    "background",
    "forked",
    "softirq",
    "shared",
    "read-only",
    "write",
    "update",
    "behind",
    "forever",
];

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobFile {
    /// What phases call it.
    pub name: String,
    /// How large it is when the job begins: bytes (`64M`), or a share of memory (`25%`); of `0` it is empty, and grows by what is written.
    pub size: Amount,
    /// How far it may grow; a full file is appended to from its start again, as a log of that size is. Without it a file is as large as
    /// it gets, and one that begins empty has what is left of its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Amount>,
    /// The disk that it is on, one of the machine's or the job's; without it the machine's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// It is in memory, not on a disk, and empty at first: tmpfs, or memory that processes share. It can be swapped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub memory: bool,
}

impl JobFile {
    /// A file that is as large as it gets.
    pub fn new(name: impl Into<String>, size: Amount) -> JobFile {
        JobFile { name: name.into(), size, room: None, disk: None, memory: false }
    }

    /// How large it may be; none: as its disk has room.
    pub(super) fn bound(&self) -> Option<Amount> {
        self.room.or(Some(self.size).filter(|size| !size.is_nothing()))
    }

    /// Appends go behind its end, from the beginning.
    pub(super) fn grows(&self) -> bool {
        self.room.is_some() || self.size.is_nothing()
    }
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
    /// It serves soft interrupts of its CPU (`cpu`, without it 0), as a network card's receive work: it takes its time from the program
    /// that runs there. It may `alloc`, `compute` and `sleep`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub softirq: bool,
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
    /// `map`: how much memory, bytes (`64M`) or a share of the machine's (`25%`); with `file` so much of it from its start, without it the whole file. `truncate`: what is left of the
    /// file; without it nothing.
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
    /// Of `read` also `follow`: what has come to the file since this task last read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternText>,
    /// `advise`: what for. `map`: `hugepage` or `nohugepage`, from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceName>,
    /// `advise` of a file: only what this task has read or written of it since it last said so.
    #[serde(default, skip_serializing_if = "is_false")]
    pub behind: bool,
    /// `alloc`: how; without it `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gfp: Option<GfpName>,
    /// `alloc`: blocks of `2^order` pages; without it single pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub order: Option<u8>,
    /// `alloc`: how many blocks an operation asks for; without it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// `request`: what it does, in order. A step is a phase that is done `times` (without it once) each time; it has no rate of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<JobPhase>,
    /// `compute`, `sleep`: microseconds. `alloc`: for how long the memory is kept; without it it is freed at once.
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
    /// `read`, `write`, `append`, `fsync`, `request`: how many may be under way at once, as asynchronous I/O has them; without it one. Together they do as
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
            behind: false,
            gfp: None,
            order: None,
            count: None,
            step: Vec::new(),
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

    /// It and its steps.
    pub(super) fn all(&self) -> impl Iterator<Item = &JobPhase> {
        std::iter::once(self).chain(&self.step)
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
    /// Reads blocks of the file `of`; in order they go on where this task's last read of it ended.
    Read,
    /// Writes blocks of the file `of`; in order they go on where this task's last write to it ended.
    Write,
    /// Writes a block behind the end of the file `of`, from its start again when it has no more `room`. A file of a fixed size each task
    /// writes over from its start, one block behind the other.
    Append,
    /// Cuts the file `of` to `size`: what lies behind is dropped from memory, written to its disk or not. A shorter file stays as it is.
    Truncate,
    /// Deletes the file `of`: its pages go, written to its disk or not, once no task maps it. The next to open it finds it new and empty.
    Delete,
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
    /// Allocates `count` blocks of the kernel's own memory (`gfp`, `order`), as drivers do, and frees them after `us`. A failure is counted
    /// (`failed`), and is no error.
    Alloc,
    /// Does its `step`s one after the other: `op`, `rate` and `depth` are of the whole.
    Request,
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

/// How the kernel allocates for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GfpName {
    /// `GFP_KERNEL`: it may reclaim and wait.
    Kernel,
    /// `GFP_ATOMIC`: it never waits, and may use a part of the reserves.
    Atomic,
    /// `GFP_NOWAIT`: it never waits.
    Nowait,
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
