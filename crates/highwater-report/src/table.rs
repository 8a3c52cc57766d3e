//! A table as data: the output of every report and the input of every renderer.
//!
//! Key types: [`Table`], [`Row`], [`Judgement`] (better, worse, ...), [`Cell`] (numbers keep their full
//! value beside the digits to print), [`Layout`] (how a fixed-width renderer arranges them). JSON keeps everything but the
//! layout.

use highwater_results::Better;
use highwater_results::words::count;
use serde::Serialize;

use crate::percent::Told;

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Subject, unit, direction, machine.
    pub title: String,
    /// Names of the label columns; renderers with fixed widths leave them out.
    pub labels: Vec<String>,
    /// Headings of the value columns.
    pub columns: Vec<String>,
    /// Rows, each with one label per label column and one cell per value column.
    pub rows: Vec<Row>,
    /// Remarks printed below.
    pub notes: Vec<String>,
    /// Widths.
    #[serde(skip)]
    pub layout: Layout,
    /// Columns at which a table that is too wide may be broken and continued below; empty: at any.
    #[serde(skip)]
    pub breaks: Vec<usize>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Statistic and operation, or a label.
    pub labels: Vec<String>,
    /// One cell per column.
    pub cells: Vec<Cell>,
    /// The row's judgement, if it is one of a verdict. The words of a cell say the same to readers;
    /// colours follow this value.
    #[serde(skip)]
    pub judged: Option<Judgement>,
}

/// How a change is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A change for the better.
    Better,
    /// A change for the worse.
    Worse,
    /// More of something that is neither good nor bad.
    More,
    /// Less of it.
    Less,
    /// No change, or none that is significant.
    Same,
}

/// One value with everything known about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "cell")]
pub enum Cell {
    /// This run has no such operation.
    Missing,
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A number.
    Number {
        /// The value.
        value: f64,
        /// Digits after the decimal point.
        #[serde(skip)]
        decimals: u8,
    },
    /// A percentage: a change (positive is better, or more), or a share.
    Percent {
        /// The value; NaN if there is none.
        value: f64,
        /// Digits after the decimal point.
        #[serde(skip)]
        decimals: u8,
        /// Text printed instead of the percentage.
        #[serde(skip_serializing_if = "Option::is_none")]
        told: Option<Told>,
    },
    /// A probability: `0.0213`, `<0.0001`.
    Probability {
        /// The value.
        value: f64,
    },
    /// A whole percentage: `98%`.
    WholePercent {
        /// The value.
        value: i64,
    },
    /// A value and its change from the baseline.
    Change {
        /// The value.
        value: f64,
        /// Digits after the decimal point.
        #[serde(skip)]
        decimals: u8,
        /// Percent change, positive is better; `None` without a baseline, NaN if the baseline is
        /// undefined.
        percent: Option<f64>,
        /// True if the change is marked.
        significant: bool,
        /// Text printed instead of the percentage.
        #[serde(skip_serializing_if = "Option::is_none")]
        told: Option<Told>,
    },
    /// A ratio to the baseline.
    Ratio {
        /// The ratio.
        value: f64,
        /// Digits after the decimal point.
        #[serde(skip)]
        decimals: u8,
        /// Percent change, positive is better.
        percent: f64,
        /// Difference of means in units of deviation.
        distance: f64,
    },
    /// An interval of a change.
    Interval {
        /// Lower limit.
        low: f64,
        /// Upper limit.
        high: f64,
        /// Text printed instead of each limit.
        #[serde(skip)]
        told: [Option<Told>; 2],
        /// Limits are printed by size, smaller first; a word beside them gives the direction.
        #[serde(skip)]
        is_sized: bool,
    },
}

/// How a renderer with fixed widths arranges a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// As mmtests does (rules/mmtests-tables#layout).
    Mmtests {
        /// Width of a value.
        field: usize,
        /// Width of the suffix of each value.
        suffix: Suffix,
    },
    /// Columns as wide as their contents.
    #[default]
    Fitted,
}

/// The text after each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suffix {
    /// Nothing.
    None,
    /// A percentage of this width, in parentheses.
    Percent(usize),
    /// Percentage and distance of a ratio, in their own widths.
    Ratio,
}

/// Smaller probabilities are printed as `<` this.
const SMALLEST_PROBABILITY: f64 = 0.0001;
/// Width of ` (0.00%) (+0.00s)`, the narrowest suffix of a ratio.
pub(crate) const RATIO_SUFFIX_WIDTH: usize = 17;

