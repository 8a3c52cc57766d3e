//! Counters over time as CSV: one line per time, one column per counter.
//!
//! | column | is |
//! |---|---|
//! | machine, policy, label | the run; the label is its heading in tables |
//! | seed, part | seed of the run, and name of its step |
//! | ms | virtual time since boot |
//! | the others | counters as `/proc/vmstat` names them; `node0/DMA32/order9`: free blocks of a zone, as `/proc/buddyinfo` |
//!
//! Values are levels at that time, not differences. A counter that a machine does not have is an
//! empty field.

use std::collections::BTreeMap;

use highwater_results::{Column, RunSeries, Series};

use super::csv::Records;
use super::lines::{LineError, Lines};

/// Names of the first columns.
const COLUMNS: [&str; 6] = ["machine", "policy", "label", "seed", "part", "ms"];

/// The series of all runs in one table.
pub fn series(all: &[RunSeries]) -> String {
    // Machines may have different zones; columns are in order of first appearance.
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut columns: Vec<&str> = Vec::new();
    for Column { name, .. } in all.iter().flat_map(|run| &run.series.columns) {
        places.entry(name).or_insert_with(|| {
            columns.push(name);
            columns.len() - 1
        });
    }
    let header: Vec<&str> = COLUMNS.into_iter().chain(columns.iter().copied()).collect();
    let mut records = Records::new(&header);
    for run in all {
        let at = run.series.columns.iter().map(|column| places[&*column.name]);
        let at: Vec<usize> = at.collect();
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

/// The series of a table as [`series`] writes it. The table has only the names of its columns;
/// `declared` finds their declarations.
///
/// # Errors
/// The first line that does not belong to such a table, or a column that is not declared.
pub fn read(
    text: &str,
    declared: &dyn Fn(&str) -> Option<Column>,
) -> Result<Vec<RunSeries>, LineError> {
    let mut lines = Lines::of(text, "series", &COLUMNS)?;
    let declarations = lines.header().iter().skip(COLUMNS.len()).map(|name| {
        let reason = "no declaration says what it counts";
        declared(name).ok_or_else(|| Lines::wrong_head(name, reason))
    });
    let declarations = declarations.collect::<Result<Vec<Column>, _>>()?;
    let mut all: Vec<RunSeries> = Vec::new();
    // Columns of the current series.
    let mut columns: Vec<usize> = Vec::new();
    while let Some(line) = lines.next()? {
        let (seed, at_ns) = (lines.number(&line, 3)?, lines.time_ns(&line, 5)?);
        let is_same = |run: &RunSeries| {
            let known = [&run.machine, &run.policy, &run.label, &run.series.part];
            known.into_iter().eq([0, 1, 2, 4].map(|at| line.get(at))) && run.seed == seed
        };
        if !all.last().is_some_and(is_same) {
            let has = |&at: &usize| !line.get(at).is_empty();
            columns = (COLUMNS.len()..lines.header().len()).filter(has).collect();
            let own = columns.iter().map(|&at| declarations[at - COLUMNS.len()].clone());
            let mut series = Series::new(own.collect());
            let [machine, policy, label, part] = [0, 1, 2, 4].map(|at| line.get(at).to_owned());
            series.part = part;
            all.push(RunSeries { machine, policy, label, seed, series });
        }
        let row = columns.iter().map(|&at| lines.number(&line, at));
        let row = row.collect::<Result<Vec<_>, _>>()?;
        if let Some(run) = all.last_mut() {
            run.series.push(at_ns, row);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use highwater_results::column::{Kind, Owner, Unit};

    use super::*;

    /// The tables here have pages.
    fn column(name: &str) -> Option<Column> {
        (name != "unheard_of").then(|| Column::new(Owner::Machine, name, Unit::Pages, Kind::Level))
    }

    fn read(text: &str) -> Result<Vec<RunSeries>, LineError> {
        super::read(text, &column)
    }

    fn run(machine: &str, columns: [&str; 2], rows: &[(u64, [u64; 2])]) -> RunSeries {
        let mut series = Series::new(columns.iter().filter_map(|name| column(name)).collect());
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
        let foreign = head.replace(",free", ",free,unheard_of");
        let undeclared = "line 1, field `unheard_of`: no declaration says what it counts";
        assert_eq!(said(&foreign), undeclared);
    }
}
