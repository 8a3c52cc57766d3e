//! `--disk` and `--swap`: storage of a machine whose file says nothing of it, or another size of its swap.

use highwater_core::page::PAGE_SIZE;
use toml::{Table, Value};

use super::MachineFile;
use super::disks::MODELS;
use crate::input::names::unknown;
use crate::input::size::{parse_size, size_text};
use crate::input::{InputError, one_line};

/// The default disk model, also for machines without a disk.
const MODEL: &str = "ssd";
/// How large a disk is that is given: files and swap have room, and a rotating one has seeks of a large disk.
const SIZE: &str = "1T";
/// Swap of a machine that is given a disk, in parts of its memory.
const SWAP_OF_MEMORY: u64 = 2;

/// What the command line says about a machine's storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// `--disk nvme`.
    pub disk: Option<String>,
    /// `--swap 2G`; 0: none.
    pub swap: Option<String>,
    /// The settings that say so, where no option does.
    said: [Option<StorageSaid>; 2],
}

/// The name of a storage setting in errors and remarks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StorageSaid {
    /// With its value: `--set swap=2G`.
    whole: String,
    /// Without it: `--set swap`.
    option: String,
}

/// The options, in the order of [`Storage::said`].
const OPTIONS: [&str; 2] = ["--disk", "--swap"];
const DISK: usize = 0;
const SWAP: usize = 1;

impl Storage {
    /// The options of the command line.
    pub fn new(disk: Option<String>, swap: Option<String>) -> Storage {
        Storage { disk, swap, said: [None, None] }
    }

    /// With what a setting says of the key `disk` or `swap`. Errors call it `whole` (`--set swap=2G`), remarks `option`
    /// (`--set swap`).
    pub fn set(&mut self, key: &str, value: &str, whole: String, option: String) {
        let (at, field) = match key {
            "disk" => (DISK, &mut self.disk),
            _ => (SWAP, &mut self.swap),
        };
        *field = Some(value.to_owned());
        self.said[at] = Some(StorageSaid { whole, option });
    }

    /// The name of the requested disk or swap in errors.
    fn called(&self, at: usize) -> &str {
        self.said[at].as_ref().map_or(OPTIONS[at], |said| &said.whole)
    }

    /// Its name in remarks, without the value.
    fn option(&self, at: usize) -> &str {
        self.said[at].as_ref().map_or(OPTIONS[at], |said| &said.option)
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.disk.is_none() && self.swap.is_none()
    }

    /// With what settings say besides.
    ///
    /// # Errors
    /// If both say the same key.
    pub fn with(mut self, set: &Storage) -> Result<Storage, InputError> {
        let given = [self.disk.is_some(), self.swap.is_some()];
        let keys = [("disk", &set.disk), ("swap", &set.swap)];
        for (at, (key, value)) in keys.into_iter().enumerate() {
            let (Some(value), Some(said)) = (value, &set.said[at]) else { continue };
            if given[at] {
                let reason = format!("there is {}, too: one key has one value", OPTIONS[at]);
                return Err(InputError::whole(said.whole.as_str(), reason));
            }
            self.set(key, value, said.whole.clone(), said.option.clone());
        }
        Ok(self)
    }

    /// The options as they were given.
    pub fn options(&self) -> String {
        let values = [&self.disk, &self.swap].into_iter().enumerate();
        let said = values.filter_map(|(at, value)| match (&self.said[at], value) {
            (Some(said), Some(_)) => Some(said.whole.clone()),
            (None, Some(value)) => Some(format!("{} {value}", OPTIONS[at])),
            _ => None,
        });
        said.collect::<Vec<_>>().join(" ")
    }

