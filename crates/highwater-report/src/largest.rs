//! Where to find the largest samples again: seed and virtual time of each operation's largest.
//!
//! A `Max` is one operation of one seed. With its seed and time, a user can look at it or have
//! `explain` explain it.

use highwater_results::{Metric, Run};

use crate::compare::{operations, title};
use crate::table::{Cell, Layout, Table};

/// The largest samples of runs of one machine; no rows if no run recorded when they occurred.
pub fn largest(metric: &Metric, runs: &[&Run]) -> Table {
    let columns = ["largest", "seed", "at (s)"].map(str::to_owned).to_vec();
    let name = format!("Largest samples: {}", title(metric, runs));
    let mut table = Table::new(name, &["operation", "run"], columns, Layout::Fitted);
    let mut nr_seeds = 0;
    for operation in &operations(metric, runs) {
        for run in runs {
            let of_operation = run.largest.iter().find(|largest| largest.operation == *operation);
            let Some(largest) = of_operation else { continue };
            let position = run.seeds.iter().position(|seed| *seed == largest.seed);
            nr_seeds = nr_seeds.max(position.map_or(0, |position| position + 1));
            let cells = vec![
                Cell::number(largest.value, metric.decimals),
                // As text, because a number of 64 bits keeps its last digits that way.
                Cell::text(largest.seed.to_string()),
                Cell::number(largest.at_ns as f64 / 1e9, 3),
            ];
            table.push(&[operation, &run.label], cells);
        }
    }
    table.notes.push(format!(
        "at: when it ended, in virtual time since its machine was booted; where the slowest operations spent their time: \
         highwater explain DIR --iterations {nr_seeds}, with the DIR of --out"
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_results::{Better, Largest, TableKind};

    #[test]
    fn each_operation_names_its_largest() {
        let metric = Metric::new("stutterp", "ms", Better::Lower, TableKind::VariableTime);
        let (mut a, mut b) = (Run::new("m", "a", "a"), Run::new("m", "b", "b"));
        for (run, seed) in [(&mut a, 7), (&mut b, u64::MAX)] {
            run.seeds = vec![7, 8, u64::MAX];
            run.push("mmap-4", 0, seed, 978.25);
            run.push("other", 0, seed, 1.0);
            let operation = "mmap-4".to_owned();
            run.largest = vec![Largest { operation, seed, value: 978.25, at_ns: 1_234_567_890 }];
        }
        let table = largest(&metric, &[&a, &b]);
        let texts = |run: &str| -> Vec<String> {
            table.row(&["mmap-4", run]).unwrap().cells.iter().map(Cell::value_text).collect()
        };
        assert_eq!(texts("a"), ["978.2500", "7", "1.235"]);
        assert_eq!(texts("b")[1], "18446744073709551615");
        assert_eq!(table.rows.len(), 2, "nobody knows when the other was");
        assert!(table.notes[0].contains("--iterations 3"), "{:?}", table.notes);
        a.largest.clear();
        assert!(largest(&metric, &[&a]).rows.is_empty());
    }
}
