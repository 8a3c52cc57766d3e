//! Files that appear whole in a directory to which others write at the same time.
//!
//! A file is written under a temporary name, flushed to disk and renamed. The temporary name has the computer, the
//! process and a number, so two writers never share one. Equal files replace each other: the writers of a ledger write
//! the same bytes under the same name.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// How a temporary name ends.
const TEMPORARY: &str = ".tmp";
/// Attempts to write a file whose temporary file somebody removes.
const ATTEMPTS: usize = 3;

/// Writes a file under its name, whole or not at all.
///
/// # Errors
/// If the system refuses.
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    for attempt in 1.. {
        let temporary = dir.join(temporary_name(name));
        let written = File::create_new(&temporary)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, dir.join(name)));
        match written {
            Ok(()) => return Ok(()),
            // A process in another container of this computer takes us for dead.
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => {}
            Err(error) => {
                // It is of no use; that it cannot be removed either would not be news.
                let _ = fs::remove_file(&temporary);
                return Err(error);
            }
        }
    }
    unreachable!("the last attempt returns")
}

/// A temporary name for a file or a directory of this name that no other process uses:
/// `.NAME.COMPUTER.PROCESS.NUMBER.tmp`.
pub fn temporary_name(name: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!(".{name}.{}.{}.{number}{TEMPORARY}", computer(), process::id())
}

/// Removes files and directories that dead processes of this computer left under temporary names,
/// from a directory and not from those below it. A file that cannot be removed does no harm and stays.
///
/// # Errors
/// If the directory cannot be read.
pub fn remove_abandoned(dir: &Path) -> io::Result<()> {
    for path in entries(dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !is_abandoned(name) {
            continue;
        }
        let _ = match path.is_dir() && !path.is_symlink() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
    }
    Ok(())
}

/// The paths of a directory; none if it does not exist.
pub(crate) fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether a name is a temporary one of a process of this computer that has ended.
fn is_abandoned(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('.').and_then(|name| name.strip_suffix(TEMPORARY)) else {
        return false;
    };
    let mut parts = rest.rsplitn(3, '.');
    let number = parts.next().and_then(|number| number.parse::<u64>().ok());
    let owner = parts.next().and_then(|process| process.parse::<u32>().ok());
    let before = parts.next().unwrap_or_default();
    // A computer's name may have dots.
    let is_ours = before.strip_suffix(computer()).is_some_and(|name| name.ends_with('.'));
    match (number, owner) {
        (Some(_), Some(owner)) => is_ours && !is_alive(owner),
        _ => false,
    }
}

/// Whether a process of this computer runs.
fn is_alive(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    // One of another user runs, too: the system says that it may not be signalled.
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// The name of this computer, without letters that a file's name should not have.
fn computer() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let system = rustix::system::uname();
        let plain = |letter: char| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => letter,
            _ => '-',
        };
        let name: String = system.nodename().to_string_lossy().chars().map(plain).collect();
        if name.is_empty() { "computer".to_owned() } else { name }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_files_of_dead_processes_of_this_computer_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let (here, own) = (computer(), process::id());
        let gone =
            [format!(".x.parquet.{here}.{dead}.0.tmp"), format!(".results.{here}.{dead}.7.tmp")];
        let stay = [
            format!(".x.parquet.{here}.{own}.0.tmp"),
            format!(".x.parquet.other-{here}.{dead}.0.tmp"),
            format!(".x.parquet.else.{dead}.0.tmp"),
            format!("x.parquet.{here}.{dead}.0.tmp"),
            format!(".x.parquet.{here}.{dead}.tmp"),
            "x.parquet".to_owned(),
        ];
        fs::create_dir(dir.path().join(&gone[1])).unwrap();
        fs::write(dir.path().join(&gone[1]).join("report.txt"), "x").unwrap();
        for name in stay.iter().chain(&gone[..1]) {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        remove_abandoned(dir.path()).unwrap();
        gone.iter().for_each(|name| assert!(!dir.path().join(name).exists(), "{name}"));
        stay.iter().for_each(|name| assert!(dir.path().join(name).exists(), "{name}"));
        remove_abandoned(&dir.path().join("none")).unwrap();
    }

    #[test]
    fn a_file_is_whole_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a", b"one").unwrap();
        write(dir.path(), "a", b"two").unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"two");
        assert_eq!(entries(dir.path()).unwrap().len(), 1);
        assert_ne!(temporary_name("a"), temporary_name("a"));
        assert!(write(&dir.path().join("none"), "a", b"x").is_err());
    }
}
