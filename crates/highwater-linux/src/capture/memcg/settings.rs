//! Settings of a group: those that the job has, and those that it has not.
//!
//! A job's groups are of the captured version, and have its settings. The settings in `LOST_V2` and
//! `LOST_V1` are listed unless they are at their defaults; others are not read.

use super::super::Source;
use super::Strictness;
use super::members::{is_gone, unreadable};
use highwater_files::input::InputError;
use highwater_files::input::size::size_text;
use highwater_runs::workload::job::{Amount, JobGroup};

const PAGE: u64 = 4096;
/// The most pages that a counter holds, in bytes: no limit.
const UNLIMITED: u64 = i64::MAX as u64 / PAGE * PAGE;

/// Files of a group's directory.
pub(super) struct Files<'a> {
    pub(super) source: &'a Source,
    pub(super) dir: &'a str,
    pub(super) strictness: Strictness,
    pub(super) notes: &'a mut Vec<String>,
}

impl Files<'_> {
    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.dir)
    }

    /// The text of a file; `None`: the kernel does not have it.
    ///
    /// # Errors
    /// If it cannot be read, and that is no mere note.
    pub(super) fn text(&mut self, file: &str) -> Result<Option<String>, InputError> {
        let path = self.path(file);
        match self.source.text(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => {
                let error = unreadable(self.source, &path, &error);
                if self.strictness == Strictness::Fails {
                    return Err(error);
                }
                self.notes.push(format!("{error}: it is not in the job"));
                Ok(None)
            }
        }
    }

    /// The bytes in a file.
    ///
    /// # Errors
    /// As [`Self::text`], and if there is something else in it.
    pub(super) fn bytes(&mut self, file: &str) -> Result<Option<u64>, InputError> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        let bytes = text.parse().map_err(|_| self.malformed(file, &text, "a number of bytes"))?;
        Ok(Some(bytes))
    }

    /// A limit: bytes in whole pages, as the kernel keeps them, or none.
    fn limit(&mut self, file: &str) -> Result<Option<Amount>, InputError> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        if text == "max" {
            return Ok(Some(Amount::Unlimited));
        }
        let bytes = text.parse::<u64>();
        let bytes = bytes.map_err(|_| self.malformed(file, &text, "a number of bytes or max"))?;
        Ok(Some(match bytes / PAGE * PAGE {
            UNLIMITED.. => Amount::Unlimited,
            bytes => Amount::Bytes(bytes),
        }))
    }

    /// An error about the only value of a file, or about a line of it.
    pub(super) fn malformed(&self, file: &str, text: &str, wanted: &str) -> InputError {
        InputError::whole(self.source.name(&self.path(file)), format!("\"{text}\" is not {wanted}"))
    }
}

/// Settings read from a group's directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    /// As the job has them; without name and parent.
    pub(super) job: JobGroup,
    /// A line for each setting that the job has not, or has otherwise.
    pub(super) lost: Vec<String>,
}

/// A size of a version 2 group: its file, its key, and its default.
type Size = (&'static str, fn(&mut JobGroup) -> &mut Option<Amount>, Amount);
const SIZES: [Size; 6] = [
    ("memory.max", |group| &mut group.max, Amount::Unlimited),
    ("memory.high", |group| &mut group.high, Amount::Unlimited),
    ("memory.low", |group| &mut group.low, Amount::Bytes(0)),
    ("memory.min", |group| &mut group.min, Amount::Bytes(0)),
    ("memory.swap.max", |group| &mut group.swap_max, Amount::Unlimited),
    ("memory.swap.high", |group| &mut group.swap_high, Amount::Unlimited),
];

/// A setting that a job does not have: its file, its default, and what it is.
type Lost = (&'static str, fn(&str) -> bool, &'static str);
const LOST_V2: [Lost; 7] = [
    ("memory.zswap.max", |text| text == "max", "zswap is not modelled"),
    ("memory.zswap.writeback", |text| text == "1", "zswap is not modelled"),
    ("cpu.max", |text| text.starts_with("max"), "a job's groups have no CPU limits"),
    ("cpu.weight", |text| text == "100", "a job's groups have no CPU weights; a task has `nice`"),
    ("cpuset.cpus", str::is_empty, "a job's groups have no CPUs; a task has `cpu` and `node`"),
    ("cpuset.mems", str::is_empty, "a job's groups have no nodes; a task has `node` and `policy`"),
    ("io.max", str::is_empty, "a job's groups have no I/O limits"),
];
const LOST_V1: [Lost; 3] = [
    (
        "memory.kmem.limit_in_bytes",
        is_unlimited,
        "kernel memory counts against `limit` only, as in kernels since 5.16",
    ),
    ("memory.kmem.tcp.limit_in_bytes", is_unlimited, "memory of sockets is not limited separately"),
    (
        "memory.move_charge_at_immigrate",
        |text| text == "0",
        "the pages of a task stay charged to the group that it leaves",
    ),
];

pub(super) fn is_unlimited(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|bytes| bytes >= UNLIMITED)
}

