//! `kind: stutterp` and `kind: storm`: hogs, writers and a latency worker on slow disks, and how
//! reclaim was throttled meanwhile.
//!
//! There are two forms of file. The first captures have one run, whose `counters`, `latency_ms` and
//! `throttled` are fields of the file. Later ones have `runs`, each with these fields and with
//! `events`, which include the waits of older kernels. [`Throttling`] covers both; no code outside
//! this module sees the difference.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::model::{Counters, Zone};
use super::validate::{Checked, machine, mapping};
use super::{Document, ImportError};

/// Prefix of 6.1's reasons.
const REASON: &str = "VMSCAN_THROTTLE_";
/// Prefix of 5.10's wait events.
const WRITEBACK: &str = "writeback_";

/// A captured run, or several of the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttling {
    /// The Linux version.
    pub kernel: String,
    /// Pages that Linux reports.
    pub phys_pages: u64,
    /// Number of CPUs.
    pub cpus: u32,
    /// Zones with memory, before the run.
    pub zones: Vec<Zone>,
    /// Number of workers.
    pub workers: u32,
    /// Of these, file writers.
    pub writers: u32,
    /// Of these, anonymous memory hogs.
    pub hogs: u32,
    /// File size of each writer.
    pub file_bytes_each: u64,
    /// Bytes per write of a writer; the page size if the file does not say.
    pub write_bytes: u64,
    /// Mapping size of each hog; `None` for an equal share of the memory that is free at the start,
    /// less `room_bytes`.
    pub hog_bytes_each: Option<u64>,
    /// Memory that the hogs leave of what is free at the start.
    pub room_bytes: u64,
    /// Time that a hog holds its memory before it unmaps it; `None` if the file does not say.
    pub hog_sleep_ms: Option<u64>,
    /// Mapping size of the latency worker.
    pub latency_bytes: u64,
    /// Duration.
    pub seconds: f64,
    /// Speed of each disk.
    pub disk_bytes_per_s: u64,
    /// Size of the swap area; `None` if the file does not say.
    pub swap_bytes: Option<u64>,
    /// Kernel settings, by the kernel's names.
    pub settings: BTreeMap<String, String>,
    /// One or more runs.
    pub runs: Vec<ThrottlingRun>,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottlingRun {
    /// Seconds it took on the emulated machine, if known.
    pub elapsed_s: Option<f64>,
    /// CPU time of the whole machine by kind (`user`, `system`, `idle`, ...), seconds; empty if not
    /// recorded.
    pub cpu_s: BTreeMap<String, f64>,
    /// Changes of the counters over the run.
    pub counters: Counters,
    /// Times of the latency worker, in order.
    pub latency_ms: Vec<f64>,
    /// Waits of reclaim.
    pub waits: Waits,
    /// Totals of the later part of the run, if recorded.
    pub after_10_s: Option<After>,
}

/// How often reclaim waited, and for how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// Waits of tasks that allocate.
    pub direct: Vec<Bar>,
    /// Waits of kswapd.
    pub kswapd: Vec<Bar>,
    /// Sleeps of 100 ms for isolated pages, which leave no length; `None` if they were not counted.
    pub msleep100: Option<u64>,
}

/// One bar of a histogram of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Kind of wait: `ISOLATED`, `congestion_wait`, ...
    pub kind: String,
    /// Sleeps.
    pub count: u64,
    /// Longest sleep allowed.
    pub usec_timeout: u64,
    /// Time slept.
    pub usec_delayed: u64,
}

/// The part of a run after its tenth second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct After {
    /// Length of this part.
    pub seconds: f64,
    /// System time of all CPUs.
    pub system_cpu_s: f64,
    /// Pages scanned by direct reclaim.
    pub pgscan_direct: u64,
    /// Pages reclaimed by direct reclaim.
    pub pgsteal_direct: u64,
    /// Pages scanned by kswapd.
    pub pgscan_kswapd: u64,
}

impl Throttling {
    /// Reads either form.
    pub(super) fn read(document: &Document<'_>) -> Result<Self, ImportError> {
        let raw: Raw = document.read()?;
        raw.validate(document)?;
        Ok(raw.into_captured())
    }

    /// True if another capture has the same work, so that its runs count as runs of this one.
    #[must_use]
    pub fn is_same_work(&self, other: &Self) -> bool {
        let work = |c: &Self| {
            (
                (c.cpus, c.workers, c.writers, c.hogs, c.seconds.to_bits()),
                (c.file_bytes_each, c.write_bytes, c.hog_bytes_each, c.room_bytes),
                (c.latency_bytes, c.disk_bytes_per_s, c.swap_bytes),
            )
        };
        self.kernel == other.kernel && work(self) == work(other)
    }
}

