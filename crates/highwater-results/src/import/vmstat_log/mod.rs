//! Samples over time: output of the program `vmstat`, and repeated lines of `/proc/pressure`, alone
//! or in one file.
//!
//! | module | holds |
//! |---|---|
//! | `columns` | headers and rows of `vmstat` |
//! | `pressure` | lines of `/proc/pressure` |
//! | `stamp` | times of `vmstat -t`, of `date`, seconds since 1970 |
//!
//! `vmstat` prints neither the time between its rows nor the unit of its sizes (`-S`). A caller
//! states them; without time stamps this module only counts rows. The first row of each call is an
//! average since boot and is left out.

mod columns;
mod pressure;
mod stamp;

use std::path::Path;

use super::error::printable;
use super::{ImportError, whole_text};

pub(in crate::import) use columns::is_bare_row;
pub use columns::{Column, Values};
pub use pressure::{Pressure, Resource, Share};
pub(in crate::import) use stamp::days_since_1970;
pub use stamp::{Scale, Stamp};

/// Most rows and most lines of pressure that are kept: at one a second, almost six days.
const SAMPLES_MAX: usize = 500_000;
/// Differences between two averages since boot: percent points, and parts of a rate.
const SAME_POINTS: u64 = 1;
const SAME_RATE: u64 = 20;

/// The samples of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VmstatLog {
    /// Rows of `vmstat`, without averages since boot.
    pub rows: Vec<Row>,
    /// Lines of pressure.
    pub pressures: Vec<PressureLine>,
    /// Rows that were averages since boot.
    pub nr_averages: u64,
    /// The first of them. `vmstat -y` prints none, and the text cannot tell.
    pub first_average: Option<Values>,
    /// True if rows come before the first header; the usual columns are taken for granted.
    pub has_no_header: bool,
    /// Lines that are neither a sample nor a heading nor a time.
    pub nr_unreadable: u64,
    /// The first of them, from 1.
    pub first_unreadable: Option<u64>,
    /// Samples beyond the limit, which are left out.
    pub nr_left_out: u64,
}

/// A row of `vmstat`.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Line, from 1.
    pub line: u64,
    /// Rows of the text before it, with averages: the time in units of the interval.
    pub number: u64,
    /// Time stamp, if the text has one.
    pub at: Option<Stamp>,
    /// Seconds of the stamp of the row before it, with averages: its begin.
    pub since: Option<f64>,
    /// Values.
    pub values: Values,
}

/// A line of pressure.
#[derive(Clone, Debug, PartialEq)]
pub struct PressureLine {
    /// Line, from 1.
    pub line: u64,
    /// Rows of `vmstat` before it, with averages.
    pub row: u64,
    /// Time stamp, if the text has one.
    pub at: Option<Stamp>,
    /// The resource that tasks waited for.
    pub resource: Resource,
    /// The values.
    pub pressure: Pressure,
}

impl VmstatLog {
    /// Reads a file, plain or gzip.
    ///
    /// # Errors
    /// If the file cannot be read or has no sample.
    pub fn read(path: impl AsRef<Path>) -> Result<VmstatLog, ImportError> {
        let path = path.as_ref();
        VmstatLog::parse(&path.display().to_string(), &whole_text(path)?)
    }

    /// Parses a text; `file` names it in errors, and its last part may name the resource
    /// (`/proc/pressure/io`).
    ///
    /// # Errors
    /// If the text has no sample.
    pub fn parse(file: &str, text: &[u8]) -> Result<VmstatLog, ImportError> {
        let heading = file.rsplit('/').next().and_then(Resource::named);
        let mut reader = Reader { heading, ..Reader::default() };
        for (line, text) in (1..).zip(text.split(|&b| b == b'\n')) {
            let text = String::from_utf8_lossy(text);
            let text = super::proc::unquoted(&text);
            if !text.trim().is_empty() {
                reader.take(line, text);
            }
        }
        let log = reader.log;
        if log.rows.is_empty() && log.pressures.is_empty() {
            let problem = match log.nr_averages {
                0 => "no row of vmstat and no line of /proc/pressure",
                _ => {
                    "only one row, taken as the average since boot: `vmstat 1` prints a row a second after it, and \
                     needs some time (vmstat -y prints none: then give two rows)"
                }
            };
            return Err(ImportError::Format { file: printable(file), problem: problem.to_owned() });
        }
        Ok(log)
    }
}

/// The state between two lines.
#[derive(Default)]
struct Reader {
    log: VmstatLog,
    header: Option<columns::Header>,
    is_after_header: bool,
    since: Option<f64>,
    nr_rows: u64,
    stamp: Option<Stamp>,
    last_seconds: Option<f64>,
    heading: Option<Resource>,
}