/// A setting as a text for a line about it: a size, if the file is one of memory.
fn shown(file: &str, text: &str) -> String {
    let bytes = text.parse::<u64>().ok();
    let bytes = bytes.filter(|bytes| file.starts_with("memory.") && *bytes >= PAGE);
    bytes.map_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "), size_text)
}

fn lost(files: &mut Files<'_>, table: &[Lost], lost: &mut Vec<String>) -> Result<(), InputError> {
    for (file, is_default, why) in table {
        if let Some(text) = files.text(file)?.filter(|text| !is_default(text)) {
            lost.push(format!("{file} = {}: {why}", shown(file, &text)));
        }
    }
    Ok(())
}

/// Settings of a version 2 group.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(super) fn v2(files: &mut Files<'_>) -> Result<Settings, InputError> {
    let mut settings = Settings::default();
    for (file, key, default) in SIZES {
        *key(&mut settings.job) = files.limit(file)?.filter(|size| *size != default);
    }
    settings.job.oom_group = match files.text("memory.oom.group")?.as_deref() {
        None | Some("0") => false,
        Some("1") => true,
        Some(text) => return Err(files.malformed("memory.oom.group", text, "0 or 1")),
    };
    lost(files, &LOST_V2, &mut settings.lost)?;
    Ok(settings)
}

/// Settings of a version 1 group; `above`: the swappiness that it has in the job without a setting.
///
/// # Errors
/// If a file cannot be read or parsed.
pub(super) fn v1(files: &mut Files<'_>, above: u32) -> Result<Settings, InputError> {
    let mut settings = Settings::default();
    let limited = |size: &Amount| *size != Amount::Unlimited;
    settings.job.limit = files.limit("memory.limit_in_bytes")?.filter(limited);
    settings.job.memsw_limit = files.limit("memory.memsw.limit_in_bytes")?.filter(limited);
    settings.job.soft_limit = files.limit("memory.soft_limit_in_bytes")?.filter(limited);
    if let Some(own) = files.text("memory.swappiness")? {
        let number = own.parse().ok().filter(|own| (0..=200).contains(own));
        let number =
            number.ok_or_else(|| files.malformed("memory.swappiness", &own, "from 0 to 200"))?;
        settings.job.swappiness = Some(number).filter(|number| *number != above);
    }
    let control = files.text("memory.oom_control")?.unwrap_or_default();
    settings.job.oom_control = control.lines().any(|line| line.trim() == "oom_kill_disable 1");
    lost(files, &LOST_V1, &mut settings.lost)?;
    Ok(settings)
}

