//! Why a task of a job ended early, in words: what it requested, and what is missing.

use highwater_core::host::IoError;
use highwater_core::kernel::Error;
use highwater_core::page::PAGE_SIZE;
use highwater_workloads::jobs::{Action, Failed, FileHow, Mapped, Phase, Why};

use super::super::Unit;
use super::super::storage::Storage;
use super::file::{JobPhase, JobTask};

/// The machine's resources, in the words of messages.
pub(super) struct Machine {
    memory: u64,
    swap: u64,
    /// Pages that the zones manage.
    managed: u64,
    /// The disk of each file.
    disks: Vec<String>,
    /// Most pages of each file; `None`: limited by its disk.
    bounds: Vec<Option<u64>>,
}

/// Tasks that a simulation has room for at once, each with a stack.
const TASKS_MAX: u32 = 16_384;

impl Machine {
    pub(super) fn new(unit: &Unit<'_>, storage: &Storage, files: &[FileHow]) -> Machine {
        let zones = unit.machine.machine.nodes.iter().flat_map(|node| &node.zones);
        let memory = zones.map(|zone| zone.present).sum();
        let managed = unit.machine.machine.managed_pages();
        let swap = storage.swap.iter().map(|area| u64::from(area.pages)).sum();
        let disk = |file: &FileHow| &storage.disks[usize::from(file.spec.device.0)];
        let disks = files.iter().map(|file| disk(file).name.clone()).collect();
        let bound = |file: &FileHow| file.wraps.then_some(u64::from(file.spec.max_pages));
        let bounds = files.iter().map(bound).collect();
        Machine { memory, swap, managed, disks, bounds }
    }

    /// As many tasks as a user may have at once: `RLIMIT_NPROC` is half of `kernel.threads-max`,
    /// and as many threads as that have their stacks of 16 KiB in an eighth of memory (Linux's
    /// documentation of `kernel.threads-max`).
    pub(super) fn most_tasks(&self) -> u32 {
        let threads_max = (self.managed / (8 * 4)).max(20);
        u32::try_from(threads_max / 2).unwrap_or(u32::MAX).min(TASKS_MAX)
    }
}

/// The keys of the failed phase of a task, and the reason: what the task cannot do.
pub(super) fn reason(
    (number, told, phases): (usize, &JobTask, &[Phase]),
    failed: &Failed,
    machine: &Machine,
) -> (String, String) {
    let &Failed { phase, step, ref why, .. } = failed;
    let mut path = format!("task.{number}.phase.{phase}");
    let (mut written, mut action) = (&told.phase[phase], &phases[phase].action);
    if let (Some(step), Action::Request(steps)) = (step, action) {
        path = format!("{path}.step.{step}");
        (written, action) = (&written.step[step], &steps[step].action);
    }
    (format!("{path}.do"), of_phase((written, action), why, machine))
}

fn of_phase((written, action): (&JobPhase, &Action), why: &Why, machine: &Machine) -> String {
    let of = written.of.as_deref().unwrap_or_default();
    let does = written.action.name();
    match (why, action) {
        (Why::NoTime, _) => {
            "never ends: a round of its phases takes no time; a sleep between them would let \
                             time pass"
                .to_owned()
        }
        (Why::NoTask, _) => {
            let (most, memory) = (machine.most_tasks(), size(machine.memory));
            let whose = match most {
                TASKS_MAX => "a simulation".to_owned(),
                _ => format!("a user of a machine with {memory} (RLIMIT_NPROC)"),
            };
            format!(
                "cannot fork {of}: {whose} may have {most} tasks at once; let copies exit, or wait for them"
            )
        }
        (Why::NoGroup, _) => "cannot start in its group, which was removed before".to_owned(),
        (
            Why::Call(Error::Limit(reason)),
            Action::SetGroup { .. }
            | Action::Reclaim { .. }
            | Action::RemoveGroup { .. }
            | Action::Join { .. }
            | Action::Send { .. },
        ) => format!("cannot {does} {of}: {reason}"),
        (Why::NotMapped, _) => {
            format!("cannot {does} {of}: it is not mapped then, as a program would crash")
        }
        (Why::Call(Error::NoMemory), Action::Map { of: Mapped::Memory(pages), .. }) => {
            let (wanted, memory) = (size(u64::from(*pages)), size(machine.memory));
            let swap = match machine.swap {
                0 => "no swap".to_owned(),
                pages => format!("{} of swap", size(pages)),
            };
            format!(
                "cannot map {wanted}: overcommit refuses it on a machine with {memory} of memory and {swap}"
            )
        }
        (Why::Call(Error::NoMemory), Action::Map { .. }) => {
            let (file, memory) = (written.file.as_deref().unwrap_or(of), size(machine.memory));
            format!(
                "cannot map {file}: its private copy is more than the {memory} of memory and the swap of the \
                 machine; shared = true or read-only = true has none"
            )
        }
        (
            &Why::Call(Error::Io(IoError::NoSpace)),
            &(Action::Append { file, bytes } | Action::Write { file, bytes, .. }),
        ) => {
            if let Some(bound) = machine.bounds[file].filter(|&bound| is_larger(bytes, bound)) {
                return format!("cannot {does} {}", no_room(bytes, of, bound));
            }
            let disk = &machine.disks[file];
            format!(
                "cannot {does} to {of}: disk {disk} is full; truncate or delete make room, and a file with \
                 room = \"1G\" begins again at its start"
            )
        }
        (Why::Call(Error::Fault), Action::Touch { .. }) => format!(
            "cannot touch {of}: the page is not there (SIGBUS or SIGSEGV): the file that it maps became \
             shorter, or the map is read-only"
        ),
        (Why::Call(error), _) if of.is_empty() => format!("cannot {does}: {error}"),
        (Why::Call(error), _) => format!("cannot {does} {of}: {error}"),
    }
}

/// Whether a block of this many bytes does not fit a file of at most this many pages, even an empty
/// one.
pub(super) const fn is_larger(bytes: u64, pages: u64) -> bool {
    bytes > pages.saturating_mul(PAGE_SIZE as u64)
}

/// A block larger than its file, in words: "8 MiB to log, which has room for 4 MiB".
pub(super) fn no_room(bytes: u64, file: &str, pages: u64) -> String {
    let exact = |bytes: u64| {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift) {
            Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
            None => format!("{bytes} bytes"),
        }
    };
    let room = exact(pages.saturating_mul(PAGE_SIZE as u64));
    format!("{} to {file}, which has room for {room}", exact(bytes))
}

/// A size as people write it: whole MiB if it has them.
fn size(pages: u64) -> String {
    match pages {
        0..256 => format!("{} KiB", pages * (PAGE_SIZE as u64 >> 10)),
        pages if pages % (1 << 18) == 0 => format!("{} GiB", pages >> 18),
        pages => format!("{} MiB", pages.div_ceil(256)),
    }
}
