//! A job as it is written: files, tasks, phases.

use highwater_sim::cpu::Nice;
use highwater_workloads::jobs::{Arrivals, Spacing};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::group::{JobGroup, MountOption};
use super::group_settings::{GroupVersion, SettingName};
use super::plan::DEPTH_MAX;
use super::text::{Amount, PatternText, SpacingText};
use crate::workload::params::{Param, Params, Problem};
use highwater_files::input::size::Bytes;

/// Your own tasks: what they do with memory and files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobParams {
    /// Seconds of virtual time after which the job ends, if its tasks have not ended before.
    pub seconds: f64,
    /// Disks that the job adds to those of the machine, in the format of a machine file.
    pub disk: Vec<JobDisk>,
    /// Files on the disk when the job begins; none of their pages is in memory.
    pub file: Vec<JobFile>,
    /// Memory cgroups.
    // Results of jobs without any keep their bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<JobGroup>,
    /// Version of the hierarchy that the groups are in: 2, or 1, whose groups have `limit`,
    /// `memsw-limit`, `soft-limit`, `swappiness` and `oom-control`.
    #[serde(skip_serializing_if = "GroupVersion::is_default")]
    pub group_version: GroupVersion,
    /// Options with which memory cgroups are mounted. `memory_recursiveprot` (since 5.7):
    /// protection that no child claims goes to the children's unclaimed usage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group_mount: Vec<MountOption>,
    /// Tasks.
    pub task: Vec<JobTask>,
}

impl Default for JobParams {
    fn default() -> JobParams {
        JobParams {
            seconds: 10.0,
            disk: Vec::new(),
            file: Vec::new(),
            group: Vec::new(),
            group_version: GroupVersion::V2,
            group_mount: Vec::new(),
            task: Vec::new(),
        }
    }
}

impl Params for JobParams {
    const PARAMS: &'static [Param] = &[
        Param {
            field: "seconds",
            doc: "Seconds of virtual time after which the job ends, if its tasks have not ended before.",
            rules: &["must be above 0"],
            left_out: None,
        },
        Param {
            field: "disk",
            doc: "Disks that the job adds to those of the machine, in the format of a machine file.",
            rules: &[],
            left_out: None,
        },
        Param {
            field: "file",
            doc: "Files on the disk when the job begins; none of their pages is in memory.",
            rules: &[],
            left_out: None,
        },
        Param { field: "group", doc: "Memory cgroups.", rules: &[], left_out: None },
        Param {
            field: "group_version",
            doc: "Version of the hierarchy that the groups are in: 2, or 1, whose groups have `limit`, `memsw-limit`, `soft-limit`, `swappiness` and `oom-control`.",
            rules: &[],
            left_out: Some(2),
        },
        Param {
            field: "group_mount",
            doc: "Options with which memory cgroups are mounted. `memory_recursiveprot` (since 5.7): protection that no child claims goes to the children's unclaimed usage.",
            rules: &[],
            left_out: None,
        },
        Param { field: "task", doc: "Tasks.", rules: &[], left_out: None },
    ];

    fn problem(&self) -> Option<Problem> {
        super::plan::problem(self)
    }
}

/// A disk, in the format of a machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobDisk(pub toml::Table);

impl JobDisk {
    /// Name that phases use.
    pub(super) fn name(&self) -> Option<&str> {
        self.0.get("name")?.as_str()
    }
}

impl JsonSchema for JobDisk {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JobDisk".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        highwater_files::machine_file::schema::disk(generator)
    }
}

/// Keys of a job that are true or false, at any depth.
pub const FLAGS: [&str; 14] = [
    "memory",
    "background",
    "forked",
    "softirq",
    "shared",
    "read-only",
    "zeros",
    "write",
    "update",
    "behind",
    "no-wait",
    "forever",
    "oom-group",
    "oom-control",
];

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobFile {
    /// What phases call it.
    pub name: String,
    /// Size when the job begins: bytes (`64M`) or a share of memory (`25%`). A file of size `0` is
    /// empty and grows with what is written.
    pub size: Amount,
    /// Size up to which the file may grow; appends to a full file start again at its beginning, as
    /// in a log of that size. Without it the file keeps its size, and one that begins empty may use
    /// what is left of its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Amount>,
    /// Disk that holds the file, one of the machine's or the job's; default: the machine's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The file is in memory, not on a disk, and empty at first: tmpfs, or memory that processes
    /// share. It can be swapped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub memory: bool,
}

impl JobFile {
    /// A file of a fixed size.
    pub fn new(name: impl Into<String>, size: Amount) -> JobFile {
        JobFile { name: name.into(), size, room: None, disk: None, memory: false }
    }

    /// Largest size; none: only its disk limits it.
    pub(super) fn bound(&self) -> Option<Amount> {
        self.room.or(Some(self.size).filter(|size| !size.is_nothing()))
    }