/// A file of either form.
#[derive(Deserialize)]
struct Raw {
    kernel: String,
    phys_pages: u64,
    cpus: u32,
    zones: Vec<Zone>,
    workers: u32,
    writers: u32,
    hogs: u32,
    file_bytes_each: u64,
    #[serde(default)]
    write_bytes: Option<u64>,
    #[serde(default)]
    hog_bytes_each: Option<u64>,
    #[serde(default)]
    room_bytes: Option<u64>,
    #[serde(default)]
    hog_sleep_ms: Option<u64>,
    latency_bytes: u64,
    seconds: f64,
    disk_bytes_per_s: u64,
    #[serde(default)]
    swap_bytes: Option<u64>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    runs: Option<Vec<RawRun>>,
    /// The fields below belong to the first form.
    #[serde(default)]
    counters: Option<Counters>,
    #[serde(default)]
    latency_ms: Vec<f64>,
    #[serde(default)]
    throttled: Vec<RawBar>,
    #[serde(default)]
    throttled_kswapd: Vec<RawBar>,
}

#[derive(Deserialize)]
struct RawRun {
    #[serde(default)]
    elapsed_s: Option<f64>,
    #[serde(default)]
    cpu_s: BTreeMap<String, f64>,
    counters: Counters,
    latency_ms: Vec<f64>,
    #[serde(default)]
    events: BTreeMap<String, RawEvent>,
    #[serde(default)]
    after_10_s: Option<After>,
}

#[derive(Deserialize)]
struct RawEvent {
    /// Waits of all tasks, including kswapd.
    #[serde(default)]
    histogram: Vec<RawBar>,
    /// kswapd's part of these waits.
    #[serde(default)]
    kswapd: Vec<RawBar>,
    #[serde(default)]
    by_task: BTreeMap<String, u64>,
}

#[derive(Clone, PartialEq, Eq, Deserialize)]
struct RawBar {
    count: u64,
    usec_timeout: u64,
    usec_delayed: u64,
    /// `VMSCAN_THROTTLE_...`; events of older kernels have only their name.
    #[serde(default)]
    reason: Option<String>,
}

impl Raw {
    fn validate(&self, document: &Document<'_>) -> Checked {
        machine(document, self.cpus, self.phys_pages, &self.zones)?;
        let parts = u64::from(self.writers) + u64::from(self.hogs) + 1;
        if parts > u64::from(self.workers) {
            let problem = format!(
                "{} is less than writers, hogs and the latency worker ({parts})",
                self.workers
            );
            return Err(document.error("workers", problem));
        }
        if !self.seconds.is_finite() || self.seconds <= 0.0 {
            return Err(document.error("seconds", format!("{} is not a duration", self.seconds)));
        }
        if self.disk_bytes_per_s == 0 {
            return Err(document.error("disk_bytes_per_s", "0: such a disk never answers"));
        }
        if self.writers > 0 {
            mapping(document, "file_bytes_each", self.file_bytes_each)?;
        }
        if let Some(bytes) = self.write_bytes {
            mapping(document, "write_bytes", bytes)?;
        }
        match self.hog_bytes_each {
            Some(bytes) if self.hogs > 0 => mapping(document, "hog_bytes_each", bytes)?,
            None if self.hogs > 0 && self.room_bytes.is_none() => {
                return Err(document.error("hogs", "neither hog_bytes_each nor room_bytes"));
            }
            _ => {}
        }
        mapping(document, "latency_bytes", self.latency_bytes)?;
        let Some(runs) = &self.runs else {
            if self.counters.as_ref().is_none_or(Counters::is_empty) {
                return Err(document.error("counters", "no counter, and no runs"));
            }
            latencies(document, "latency_ms", &self.latency_ms)?;
            bars(document, "throttled", &self.throttled, Length::AtMostTimeout)?;
            return bars(
                document,
                "throttled_kswapd",
                &self.throttled_kswapd,
                Length::AtMostTimeout,
            );
        };
        if runs.is_empty() {
            return Err(document.error("runs", "no run"));
        }
        runs.iter()
            .enumerate()
            .try_for_each(|(i, run)| run.validate(document, &format!("runs[{i}]")))
    }