impl Suffix {
    /// Columns taken by the suffix.
    pub fn width(self) -> usize {
        match self {
            Suffix::None => 0,
            Suffix::Percent(width) => width + 4,
            Suffix::Ratio => RATIO_SUFFIX_WIDTH,
        }
    }
}

impl Cell {
    /// Words as a cell.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text { text: text.into() }
    }

    /// A number as a cell.
    pub fn number(value: f64, decimals: u8) -> Cell {
        Cell::Number { value, decimals }
    }

    /// A percentage that is not a change.
    pub fn percent(value: f64) -> Cell {
        Cell::Percent { value, decimals: 2, told: None }
    }

    /// A change in percent, or the text shown instead; missing if there is neither.
    pub fn change(percent: Option<f64>, told: Option<Told>) -> Cell {
        match percent {
            None if told.is_none() => Cell::Missing,
            _ => Cell::Percent { value: percent.unwrap_or(f64::NAN), decimals: 2, told },
        }
    }

    /// Limits of a change in percent; `change` is the text shown for the change itself.
    pub fn interval(better: Better, (low, high): (f64, f64), change: Option<Told>) -> Cell {
        let told = match change {
            Some(Told::FromZero) => [change; 2],
            _ => [low, high].map(|limit| Told::of_percent(better, limit)),
        };
        Cell::Interval { low, high, told, is_sized: false }
    }

    /// The cell for use beside a word that gives the direction: limits by size, smaller first,
    /// without signs.
    pub fn sized(mut self) -> Cell {
        if let Cell::Interval { is_sized, .. } = &mut self {
            *is_sized = true;
        }
        self
    }

    /// `part` as a percentage of `whole`, with this number of decimals.
    pub fn share(part: f64, whole: f64, decimals: u8) -> Cell {
        Cell::Percent { value: 100.0 * part / whole, decimals, told: None }
    }

    /// True for a missing cell and for a plain zero.
    fn is_nothing(&self) -> bool {
        match self {
            Cell::Missing | Cell::WholePercent { value: 0 } => true,
            Cell::Number { value, .. } => *value == 0.0,
            _ => false,
        }
    }

    /// The value alone, as printed; none if there is none.
    pub(crate) fn known_text(&self) -> Option<String> {
        match self {
            // There is no percentage of 0.
            Cell::Missing | Cell::Interval { told: [Some(Told::FromZero), _], .. } => None,
            cell => Some(cell.value_text()),
        }
    }

    /// The value alone, as printed; `-` if there is none.
    pub fn value_text(&self) -> String {
        match self {
            Cell::Missing => "-".to_owned(),
            Cell::Text { text } => text.clone(),
            Cell::Number { value, decimals }
            | Cell::Change { value, decimals, .. }
            | Cell::Ratio { value, decimals, .. } => format!("{value:.*}", usize::from(*decimals)),
            Cell::Percent { told: Some(told), .. } => told.to_string(),
            Cell::Percent { value, decimals, .. } => format!("{value:.*}%", usize::from(*decimals)),
            Cell::Probability { value } if *value < SMALLEST_PROBABILITY => {
                format!("<{SMALLEST_PROBABILITY}")
            }
            Cell::Probability { value } => format!("{value:.4}"),
            Cell::WholePercent { value } => format!("{value}%"),
            // There is no percentage of 0.
            Cell::Interval { told: [Some(Told::FromZero), _], .. } => "-".to_owned(),
            Cell::Interval { told: [Some(low), Some(high)], .. }
                if low == high && !matches!(low, Told::Factor(_)) =>
            {
                low.to_string()
            }
            Cell::Interval { low, high, told, is_sized } => {
                // Beside a factor, a number needs the percent sign.
                let has_sign = *is_sized || told.iter().any(Option::is_some);
                let sign = if has_sign { "%" } else { "" };
                let limit = |value: f64, told: Option<Told>| match (told, is_sized) {
                    (Some(Told::Factor(factor)), true) => Told::Factor(factor.abs()).to_string(),
                    (Some(told), _) => told.to_string(),
                    (None, true) => format!("{:.1}%", value.abs()),
                    (None, false) => format!("{value:.2}{sign}"),
                };
                let mut limits = [limit(*low, told[0]), limit(*high, told[1])];
                if *is_sized && *high <= 0.0 {
                    limits.reverse();
                }
                limits.join(" .. ")
            }
        }
    }

    /// The text after the value, without padding: `34.06%`, `x8.8`, `34.06% -0.17s`; empty if there
    /// is none.
    pub fn suffix_text(&self) -> String {
        match self {
            Cell::Change { told: Some(told), .. } => told.to_string(),
            Cell::Change { percent, .. } => percent_text(*percent),
            Cell::Ratio { percent, distance, .. } => format!("{percent:.2}% {distance:+.2}s"),
            _ => String::new(),
        }
    }

    /// Value and suffix in one piece, for renderers that set no widths: `22.7500 (34.06%)`,
    /// `42.0000 *-31.25%*`.
    pub fn full_text(&self) -> String {
        let (value, suffix) = (self.value_text(), self.suffix_text());
        match self {
            Cell::Change { significant: true, .. } => format!("{value} *{suffix}*"),
            Cell::Change { .. } | Cell::Ratio { .. } => format!("{value} ({suffix})"),
            _ => value,
        }
    }
}

