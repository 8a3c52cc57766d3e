//! Times from trace events: how long daemons were awake and how long tasks compacted, in
//! milliseconds summed over tasks (rules/mmtests-tables#trace-times).

use highwater_results::{Run, TRACE_TIMES};

use crate::style::Style;
use crate::table::{Cell, Layout, Suffix, Table};

/// Width of a value.
const WIDTH: usize = 16;

/// The times of runs of one machine; no rows if no run has any.
pub fn trace_times(runs: &[&Run], _: Style) -> Table {
    let layout = Layout::Mmtests { field: WIDTH, suffix: Suffix::None };
    let columns = runs.iter().map(|run| run.label.clone()).collect();
    let mut table = Table::new("Times from trace events (ms)", &["time"], columns, layout);
    for name in TRACE_TIMES {
        if runs.iter().any(|run| run.counters.contains(name)) {
            let value = |run: &&Run| Cell::number(run.counters.get(name) as f64, 0);
            table.push(&[name], runs.iter().map(value).collect());
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_times_have_no_table() {
        let mut run = Run::new("m", "p", "p");
        assert!(trace_times(&[&run], Style::Y2021).rows.is_empty());
        run.counters.set(TRACE_TIMES[0], 750);
        run.counters.set(TRACE_TIMES[3], 0);
        let table = trace_times(&[&run], Style::Y2021);
        let texts: Vec<_> = table.rows.iter().map(|row| row.cells[0].value_text()).collect();
        assert_eq!(texts, ["750", "0"]);
    }
}
