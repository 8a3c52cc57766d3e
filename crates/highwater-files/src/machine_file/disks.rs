//! `[[disk]]` and `[[swap]]` of a machine file.
//!
//! ```toml
//! [[disk]]
//! name = "data"                       # default: "disk" and its number
//! model = "nvme"                      # or "ssd" (SATA), "hdd", "ram"
//! size = "256G"
//! source = "guess: a drive of its time"   # where model and figures are from
//! read-latency-ns = 80_000            # a figure of its own in place of the model's: see below
//!
//! [[swap]]
//! disk = "data"                       # a name; swap takes the start of it
//! size = "4G"                         # default: all of it
//! priority = -2                       # default: -2, -3, ...
//! ```
//!
//! What may be said of a disk are [`highwater_sim::disk::FIGURES`], by their keys.
//! The models' own figures are those of [`highwater_sim::disk`].

use std::fmt::{self, Write as _};

use highwater_core::block::DeviceId;
use highwater_core::page::PAGE_SIZE;
use highwater_core::swap::{Slot, SwapSpec};
use highwater_sim::disk::{DiskKind, DiskSpec, FIGURES, Figure, FigureValue, HddSpec, SsdSpec};
use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use toml::Spanned;

use crate::input::names::{not_modelled, unknown};
use crate::input::size::Bytes;
use crate::input::size::parse_size;
use crate::input::{InputError, Source};

/// Kinds of disks by the names that files use, and what each is.
pub(crate) const MODELS: &[(&str, DiskKind, &str)] = &[
    ("nvme", DiskKind::Ssd(SsdSpec::NVME), "An NVMe solid-state drive, with its own queues."),
    ("ssd", DiskKind::Ssd(SsdSpec::SATA), "A SATA solid-state drive."),
    ("hdd", DiskKind::Hdd(HddSpec::DESKTOP), "A rotating disk."),
    ("ram", DiskKind::Ram, "Memory: the submitter copies, and a request ends at once."),
];

/// True if a figure of a disk is on or off.
pub fn is_flag(key: &str) -> bool {
    let figures = FIGURES.iter().filter(|figure| figure.key == key);
    let mut values = figures.flat_map(|figure| {
        MODELS.iter().filter_map(|(name, kind, _)| figure.get(&DiskSpec::new(*name, *kind, 1)))
    });
    values.any(|value| matches!(value, FigureValue::Flag(_)))
}

/// Devices are numbered with a byte.
const DISKS_MAX: usize = 256;
/// Priority of the first area that names none; each further one gets one less (as Linux does).
const PRIORITY_FIRST: i16 = -2;

/// A disk as it is written.
pub(super) struct RawDisk {
    name: Option<Spanned<String>>,
    model: Spanned<String>,
    size: Spanned<String>,
    source: Spanned<String>,
    /// In the order of the file.
    figures: Vec<(&'static Figure, Spanned<toml::Value>)>,
}

/// A key of a disk.
enum DiskKey {
    Name,
    Model,
    Size,
    Source,
    Figure(&'static Figure),
}

impl<'de> Deserialize<'de> for DiskKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        Ok(match key.as_str() {
            "name" => DiskKey::Name,
            "model" => DiskKey::Model,
            "size" => DiskKey::Size,
            "source" => DiskKey::Source,
            // As Linux writes them too: read_ahead_kb.
            other => match FIGURES.iter().find(|figure| figure.key == other.replace('_', "-")) {
                Some(figure) => DiskKey::Figure(figure),
                None => {
                    let mut known = "`name`, `model`, `size`, `source`".to_owned();
                    for figure in FIGURES {
                        let _ = write!(known, ", `{}`", figure.key);
                    }
                    let text = format!("unknown field `{other}`, expected one of {known}");
                    return Err(D::Error::custom(text));
                }
            },
        })
    }
}

struct DiskVisitor;

