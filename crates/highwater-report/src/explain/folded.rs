//! Folded stacks, one line per path of causes, for flame graphs:
//! `policy;operation;cause;cause NANOSECONDS`.
//!
//! inferno and flamegraph.pl split a line at semicolons and take the last word as the count. A
//! number before the last word would be the count of another profile. Therefore names have
//! underscores instead of blanks, and colons instead of semicolons.

use std::collections::BTreeMap;

use highwater_results::explain::{Band, Cause, ExplainedRun, Explanation};

/// The stacks of all operations of all policies, in order of text. With several machines, each line
/// begins with the machine.
pub fn folded(explanation: &Explanation) -> String {
    let runs = &explanation.runs;
    let has_machines = runs.iter().any(|run| run.machine != runs[0].machine);
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for run in runs {
        let mut stack = Vec::new();
        if has_machines {
            stack.push(frame(&run.machine));
        }
        stack.push(frame(&run.label));
        for band in whole(run) {
            stack.push(frame(&band.operation));
            let causes = &band.causes;
            if causes.children.is_empty() {
                add(&stack, causes.ns, &mut sums);
            }
            for child in &causes.children {
                collect(child, &mut stack, &mut sums);
            }
            stack.pop();
        }
    }
    sums.iter().map(|(stack, ns)| format!("{stack} {ns}\n")).collect()
}

/// The bands that contain every operation exactly once: those named `all`, or all bands if there
/// are none.
fn whole(run: &ExplainedRun) -> impl Iterator<Item = &Band> {
    let is_all = |band: &Band| band.from == 0.0 && band.to == 100.0;
    run.bands.iter().filter(move |band| {
        let mut same = run.bands.iter().filter(|other| other.operation == band.operation);
        is_all(band) || !same.any(is_all)
    })
}

fn collect(cause: &Cause, stack: &mut Vec<String>, sums: &mut BTreeMap<String, u64>) {
    stack.push(frame(&cause.name));
    if cause.children.is_empty() {
        add(stack, cause.ns, sums);
    }
    for child in &cause.children {
        collect(child, stack, sums);
    }
    stack.pop();
}

fn add(stack: &[String], ns: u64, sums: &mut BTreeMap<String, u64>) {
    if ns > 0 {
        *sums.entry(stack.join(";")).or_default() += ns;
    }
}

/// A name as a frame.
fn frame(name: &str) -> String {
    let replaced = |c: char| match c {
        ';' => ':',
        c if c.is_whitespace() || c.is_control() => '_',
        c => c,
    };
    name.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cause, explanation, leaf};
    use super::*;

    fn awkward() -> Explanation {
        let mut explanation = explanation();
        let root = cause(
            "mmap-48",
            1,
            vec![leaf("lock; of 48", 7, 1), leaf("#x 12", 5, 1), leaf("nothing", 0, 1)],
        );
        let band =
            Band { operation: "mmap 48".into(), from: 0.0, to: 100.0, count: 1, causes: root };
        explanation.runs.truncate(1);
        explanation.runs[0].bands = vec![band];
        explanation
    }

    #[test]
    fn names_are_escaped_and_bands_are_not_counted_twice() {
        assert_eq!(
            folded(&awkward()),
            "6.1-before;mmap_48;#x_12 5\n6.1-before;mmap_48;lock:_of_48 7\n"
        );
        let text = folded(&explanation());
        assert_eq!(
            text,
            "6.1-after;mmap-48;page_fault;running 750000000\n\
             6.1-after;mmap-48;page_fault;throttled:_no_progress 250000000\n\
             6.1-before;mmap-48;page_fault;running 2000000000\n\
             6.1-before;mmap-48;page_fault;throttled:_no_progress 4000000000\n"
        );
    }

    #[test]
    fn inferno_draws_them() {
        for explanation in [awkward(), explanation()] {
            let text = folded(&explanation);
            let mut options = inferno::flamegraph::Options::default();
            options.count_name = "ns".to_owned();
            let mut svg = Vec::new();
            inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
            let svg = String::from_utf8(svg).unwrap();
            let total: u64 =
                explanation.runs.iter().flat_map(whole).map(|band| band.causes.ns).sum();
            let all = format!("all ({} ns, 100%)", super::super::figures::grouped(total));
            assert!(svg.contains(&all), "{all}");
        }
    }
}
