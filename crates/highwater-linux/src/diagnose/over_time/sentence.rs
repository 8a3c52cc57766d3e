//! The shortages in one sentence for the whole time.

use super::super::words::time_text;
use super::intervals::Interval;
use super::pressure::{Reading, SPANS};
use super::series::{Kind, Short};
use super::text::{moment, moment_of_day, percent};
use super::{OverTime, text};

/// Percent of the disks' traffic from which on swap is the cause of it.
const MOSTLY_SWAP: f64 = 70.0;

/// The sentence.
pub(super) fn of(own: &OverTime) -> String {
    let resources = [Short::Memory, Short::Disks, Short::Cpus, Short::Other];
    let parts: Vec<String> = resources
        .into_iter()
        .flat_map(|resource| [shortage(own, resource), reading(own, resource)])
        .flatten()
        .collect();
    if parts.is_empty() {
        return nothing(own);
    }
    let mut sentence = parts.join("; ");
    if let Some(first) = sentence.get(..1) {
        let first = first.to_uppercase();
        sentence.replace_range(..1, &first);
    }
    sentence + "."
}

const fn was(resource: Short) -> &'static str {
    match resource {
        Short::Memory => "memory was",
        Short::Disks => "disks were",
        Short::Cpus => "CPUs were",
        Short::Other => "a resource that the text does not name was",
    }
}

/// `memory was short for 45 s of 120 s, from 18:35:21 to 18:36:06 (swap traffic ...)`.
fn shortage(own: &OverTime, resource: Short) -> Option<String> {
    let all = || own.intervals.iter().filter(|it| it.kind.short() == Some(resource));
    // The kinds have different units: the first kind is the one that says most, and pressure says
    // for how long tasks waited.
    let kind = all().map(|it| it.kind).min_by_key(|kind| (!kind.is_pressure(), *kind))?;
    let nr = all().filter(|it| it.kind == kind).count();
    let of_kind = all().filter(|it| it.kind == kind);
    let worst = of_kind.max_by(|a, b| a.weight().total_cmp(&b.weight()))?;
    let intervals: Vec<&Interval> = all().collect();
    let stalled = stalled(own, resource);
    let how_long = match (own.length_s, covered(&intervals)) {
        _ if stalled.is_some() => stalled.unwrap_or_default(),
        (Some(length), Some(short)) => {
            format!(" for {} of {}", text::seconds(short), text::seconds(length))
        }
        _ => format!(" in {} samples", intervals.iter().map(|it| it.nr_samples).sum::<usize>()),
    };
    let worst_of = match nr {
        1 => "",
        _ => "worst ",
    };
    let value = |value: f64| text::value(kind, value);
    let swap = match own.swap_io.filter(|_| kind == Kind::Disk) {
        Some(share) if share >= MOSTLY_SWAP => {
            format!(", mostly swap I/O ({} of their traffic)", percent(share))
        }
        _ => String::new(),
    };
    let range = match worst.nr_samples {
        1 if worst.length_s.is_none() => format!("in {}", moment(&worst.to)),
        _ => format!("from {} to {}", moment(&worst.from), moment_of_day(own, &worst.to)),
    };
    Some(format!(
        "{} short{how_long}{swap}, {worst_of}{range} ({}: {} on average, up to {} at {})",
        was(resource),
        kind.text().split_once(": ").map_or(kind.text(), |(_, what)| what),
        value(worst.mean),
        value(worst.peak),
        moment_of_day(own, &worst.peak_at)
    ))
}

/// `: all tasks were stalled for 4.10 s and some tasks for 9.00 s of 20 s`.
fn stalled(own: &OverTime, resource: Short) -> Option<String> {
    let of = |is_full: bool| {
        own.stalled
            .iter()
            .filter(|it| it.stalled_ns > 0)
            .find(|it| it.kind.short() == Some(resource) && it.kind.is_full() == is_full)
    };
    let (full, some) = (of(true), of(false));
    let times = match (full, some) {
        (Some(full), Some(some)) => format!(
            "all tasks were stalled for {} and some tasks for {}",
            time_text(full.stalled_ns),
            time_text(some.stalled_ns)
        ),
        (Some(full), None) => format!("all tasks were stalled for {}", time_text(full.stalled_ns)),
        (None, some) => format!("some tasks were stalled for {}", time_text(some?.stalled_ns)),
    };
    let length = some.or(full)?.of_s;
    let length = length.map_or_else(String::new, |s| format!(" of {}", text::seconds(s)));
    Some(format!(": {times}{length}"))
}

