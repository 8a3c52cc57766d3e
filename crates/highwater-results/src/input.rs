//! Opens files that come from elsewhere, within bounds on size and kind.
//!
//! A name on a command line may refer to a device that never ends, or to a file of gigabytes. Every
//! file named by a user is opened by [`open`], and [`read_text`] reads it whole only up to a limit.
//! Gzip data are unpacked, whatever the file's name. A byte order mark is skipped.

use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// Limit for files that people write by hand: definitions of experiments, machines and policies.
pub const DEFINITION_BYTES_MAX: u64 = 1 << 20;
/// Limit for files that programs write: documents of results.
pub const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

/// The first bytes of gzip data.
pub const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The byte order mark that some editors write before a text in UTF-8.
pub(crate) const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Opens a regular file or a pipe.
///
/// # Errors
/// If the file cannot be opened, or is a directory or a device. A device may have no end, and
/// merely opening some has an effect.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        let reason = "it is a directory, not a file";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, reason));
    }
    if !metadata.is_file() && !is_pipe(&metadata) {
        let reason = "it is neither a regular file nor a pipe";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    File::open(path)
}

/// True if the file can be read only once, as a pipe.
pub fn is_read_once(path: impl AsRef<Path>) -> bool {
    fs::metadata(path).is_ok_and(|metadata| is_pipe(&metadata))
}

/// The bytes of a text, unpacked and without a byte order mark.
///
/// # Errors
/// If the first bytes cannot be read.
pub fn unpacked(mut reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::with_capacity(BOM.len());
    reader.by_ref().take(BOM.len() as u64).read_to_end(&mut head)?;
    let is_gzip = head.starts_with(&GZIP);
    let has_bom = head == BOM;
    let whole = Cursor::new(if has_bom { Vec::new() } else { head }).chain(reader);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(BufReader::new(whole))) } else { Box::new(whole) })
}

/// The text of a file that has at most `bytes_max` bytes after unpacking.
///
/// # Errors
/// The same as [`open`]; also if the file is larger or is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    unpacked(open(path)?)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let reason = format!("larger than {bytes_max} bytes: not a file of this kind");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes).map_err(not_text)
}

#[cfg(unix)]
fn is_pipe(metadata: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        let error = read_text(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "larger than 3 bytes: not a file of this kind");
        // The limit cuts a character in two: the error must still be about the size.
        fs::write(&path, "ab\u{e9}").unwrap();
        assert_eq!(read_text(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_around_a_text_is_no_part_of_it() {
        use flate2::{Compression, write::GzEncoder};
        use std::io::Write as _;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "\u{feff}four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[b'x'; 1000]).unwrap();
        fs::write(&path, packed.finish().unwrap()).unwrap();
        assert_eq!(read_text(&path, 1000).unwrap().len(), 1000);
        assert_eq!(read_text(&path, 999).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for short in ["", "a", "ab"] {
            fs::write(&path, short).unwrap();
            assert_eq!(read_text(&path, 4).unwrap(), short);
        }
    }

    #[test]
    fn only_files_and_pipes_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(open(dir.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let missing = open(dir.path().join("x")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        #[cfg(unix)]
        for endless in ["/dev/zero", "/dev/null"] {
            let error = read_text(endless, 4).unwrap_err();
            assert_eq!(error.to_string(), "it is neither a regular file nor a pipe");
        }
    }
}
