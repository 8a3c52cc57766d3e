//! Counters over time as CSV: a line each time, a column each counter.
//!
//! | column | is |
//! |---|---|
//! | machine, policy, label | what ran; the label is the heading of tables |
//! | seed, part | which run, and which step of it |
//! | ms | virtual time since boot |
//! | the others | counters as `/proc/vmstat` names them; `node0/DMA32/order9`: free blocks of a zone, as `/proc/buddyinfo` |
//!
//! Counters are what they are at that time, not differences. What a machine does not have is empty.

use std::collections::BTreeMap;

use highwater_results::RunSeries;

use super::csv::Records;

/// Names of the first columns.
const COLUMNS: [&str; 6] = ["machine", "policy", "label", "seed", "part", "ms"];

/// The series of all runs in one table.
pub fn series(all: &[RunSeries]) -> String {
    // Machines may have other zones: columns as they are first met.
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut columns: Vec<&str> = Vec::new();
    for name in all.iter().flat_map(|run| &run.series.columns) {
        places.entry(name).or_insert_with(|| {
            columns.push(name);
            columns.len() - 1
        });
    }
    let header: Vec<&str> = COLUMNS.into_iter().chain(columns.iter().copied()).collect();
    let mut records = Records::new(&header);
    for run in all {
        let at: Vec<usize> = run.series.columns.iter().map(|name| places[&**name]).collect();
        for (time_ns, row) in run.series.rows() {
            let mut fields = vec![String::new(); header.len()];
            let first = [
                run.machine.clone(),
                run.policy.clone(),
                run.label.clone(),
                run.seed.to_string(),
                run.series.part.clone(),
                (time_ns as f64 / 1e6).to_string(),
            ];
            fields[..COLUMNS.len()].clone_from_slice(&first);
            for (value, &at) in row.iter().zip(&at) {
                fields[COLUMNS.len() + at] = value.to_string();
            }
            records.push(fields);
        }
    }
    records.into_text()
}

#[cfg(test)]
mod tests {
    use highwater_results::Series;

    use super::*;

    fn run(machine: &str, columns: [&str; 2], rows: &[(u64, [u64; 2])]) -> RunSeries {
        let mut series = Series::new(columns.map(str::to_owned).to_vec());
        series.part = "mmap-4".to_owned();
        rows.iter().for_each(|&(at, row)| series.push(at, row));
        let (policy, label) = ("6.1".to_owned(), "after".to_owned());
        RunSeries { machine: machine.to_owned(), policy, label, seed: 1, series }
    }

    #[test]
    fn a_line_is_a_time_and_columns_are_shared() {
        let small = run("a", ["free", "node0/DMA32/order0"], &[(0, [7, 1]), (2_500_000, [6, 0])]);
        let large = run("b", ["free", "node0/Normal/order0"], &[(0, [9, 4])]);
        let expected = "machine,policy,label,seed,part,ms,free,node0/DMA32/order0,node0/Normal/order0\n\
                        a,6.1,after,1,mmap-4,0,7,1,\n\
                        a,6.1,after,1,mmap-4,2.5,6,0,\n\
                        b,6.1,after,1,mmap-4,0,9,,4\n";
        assert_eq!(series(&[small, large]), expected);
    }
}