impl<'de> Visitor<'de> for DiskVisitor {
    type Value = RawDisk;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a disk")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawDisk, A::Error> {
        let (mut name, mut model, mut size, mut source) = (None, None, None, None);
        let mut figures = Vec::new();
        while let Some(key) = map.next_key()? {
            match key {
                DiskKey::Name => name = Some(map.next_value()?),
                DiskKey::Model => model = Some(map.next_value()?),
                DiskKey::Size => size = Some(map.next_value()?),
                DiskKey::Source => source = Some(map.next_value()?),
                DiskKey::Figure(figure) => figures.push((figure, map.next_value()?)),
            }
        }
        let missing = A::Error::missing_field;
        Ok(RawDisk {
            name,
            model: model.ok_or_else(|| missing("model"))?,
            size: size.ok_or_else(|| missing("size"))?,
            source: source.ok_or_else(|| missing("source"))?,
            figures,
        })
    }
}

impl<'de> Deserialize<'de> for RawDisk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DiskVisitor)
    }
}

/// A swap area; it takes the start of its disk.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Swap")]
pub(super) struct RawSwap {
    /// Name of the disk that it is on. A disk has one area at most.
    #[schemars(with = "String")]
    disk: Spanned<String>,
    /// How much of the disk, a number of 4 KiB pages, two at least; without it all.
    #[schemars(with = "Option<Bytes>")]
    size: Option<Spanned<String>>,
    /// Areas of a higher priority are filled first; without it −2 for the first area, and one less for each further
    /// one.
    priority: Option<i16>,
}

/// Disks and swap areas of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Disks {
    pub(super) disks: Vec<DiskSpec>,
    /// Where each disk's figures are from.
    sources: Vec<String>,
    pub(super) swap: Vec<SwapSpec>,
}

/// The pages of a size.
fn pages(place: Source<'_>, size: &Spanned<String>) -> Result<u64, InputError> {
    let wrong = |reason: String| place.at(size.span(), "size", reason);
    let bytes = parse_size(size.get_ref()).map_err(wrong)?;
    if bytes == 0 || bytes % PAGE_SIZE as u64 != 0 {
        return Err(wrong(format!("\"{}\" is no number of 4 KiB pages", size.get_ref())));
    }
    Ok(bytes / PAGE_SIZE as u64)
}

impl Disks {
    /// Reads both lists.
    pub(super) fn read(
        place: Source<'_>,
        disks: &[RawDisk],
        swap: &[RawSwap],
    ) -> Result<Self, InputError> {
        let mut all = Disks::default();
        for (index, raw) in disks.iter().enumerate() {
            let disk = raw.spec(place, index)?;
            let name = raw.name.as_ref().unwrap_or(&raw.model);
            if all.disks.iter().any(|other| other.name == disk.name) {
                let reason = format!("there is another disk \"{}\"", disk.name);
                return Err(place.at(name.span(), "name", reason));
            }
            if index >= DISKS_MAX {
                let reason = format!("more than {DISKS_MAX} disks");
                return Err(place.at(name.span(), "disk", reason));
            }
            all.disks.push(disk);
            all.sources.push(raw.source.get_ref().trim().to_owned());
        }
        for raw in swap {
            let area = all.area(place, raw)?;
            all.swap.push(area);
        }
        Ok(all)
    }

