//! Reads back the CSV that a renderer wrote: numbered lines, and errors with their place.

use csv::StringRecord;

/// Reason why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {reason}", if field.is_empty() { String::new() } else { format!(", field `{field}`") })]
pub struct LineError {
    /// Line number, from 1.
    pub line: u64,
    /// The column; empty if the problem is not in a single column.
    pub field: String,
    /// The problem.
    pub reason: String,
}

/// The lines of a table after its header.
pub(super) struct Lines<'a> {
    header: StringRecord,
    records: csv::StringRecordsIntoIter<&'a [u8]>,
}

/// A line.
pub(super) struct Line {
    number: u64,
    record: StringRecord,
}

impl<'a> Lines<'a> {
    /// Opens a table that begins with these columns; `what` names its contents in errors.
    pub(super) fn of(text: &'a str, what: &str, columns: &[&str]) -> Result<Lines<'a>, LineError> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => return Err(wrong(1, "", error.to_string())),
        };
        if !header.iter().take(columns.len()).eq(columns.iter().copied()) {
            let reason = format!("a table of {what} begins with {}", columns.join(","));
            return Err(wrong(1, "", reason));
        }
        Ok(Lines { header, records: reader.into_records() })
    }

    pub(super) fn header(&self) -> &StringRecord {
        &self.header
    }

    /// The next line, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Line>, LineError> {
        let record = match self.records.next() {
            None => return Ok(None),
            Some(Ok(record)) => record,
            Some(Err(error)) => {
                let line = error.position().map_or(0, csv::Position::line);
                return Err(wrong(line, "", "not as many fields as the first line has".to_owned()));
            }
        };
        let number = record.position().map_or(0, csv::Position::line);
        Ok(Some(Line { number, record }))
    }

    /// A whole number of a line.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        line: &Line,
        at: usize,
    ) -> Result<T, LineError> {
        line.get(at).parse().map_err(|_| self.wrong(line, at, "not a whole number"))
    }

    /// The time in a field, converted from milliseconds to nanoseconds.
    pub(super) fn time_ns(&self, line: &Line, at: usize) -> Result<u64, LineError> {
        let ms: f64 = line.get(at).parse().map_err(|_| self.wrong(line, at, "not a number"))?;
        Ok((ms * 1e6).round() as u64)
    }

    /// An error about a heading.
    pub(super) fn wrong_head(name: &str, reason: &str) -> LineError {
        wrong(1, name, reason.to_owned())
    }

    /// An error about a field of a line.
    pub(super) fn wrong(&self, line: &Line, at: usize, reason: &str) -> LineError {
        wrong(line.number, self.header.get(at).unwrap_or_default(), reason.to_owned())
    }
}

impl Line {
    /// A field; a line has as many as there are columns.
    pub(super) fn get(&self, at: usize) -> &str {
        self.record.get(at).unwrap_or_default()
    }
}

fn wrong(line: u64, field: &str, reason: String) -> LineError {
    LineError { line, field: field.to_owned(), reason }
}