    /// Whether appends go behind its end from the start.
    pub(super) fn grows(&self) -> bool {
        self.room.is_some() || self.size.is_nothing()
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobTask {
    /// Name of the task, also in results.
    pub name: String,
    /// Number of copies that run at once.
    #[serde(default = "one")]
    pub count: u32,
    /// Times that the task goes through its phases; default: once. 0: until the job ends.
    #[serde(default = "once")]
    pub rounds: u64,
    /// The job does not wait for the task to end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub background: bool,
    /// The task does not start with the job: a phase of another task forks it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forked: bool,
    /// CPU that the task runs on; its copies run on the following CPUs, and then from CPU 0 on
    /// again. Default: any CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u16>,
    /// Node on whose CPUs the task runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    /// Nice value: each step changes the task's share of a contended CPU by a factor of 1.25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *Nice::RANGE.start(), max = *Nice::RANGE.end()))]
    pub nice: Option<i8>,
    /// Memory cgroup that the task joins before its first phase; default: the root, of a forked
    /// task the group of its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The task serves soft interrupts of its CPU (`cpu`, default: 0), such as a network card's
    /// receive work: it takes its time from the program that runs there. It may `alloc`, `compute`
    /// and `sleep`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub softirq: bool,
    /// Phases of the task, in order.
    pub phase: Vec<JobPhase>,
}

/// A phase: one action, done a number of times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobPhase {
    /// Action of the phase.
    #[serde(rename = "do")]
    pub action: Do,
    /// Mapping, file, task or group that the action applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Name of the phase's operations in results; without it they are not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// `map`: size in bytes (`64M`) or as a share of the machine's memory (`25%`); with `file` that
    /// much of the file from its start, by default the whole file. `truncate`: size that the file
    /// keeps; default: 0. `set-group`: the value, as in a `[[group]]`. `reclaim`: how much; a share
    /// is one of the group's parent, as in a `[[group]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amount>,
    /// `map`: file that is mapped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// `map`: writes go to the file.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
    /// `map`: the mapping is only read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// `map`: the task stores only zeros there, and later kernels swap such pages without I/O.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zeros: bool,
    /// `map`: the mapping begins at a multiple of this many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Bytes>,
    /// `touch`: writes instead of reads.
    #[serde(default, skip_serializing_if = "is_false")]
    pub write: bool,
    /// `touch`: reads and writes back, as `x += 1` does.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update: bool,
    /// `read`, `write`, `append`: bytes of a block; `send`, `receive`: bytes of a call. Default:
    /// 64K.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// `touch`, `read`, `write`: choice of pages or blocks: `sequential` (the default), `stride N`,
    /// `except N` (all but every N-th), `uniform`, `zipf EXPONENT`, `hot SHARE ACCESSES`, `drift
    /// SHARE EVERY`, `jump SHARE EVERY`, `chase`. `advise` with a pattern advises page by page.
    /// `read` also has `follow`: what was added to the file since this task last read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<PatternText>,
    /// `advise`: the advice. `map`: `hugepage` or `nohugepage`, from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceName>,
    /// `advise` of a file: only what this task has read or written of it since its last advice.
    #[serde(default, skip_serializing_if = "is_false")]
    pub behind: bool,
    /// `send`: does not wait for room in the send buffer; what does not fit is not sent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_wait: bool,
    /// `alloc`: GFP flags; default: `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gfp: Option<GfpName>,
    /// `alloc`: blocks of `2^order` pages; default: single pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub order: Option<u8>,
    /// `alloc`: blocks that an operation allocates; default: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// `request`: its steps, in order. A step is a phase that is done `times` (default: once) in
    /// each request; it has no rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<JobPhase>,
    /// `compute`, `sleep`: microseconds. `alloc`: microseconds until the memory is freed; default:
    /// it is freed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<f64>,
    /// `set-group`: the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<SettingName>,
    /// `set`: the value. `set-group` of `oom-group` and `oom-control`: 1 or 0; of `swappiness`: 0
    /// to 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
    /// Number of operations. Without any of `times`, `passes`, `seconds` and `forever`: as many as
    /// there are pages or blocks, else one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Number of operations, as a multiple of the number of pages or blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<f64>,
    /// Seconds that the phase lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The phase lasts until the job ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub forever: bool,
    /// Operations a second, whether or not earlier ones have ended (an open loop); latency counts
    /// from the moment of arrival. Without it each operation begins when the one before has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Spacing of arrivals: `poisson` (the default), `steady`, `bursts N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<SpacingText>,
    /// `read`, `write`, `append`, `fsync`, `request`: operations that may be in flight at once, as
    /// with asynchronous I/O; default: one. Together they do as much as one alone would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DEPTH_MAX))]
    pub depth: Option<u32>,
    /// The phase is part of the task's `first` round only, or of its `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
}

impl JobPhase {
    /// A phase with nothing but its action.
    pub fn new(action: Do) -> JobPhase {
        JobPhase {
            action,
            of: None,
            op: None,
            size: None,
            file: None,
            shared: false,
            read_only: false,
            zeros: false,
            align: None,
            write: false,
            update: false,
            bytes: None,
            pattern: None,
            advice: None,
            behind: false,
            no_wait: false,
            gfp: None,
            order: None,
            count: None,
            step: Vec::new(),
            us: None,
            setting: None,
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

    /// The phase and its steps.
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
    /// The last; a task that goes on until the job ends has none.
    Last,
}

const fn one() -> u32 {
    1
}

const fn once() -> u64 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) const fn is_false(is: &bool) -> bool {
    !*is
}

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Do {
    /// Maps anonymous memory (`size`) or a file (`file`) as the mapping `of`.
    Map,
    /// Unmaps the mapping `of`.
    Unmap,
    /// Touches pages of the mapping `of`.
    Touch,
    /// Reads blocks of the file `of`; sequential reads go on where this task's last read of it
    /// ended.
    Read,
    /// Writes blocks of the file `of`; sequential writes go on where this task's last write to it
    /// ended.
    Write,
    /// Writes a block behind the end of the file `of`, or from its start again when the file has no
    /// more `room`. In a file of a fixed size each task overwrites block after block from the
    /// start.
    Append,
    /// Cuts the file `of` to `size`: pages behind that are dropped from memory, whether or not they
    /// were written to disk. A shorter file stays as it is.
    Truncate,
    /// Deletes the file `of`: its pages are freed once no task maps it, whether or not they were
    /// written to disk. The next task that opens it finds it new and empty.
    Delete,
    /// Writes the dirty pages of the file `of` to its disk and waits.
    Fsync,
    /// Advises the kernel what the mapping or file `of` will be used for (`advice`).
    Advise,
    /// Locks the mapping `of` into memory.
    Lock,
    /// Unlocks the mapping `of`.
    Unlock,
    /// Starts another program: all mappings are gone.
    Exec,
    /// Ends the task now, whatever phases follow; with `only = "last"` or `"first"` in that round.
    Exit,
    /// Starts the task `of` with a copy of this task's memory, and goes on.
    Fork,
    /// Uses the CPU for `us`, and no memory.
    Compute,
    /// Sleeps for `us`.
    Sleep,
    /// Waits until all copies of the task `of` have ended.
    Wait,
    /// Allocates `count` blocks of kernel memory (`gfp`, `order`), as drivers do, and frees them
    /// after `us`. A failure is counted (`failed`) and is not an error.
    Alloc,
    /// Does its `step`s one after the other; `op`, `rate` and `depth` belong to the whole request.
    Request,
    /// Compacts all memory, as a write to `/proc/sys/vm/compact_memory` does.
    Compact,
    /// Drops clean caches, as a write of `value` to `/proc/sys/vm/drop_caches` does: 1 the page
    /// cache, 2 inodes, dentries and other slab, 3 both. Dirty pages stay.
    DropCaches,
    /// Sets the sysctl `of` to `value`: `vm.compaction_proactiveness`, or `vm.drop_caches` (the
    /// same as `drop-caches`).
    Set,
    /// Sets the task's memory policy to `of`: `local`, `bind NODES`, `interleave NODES`, `preferred
    /// NODE`, `preferred-many NODES`; nodes are `0,2`, or `all`.
    Policy,
    /// Writes the setting `setting` of the group `of`: `size`, or `value` of a setting that is no
    /// size. A limit of version 1 that does not fit is counted (`failed`) and is not an error.
    SetGroup,
    /// Reclaims `size` from the group `of` and those below it, as a write to its `memory.reclaim`
    /// does. Pages that it gets less than that are counted (`failed`) and are not an error.
    Reclaim,
    /// Removes the group `of`, in which no task may be. Its charges stay until its pages are freed.
    RemoveGroup,
    /// Moves the task to the group `of`: what it uses from now on is charged there.
    Join,
    /// Opens a TCP connection with the name `of` on the loopback device. Its buffers are charged to
    /// the task's group. If no task of the job has a `receive` of that name, the task has both
    /// ends, and what it sends stays in the buffers until it ends.
    Connect,
    /// Sends `bytes` on the task's connection `of`, and waits until the send buffer has taken them.
    Send,
    /// Receives `bytes` from a connection `of`, and waits for them. A task without one first
    /// accepts the oldest connection of that name that no task has, and pays for its receive
    /// buffer. At the end of a connection it receives less; the next `receive` accepts another one.
    Receive,
    /// Closes the task's ends of the connection `of`; the end of the task does the same.
    Close,
    /// Ends the step with the name `of`: counters are reported for each step. `{n}` in the name is
    /// the number of the round, `{2n}` twice that. Without `of` the first step begins here, and
    /// earlier work belongs to no step.
    Mark,
}

impl Do {
    /// The name in files.
    pub(super) fn name(self) -> String {
        // A word in kebab case: all of them have that form.
        toml::Value::try_from(self)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// GFP flags of a kernel allocation.
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

/// Expected use of memory or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceName {
    /// Normal use.
    Normal,
    /// In order.
    Sequential,
    /// At random: no readahead.
    Random,
    /// Soon: a file is read now.
    Willneed,
    /// No longer: memory is unmapped, a file's pages are dropped.
    Dontneed,
    /// Contents may be dropped (memory).
    Free,
    /// Not soon (memory).
    Cold,
    /// Reclaimed now (memory).
    Pageout,
    /// Huge pages (memory).
    Hugepage,
    /// No huge pages (memory).
    Nohugepage,
}