    fn area(&self, place: Source<'_>, raw: &RawSwap) -> Result<SwapSpec, InputError> {
        let wrong = |reason: String| place.at(raw.disk.span(), "disk", reason);
        let name = raw.disk.get_ref();
        let Some(index) = self.disks.iter().position(|disk| disk.name == *name) else {
            let known: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
            return Err(wrong(unknown("disk", name, &known)));
        };
        let device = DeviceId(index as u8);
        if self.swap.iter().any(|area| area.device == device) {
            return Err(wrong(format!("there is another swap area on \"{name}\"")));
        }
        if self.swap.len() == Slot::MAX_AREAS {
            return Err(wrong(format!("more than {} swap areas", Slot::MAX_AREAS)));
        }
        let disk_pages = self.disks[index].nr_pages;
        let span = raw.size.as_ref().unwrap_or(&raw.disk).span();
        let pages = match &raw.size {
            None => disk_pages,
            Some(size) => pages(place, size)?,
        };
        let wrong = |reason: String| place.at(span.clone(), "size", reason);
        if pages > disk_pages {
            return Err(wrong(format!("larger than its disk of {disk_pages} pages")));
        }
        if pages < 2 || pages - 1 > u64::from(Slot::MAX_OFFSET) {
            let most = (u64::from(Slot::MAX_OFFSET) + 1) >> 18;
            return Err(wrong(format!("a swap area has 2 pages at least and {most} GiB at most")));
        }
        let priority = raw.priority.unwrap_or(PRIORITY_FIRST - self.swap.len() as i16);
        Ok(SwapSpec { device, pages: pages as u32, priority })
    }

    /// Both lists in the format that [`Disks::read`] reads, every figure spelt out.
    pub(super) fn to_toml(&self) -> String {
        let mut text = String::new();
        for (disk, source) in self.disks.iter().zip(&self.sources) {
            let size = format!("{}K", disk.nr_pages * (PAGE_SIZE as u64 >> 10));
            let model = match disk.kind {
                DiskKind::Ssd(_) => "ssd",
                DiskKind::Hdd(_) => "hdd",
                DiskKind::Ram => "ram",
            };
            let _ = write!(
                text,
                "\n[[disk]]\nname = {:?}\nmodel = \"{model}\"\nsize = \"{size}\"\n\
                 source = {source:?}\n",
                disk.name
            );
            for figure in FIGURES {
                if let Some(value) = figure.get(disk) {
                    let _ = writeln!(text, "{} = {value}", figure.key);
                }
            }
        }
        for area in &self.swap {
            let name = &self.disks[usize::from(area.device.0)].name;
            let size = u64::from(area.pages) * (PAGE_SIZE as u64 >> 10);
            let _ = write!(
                text,
                "\n[[swap]]\ndisk = {name:?}\nsize = \"{size}K\"\npriority = {}\n",
                area.priority
            );
        }
        text
    }
}

/// A disk from a table that is part of another file: the key that is wrong, and why.
///
/// # Errors
/// If it is none.
pub fn of_table(table: &toml::Table) -> Result<DiskSpec, (String, String)> {
    let text = table.to_string();
    let place = Source { file: "", text: &text };
    let read: Result<RawDisk, _> = toml::from_str(&text);
    let of = |error: InputError| (error.field.unwrap_or_else(|| "model".to_owned()), error.reason);
    read.map_err(|error| of(place.toml(&error)))?.spec(place, 0).map_err(of)
}

impl RawDisk {
    fn spec(&self, place: Source<'_>, index: usize) -> Result<DiskSpec, InputError> {
        let model = self.model.get_ref().as_str();
        let Some(&(_, kind, _)) = MODELS.iter().find(|(name, ..)| *name == model) else {
            let known: Vec<&str> = MODELS.iter().map(|(name, ..)| *name).collect();
            let reason = unknown("model", model, &known);
            return Err(place.at(self.model.span(), "model", reason));
        };
        if self.source.get_ref().trim().is_empty() {
            let reason = "must be a text that says where model and figures are from";
            return Err(place.at(self.source.span(), "source", reason));
        }
        let nr_pages = pages(place, &self.size)?;
        let name = match &self.name {
            Some(name) => name.get_ref().clone(),
            None => format!("disk{index}"),
        };
        // What a disk has unless the file says otherwise follows from the figures of its model.
        let mut disk = DiskSpec::new(name.clone(), kind, nr_pages);
        self.set(place, &mut disk, true)?;
        if let DiskKind::Hdd(hdd) = disk.kind
            && hdd.seek_min_ns > hdd.seek_max_ns
        {
            let given = |key| self.figures.iter().find(|(figure, _)| figure.key == key);
            let span = given("seek-max-ns").or_else(|| given("seek-min-ns"));
            let span = span.map_or(self.model.span(), |(_, value)| value.span());
            return Err(place.at(span, "seek-max-ns", "smaller than seek-min-ns"));
        }
        let mut disk = DiskSpec::new(name, disk.kind, nr_pages);
        self.set(place, &mut disk, false)?;
        Ok(disk)
    }