/// `memory was short in the last 10 s: some tasks waited 78% of the time, all tasks 70%`.
fn reading(own: &OverTime, resource: Short) -> Option<String> {
    let all: Vec<&Reading> = own
        .readings
        .iter()
        .filter(|reading| reading.is_only && reading.kind.short() == Some(resource))
        .collect();
    let spans: Vec<usize> =
        (0..SPANS.len()).filter(|span| all.iter().any(|reading| reading.is_short(*span))).collect();
    let first = *spans.first()?;
    let names: Vec<&str> = spans.iter().map(|span| SPANS[*span]).collect();
    // Some tasks first: all tasks are some of them.
    let mut parts = Vec::new();
    for reading in all.iter().rev() {
        let values: Option<Vec<String>> =
            spans.iter().map(|span| reading.averages[*span].map(percent)).collect();
        let Some(values) = values else { continue };
        let what = reading.kind.text().split_once(": ").map_or("tasks waited", |(_, what)| what);
        parts.push(format!("{what} {} of the time", and(&values)));
    }
    let before = match all.first().and_then(|reading| reading.stamp.as_ref()) {
        Some(stamp) => format!(" before {stamp}"),
        None => String::new(),
    };
    let no_longer = match first {
        0 => "",
        _ if all.iter().all(|reading| reading.averages[0].is_some()) => {
            ", no longer in the last 10 s"
        }
        _ => "",
    };
    Some(format!(
        "{} short in the last {}{before}{no_longer}: {}",
        was(resource),
        and(&names),
        parts.join(", ")
    ))
}

/// `a, b and c`.
fn and<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Seconds that at least one interval covers; the intervals are in the order of their begin.
fn covered(intervals: &[&Interval]) -> Option<f64> {
    let (mut sum, mut until) = (0.0, f64::NEG_INFINITY);
    for interval in intervals {
        interval.length_s?;
        let (from, to) = (interval.from.order.max(until), interval.to.order);
        if to > from {
            sum += to - from;
            until = to;
        }
    }
    Some(sum)
}

fn nothing(own: &OverTime) -> String {
    let judged: Vec<Kind> = own.looked_at.iter().copied().filter(|k| k.short().is_some()).collect();
    if judged.is_empty() {
        return "The text has no value that says if memory, disks or CPUs were short.".to_owned();
    }
    let only = own.readings.iter().any(|reading| reading.is_only);
    if only && own.nr_samples[0] == 0 && own.span.is_none() {
        return no_pressure(own);
    }
    let how_long = own.length_s.map_or_else(
        || format!("in {} samples", own.nr_samples[0] + own.nr_samples[1]),
        |length| format!("in {}", text::seconds(length)),
    );
    let mut without: Vec<&str> = Vec::new();
    for (kind, words) in [
        (Kind::Swap, "no swapping out"),
        (Kind::Disk, "no waits for disks"),
        (Kind::Cpu, "a CPU to spare"),
    ] {
        if judged.contains(&kind) {
            without.push(words);
        }
    }
    if judged.iter().any(|kind| kind.is_pressure()) {
        without.push("no pressure above its limit");
    }
    let floor = own.intervals.iter().any(|it| it.kind == Kind::FreeFloor);
    let and = match own.least_free.filter(|_| floor) {
        Some(bytes) => format!(
            "; free memory was at its floor of {}, which reclaim holds",
            text::value(Kind::FreeFloor, bytes as f64)
        ),
        None => String::new(),
    };
    let list = without.join(", ");
    let list = if list.is_empty() { "no value is above its limit".to_owned() } else { list };
    format!("Nothing was short {how_long}: {list}{and}.")
}

/// The averages of single readings, none of which is at its limit.
fn no_pressure(own: &OverTime) -> String {
    let only: Vec<&Reading> = own.readings.iter().filter(|reading| reading.is_only).collect();
    let of = |reading: &Reading| reading.averages.iter().any(Option::is_some);
    let read: Vec<&&Reading> = only.iter().filter(|reading| of(reading)).collect();
    let spans: Vec<&str> = (0..SPANS.len())
        .filter(|span| read.iter().all(|reading| reading.averages[*span].is_some()))
        .map(|span| SPANS[span])
        .collect();
    let mut resources: Vec<Short> =
        read.iter().filter_map(|reading| reading.kind.short()).collect();
    resources.dedup();
    let names: Vec<&str> = resources
        .into_iter()
        .map(|resource| match resource {
            Short::Memory => "memory",
            Short::Disks => "disks",
            Short::Cpus => "CPUs",
            Short::Other => "a resource that the text does not name",
        })
        .collect();
    let most = read.iter().flat_map(|reading| reading.averages.into_iter().flatten());
    format!(
        "No pressure above its limit in the last {} ({}): tasks waited {} of the time at most.",
        and(&spans),
        and(&names),
        percent(most.fold(0.0, f64::max))
    )
}
