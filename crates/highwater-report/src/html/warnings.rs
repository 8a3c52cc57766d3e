//! Warnings about results that are weaker than they look, with advice.

use highwater_results::{Document, Run};

use super::distribution::POLICIES_MAX;
use crate::stalls::Delays;

/// With fewer samples, outliers cannot be recognised.
const SAMPLES_MIN: usize = 20;
/// Number of operations named; if there are more, only their number is given.
const NAMED_MAX: usize = 4;
/// With fewer sleeps, their lengths prove nothing.
const SLEEPS_MIN: u64 = 50;

/// All warnings about a document.
pub(super) fn of(document: &Document) -> Vec<String> {
    let mut warnings = Vec::new();
    if document.runs.len() > 1 && document.iterations == 1 {
        warnings.push(
            "One seed: no intervals, and any of this may be chance. Run it with --iterations 6 or more.".to_owned(),
        );
    } else if document.runs.len() > 1 && document.iterations < 6 {
        let n = document.iterations;
        warnings.push(format!(
            "{n} seeds: intervals of so few are too narrow. Run it with --iterations 6 or more."
        ));
    }
    let hidden = document.by_machine().iter().map(|(_, runs)| runs.len()).max().unwrap_or(0);
    if hidden > POLICIES_MAX {
        let most = POLICIES_MAX;
        warnings.push(format!("Figures show the first {most} policies; tables have all {hidden}."));
    }
    warnings.extend(outliers(document));
    warnings.extend(slept_to_the_end(document));
    for note in document.runs.iter().flat_map(Run::remarks) {
        if !warnings.contains(note) {
            warnings.push(note.clone());
        }
    }
    warnings
}

/// Operations whose mean is decided by one sample.
fn outliers(document: &Document) -> Option<String> {
    let mut named: Vec<String> = Vec::new();
    for run in &document.runs {
        for operation in run.operations() {
            let values = run.values(operation);
            let sum: f64 = values.iter().sum();
            let largest = values.iter().copied().fold(0.0, f64::max);
            if values.len() >= SAMPLES_MIN && largest > sum / 2.0 {
                let share = 100.0 * largest / sum;
                let (label, machine, n) = (&run.label, &run.machine, values.len());
                named.push(format!(
                    "{operation} of {label} on {machine} ({share:.0} % in 1 of {n})"
                ));
            }
        }
    }
    let more = match named.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.truncate(NAMED_MAX);
    let named = named.join(", ");
    (!named.is_empty()).then(|| {
        format!(
            "Means of one sample: {named}{more}. More than half of the sum is the largest sample's: compare percentiles, or \
             run more seeds."
        )
    })
}

/// Runs in which most throttled reclaimers slept for the full timeout.
fn slept_to_the_end(document: &Document) -> Option<String> {
    let share = |run: &Run| {
        let delays = run.histograms.iter().flat_map(Delays::of);
        let (all, full) = delays.fold((0, 0), |(all, full), it| {
            (all + it.nr_events - it.nr_at_once, full + it.nr_full)
        });
        (all >= SLEEPS_MIN && full * 2 > all).then(|| (100 * full / all, all))
    };
    let named: Vec<String> = document
        .runs
        .iter()
        .filter_map(|run| {
            let (percent, all) = share(run)?;
            Some(format!("{} on {} ({percent} % of {all})", run.label, run.machine))
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "Sleeps of reclaimers that ended with their time, not with what they waited for: {}. How long those took is the \
             policy's timeout, not the machine's.",
            named.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use highwater_results::Histogram;

    use super::*;

    #[test]
    fn one_sample_that_makes_the_mean_is_named() {
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        let mut run = Run::new("m", "p", "p");
        (0..19).for_each(|_| run.push("mmap-4", 0, 1, 1.0));
        document.runs = vec![run.clone()];
        assert_eq!(outliers(&document), None);
        run.push("mmap-4", 0, 1, 81.0);
        document.runs = vec![run];
        let said = outliers(&document).unwrap();
        assert!(said.contains("mmap-4 of p on m (81 % in 1 of 20). More"), "{said}");
    }

    #[test]
    fn sleeps_that_only_their_time_ended_are_counted() {
        let mut histogram = Histogram::new("delays", "mm_vmscan_throttled", "direct reclaim");
        histogram.record("usec_timeout=100000 usec_delayed=104000", 60);
        histogram.record("usec_timeout=100000 usec_delayed=4000", 20);
        histogram.record("usec_timeout=100000 usec_delayed=0", 500);
        let mut document = Document::new("0.1.0", "x", "sim", 1);
        let mut run = Run::new("m", "p", "p");
        run.histograms = vec![histogram];
        document.runs = vec![run];
        let said = slept_to_the_end(&document).unwrap();
        assert!(said.contains("p on m (75 % of 80)"), "{said}");
        document.runs[0].histograms.clear();
        assert_eq!(slept_to_the_end(&document), None);
    }
}