    fn into_captured(self) -> Throttling {
        let runs = match self.runs {
            Some(runs) => runs.into_iter().map(RawRun::into_captured).collect(),
            None => vec![ThrottlingRun {
                elapsed_s: None,
                cpu_s: BTreeMap::new(),
                counters: self.counters.unwrap_or_default(),
                latency_ms: self.latency_ms,
                waits: Waits {
                    direct: self.throttled.into_iter().map(|bar| bar.named("")).collect(),
                    kswapd: self.throttled_kswapd.into_iter().map(|bar| bar.named("")).collect(),
                    msleep100: None,
                },
                after_10_s: None,
            }],
        };
        Throttling {
            kernel: self.kernel,
            phys_pages: self.phys_pages,
            cpus: self.cpus,
            zones: self.zones,
            workers: self.workers,
            writers: self.writers,
            hogs: self.hogs,
            file_bytes_each: self.file_bytes_each,
            write_bytes: self.write_bytes.unwrap_or(super::validate::PAGE_SIZE),
            hog_bytes_each: self.hog_bytes_each,
            room_bytes: self.room_bytes.unwrap_or(0),
            hog_sleep_ms: self.hog_sleep_ms,
            latency_bytes: self.latency_bytes,
            seconds: self.seconds,
            disk_bytes_per_s: self.disk_bytes_per_s,
            swap_bytes: self.swap_bytes,
            settings: self.settings,
            runs,
        }
    }
}

impl RawRun {
    fn validate(&self, document: &Document<'_>, path: &str) -> Checked {
        if self.counters.is_empty() {
            return Err(document.error(format!("{path}.counters"), "no counter"));
        }
        latencies(document, &format!("{path}.latency_ms"), &self.latency_ms)?;
        for (name, event) in &self.events {
            // Waits for congestion are measured in ticks and end one tick late.
            let length =
                if name.starts_with(WRITEBACK) { Length::Any } else { Length::AtMostTimeout };
            for (field, list) in [("histogram", &event.histogram), ("kswapd", &event.kswapd)] {
                bars(document, &format!("{path}.events.{name}.{field}"), list, length)?;
            }
        }
        Ok(())
    }

    fn into_captured(self) -> ThrottlingRun {
        let mut waits = Waits::default();
        for (name, event) in self.events {
            if name == "msleep100" {
                // Workers of the block layer sleep in the same place for other reasons, so they are
                // left out.
                let reclaimers =
                    event.by_task.iter().filter(|(task, _)| !task.starts_with("kworker"));
                waits.msleep100 = Some(reclaimers.map(|(_, count)| count).sum());
                continue;
            }
            let kind = name.strip_prefix(WRITEBACK).unwrap_or(&name);
            for bar in event.histogram {
                let same = |other: &&RawBar| {
                    (&other.reason, other.usec_timeout, other.usec_delayed)
                        == (&bar.reason, bar.usec_timeout, bar.usec_delayed)
                };
                let of_kswapd: u64 = event.kswapd.iter().filter(same).map(|bar| bar.count).sum();
                let mut bar = bar.named(kind);
                bar.count = bar.count.saturating_sub(of_kswapd);
                if bar.count > 0 {
                    waits.direct.push(bar);
                }
            }
            waits.kswapd.extend(event.kswapd.into_iter().map(|bar| bar.named(kind)));
        }
        ThrottlingRun {
            elapsed_s: self.elapsed_s,
            cpu_s: self.cpu_s,
            counters: self.counters,
            latency_ms: self.latency_ms,
            waits,
            after_10_s: self.after_10_s,
        }
    }
}

impl RawBar {
    /// The bar of an event, named by its reason, or by the event if it has none.
    fn named(self, event: &str) -> Bar {
        let kind = match &self.reason {
            Some(reason) => reason.strip_prefix(REASON).unwrap_or(reason),
            None => event,
        };
        let RawBar { count, usec_timeout, usec_delayed, .. } = self;
        Bar { kind: kind.to_owned(), count, usec_timeout, usec_delayed }
    }
}

/// Limit on the length of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    /// The remaining time is subtracted from the timeout, so a wait is never longer than the
    /// timeout.
    AtMostTimeout,
    /// Any elapsed time.
    Any,
}

fn bars(document: &Document<'_>, field: &str, bars: &[RawBar], length: Length) -> Checked {
    for (i, bar) in bars.iter().enumerate() {
        if bar.reason.as_ref().is_some_and(String::is_empty) {
            return Err(document.error(format!("{field}[{i}].reason"), "empty"));
        }
        let RawBar { usec_timeout, usec_delayed, .. } = *bar;
        if length == Length::AtMostTimeout && usec_delayed > usec_timeout {
            let problem = format!("{usec_delayed} is above the timeout of {usec_timeout}");
            return Err(document.error(format!("{field}[{i}].usec_delayed"), problem));
        }
    }
    Ok(())
}

fn latencies(document: &Document<'_>, field: &str, list: &[f64]) -> Checked {
    for (i, ms) in list.iter().enumerate() {
        if !ms.is_finite() || *ms < 0.0 {
            return Err(document.error(format!("{field}[{i}]"), format!("{ms} is not a duration")));
        }
    }
    Ok(())
}
