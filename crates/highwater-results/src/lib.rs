//! Measured results: samples, counters, histograms, and importers of captured data.
//!
//! Rows are plain and keyed by names, and contain nothing of the memory manager. Old files
//! therefore stay readable, and reports need only this crate. From an experiment to a table:
//!
//! ```text
//! workloads --push--> Run --pool--> Document --store--> results.json --> highwater-report
//!                      |                        published.rs (the studies' own figures) --^
//!                      +-- samples, counters, histograms, times, notes
//! ```
//!
//! * [`run`]: the document of an experiment and its runs.
//! * [`section`]: the parts of a report, and the published figures to set beside ours.
//! * [`sample`]: one measured value, and the meaning of a set of values.
//! * [`counter`], [`histogram`]: counts by name; [`series`]: counts over time, with
//!   [`mod@column`]: their units; [`stall`]: keys of
//!   histograms of stalls.
//! * [`pageblocks`]: contents of memory at several moments.
//! * [`texts`]: the kernel's own texts (pressure, log).
//! * [`explain`]: causes of the time of operations; [`recording`]: events of a run in order of
//!   time.
//! * [`import`]: readers of captured data.
//! * [`input`]: opening files from elsewhere, within bounds.
//! * [`setting`]: keys of `--set`.
//! * [`store`]: a directory of results, written atomically; [`contents`]: the kinds of such
//!   directories.
//! * [`published`]: the numbers published with the five studies; [`postings`]: the same rows in
//!   their authors' other mails.
//! * [`words`]: numbers with their nouns, and the system's reasons in plain words.
//!
//! JSON is deterministic: ordered maps, floats in their shortest exact form.

pub mod column;
pub mod contents;
pub mod counter;
pub mod explain;
pub mod histogram;
pub mod import;
pub mod input;
pub mod pageblocks;
pub mod postings;
pub mod published;
pub mod recording;
pub mod run;
pub mod sample;
pub mod section;
pub mod series;
pub mod setting;
pub mod stall;
pub mod store;
pub mod texts;
pub mod words;

pub use column::{COLUMNS_FILE, Column, Columns};
pub use contents::Contents;
pub use counter::Counters;
pub use histogram::{Histogram, LATENCY};
pub use pageblocks::{AGES_FILE, BlockMaps, PAGEBLOCKS_FILE, RunMaps};
pub use postings::{Posted, Posting, Postings};
pub use published::{Published, PublishedTable};
pub use run::{Definition, Document, DocumentError, EndedEarly, Run, SCHEMA, SeedTotals, Times};
pub use sample::{Better, Largest, Metric, Sample, TableKind};
pub use section::{ClaimBeside, MachineFigures, RowBeside, Section, StallsBeside, TRACE_TIMES};
pub use series::{RunSeries, SERIES_FILE, Sampled, Series, TIMELINE_FILE};
pub use stall::Stall;
pub use store::{Store, StoreError};
pub use texts::{KERNEL_LOG_FILE, PRESSURE_FILE, RunText};