impl Reader {
    fn take(&mut self, line: u64, text: &str) {
        // Nearly all lines are rows: they are tried first.
        let is_row = text.trim_start().starts_with(|c: char| c.is_ascii_digit());
        if is_row && self.header.is_some() && self.row(line, text) {
            return;
        }
        if let Some((pressure, before)) = Pressure::of(text) {
            self.pressure(line, pressure, before);
        } else if let Some(header) = columns::Header::of(text) {
            self.header = Some(header);
            self.is_after_header = true;
        } else if text.trim_start().starts_with(['p', '-']) && text.contains("procs") {
            // The line above the header names groups of columns.
        } else if let Some(stamp) = Stamp::of(text) {
            self.set_stamp(stamp);
        } else if !self.row(line, text) {
            match Resource::named(text).filter(|_| text.len() < 120) {
                Some(resource) => self.heading = Some(resource),
                None => {
                    self.log.nr_unreadable += 1;
                    self.log.first_unreadable.get_or_insert(line);
                }
            }
        }
    }

    fn set_stamp(&mut self, stamp: Stamp) {
        let stamp = stamp.after(self.last_seconds);
        self.last_seconds = Some(stamp.seconds);
        self.stamp = Some(stamp);
    }

    /// A row; false if the line is none.
    fn row(&mut self, line: u64, text: &str) -> bool {
        if self.header.is_none()
            && let Some(header) = columns::Header::assumed(text)
        {
            self.header = Some(header);
            self.log.has_no_header = true;
        }
        let Some((values, rest)) = self.header.as_ref().and_then(|header| header.row(text)) else {
            return false;
        };
        if let Some(stamp) = Stamp::of(rest) {
            self.set_stamp(stamp);
        }
        let number = self.nr_rows;
        self.nr_rows += 1;
        let since = self.since;
        self.since = self.stamp.as_ref().map(|stamp| stamp.seconds);
        let is_first = std::mem::take(&mut self.is_after_header);
        if is_first && self.is_average(&values) {
            self.log.first_average.get_or_insert(values);
            self.log.nr_averages += 1;
        } else if self.log.rows.len() < SAMPLES_MAX {
            self.log.rows.push(Row { line, number, at: self.stamp.clone(), since, values });
        } else {
            self.log.nr_left_out += 1;
        }
        true
    }

    /// The first row after the first header is an average. One after another header is an average
    /// of a further call if it is about the same: headers also repeat in one call.
    fn is_average(&self, values: &Values) -> bool {
        let Some(first) = &self.log.first_average else {
            return self.log.rows.is_empty();
        };
        let close = |column: Column, allowed: &dyn Fn(u64) -> u64| match (
            first.get(column),
            values.get(column),
        ) {
            (Some(a), Some(b)) => a.abs_diff(b) <= allowed(a),
            (a, b) => a == b,
        };
        use Column::{BlocksIn, BlocksOut, Idle, Interrupts, IoWait, Switches, System, User};
        let rate = |value: u64| value / SAME_RATE + 2;
        [User, System, Idle, IoWait].into_iter().all(|column| close(column, &|_| SAME_POINTS))
            && [BlocksIn, BlocksOut, Interrupts, Switches].into_iter().all(|c| close(c, &rate))
    }

