//! The figures of a disk, from reads at several depths.

use highwater_calibrate::Calibration;

use super::Computer;
use super::derive::figure;
use crate::capture::MeasuredDisk;

/// Measured figures of a `[[disk]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFigures {
    /// The disk's name in `/sys/block`.
    pub disk: String,
    /// `read-latency-ns`.
    pub read_latency_ns: u64,
    /// `read-bytes-per-s`.
    pub read_bytes_per_s: u64,
    /// `channels`: how many reads it serves at once, as far as depths were tried.
    pub channels: u64,
    /// Their source.
    pub source: String,
}

impl DiskFigures {
    /// Of a calibration; `None` if its disk was not measured, or rotates: then seeks decide, which
    /// random reads of one file do not show.
    pub fn new(calibration: &Calibration, computer: &Computer) -> Option<DiskFigures> {
        let place = &calibration.place;
        let disk = place.disk.clone()?;
        // A virtual disk says that it rotates, whatever is below it.
        let is_virtual = disk.starts_with("vd") || disk.starts_with("xvd");
        if place.is_rotational == Some(true) && !is_virtual {
            return None;
        }
        let best = |name: &str| {
            let depths = calibration.rows.iter().filter(|row| {
                row.name.starts_with(&format!("read.{name}.depth")) && row.name.ends_with(".rate")
            });
            depths.map(|row| row.spread.median).max_by(f64::total_cmp)
        };
        let (alone, bytes_per_s, per_s) =
            (calibration.median("read.4k.depth1")?, best("1m")?, best("4k")?);
        if bytes_per_s < 1.0 {
            return None;
        }
        // The rest of a read is the bus's time for its bytes.
        let latency = (alone - 4096.0 / bytes_per_s * 1e9).max(0.0);
        let channels = (per_s * latency / 1e9).round().max(1.0);
        let file = place.filesystem.as_deref().unwrap_or("a file system");
        let source = format!(
            "measured {}, random direct reads of a file on {file}: 4 KiB alone {} us, at most {} a \
             second; 1 MiB at most {} MB/s; the cache of a host or controller may be in it",
            computer.date,
            figure(alone / 1e3),
            figure(per_s),
            figure(bytes_per_s / 1e6)
        );
        Some(DiskFigures {
            disk,
            read_latency_ns: latency.round() as u64,
            read_bytes_per_s: bytes_per_s.round() as u64,
            channels: channels as u64,
            source,
        })
    }

    /// The keys of a `[[disk]]`, a line each.
    pub fn lines(&self) -> [String; 3] {
        [
            format!("channels = {}", self.channels),
            format!("read-latency-ns = {}", self.read_latency_ns),
            format!("read-bytes-per-s = {}", self.read_bytes_per_s),
        ]
    }
}

impl From<DiskFigures> for MeasuredDisk {
    fn from(figures: DiskFigures) -> MeasuredDisk {
        let lines = figures.lines().to_vec();
        MeasuredDisk { name: figures.disk, lines, source: figures.source }
    }
}

#[cfg(test)]
mod tests {
    use super::super::derive::tests::{calibration, computer};
    use super::*;

    #[test]
    fn latency_and_channels_follow_from_depths() {
        let rows = [
            ("read.4k.depth1", 100_000.0),
            ("read.4k.depth1.rate", 10_000.0),
            ("read.4k.depth16.rate", 80_000.0),
            ("read.1m.depth1.rate", 1e9),
            ("read.1m.depth4.rate", 2e9),
        ];
        let mut measured = calibration(&rows);
        assert_eq!(DiskFigures::new(&measured, &computer()), None, "no disk");
        measured.place.disk = Some("nvme0n1".to_owned());
        let figures = DiskFigures::new(&measured, &computer()).unwrap();
        // 4 KiB take 2.048 us on the bus.
        assert_eq!((figures.read_latency_ns, figures.channels), (97_952, 8));
        assert_eq!(figures.read_bytes_per_s, 2_000_000_000);
        measured.place.is_rotational = Some(true);
        assert_eq!(DiskFigures::new(&measured, &computer()), None, "it rotates");
        measured.place.disk = Some("vda".to_owned());
        assert!(DiskFigures::new(&measured, &computer()).is_some());
    }
}
