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

use highwater_results::{RunSeries, Series};

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

/// Why a table of series cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {reason}", if field.is_empty() { String::new() } else { format!(", field `{field}`") })]
pub struct SeriesError {
    /// Which, from 1.
    pub line: u64,
    /// The column; empty if it is none.
    pub field: String,
    /// What is wrong.
    pub reason: String,
}

/// The series of a table as [`series`] writes it.
///
/// # Errors
/// The first line that is none of such a table.
pub fn read(text: &str) -> Result<Vec<RunSeries>, SeriesError> {
    let wrong = |line: u64, field: &str, reason: &str| SeriesError {
        line,
        field: field.to_owned(),
        reason: reason.to_owned(),
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(error) => return Err(wrong(1, "", &error.to_string())),
    };
    if !header.iter().take(COLUMNS.len()).eq(COLUMNS) {
        let reason = format!("a table of series begins with {}", COLUMNS.join(","));
        return Err(wrong(1, "", &reason));
    }
    let mut all: Vec<RunSeries> = Vec::new();
    // Columns that the series at hand has.
    let mut columns: Vec<usize> = Vec::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                return Err(wrong(line, "", "not as many fields as the first line has"));
            }
        };
        let line = record.position().map_or(0, csv::Position::line);
        let number = |at: usize| {
            record[at].parse().map_err(|_| wrong(line, &header[at], "not a whole number"))
        };
        let (seed, ms): (u64, f64) =
            (number(3)?, record[5].parse().map_err(|_| wrong(line, &header[5], "not a number"))?);
        let is_same = |run: &RunSeries| {
            let known = [&run.machine, &run.policy, &run.label];
            known.into_iter().eq(record.iter().take(3))
                && (run.seed, run.series.part.as_str()) == (seed, &record[4])
        };
        if !all.last().is_some_and(is_same) {
            columns = (COLUMNS.len()..header.len()).filter(|&at| !record[at].is_empty()).collect();
            let names = columns.iter().map(|&at| header[at].to_owned()).collect();
            let mut series = Series::new(names);
            record[4].clone_into(&mut series.part);
            let [machine, policy, label] = [0, 1, 2].map(|at| record[at].to_owned());
            all.push(RunSeries { machine, policy, label, seed, series });
        }
        let row = columns.iter().map(|&at| number(at)).collect::<Result<Vec<_>, _>>()?;
        if let Some(run) = all.last_mut() {
            run.series.push((ms * 1e6).round() as u64, row);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
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
        let all = [small, large];
        assert_eq!(series(&all), expected);
        assert_eq!(read(expected), Ok(all.to_vec()));
    }

    #[test]
    fn what_is_no_such_table_is_told_with_its_line() {
        let head = "machine,policy,label,seed,part,ms,free\n";
        let said = |text: &str| read(text).unwrap_err().to_string();
        let first = "line 1: a table of series begins with machine,policy,label,seed,part,ms";
        assert_eq!(said("a,b\n1,2\n"), first);
        assert_eq!(
            said(&format!("{head}a,b,c,x,,0,1\n")),
            "line 2, field `seed`: not a whole number"
        );
        let line = format!("{head}a,b,c,1,,0,1\na,b,c,1,,1,-\n");
        assert_eq!(said(&line), "line 3, field `free`: not a whole number");
        let short = format!("{head}a,b,c,1,,0\n");
        assert_eq!(said(&short), "line 2: not as many fields as the first line has");
        assert_eq!(read(head), Ok(Vec::new()));
    }
}