    fn pressure(&mut self, line: u64, pressure: Pressure, before: &str) {
        let named = Resource::named(before);
        let time = before.split("/proc/").next().unwrap_or(before);
        let time = time.trim_end_matches(|c: char| c.is_ascii_alphabetic() || " :./_".contains(c));
        if let Some(stamp) = Stamp::of(before).or_else(|| Stamp::of(time)) {
            self.set_stamp(stamp);
        }
        if self.log.pressures.len() == SAMPLES_MAX {
            self.log.nr_left_out += 1;
            return;
        }
        let resource = named.or(self.heading).unwrap_or(Resource::Unnamed);
        let (row, at) = (self.nr_rows, self.stamp.clone());
        self.log.pressures.push(PressureLine { line, row, at, resource, pressure });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
                        r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    const AVERAGE: &str =
        " 2  0      0 19833800  48036 4637128    0    0   630  1055  380  419 77  4 18  0  0\n";
    const ROW: &str =
        " 2  1      0 19833800  48036 4637128    7    0   144     0  521  341 36 15 49  1  0\n";

    fn log(text: &str) -> VmstatLog {
        VmstatLog::parse("t", text.as_bytes()).unwrap()
    }

    #[test]
    fn averages_are_left_out_and_headers_repeat() {
        let own = log(&format!("{HEAD}{AVERAGE}{ROW}{ROW}{HEAD}{ROW}"));
        assert_eq!((own.rows.len(), own.nr_averages, own.nr_unreadable), (3, 1, 0));
        assert_eq!(own.rows[2].number, 3);
        assert_eq!(own.rows[0].values.get(Column::SwapIn), Some(7));
        assert_eq!(own.rows[0].values.get(Column::Active), None);
        // Called again and again.
        let calls = format!("{HEAD}{AVERAGE}{ROW}").repeat(3);
        assert_eq!((log(&calls).rows.len(), log(&calls).nr_averages), (3, 3));
    }

    #[test]
    fn other_columns_and_stamps() {
        let text = "--procs-- -----memory----- -----timestamp-----\n   r    b         swpd         free        inact       active   si   so    bi    bo   in   cs  us  sy  id  wa  st  gu                 UTC\n\
                    1 0 0 5 6 7 0 0 0 0 0 0 0 0 100 0 0 0 2026-11-27 23:59:58\n\
                    1 0 0 5 6 7 0 0 0 0 0 0 0 0 100 0 0 0 2026-11-27 23:59:59\n\
                    1 0 0 5 6 7 0 0 0 0 0 0 0 0 100 0 0 0 2026-11-28 00:00:00\n";
        let own = log(text);
        let at = |row: usize| own.rows[row].at.as_ref().unwrap();
        assert_eq!(at(1).seconds - at(0).seconds, 1.0);
        assert_eq!(at(0).text, "2026-11-27 23:59:59");
        assert_eq!(own.rows[0].since, Some(at(0).seconds - 1.0), "that of the average");
        assert_eq!(own.rows[0].values.get(Column::Inactive), Some(6));
        assert_eq!(own.rows[0].values.get(Column::Guest), Some(0));
    }

    #[test]
    fn pressure_has_the_resource_of_its_heading() {
        let lines = "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        let own = log(&format!(
            "18:00:00\n==> /proc/pressure/memory <==\n{lines}\n==> /proc/pressure/io <==\n{lines}18:00:01\nmemory\n{lines}"
        ));
        let resources: Vec<Resource> = own.pressures.iter().map(|line| line.resource).collect();
        use Resource::{Io, Memory};
        assert_eq!(resources, [Memory, Memory, Io, Io, Memory, Memory]);
        let at = |line: usize| own.pressures[line].at.as_ref().map(|stamp| stamp.seconds);
        assert_eq!((at(0), at(4)), (Some(64_800.0), Some(64_801.0)));
        assert_eq!(log(lines).pressures[0].resource, Resource::Unnamed);
        let by_name = VmstatLog::parse("x/pressure/cpu", lines.as_bytes()).unwrap();
        assert_eq!(by_name.pressures[0].resource, Resource::Cpu);
        let prefixed =
            "1700000000 /proc/pressure/memory:some avg10=0.00 avg60=0.00 avg300=0.00 total=10\n";
        let own = log(prefixed);
        assert_eq!(own.pressures[0].resource, Memory);
        assert_eq!(own.pressures[0].at.as_ref().map(|stamp| stamp.seconds), Some(1.7e9));
    }

    #[test]
    fn both_in_one_text() {
        let psi = "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\n";
        let own = log(&format!("{HEAD}{AVERAGE}{ROW}memory {psi}{ROW}memory {psi}"));
        assert_eq!(own.pressures.iter().map(|line| line.row).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn damage_is_counted() {
        let own = log(&format!("{HEAD}{AVERAGE}{ROW}Killed\n 2  1      0 198"));
        assert_eq!((own.rows.len(), own.nr_unreadable, own.first_unreadable), (1, 2, Some(5)));
        let own = log(ROW);
        assert!(own.has_no_header && own.rows.len() == 1);
        let guests = format!("{} 0 2026-11-27 18:38:05\n", ROW.trim_end());
        let own = log(&guests);
        assert_eq!(own.rows[0].values.get(Column::Guest), Some(0));
        assert!(own.has_no_header && own.rows[0].at.is_some());
        let refused = |text: &[u8]| VmstatLog::parse("t", text).unwrap_err().to_string();
        assert_eq!(refused(b""), "t: no row of vmstat and no line of /proc/pressure");
        assert!(
            refused(format!("{HEAD}{AVERAGE}").as_bytes())
                .contains("only one row, taken as the average since boot")
        );
        assert!(refused(b"\xff\xfe\x00\n1 2 3").starts_with("t: no row"));
    }

    #[test]
    fn the_number_of_samples_is_bounded() {
        let own = log(&format!(
            "{HEAD}{}",
            "1 0 0 5 6 7 0 0 0 0 0 0 0 0 100 0 0\n".repeat(SAMPLES_MAX + 3)
        ));
        assert_eq!((own.rows.len(), own.nr_left_out, own.nr_averages), (SAMPLES_MAX, 2, 1));
    }
}