    /// The machine with this storage, and a remark about what was added without being named.
    ///
    /// # Errors
    /// If there is no such model or size, or the machine has disks of its own that `--disk` would replace.
    pub fn equip(
        &self,
        machine: &MachineFile,
    ) -> Result<(MachineFile, Option<String>), InputError> {
        if self.is_empty() {
            return Ok((machine.clone(), None));
        }
        let wrong = |option: &str, reason: String| InputError::whole(option, reason);
        let bytes = match &self.swap {
            None => None,
            Some(text) if text.trim() == "0" => Some(0),
            Some(text) => {
                let bytes = parse_size(text).map_err(|reason| wrong(self.called(SWAP), reason))?;
                if !bytes.is_multiple_of(PAGE_SIZE as u64) {
                    let reason = format!("\"{text}\" is not a whole number of 4 KiB pages");
                    return Err(wrong(self.called(SWAP), reason));
                }
                Some(bytes)
            }
        };
        if let Some(model) = &self.disk
            && !MODELS.iter().any(|(name, ..)| name == model)
        {
            let known: Vec<&str> = MODELS.iter().map(|(name, ..)| *name).collect();
            return Err(wrong(self.called(DISK), unknown("model", model, &known)));
        }
        let text = machine.definition().definition;
        let mut table: Table = toml::from_str(&text)
            .map_err(|error| wrong(&machine.name, one_line(error.message())))?;
        let added = match (machine.disks().first(), &self.disk) {
            (None, _) => self.give(&mut table, machine, bytes),
            (Some(first), Some(model)) => {
                let (name, disk) = (&machine.name, &first.name);
                let reason = format!(
                    "machine {name} has its own disks; --set machine.disk.{disk}.model={model} changes one"
                );
                return Err(wrong(self.called(DISK), reason));
            }
            (Some(first), None) => {
                let disk = first.name.clone();
                resize(&mut table, machine, &disk, bytes.unwrap_or(0))
                    .map_err(|reason| wrong(self.called(SWAP), reason))?;
                None
            }
        };
        let options = self.options();
        let failed = |reason: String| InputError::whole(options.as_str(), one_line(&reason));
        let text = toml::to_string(&table).map_err(|error| failed(error.to_string()))?;
        let mut equipped = MachineFile::parse(&machine.name, &text).map_err(|error| {
            // The line is that of a text that nobody wrote.
            failed(error.reason)
        })?;
        equipped.name.clone_from(&machine.name);
        Ok((equipped, added))
    }

    /// Gives a machine without a disk one.
    fn give(&self, table: &mut Table, machine: &MachineFile, swap: Option<u64>) -> Option<String> {
        let model = self.disk.as_deref().unwrap_or(MODEL);
        let source = match &self.disk {
            Some(_) => "--disk: the usual figures of the model",
            None => "--swap: it needs a disk; the usual figures of the model",
        };
        let of_memory = (machine.machine.managed_pages() * SWAP_OF_MEMORY) >> 8;
        let bytes = swap.unwrap_or(of_memory << 20);
        let pairs = [("name", "disk"), ("model", model), ("size", SIZE), ("source", source)];
        table.insert("disk".to_owned(), list_of(&pairs));
        if bytes > 0 {
            let size = format!("{}K", bytes >> 10);
            table.insert("swap".to_owned(), list_of(&[("disk", "disk"), ("size", &size)]));
        }
        match (&self.disk, swap) {
            (None, _) => {
                let swap = self.option(SWAP);
                Some(format!("{swap}: on a SATA SSD; --disk says which disk"))
            }
            (_, None) => Some(format!(
                "{}: with {} of swap, twice the memory; --swap SIZE says how much, --swap 0 none",
                self.options(),
                size_text(bytes)
            )),
            _ => None,
        }
    }
}

/// A list of one table of texts.
fn list_of(pairs: &[(&str, &str)]) -> Value {
    let table: Table =
        pairs.iter().map(|(key, text)| ((*key).to_owned(), Value::from(*text))).collect();
    Value::Array(vec![table.into()])
}

