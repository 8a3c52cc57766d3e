//! The shortages in one sentence for the whole time.

use super::intervals::{Interval, Moment};
use super::series::{Kind, Short};
use super::{OverTime, text};

/// The sentence.
pub(super) fn of(own: &OverTime) -> String {
    let resources = [Short::Memory, Short::Disks, Short::Cpus, Short::Other];
    let parts: Vec<String> =
        resources.into_iter().filter_map(|resource| shortage(own, resource)).collect();
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

/// `memory was short for 45 s of 120 s, worst from 18:35:21 to 18:35:50 (swap traffic ...)`.
fn shortage(own: &OverTime, resource: Short) -> Option<String> {
    let all = || own.intervals.iter().filter(|it| it.kind.short() == Some(resource));
    // The kinds have different units: the first kind is the one that says most.
    let kind = all().map(|it| it.kind).min()?;
    let of_kind = all().filter(|it| it.kind == kind);
    let worst = of_kind.max_by(|a, b| a.weight().total_cmp(&b.weight()))?;
    let name = match resource {
        Short::Memory => "memory was",
        Short::Disks => "disks were",
        Short::Cpus => "CPUs were",
        Short::Other => "a resource that the text does not name was",
    };
    let intervals: Vec<&Interval> = all().collect();
    let how_long = match (own.length_s, covered(&intervals)) {
        (Some(length), Some(short)) => {
            format!("for {} of {}", text::seconds(short), text::seconds(length))
        }
        _ => format!("in {} samples", intervals.iter().map(|it| it.nr_samples).sum::<usize>()),
    };
    let value = |value: f64| text::value(kind, value);
    Some(format!(
        "{name} short {how_long}, worst from {} to {} ({}: {} on average, up to {})",
        moment(&worst.from),
        moment(&worst.to),
        kind.text().split_once(": ").map_or(kind.text(), |(_, what)| what),
        value(worst.mean),
        value(worst.peak)
    ))
}

/// A moment in a sentence.
fn moment(moment: &Moment) -> String {
    text::moment(moment)
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
    let how_long = own.length_s.map_or_else(
        || format!("in {} samples", own.nr_samples[0] + own.nr_samples[1]),
        |length| format!("in {}", text::seconds(length)),
    );
    let looked = |kind: Kind| own.looked_at.contains(&kind);
    let mut without: Vec<&str> = Vec::new();
    for (kind, words) in [
        (Kind::Swap, "no swap traffic"),
        (Kind::Disk, "no waits for disks"),
        (Kind::Cpu, "a CPU to spare"),
    ] {
        if looked(kind) {
            without.push(words);
        }
    }
    if own
        .looked_at
        .iter()
        .any(|kind| matches!(kind, Kind::MemorySome | Kind::IoSome | Kind::CpuPressure))
    {
        without.push("no pressure to speak of");
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
