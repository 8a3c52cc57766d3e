//! CPU and elapsed time of the whole benchmark (rules/mmtests-tables#duration): seconds, no
//! percentages.

use highwater_results::{Run, Times};

use crate::style::Style;
use crate::table::{Cell, Layout, Suffix, Table};

/// The times of runs of one machine.
pub fn duration(runs: &[&Run], style: Style) -> Table {
    let layout = Layout::Mmtests { field: style.field_width(), suffix: Suffix::None };
    let columns = runs.iter().map(|run| run.label.clone()).collect();
    let labels: &[&str] = if style == Style::Y2015 { &["time"] } else { &["block", "time"] };
    let mut table = Table::new("Duration (seconds)", labels, columns, layout);
    let seconds_of: [fn(&Times) -> f64; 3] = [Times::user_s, Times::system_s, Times::elapsed_s];
    for (label, seconds) in ["User", "System", "Elapsed"].into_iter().zip(seconds_of) {
        let cells = runs.iter().map(|run| Cell::number(seconds(&run.times), 2)).collect();
        if style == Style::Y2015 {
            table.push(&[label], cells);
        } else {
            table.push(&["Duration", label], cells);
        }
    }
    table
}
