//! Lines of `/proc/pressure/*`, alone or among others:
//!
//! ```text
//! some avg10=0.00 avg60=0.00 avg300=0.00 total=0
//! full avg10=0.00 avg60=0.00 avg300=0.00 total=0
//! ```

use serde::Serialize;

/// The resource that tasks waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Memory: reclaim, swap-in, refaults.
    Memory,
    /// Disks.
    Io,
    /// CPUs.
    Cpu,
    /// Interrupts.
    Irq,
    /// The text does not name it.
    Unnamed,
}

/// Some tasks waited, or all that were not idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// At least one task.
    Some,
    /// All tasks.
    Full,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// Some or full.
    pub share: Share,
    /// Percent of the last 10 seconds.
    pub avg10: Option<f64>,
    /// Percent of the last 60 seconds.
    pub avg60: Option<f64>,
    /// Percent of the last 300 seconds.
    pub avg300: Option<f64>,
    /// Microseconds since boot.
    pub total_us: Option<u64>,
}

impl Pressure {
    /// Reads a line; also returns the text before it.
    pub(super) fn of(line: &str) -> Option<(Pressure, &str)> {
        let at = line.find("avg10=")?;
        let before = line[..at].trim_end();
        let (before, share) = match (before.strip_suffix("some"), before.strip_suffix("full")) {
            (Some(before), _) => (before, Share::Some),
            (_, Some(before)) => (before, Share::Full),
            _ => return None,
        };
        let value = |name: &str| {
            let mut words = line[at..].split_whitespace();
            words.find_map(|word| word.strip_prefix(name))
        };
        let average = |name: &str| {
            let percent = value(name).and_then(|text| text.parse::<f64>().ok());
            percent.filter(|percent| (0.0..=100.0).contains(percent))
        };
        let (avg10, avg60, avg300) = (average("avg10="), average("avg60="), average("avg300="));
        let total_us = value("total=").and_then(|text| text.parse().ok());
        (avg10.is_some() || total_us.is_some())
            .then_some((Pressure { share, avg10, avg60, avg300, total_us }, before.trim_end()))
    }
}

impl Resource {
    /// The resource that a heading, a file name or the text before a line names.
    pub(super) fn named(text: &str) -> Option<Resource> {
        const NAMES: [(&str, Resource); 4] = [
            ("memory", Resource::Memory),
            ("io", Resource::Io),
            ("cpu", Resource::Cpu),
            ("irq", Resource::Irq),
        ];
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| {
            let found = |name: &str| word.eq_ignore_ascii_case(name);
            NAMES.iter().find(|(name, _)| found(name)).map(|(_, resource)| *resource)
        })
    }

    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Io => "I/O",
            Resource::Cpu => "CPU",
            Resource::Irq => "interrupts",
            Resource::Unnamed => "a resource that the text does not name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_names() {
        let line = "full avg10=1.25 avg60=0.50 avg300=0.00 total=77";
        let (avg10, avg60, avg300) = (Some(1.25), Some(0.5), Some(0.0));
        let expected = Pressure { share: Share::Full, avg10, avg60, avg300, total_us: Some(77) };
        assert_eq!(Pressure::of(line), Some((expected, "")));
        let named = format!("/proc/pressure/memory:{line}");
        let (own, before) = Pressure::of(&named).unwrap();
        assert_eq!((own, Resource::named(before)), (expected, Some(Resource::Memory)));
        for (text, resource) in [
            ("==> /proc/pressure/io <==", Some(Resource::Io)),
            ("cpu.pressure", Some(Resource::Cpu)),
            ("18:00:00", None),
            ("radio", None),
        ] {
            assert_eq!(Resource::named(text), resource, "{text}");
        }
    }

    #[test]
    fn damaged_lines_have_what_is_left() {
        let cut = Pressure::of("some avg10=3.00 avg60=0.0").unwrap().0;
        assert_eq!((cut.avg10, cut.total_us), (Some(3.0), None));
        for bad in ["", "some", "some avg10=", "none avg10=1.0 total=1", "some avg10=x total=y"] {
            assert_eq!(Pressure::of(bad), None, "{bad}");
        }
        assert_eq!(Pressure::of("some avg10=1e999 total=3").unwrap().0.avg10, None);
    }
}