/// True if the groups below a version 1 group are charged to it.
///
/// # Errors
/// If the file cannot be read or parsed.
pub(super) fn counts_children(files: &mut Files<'_>) -> Result<bool, InputError> {
    match files.text("memory.use_hierarchy")?.as_deref() {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(text) => Err(files.malformed("memory.use_hierarchy", text, "0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read<T>(
        texts: &[(&str, &str)],
        read: impl FnOnce(&mut Files<'_>) -> Result<T, InputError>,
    ) -> Result<T, String> {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in texts {
            fs::write(dir.path().join(file), format!("{text}\n")).unwrap();
        }
        let (source, mut notes) = (Source::recorded(dir.path()), Vec::new());
        let strictness = Strictness::Fails;
        let mut files = Files { source: &source, dir: ".", strictness, notes: &mut notes };
        read(&mut files).map_err(|error| {
            error.to_string().rsplit_once('/').map_or_else(String::new, |(_, end)| end.to_owned())
        })
    }

    #[test]
    fn sizes_are_whole_pages_and_defaults_are_left_out() {
        let settings = read(
            &[
                ("memory.max", "max"),
                ("memory.high", "1048577"),
                ("memory.low", "0"),
                ("memory.min", "max"),
                ("memory.swap.max", "0"),
                ("memory.oom.group", "1"),
            ],
            v2,
        );
        let expected = JobGroup {
            high: Some(Amount::Bytes(1 << 20)),
            min: Some(Amount::Unlimited),
            swap_max: Some(Amount::Bytes(0)),
            oom_group: true,
            ..JobGroup::default()
        };
        assert_eq!(settings, Ok(Settings { job: expected, lost: Vec::new() }));
    }

    #[test]
    fn settings_of_other_controllers_are_listed() {
        let texts = [
            ("cpu.max", "50000 100000"),
            ("cpu.weight", "100"),
            ("io.max", "8:0 rbps=1 wbps=max\n9:0 rbps=2"),
            ("memory.zswap.max", "0"),
        ];
        let lost = read(&texts, v2).unwrap().lost;
        assert_eq!(
            lost,
            [
                "memory.zswap.max = 0: zswap is not modelled",
                "cpu.max = 50000 100000: a job's groups have no CPU limits",
                "io.max = 8:0 rbps=1 wbps=max 9:0 rbps=2: a job's groups have no I/O limits",
            ]
        );
    }

    #[test]
    fn version_1_has_settings_of_its_own() {
        let none = "9223372036854771712";
        let texts = [
            ("memory.limit_in_bytes", "536870912"),
            ("memory.memsw.limit_in_bytes", "805306368"),
            ("memory.soft_limit_in_bytes", "268435456"),
            ("memory.kmem.limit_in_bytes", none),
            ("memory.kmem.tcp.limit_in_bytes", none),
            ("memory.move_charge_at_immigrate", "0"),
            ("memory.swappiness", "10"),
            ("memory.oom_control", "oom_kill_disable 1\nunder_oom 0"),
        ];
        let mib = |mib: u64| Some(Amount::Bytes(mib << 20));
        let expected = JobGroup {
            limit: mib(512),
            memsw_limit: mib(768),
            soft_limit: mib(256),
            swappiness: Some(10),
            oom_control: true,
            ..JobGroup::default()
        };
        let settings = Settings { job: expected, lost: Vec::new() };
        assert_eq!(read(&texts, |files| v1(files, 60)), Ok(settings));
        let texts = [
            ("memory.limit_in_bytes", none),
            ("memory.memsw.limit_in_bytes", none),
            ("memory.swappiness", "60"),
            ("memory.kmem.limit_in_bytes", "1048576"),
        ];
        let lost = "memory.kmem.limit_in_bytes = 1M: kernel memory counts against `limit` only, as in kernels since 5.16";
        let settings = Settings { lost: vec![lost.to_owned()], ..Settings::default() };
        assert_eq!(read(&texts, |files| v1(files, 60)), Ok(settings));
        let error = read(&[("memory.swappiness", "201")], |files| v1(files, 60)).unwrap_err();
        assert_eq!(error, "memory.swappiness: \"201\" is not from 0 to 200");
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        let error = |file, text| read(&[(file, text)], v2).unwrap_err();
        let wanted = "memory.max: \"lots\" is not a number of bytes or max";
        assert_eq!(error("memory.max", "lots"), wanted);
        assert_eq!(error("memory.oom.group", "yes"), "memory.oom.group: \"yes\" is not 0 or 1");
        let texts = [("memory.use_hierarchy", "2")];
        assert_eq!(
            read(&texts, counts_children).unwrap_err(),
            "memory.use_hierarchy: \"2\" is not 0 or 1"
        );
    }
}