    /// Puts the file's figures in place of those that a disk has, either those of models or the others.
    fn set(
        &self,
        place: Source<'_>,
        disk: &mut DiskSpec,
        of_models: bool,
    ) -> Result<(), InputError> {
        for (figure, value) in self.figures.iter().filter(|(f, _)| f.is_of_model == of_models) {
            let wrong = |reason: String| place.at(value.span(), figure.key, reason);
            let given = figure_value(value.get_ref()).map_err(wrong)?;
            let missing = |word: &str| not_modelled(figure.key, word);
            let said = |reason: String| {
                wrong(value.get_ref().as_str().and_then(missing).unwrap_or(reason))
            };
            if !figure.set(disk, given).map_err(said)? {
                let model = self.model.get_ref();
                return Err(wrong(format!("is no figure of model \"{model}\"")));
            }
        }
        Ok(())
    }
}

/// A value as figures have them.
fn figure_value(value: &toml::Value) -> Result<FigureValue<'_>, String> {
    match value {
        toml::Value::Integer(number) => match u64::try_from(*number) {
            Ok(number) => Ok(FigureValue::Number(number)),
            Err(_) => Err(format!("invalid value: {number} is negative")),
        },
        toml::Value::Boolean(flag) => Ok(FigureValue::Flag(*flag)),
        toml::Value::String(word) => Ok(FigureValue::Word(word)),
        other => Err(format!("invalid value: a {} is no figure", other.type_str())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::MachineFile;
    use super::*;

    const NODE: &str = "[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n";

    fn read(rest: &str) -> Result<MachineFile, InputError> {
        MachineFile::parse("m.toml", &format!("{NODE}{rest}"))
    }

    fn error(rest: &str) -> String {
        read(rest).expect_err("must fail").to_string()
    }

    const DISK: &str = "[[disk]]\nmodel = \"nvme\"\nsize = \"16G\"\nsource = \"data sheet\"\n";

    #[test]
    fn a_machine_has_disks_and_swap() {
        let text = "[[disk]]\nname = \"data\"\nmodel = \"ssd\"\nsize = \"16G\"\nsource = \"s\"\n\
                    channels = 8\nread-bytes-per-s = 100_000_000\n\
                    [[disk]]\nmodel = \"hdd\"\nsize = \"1T\"\nsource = \"s\"\ndepth = 4\n\
                    seek-max-ns = 9_000_000\nrotational = false\n\
                    [[disk]]\nname = \"r\"\nmodel = \"ram\"\nsize = \"1M\"\nsource = \"s\"\n\
                    [[swap]]\ndisk = \"disk1\"\nsize = \"2G\"\n[[swap]]\ndisk = \"r\"\n";
        let machine = read(text).unwrap();
        let [data, hdd, ram] = machine.disks() else { panic!("{:?}", machine.disks()) };
        let DiskKind::Ssd(ssd) = data.kind else { panic!("{data:?}") };
        assert_eq!((ssd.channels, ssd.bytes_per_s.read), (8, 100_000_000));
        assert_eq!(ssd.bytes_per_s.write, SsdSpec::SATA.bytes_per_s.write);
        let DiskKind::Hdd(spec) = hdd.kind else { panic!("{hdd:?}") };
        assert_eq!((spec.seek_max_ns, hdd.depth, hdd.nr_pages), (9_000_000, 4, 1 << 28));
        assert!(!hdd.rotational && hdd.name == "disk1");
        assert_eq!(ram.nr_pages, 256);
        let area = |device, pages, priority| SwapSpec { device: DeviceId(device), pages, priority };
        assert_eq!(machine.swap(), [area(1, 2 << 18, -2), area(2, 256, -3)]);

        let again = MachineFile::parse("x.toml", &machine.definition().definition).unwrap();
        assert_eq!((again.disks(), again.swap()), (machine.disks(), machine.swap()));
    }

    #[test]
    fn errors_name_line_and_field() {
        let with = |more: &str| error(&format!("{DISK}{more}"));
        let change = |from: &str, to: &str| error(&DISK.replace(from, to));
        for (error, expected) in [
            (
                change("nvme", "tape"),
                "m.toml:5: model: unknown model \"tape\"; there are nvme, ssd, hdd, ram",
            ),
            (change("16G", "16"), "m.toml:6: size: \"16\" is not a size such as 512M or 8G"),
            (change("16G", "0"), "m.toml:6: size: \"0\" is no number of 4 KiB pages"),
            (change("16G", "1K"), "m.toml:6: size: \"1K\" is no number of 4 KiB pages"),
            (
                change("data sheet", " "),
                "m.toml:7: source: must be a text that says where model and figures are from",
            ),
            (with("depth = 0\n"), "m.toml:8: depth: must not be 0"),
            (with("channels = 0\n"), "m.toml:8: channels: must not be 0"),
            (
                with("revolution-ns = 7\n"),
                "m.toml:8: revolution-ns: is no figure of model \"nvme\"",
            ),
            (
                with("scheduler = \"cfq\"\n"),
                "m.toml:8: scheduler: the schedulers BFQ, Kyber and CFQ: not modelled (in Linux since 4.12, CFQ before 5.0); nearest: scheduler = \"deadline\" of a disk, or \"none\"; see docs/src/not-modelled.md#other-schedulers",
            ),
            (
                with("scheduler = \"noop\"\n"),
                "m.toml:8: scheduler: unknown scheduler \"noop\"; there are none, deadline",
            ),
            (
                with(
                    "name = \"disk1\"\n[[disk]]\nmodel = \"ram\"\nsize = \"4K\"\nsource = \"s\"\n",
                ),
                "m.toml:10: name: there is another disk \"disk1\"",
            ),
            (
                with("[[swap]]\ndisk = \"sda\"\n"),
                "m.toml:9: disk: unknown disk \"sda\"; there is disk0",
            ),
            (
                with("[[swap]]\ndisk = \"disk0\"\nsize = \"17G\"\n"),
                "m.toml:10: size: larger than its disk of 4194304 pages",
            ),
            (
                with("[[swap]]\ndisk = \"disk0\"\nsize = \"4K\"\n"),
                "m.toml:10: size: a swap area has 2 pages at least and 256 GiB at most",
            ),
            (
                with("[[swap]]\ndisk = \"disk0\"\n[[swap]]\ndisk = \"disk0\"\n"),
                "m.toml:11: disk: there is another swap area on \"disk0\"",
            ),
        ] {
            assert_eq!(error, expected);
        }
        assert!(with("speed = 7\n").starts_with("m.toml:8: speed: unknown field"));
        assert!(with("depth = -1\n").starts_with("m.toml:8: depth: invalid value"));
        let hdd = DISK.replace("nvme", "hdd");
        let slow = error(&format!("{hdd}seek-min-ns = 20_000_000\n"));
        assert_eq!(slow, "m.toml:8: seek-max-ns: smaller than seek-min-ns");
        let missing = error("[[disk]]\nmodel = \"ram\"\nsize = \"1M\"\n");
        assert!(missing.contains("missing field `source`"), "{missing}");
    }
}
