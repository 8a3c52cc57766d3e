//! Disks and swap of a unit: the machine's own. A machine without a disk gets one, and a note of
//! the run says so.
//!
//! Files of a workload are on the machine's first disk, after its swap area if it has one there.

use highwater_core::block::DeviceId;
use highwater_core::swap::SwapSpec;
use highwater_sim::disk::DiskSpec;
use highwater_sim::machine::MachineConfig;

use super::{RunError, Unit};

/// The disk of files.
pub const DATA: DeviceId = DeviceId(0);

/// The storage of a unit's machine.
#[derive(Clone, Debug)]
pub struct Storage {
    /// Disks, by device number.
    pub disks: Vec<DiskSpec>,
    /// Swap areas.
    pub swap: Vec<SwapSpec>,
    /// First page of [`DATA`] that files may have.
    pub first_page: u64,
    /// A note about storage that was added to the machine.
    pub note: Option<String>,
}

impl Storage {
    /// Storage with room for files of `file_pages` pages. A machine without a disk gets a SATA SSD,
    /// with `swap_pages` of it for swap.
    ///
    /// # Errors
    /// If the machine's disk is too small; `files` names the files that do not fit.
    pub fn of(
        unit: &Unit<'_>,
        file_pages: u64,
        swap_pages: u64,
        files: &str,
    ) -> Result<Storage, RunError> {
        if unit.machine.disks().is_empty() {
            return Ok(Storage::given(file_pages, swap_pages));
        }
        let disks = unit.machine.disks().to_vec();
        let swap = unit.machine.swap().to_vec();
        let area = swap.iter().find(|area| area.device == DATA);
        let first_page = area.map_or(0, |area| u64::from(area.pages));
        let disk = &disks[usize::from(DATA.0)];
        if first_page + file_pages > disk.nr_pages {
            let (machine, missing) = (&unit.machine.name, first_page + file_pages - disk.nr_pages);
            let (name, mib) = (&disk.name, missing.div_ceil(256));
            let reason = format!("machine {machine}: disk {name} lacks {mib} MiB for {files}");
            return Err(RunError::Room(reason));
        }
        Ok(Storage { disks, swap, first_page, note: None })
    }

    fn given(file_pages: u64, swap_pages: u64) -> Storage {
        let swap_pages = u32::try_from(swap_pages).unwrap_or(u32::MAX);
        let first_page = u64::from(swap_pages);
        let area = SwapSpec { device: DATA, pages: swap_pages, priority: 0 };
        let with = match swap_pages {
            0 => "and no swap".to_owned(),
            pages => format!("with {} MiB of swap", pages >> 8),
        };
        Storage {
            disks: vec![DiskSpec::sata_ssd("disk", first_page + file_pages)],
            swap: Some(area).filter(|area| area.pages > 0).into_iter().collect(),
            first_page,
            note: Some(format!("the machine has no disk: it was given a SATA SSD {with}")),
        }
    }

    /// Puts it into a machine.
    pub fn attach(self, config: &mut MachineConfig) {
        config.disks = self.disks;
        config.swap = self.swap;
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::config::preset;

    use super::*;
    use highwater_files::machine_file::MachineFile;

    const NODE: &str = "[[node]]\nmemory = \"48M\"\ncpus = \"0\"\n";
    const DISKS: &str = "[[disk]]\nname = \"slow\"\nmodel = \"hdd\"\nsize = \"32M\"\nsource = \"test\"\n\
                         [[swap]]\ndisk = \"slow\"\nsize = \"8M\"\n";

    fn storage(rest: &str, file_pages: u64, swap_pages: u64) -> Result<Storage, RunError> {
        let machine = MachineFile::parse("m.toml", &format!("{NODE}{rest}")).unwrap();
        let policy = preset("6.1").unwrap();
        let unit = Unit::of(&machine, &policy, 1);
        Storage::of(&unit, file_pages, swap_pages, "a test")
    }

    #[test]
    fn a_machine_uses_its_own_disk_behind_its_swap() {
        let own = storage(DISKS, 24 << 8, 1 << 20).unwrap();
        assert_eq!((own.disks[0].name.as_str(), own.first_page), ("slow", 8 << 8));
        assert_eq!((own.swap.len(), own.note), (1, None));
        let error = storage(DISKS, (24 << 8) + 1, 0).unwrap_err().to_string();
        assert_eq!(error, "simulation: machine m: disk slow lacks 1 MiB for a test");
    }

    #[test]
    fn what_a_machine_is_given_is_said() {
        let given = storage("", 5, 512).unwrap();
        assert_eq!((given.disks.len(), given.disks[0].nr_pages, given.first_page), (1, 517, 512));
        let note = "the machine has no disk: it was given a SATA SSD with 2 MiB of swap";
        assert_eq!(given.note.unwrap(), note);
        let given = storage("", 5, 0).unwrap();
        assert!(given.swap.is_empty() && given.note.unwrap().ends_with("SSD and no swap"));
    }
}
