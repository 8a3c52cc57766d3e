//! Which disk each file of a job is on, and where.

use highwater_core::block::DeviceId;
use highwater_core::page::PAGE_SIZE;
use highwater_core::page_cache::{FileSpec, Filesystem};
use highwater_workloads::jobs::FileHow;

use super::super::storage::{DATA, Storage};
use super::super::{RunError, Unit};
use super::file::{JobFile, JobParams};
use super::plan::pages;
use highwater_files::input::names::unknown;
use highwater_files::machine_file::disks::of_table;

/// Room of a file that grows as its disk has room, on a disk that a machine is given: 64 GiB.
const GIVEN_ROOM: u64 = 1 << 24;

/// Files with their places, and their disks.
pub(super) struct Placed {
    pub(super) storage: Storage,
    pub(super) files: Vec<FileHow>,
    /// Remarks for readers of the results.
    pub(super) notes: Vec<String>,
}

/// Gives every file of a job its place.
pub(super) fn place(
    params: &JobParams,
    unit: &Unit<'_>,
    memory_pages: u64,
) -> Result<Placed, RunError> {
    let on_first: Vec<&JobFile> =
        params.file.iter().filter(|file| !file.memory && file.disk.is_none()).collect();
    let bounded = |file: &JobFile| file.bound().map(|bound| pages(bound, memory_pages));
    let has_disks = !unit.machine.disks().is_empty();
    // A disk that is given has room for all that may come.
    let wanted = |file: &&JobFile| bounded(file).unwrap_or(if has_disks { 0 } else { GIVEN_ROOM });
    let on_first = on_first.iter().map(wanted).sum();
    let mut storage = Storage::of(unit, on_first, 2 * memory_pages, "the files of the job")?;
    let mut notes: Vec<String> = storage.note.take().into_iter().collect();
    for table in &params.disk {
        // Checked when the job was read.
        let Ok(disk) = of_table(&table.0) else { continue };
        if unit.machine.disks().iter().any(|own| own.name == disk.name) {
            notes.push(format!("disk {} is the machine's own, not the job's", disk.name));
            continue;
        }
        // A disk that the machine is given has whichever name is left.
        let is_taken = |name: &str| params.disk.iter().any(|table| table.name() == Some(name));
        if let Some(given) = storage.disks.iter_mut().find(|known| known.name == disk.name) {
            given.name = "given".to_owned();
            while is_taken(&given.name) {
                given.name.push('+');
            }
        }
        storage.disks.push(disk);
    }
    let mut layout = Layout::new(&storage);
    let devices = params.file.iter().enumerate().map(|(at, file)| match &file.disk {
        Some(name) => layout.named(name).map_err(|reason| RunError::At {
            path: format!("file.{at}.disk"),
            reason: format!("{}: {reason}", file.name),
            place: None,
        }),
        None => Ok(DATA),
    });
    let devices = devices.collect::<Result<Vec<DeviceId>, RunError>>()?;
    for (file, &device) in params.file.iter().zip(&devices).filter(|(file, _)| !file.memory) {
        match bounded(file) {
            Some(room) => layout.of(device).bounded += room,
            None => layout.of(device).nr_unbounded += 1,
        }
    }
    layout.check(unit)?;
    let files = params.file.iter().zip(devices).map(|(file, device)| {
        let size = pages(file.size, memory_pages) * PAGE_SIZE as u64;
        let (start, room) = match (file.memory, bounded(file)) {
            (true, room) => (0, room.unwrap_or(0)),
            (false, room) => layout.of(device).take(room),
        };
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let spec = match file.memory {
            true => FileSpec::in_memory(room),
            false => FileSpec::new(Filesystem::EXT4, device, start, room),
        };
        FileHow { spec: spec.with_size(size), grows: file.grows(), wraps: file.bound().is_some() }
    });
    let files = files.collect();
    Ok(Placed { storage, files, notes })
}

/// How files divide each disk, by device number.
struct Layout {
    disks: Vec<Part>,
}

struct Part {
    name: String,
    nr_pages: u64,
    /// The next free page, after a swap area.
    next: u64,
    /// Pages of files that have a bound.
    bounded: u64,
    /// Number of files without a bound.
    nr_unbounded: u64,
    /// The share of each of those; computed when the first of them is placed.
    share: Option<u64>,
}

impl Layout {
    fn new(storage: &Storage) -> Layout {
        let part = |(number, disk): (usize, &highwater_sim::disk::DiskSpec)| {
            let area = storage.swap.iter().find(|area| usize::from(area.device.0) == number);
            Part {
                name: disk.name.clone(),
                nr_pages: disk.nr_pages,
                next: area.map_or(0, |area| u64::from(area.pages)),
                bounded: 0,
                nr_unbounded: 0,
                share: None,
            }
        };
        Layout { disks: storage.disks.iter().enumerate().map(part).collect() }
    }

    fn of(&mut self, device: DeviceId) -> &mut Part {
        &mut self.disks[usize::from(device.0)]
    }

    /// The disk of a name.
    fn named(&self, name: &str) -> Result<DeviceId, String> {
        let known: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
        match known.iter().position(|known| *known == name) {
            Some(at) => Ok(DeviceId(at as u8)),
            None => {
                let unknown = unknown("disk", name, &known);
                Err(format!("{unknown}; a [[disk]] in the job plugs another one in"))
            }
        }
    }

    /// Every disk has room for its files.
    fn check(&self, unit: &Unit<'_>) -> Result<(), RunError> {
        for Part { name, nr_pages, next, bounded, nr_unbounded, .. } in &self.disks {
            // A file that grows has a page at least.
            let wanted = next + bounded + nr_unbounded;
            if wanted > *nr_pages {
                let (machine, mib) = (&unit.machine.name, (wanted - nr_pages).div_ceil(256));
                let reason = format!(
                    "machine {machine}: disk {name} lacks {mib} MiB for the files of the job"
                );
                return Err(RunError::Room(reason));
            }
        }
        Ok(())
    }
}

impl Part {
    /// First page and room of a file; a file without a bound gets its share of the remaining room.
    fn take(&mut self, bound: Option<u64>) -> (u64, u64) {
        let left = self.nr_pages.saturating_sub(self.next + self.bounded);
        let share = *self.share.get_or_insert(left / self.nr_unbounded.max(1));
        let room = bound.unwrap_or(share);
        self.next += room;
        (self.next - room, room)
    }
}