/// Another size for the swap of a machine with disks; where it has none, swap on its first disk.
fn resize(table: &mut Table, machine: &MachineFile, disk: &str, bytes: u64) -> Result<(), String> {
    if machine.swap().len() > 1 {
        let nr = machine.swap().len();
        let name = &machine.name;
        return Err(format!(
            "machine {name} has {nr} swap areas; --set machine.swap.0.size=SIZE sets one"
        ));
    }
    if bytes == 0 {
        table.remove("swap");
        return Ok(());
    }
    let size = format!("{}K", bytes >> 10);
    match table.get_mut("swap").and_then(Value::as_array_mut).and_then(|list| list.first_mut()) {
        Some(Value::Table(area)) => {
            area.insert("size".to_owned(), size.into());
        }
        _ => {
            table.insert("swap".to_owned(), list_of(&[("disk", disk), ("size", &size)]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use highwater_sim::disk::DiskKind;

    use super::super::MachineArg;
    use super::*;

    fn small() -> MachineFile {
        let arg = MachineArg { mem: Some("1G".to_owned()), ..MachineArg::default() };
        arg.resolve().unwrap().unwrap()
    }

    fn equip(
        machine: &MachineFile,
        disk: &str,
        swap: &str,
    ) -> Result<(MachineFile, Option<String>), String> {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let storage = Storage::new(given(disk), given(swap));
        storage.equip(machine).map_err(|error| error.to_string())
    }

    #[test]
    fn a_machine_of_a_size_gets_the_disk_and_swap_that_were_named() {
        let (machine, added) = equip(&small(), "hdd", "512M").unwrap();
        assert!(matches!(machine.disks()[0].kind, DiskKind::Hdd(_)) && added.is_none());
        assert_eq!(machine.swap()[0].pages, 512 << 8);
        assert_eq!(machine.machine, small().machine, "nothing else changed");
        let (machine, added) = equip(&small(), "nvme", "0").unwrap();
        assert!(machine.swap().is_empty() && added.is_none());
        assert_eq!(machine.disks().len(), 1);
        let (machine, added) = equip(&small(), "nvme", "").unwrap();
        assert!(machine.swap()[0].pages > 1900 << 8, "{:?}", machine.swap());
        assert!(added.unwrap().contains("of swap, twice the memory; --swap SIZE says how much"));
        let (machine, added) = equip(&small(), "", "256M").unwrap();
        assert!(matches!(machine.disks()[0].kind, DiskKind::Ssd(_)));
        assert_eq!(added.unwrap(), "--swap: on a SATA SSD; --disk says which disk");
        let again = MachineFile::parse("x.toml", &machine.definition().definition).unwrap();
        assert_eq!((again.disks(), again.swap()), (machine.disks(), machine.swap()));
    }

    #[test]
    fn a_machine_with_disks_keeps_them() {
        let machine = MachineFile::load("little-core").unwrap();
        let (more, _) = equip(&machine, "", "1G").unwrap();
        assert_eq!((more.disks(), more.swap()[0].pages), (machine.disks(), 1 << 18));
        assert!(equip(&machine, "", "4G").unwrap_err().contains("larger than its disk"));
        assert!(equip(&machine, "", "0").unwrap().0.swap().is_empty());
        let error = equip(&machine, "nvme", "").unwrap_err();
        assert!(
            error.starts_with("--disk: machine little-core has its own disks; --set machine.disk.")
        );
    }

    #[test]
    fn what_is_no_disk_or_size_is_told() {
        let unknown = equip(&small(), "floppy", "").unwrap_err();
        assert_eq!(unknown, "--disk: unknown model \"floppy\"; there are nvme, ssd, hdd, ram");
        assert!(equip(&small(), "", "lots").unwrap_err().starts_with("--swap: \"lots\" is not"));
        for size in ["1000B", "5K"] {
            let part = equip(&small(), "", size).unwrap_err();
            assert_eq!(part, format!("--swap: \"{size}\" is not a whole number of 4 KiB pages"));
        }
        let much = equip(&small(), "ssd", "900G").unwrap_err();
        assert!(much.contains("256 GiB at most"), "{much}");
    }
}
