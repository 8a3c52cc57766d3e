//! Statistics, comparison tables and renderers.
//!
//! A report reads result rows only and never touches the memory manager. Runs go in, [`Table`]s
//! come out, and a renderer turns a table into text:
//!
//! ```text
//! Document --compare----> the benchmark's table (mmtests' rows, percentages and asterisks)
//!          --evidence---> the same changes judged by distribution-free tests
//!          --by_seed----> and seed by seed, with CPU time and counters
//!          --orders-----> how free memory is broken up, order by order
//!          --verdict----> what came out, in a few lines
//!          --largest--> which seed and when the largest samples were
//!          --vmstat-----> "Ops" block        --duration--> CPU and elapsed time      \
//!          --ratio------> ratio report       --histogram-> delays, page frames        > Table --render--> text
//!          --published--> the studies' published figures beside ours                 /
//!          --claims-----> each published claim, judged by what repeats for its author
//! two Documents --against-> one of the runs that they have in common
//! Series --sparklines-> counters over time, small
//! Explanation --explain-> why operations were slow: trees, tables, folded stacks
//! all of them --html----> one page to look at        Recording --trace--> Perfetto's and ftrace's formats
//! ```
//!
//! ```
//! use highwater_report::{compare, render};
//! use highwater_results::{Better, Metric, Run, TableKind};
//!
//! let metric = Metric::new("netperf-tcp", "Mbit/s", Better::Higher, TableKind::Multi);
//! let mut runs = [Run::new("laptop", "before", "6.1-before"), Run::new("laptop", "after", "6.1-after")];
//! for (run, value) in runs.iter_mut().zip([900.0, 990.0]) {
//!     run.push("64", 0, 1, value);
//! }
//! let options = compare::Options { rows: compare::RowSet::Means, ..Default::default() };
//! let table = compare::comparison(&metric, &runs.iter().collect::<Vec<_>>(), &options);
//! assert!(render::terminal(&table).contains("Hmean 64      900.00 (   0.00%)      990.00 *  10.00%*"));
//! ```
//!
//! The first run is always the baseline;
//! [`Document::by_machine`](highwater_results::Document::by_machine) gives the groups that can be
//! compared. The rules and their numbers are in the book: rules/statistics and
//! rules/mmtests-tables, in three [`Style`]s.

pub mod against;
pub mod beside;
pub mod by_seed;
mod change;
pub mod claims;
pub mod compare;
mod dead;
pub mod duration;
pub mod evidence;
pub mod explain;
pub mod grid;
pub mod header;
pub mod headline;
pub mod histogram;
pub mod html;
pub mod largest;
pub mod latency;
pub mod next;
pub mod orders;
pub mod over_time;
pub mod percent;
pub mod published;
pub mod ratio;
pub mod render;
pub mod repeats;
pub mod report;
pub mod rules;
pub mod significance;
pub mod stalls;
pub mod stats;
pub mod style;
pub mod summary;
pub mod table;
pub mod trace;
pub mod trace_times;
pub mod verdict;
pub mod vmstat;
pub mod worse;

pub use compare::{Options, RowSet, comparison};
pub use render::{Format, Render, terminal::PAGE_WIDTH};
pub use style::Style;
pub use table::{Cell, Judgement, Layout, Row, Table};