/// A percentage with two decimals; `-` without a baseline.
fn percent_text(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.2}%"))
}

impl Table {
    /// An empty table.
    pub fn new(
        title: impl Into<String>,
        labels: &[&str],
        columns: Vec<String>,
        layout: Layout,
    ) -> Table {
        Table {
            title: title.into(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            columns,
            rows: Vec::new(),
            notes: Vec::new(),
            layout,
            breaks: Vec::new(),
        }
    }

    /// The same table; if it is too wide, columns between these numbers stay together.
    pub fn breaking_at(mut self, breaks: &[usize]) -> Table {
        self.breaks = breaks.to_vec();
        self
    }

    /// Adds a row.
    pub fn push(&mut self, labels: &[&str], cells: Vec<Cell>) {
        debug_assert_eq!(labels.len(), self.labels.len());
        debug_assert_eq!(cells.len(), self.columns.len());
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.rows.push(Row { labels, cells, judged: None });
    }

    /// Adds a row of a verdict.
    pub(crate) fn push_judged(&mut self, labels: &[&str], cells: Vec<Cell>, judged: Judgement) {
        self.push(labels, cells);
        if let Some(row) = self.rows.last_mut() {
            row.judged = Some(judged);
        }
    }

    /// Leaves out rows in which every cell is zero or missing, and says how many. This shortens
    /// long blocks on a screen.
    pub fn without_zero_rows(mut self) -> Table {
        let nr_rows = self.rows.len();
        self.rows.retain(|row| !row.cells.iter().all(Cell::is_nothing));
        let nr_left_out = nr_rows - self.rows.len();
        if nr_left_out > 0 {
            self.notes.push(format!("{} without any event left out", count(nr_left_out, "row")));
        }
        self
    }

    /// The row with these labels.
    pub fn row(&self, labels: &[&str]) -> Option<&Row> {
        self.rows.iter().find(|row| row.labels == labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_stands_instead_of_percentages() {
        let told = |before, after| Told::of(Better::Lower, before, after);
        assert_eq!(Cell::change(Some(-780.0), told(1.0, 8.8)).value_text(), "-x8.8");
        assert_eq!(Cell::change(None, told(0.0, 8.8)).value_text(), "from 0");
        assert_eq!(Cell::change(Some(12.0), None).value_text(), "12.00%");
        assert_eq!(Cell::change(None, None), Cell::Missing);
        let interval = |low, high, told| Cell::interval(Better::Lower, (low, high), told);
        assert_eq!(interval(-120.0, 30.0, None).value_text(), "-x2.2 .. 30.00%");
        assert_eq!(interval(99.5, 101.0, None).value_text(), "x200 .. past 0");
        assert_eq!(interval(100.0, 100.0, None).value_text(), "to 0");
        assert_eq!(interval(-99.0, -99.0, told(0.0, 1.0)).value_text(), "-");
        let sized = |low, high| interval(low, high, None).sized().value_text();
        assert_eq!(sized(-227_900.0, -2100.0), "x22.0 .. x2280");
        assert_eq!(sized(-9.2, -7.1), "7.1% .. 9.2%");
        assert_eq!(sized(7.1, 99.5), "7.1% .. x200");
        let json = serde_json::to_value(Cell::change(Some(-780.0), told(1.0, 8.8))).unwrap();
        assert_eq!((json["value"].as_f64(), json["told"].as_str()), (Some(-780.0), Some("-x8.8")));
    }

    #[test]
    fn zero_rows_are_left_out_and_counted() {
        let mut table = Table::new("t", &["l"], vec!["a".into(), "b".into()], Layout::Fitted);
        table.push(&["zero"], vec![Cell::number(0.0, 2), Cell::Missing]);
        table.push(&["some"], vec![Cell::number(0.0, 2), Cell::number(0.001, 2)]);
        let table = table.without_zero_rows();
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.notes, ["1 row without any event left out"]);
        assert!(table.row(&["some"]).is_some());
    }
}
