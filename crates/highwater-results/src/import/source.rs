//! Opens a text, plain or gzip, and hands it out line by line.
//!
//! [`Source`] looks at the first bytes, never at the file name. Gzip data (also several members in
//! a row) are unpacked on the fly; binary recordings are refused with advice. It holds one line in
//! memory at a time, up to [`LINE_BYTES_MAX`].

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::ImportError;
use super::error::printable;
use crate::input;
use crate::words::refusal;

/// Longest line accepted. ftrace cannot print more than a few pages for one event.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Number of first bytes that identify a file.
const HEAD_BYTES: usize = 8;
const READ_BYTES: usize = 256 * 1024;

/// Treatment of gzip data that end in the middle, as those of a stopped capture do, and of lines
/// that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// It is an error that says how much was read.
    #[default]
    Refuse,
    /// Complete, readable lines are the text; the others are counted.
    UseWhole,
}

/// A readable text with its name and the number of the current line.
pub(crate) struct Source {
    name: String,
    reader: Box<dyn BufRead + Send>,
    is_gzip: bool,
    line: u64,
    is_cut_off: bool,
    on_damage: OnDamage,
    cut_at: Option<u64>,
    buffer: Vec<u8>,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, ImportError> {
        let name = printable(&path.display().to_string());
        let file = input::open(path).map_err(|e| ImportError::Open {
            file: name.clone(),
            problem: refusal(&e),
            kind: e.kind(),
        })?;
        Self::from_reader(&name, file)
    }

    pub(crate) fn from_reader(
        name: &str,
        mut reader: impl Read + Send + 'static,
    ) -> Result<Self, ImportError> {
        let name = printable(name);
        let head = read_head(&mut reader).map_err(|e| ImportError::Read {
            file: name.clone(),
            line: 1,
            problem: refusal(&e),
        })?;
        if let Some(problem) = foreign_format(&head) {
            return Err(ImportError::Format { file: name, problem: problem.to_owned() });
        }
        let is_gzip = head.starts_with(&input::GZIP);
        let has_bom = head.starts_with(&input::BOM);
        let head = if has_bom { head[input::BOM.len()..].to_vec() } else { head };
        let whole = Cursor::new(head).chain(reader);
        let reader: Box<dyn BufRead + Send> = if is_gzip {
            let packed = BufReader::with_capacity(READ_BYTES, whole);
            Box::new(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(packed)))
        } else {
            Box::new(BufReader::with_capacity(READ_BYTES, whole))
        };
        Ok(Self {
            name,
            reader,
            is_gzip,
            line: 0,
            is_cut_off: false,
            on_damage: OnDamage::default(),
            cut_at: None,
            buffer: Vec::new(),
        })
    }

    /// The next line without its end, or `None` after the last.
    #[inline]
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, ImportError> {
        self.buffer.clear();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.buffer);
        let nr_bytes = match read {
            Ok(n) => n as u64,
            Err(e) => {
                let error = self.read_error(&e);
                if self.on_damage == OnDamage::UseWhole && matches!(error, ImportError::Cut { .. })
                {
                    self.cut_at = Some(self.line + 1);
                    return Ok(None);
                }
                return Err(error);
            }
        };
        if nr_bytes == 0 {
            return Ok(None);
        }
        self.line += 1;
        self.is_cut_off = self.buffer.last() != Some(&b'\n');
        if !self.is_cut_off {
            self.buffer.pop();
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
        } else if nr_bytes == LINE_BYTES_MAX {
            return Err(ImportError::Format {
                file: self.name.clone(),
                problem: format!(
                    "line {} is longer than {LINE_BYTES_MAX} bytes: not a text of this kind",
                    self.line
                ),
            });
        }
        Ok(Some(&self.buffer))
    }

    /// The rest of the text; an error if it has more than `bytes_max` bytes.
    pub(crate) fn read_to_end(mut self, bytes_max: u64) -> Result<Vec<u8>, ImportError> {
        let mut text = Vec::new();
        if let Err(e) = (&mut self.reader).take(bytes_max + 1).read_to_end(&mut text) {
            self.line = text.iter().filter(|&&b| b == b'\n').count() as u64;
            return Err(self.read_error(&e));
        }
        if text.len() as u64 > bytes_max {
            let problem = format!("larger than {bytes_max} bytes: not a file of this kind");
            return Err(ImportError::Format { file: self.name, problem });
        }
        Ok(text)
    }

    /// True if the line that [`Source::next_line`] returned last has no line end, so the text stops
    /// there.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The same line again.
    #[inline]
    pub(crate) fn text(&self) -> &[u8] {
        &self.buffer
    }

    pub(crate) fn set_on_damage(&mut self, on_damage: OnDamage) {
        self.on_damage = on_damage;
    }

    pub(crate) fn on_damage(&self) -> OnDamage {
        self.on_damage
    }

    /// The line at which the gzip data ended in the middle, if [`Source::next_line`] tolerated
    /// that.
    pub(crate) fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of the line that [`Source::next_line`] returned last, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    pub(crate) fn is_gzip(&self) -> bool {
        self.is_gzip
    }

    #[cold]
    fn read_error(&self, error: &io::Error) -> ImportError {
        let (file, line) = (self.name.clone(), self.line + 1);
        match error.kind() {
            io::ErrorKind::UnexpectedEof if self.is_gzip => {
                ImportError::Cut { file, line, nr_events: 0 }
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if self.is_gzip => {
                ImportError::Gzip { file, line, problem: refusal(error) }
            }
            _ => ImportError::Read { file, line, problem: refusal(error) },
        }
    }
}

