//! The figures of a job's run: of each operation, of pressure, and the kernel's own files.

use highwater_core::reclaim::OomReport;
use highwater_report::latency::bucket;
use highwater_results::words::{count, was};
use highwater_results::{Histogram, KERNEL_LOG_FILE, LATENCY, Largest, PRESSURE_FILE};
use highwater_sim::pressure::{Lines, Reading, Resource};
use highwater_workloads::jobs::Recorded;

use super::plan::Operation;
use super::{
    FAILED, FAULT_KINDS, HITS, LONGEST, PERCENTILES, PRESSURE_LINES, RATE, REFAULTS, named,
};
use crate::outcome::Outcome;

const NS_PER_US: f64 = 1e3;

/// A rate above this multiple of what arrives is one of a short time.
const RATE_ABOVE: f64 = 1.1;

/// A remark if so few operations arrived that their rate is far above what arrives: it is over less time than the phase
/// takes.
fn short_span(operation: &str, record: &Recorded, arrivals: Option<f64>) -> Option<String> {
    let (rate, asked) = (record.rate(), arrivals?);
    let (from_ns, to_ns) = record.span_ns?;
    (rate > asked * RATE_ABOVE).then(|| {
        let (nr, seconds) = (count(record.count(), "operation"), (to_ns - from_ns) as f64 / 1e9);
        format!(
            "{operation}: the rate is over {seconds:.6} s, from the first arrival to the end of the last of {nr}; the job \
             asks for {asked} arrivals a second"
        )
    })
}

/// Reports the metrics of an operation; one that never ended has none.
pub(super) fn tell(operation: &Operation, record: &Recorded, seed: u64, outcome: &mut Outcome) {
    let Operation { has_faults, has_refaults, has_hits, arrivals, .. } = operation;
    let has_failures = operation.has_failures || operation.has_shortfalls;
    let operation = &operation.name;
    let us = |ns: u64| ns as f64 / NS_PER_US;
    let unanswered = record.unanswered;
    if unanswered > 0 {
        let all = unanswered + record.count();
        let (all, were) = (count(all, "arrival"), was(unanswered));
        let note = format!("{operation}: {unanswered} of {all} {were} never answered");
        outcome.notes.push(format!("{note}: the task had died; a \"-\" in a table means never"));
    }
    let Some((longest_ns, at_ns)) = record.longest else {
        outcome.notes.push(format!("{operation}: none has ended"));
        if unanswered > 0 {
            outcome.samples.push((named(operation, RATE), 0.0));
        }
        return;
    };
    let mut histogram = Histogram::new(LATENCY, operation, "nanoseconds, up to");
    for step in record.latencies.iter_recorded() {
        let key = bucket(step.value_iterated_to().min(longest_ns)).to_string();
        histogram.record(&key, step.count_at_value());
    }
    outcome.histograms.push(histogram);
    outcome.notes.extend(short_span(operation, record, arrivals.a_second()));
    let mut push = |figure: &str, value: f64| {
        outcome.samples.push((named(operation, figure), value));
    };
    push(RATE, record.rate());
    // If too many requests were never answered, there is no latency.
    for (quantile, name) in PERCENTILES {
        if let Some(ns) = record.quantile_ns(quantile) {
            push(name, us(ns));
        }
    }
    if unanswered == 0 {
        push(LONGEST, us(longest_ns));
    }
    if *has_faults {
        let faults = [record.minor, record.major];
        FAULT_KINDS.iter().zip(faults).for_each(|(kind, faults)| push(kind, faults as f64));
    }
    if *has_refaults {
        for ((name, _), refaults) in REFAULTS.iter().zip(record.refaults) {
            push(name, refaults as f64);
        }
    }
    if let Some(share) = record.hit_ratio().filter(|_| *has_hits) {
        push(HITS, 100.0 * share);
    }
    if has_failures {
        push(FAILED, record.failed as f64);
    }
    if unanswered > 0 {
        return;
    }
    let (operation, value) = (named(operation, LONGEST), us(longest_ns));
    Largest::keep(&mut outcome.largest, Largest { operation, seed, value, at_ns });
}

/// Reports for which shares of time some tasks, and all tasks, waited for each resource.
pub(super) fn tell_pressure(pressure: Reading, elapsed_ns: u64, outcome: &mut Outcome) {
    for resource in Resource::ALL {
        let Lines { some, full } = pressure.of(resource);
        for (line, name) in [some, full].into_iter().zip(PRESSURE_LINES) {
            if resource == Resource::Cpu && name != PRESSURE_LINES[0] {
                continue;
            }
            let share = 100.0 * line.total_us as f64 * NS_PER_US / elapsed_ns.max(1) as f64;
            outcome.samples.push((named(resource.name(), name), share));
        }
    }
}

/// The kernel's own proc files at the end.
pub(super) fn texts(pressure: Option<Reading>, kills: &[OomReport]) -> Vec<(&'static str, String)> {
    let files = pressure.map(|reading| {
        let file = |of: Resource| format!("/proc/pressure/{}\n{}", of.name(), reading.of(of));
        Resource::ALL.map(file).concat()
    });
    let lines = kills.iter().flat_map(|kill| {
        let at_s = kill.at_ns as f64 / 1e9;
        kill.text.lines().map(move |line| format!("[{at_s:12.6}] {line}\n"))
    });
    let log: String = lines.collect();
    let mut texts: Vec<_> = files.map(|files| (PRESSURE_FILE, files)).into_iter().collect();
    if !log.is_empty() {
        texts.push((KERNEL_LOG_FILE, log));
    }
    texts
}