/// Longest text that [`whole_text`] reads: far beyond any file of `/proc` (zoneinfo of 8192 CPUs
/// has about 6 MB).
pub(crate) const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The whole text of a file, unpacked, for callers that recognise a text by its content first. Its
/// size is bounded.
///
/// # Errors
/// If the file cannot be read, is a binary recording, or has more than 64 MiB.
pub fn whole_text(path: &Path) -> Result<Vec<u8>, ImportError> {
    text_up_to(path, TEXT_BYTES_MAX)
}

/// The whole text of a file, unpacked, as [`whole_text`], for texts that may be longer.
///
/// # Errors
/// If the file cannot be read, is a binary recording, or has more than `bytes_max` bytes.
pub fn text_up_to(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ImportError> {
    Source::open(path)?.read_to_end(bytes_max)
}

/// The number, from 1, of the first line that passes a test, in a file that may be gzip.
///
/// # Errors
/// If the file cannot be read, is a binary recording, or has a line that is too long.
pub fn find_line(path: &Path, test: impl Fn(&[u8]) -> bool) -> Result<Option<u64>, ImportError> {
    let mut source = Source::open(path)?;
    while let Some(line) = source.next_line()? {
        if test(line) {
            return Ok(Some(source.line));
        }
    }
    Ok(None)
}

/// A text that was read from a pipe, unpacked if it is gzip; `name` names it in errors.
///
/// # Errors
/// If it is a binary recording, damaged, or has more than `bytes_max` bytes unpacked.
pub fn unpacked(name: &str, text: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>, ImportError> {
    if !text.starts_with(&input::GZIP) && foreign_format(&text).is_none() {
        return Ok(text);
    }
    Source::from_reader(name, Cursor::new(text))?.read_to_end(bytes_max)
}

/// Checks a file's gzip data up to the check sum at their end; none if they are whole or the file
/// is not gzip.
///
/// Damaged data may unpack to any text. A caller checks this before it reports an error of the text
/// itself.
pub fn gzip_damage(path: &Path) -> Option<ImportError> {
    let mut source = Source::open(path).ok().filter(|source| source.is_gzip)?;
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match source.reader.read(&mut bytes) {
            Ok(0) => return None,
            Ok(n) => source.line += bytes[..n].iter().filter(|&&b| b == b'\n').count() as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let error = source.read_error(&error);
                return matches!(error, ImportError::Gzip { .. }).then_some(error);
            }
        }
    }
}

/// Up to [`HEAD_BYTES`] bytes; a pipe may hand them out one at a time.
fn read_head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    reader.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Names binary recordings that are often mistaken for their text form.
fn foreign_format(head: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 7] = [
        (b"PERFILE2", "a binary perf recording; turn it into text with `perf script`"),
        (
            b"\x17\x08\x44trac",
            "a binary trace-cmd recording; turn it into text with `trace-cmd report`",
        ),
        (b"\x28\xb5\x2f\xfd", "zstd data; unpack it first (only gzip is unpacked here)"),
        (b"\xfd7zXZ", "xz data; unpack it first (only gzip is unpacked here)"),
        (b"PK\x03\x04", "a zip archive; unpack it first (only gzip is unpacked here)"),
        (b"\xff\xfe", "UTF-16 text; convert it to UTF-8"),
        (b"\xfe\xff", "UTF-16 text; convert it to UTF-8"),
    ];
    let is_bzip2 = head.len() >= 6 && head.starts_with(b"BZh") && head[4..6] == *b"1A";
    if is_bzip2 {
        return Some("bzip2 data; unpack it first (only gzip is unpacked here)");
    }
    KNOWN.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &'static [u8]) -> Source {
        Source::from_reader("t", text).unwrap()
    }

    #[test]
    fn lines_with_every_kind_of_end() {
        let mut source = source(b"\xef\xbb\xbfone\r\n\ntwo\nlast");
        let mut lines = Vec::new();
        while let Some(line) = source.next_line().unwrap() {
            lines.push(line.to_vec());
        }
        assert_eq!(lines, [&b"one"[..], b"", b"two", b"last"]);
        assert_eq!(source.line(), 4);
    }

    #[test]
    fn endless_line_is_refused_in_bounded_memory() {
        let mut source = Source::from_reader("t", io::repeat(b'x')).unwrap();
        let error = source.next_line().unwrap_err().to_string();
        assert!(error.contains("longer than 65536 bytes"), "{error}");
        assert!(source.buffer.len() as u64 <= LINE_BYTES_MAX);
    }

    #[test]
    fn a_line_is_found_in_plain_and_in_packed_text() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t");
        let text = b"one\ntwo\nthree\n";
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text).unwrap();
        for bytes in [text.to_vec(), packed.finish().unwrap()] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(find_line(&file, |line| line == b"three").unwrap(), Some(3));
            assert_eq!(find_line(&file, |line| line == b"four").unwrap(), None);
            assert_eq!(text_up_to(&file, 14).unwrap(), text);
            assert!(
                text_up_to(&file, 13).unwrap_err().to_string().contains("larger than 13 bytes")
            );
        }
    }

    #[test]
    fn other_formats_are_named() {
        for (head, word) in
            [(&b"PERFILE2xxxx"[..], "perf script"), (b"\x17\x08\x44tracing", "trace-cmd report")]
        {
            let error = Source::from_reader("t", head).err().unwrap().to_string();
            assert!(error.contains(word), "{error}");
        }
        assert!(Source::from_reader("t", &b"BZh"[..]).is_ok());
        assert!(unpacked("t", b"PERFILE2xxxx".to_vec(), 9).is_err());
        assert_eq!(unpacked("t", b"text".to_vec(), 9).unwrap(), b"text");
    }
}
