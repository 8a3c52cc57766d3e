//! The open files of a process: `/proc/PID/fd` lists them, `/proc/PID/fdinfo` has position and
//! flags.
//!
//! Regular files only. Sockets, pipes, terminals, devices, `eventfd` and the like, and files of
//! `/proc` and `/sys` are only counted by kind. Bytes that went through them never become reads or
//! writes of a disk.

use std::collections::BTreeMap;

use super::Source;
use super::smaps::is_shared_memory;

/// Access mode in the octal `flags` of `fdinfo`.
const O_ACCMODE: u64 = 0o3;
const O_WRONLY: u64 = 0o1;
const O_RDWR: u64 = 0o2;
const O_APPEND: u64 = 0o2000;
/// Gives no bytes, and takes any.
const NULL: &str = "/dev/null";

/// An open regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Mount and inode, or the path where `fdinfo` does not have them.
    pub key: String,
    /// Its path.
    pub path: String,
    /// The file position: reads and writes without an explicit offset continue here.
    pub pos: u64,
    /// It may be read.
    pub can_read: bool,
    /// It may be written.
    pub can_write: bool,
    /// Writes go to its end.
    pub is_append: bool,
    /// Size in bytes; `None` in a recorded tree, where the file does not exist.
    pub size: Option<u64>,
    /// It is in memory: tmpfs.
    pub is_memory: bool,
}

/// The open descriptors of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Regular files by descriptor.
    pub files: BTreeMap<u32, OpenFile>,
    /// Counts of everything else, by kind. Only kinds that bytes are read from or written to.
    pub others: BTreeMap<&'static str, u32>,
}

impl Open {
    /// Whether bytes may have been read from or written to something other than a regular file.
    pub fn has_streams(&self) -> bool {
        self.others.keys().any(|kind| *kind != NULL)
    }
}

/// The open descriptors of a process; `None` if they are not readable or were not recorded.
pub(super) fn open(source: &Source, pid: u32) -> Option<Open> {
    let dir = format!("proc/{pid}/fd");
    let fds = source.numbered_or_none(&dir)?;
    let mounts = source.text(&format!("proc/{pid}/mountinfo")).unwrap_or_default();
    let mounts = mounts_in_memory(&mounts);
    let mut open = Open::default();
    for fd in fds {
        let Some(path) = source.link(&format!("{dir}/{fd}")) else { continue };
        let (is_file, size) = source.file_behind(&format!("{dir}/{fd}"));
        match kind(&path, is_file) {
            Some(kind) => *open.others.entry(kind).or_default() += 1,
            None => {
                let info = source.text(&format!("proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
                open.files.insert(fd, file(path, &info, size, &mounts));
            }
        }
    }
    Some(open)
}

/// The kind of a descriptor that is not a regular file; `None` for a regular file. `is_file` is the
/// kernel's answer, if it is known.
fn kind(path: &str, is_file: Option<bool>) -> Option<&'static str> {
    let under = |dir: &str| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    Some(match () {
        () if path.starts_with("socket:") => "sockets",
        () if path.starts_with("pipe:") => "pipes",
        () if path.starts_with("anon_inode:") => "event descriptors",
        () if is_shared_memory(path) => return None,
        () if under("/dev/pts") || path.starts_with("/dev/tty") || path == "/dev/console" => {
            "terminals"
        }
        () if path == NULL => NULL,
        () if under("/dev") => "devices",
        () if under("/proc") || under("/sys") => "files of the kernel",
        () if is_file == Some(false) => "directories and devices",
        () if path.starts_with('/') => return None,
        () => "event descriptors",
    })
}

fn file(path: String, info: &str, size: Option<u64>, in_memory: &[String]) -> OpenFile {
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
    let flags = field("flags").and_then(|text| u64::from_str_radix(text, 8).ok()).unwrap_or(O_RDWR);
    let access = flags & O_ACCMODE;
    let key = match (field("mnt_id"), number("ino")) {
        (Some(mount), Some(inode)) => format!("{mount}:{inode}"),
        _ => path.clone(),
    };
    OpenFile {
        key,
        pos: number("pos").unwrap_or(0),
        can_read: access != O_WRONLY,
        can_write: access == O_WRONLY || access == O_RDWR,
        is_append: flags & O_APPEND != 0,
        size,
        is_memory: is_shared_memory(&path)
            || field("mnt_id").is_some_and(|id| in_memory.iter().any(|known| known == id)),
        path,
    }
}

/// Numbers of mounts without a disk.
fn mounts_in_memory(mountinfo: &str) -> Vec<String> {
    let of = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let kind = kind.split_whitespace().next()?;
        let id = mount.split_whitespace().next()?;
        ["tmpfs", "ramfs", "devtmpfs"].contains(&kind).then(|| id.to_owned())
    };
    mountinfo.lines().filter_map(of).collect()
}

/// How a file was used while its process was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Its path.
    pub path: String,
    /// It could be read.
    pub can_read: bool,
    /// It could be written.
    pub can_write: bool,
    /// Its last known size; `None` if unknown.
    pub size: Option<u64>,
    /// Writes go to its end.
    pub is_append: bool,
    /// It is in memory.
    pub is_memory: bool,
    /// Bytes that its position moved on by reads.
    pub read: u64,
    /// Bytes that it grew, or that its position moved on by writes.
    pub written: u64,
}

/// All files that a process had open at one of the looks, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(pub BTreeMap<String, Used>);

impl Uses {
    /// Adds another look. The first look of a watched process has no `before`: its positions do not
    /// count. For the average over a process's whole life, `before` has no open files.
    pub(super) fn add(&mut self, before: Option<&Open>, now: &Open) {
        let mut moved: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (fd, file) in &now.files {
            let used = self.0.entry(file.key.clone()).or_default();
            used.path.clone_from(&file.path);
            used.can_read |= file.can_read;
            used.can_write |= file.can_write;
            used.is_append |= file.is_append;
            used.is_memory |= file.is_memory;
            let Some(before) = before else {
                used.size = file.size.or(used.size);
                continue;
            };
            // A new descriptor continues at the position of another descriptor of the same file.
            let was = before.files.get(fd).filter(|was| was.key == file.key);
            let of_file = || before.files.values().find(|was| was.key == file.key);
            let was = was.or_else(of_file);
            let by = file.pos.saturating_sub(was.map_or(0, |was| was.pos));
            let grown = file.size.zip(used.size).map(|(now, was)| now.saturating_sub(was));
            let is_written = match (file.can_read, file.can_write) {
                (_, false) => false,
                (false, true) => true,
                // Open for both: a file that grew was written.
                (true, true) => grown.is_some_and(|grown| grown > 0),
            };
            // Opened to append, it begins at 0 and is at its end with the first write.
            let is_new = was.is_none_or(|was| was.pos == 0);
            let by = match (file.is_append && is_new, grown) {
                (true, Some(grown)) => by.min(grown),
                _ => by,
            };
            // Duplicated descriptors share one position.
            let known = moved.entry(&file.key).or_default();
            match is_written {
                true => known.1 = known.1.max(by),
                false => known.0 = known.0.max(by),
            }
        }
        for (key, (read, written)) in moved {
            if let Some(used) = self.0.get_mut(key) {
                used.read = used.read.saturating_add(read);
                used.written = used.written.saturating_add(written);
            }
        }
        for file in now.files.values() {
            if let Some(used) = self.0.get_mut(&file.key) {
                used.size = file.size.or(used.size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(files: &[(u32, &str, &str, Option<u64>)]) -> Open {
        let files = files
            .iter()
            .map(|(fd, path, info, size)| (*fd, file((*path).to_owned(), info, *size, &[])));
        Open { files: files.collect(), ..Open::default() }
    }

    #[test]
    fn only_regular_files_are_files() {
        for (path, expected) in [
            ("socket:[1]", "sockets"),
            ("pipe:[1]", "pipes"),
            ("anon_inode:[eventpoll]", "event descriptors"),
            ("anon_inode:[eventfd]", "event descriptors"),
            ("/dev/pts/3", "terminals"),
            ("/dev/tty", "terminals"),
            ("/dev/null", "/dev/null"),
            ("/dev/urandom", "devices"),
            ("/proc/7/stat", "files of the kernel"),
            ("/sys/block", "files of the kernel"),
        ] {
            assert_eq!(kind(path, None), Some(expected), "{path}");
        }
        for path in ["/var/lib/x", "/dev/shm/x", "/memfd:a (deleted)", "/processes", "/system/a"] {
            assert_eq!(kind(path, Some(true)), None, "{path}");
        }
        assert_eq!(kind("/var/lib", Some(false)), Some("directories and devices"));
    }

    #[test]
    fn flags_and_positions_are_read() {
        let aof = file(
            "/a".to_owned(),
            "pos:\t12\nflags:\t0102001\nmnt_id:\t27\nino:\t9\n",
            Some(12),
            &[],
        );
        assert!(aof.is_append && aof.can_write && !aof.can_read);
        assert_eq!((aof.key.as_str(), aof.pos), ("27:9", 12));
        let mounts = mounts_in_memory(
            "25 24 0:23 / /run rw - tmpfs tmpfs rw\n27 1 254:0 / / rw - ext4 x rw\n",
        );
        assert_eq!(mounts, ["25"]);
        let both =
            file("/b".to_owned(), "pos:\t0\nflags:\t02\nmnt_id:\t25\nino:\t1\n", None, &mounts);
        assert!(both.can_read && both.can_write && both.is_memory && !both.is_append);
    }

    #[test]
    fn positions_that_move_are_bytes_read_or_written() {
        let log = "flags:\t0100001\nmnt_id:\t1\nino:\t2\n";
        let data = "flags:\t0100000\nmnt_id:\t1\nino:\t3\n";
        let at = |pos: u64, info: &str| format!("pos:\t{pos}\n{info}");
        let mut uses = Uses::default();
        let first = opened(&[
            (1, "/log", &at(10, log), Some(10)),
            (5, "/data", &at(100, data), Some(4096)),
        ]);
        // 1 and 2 are duplicates of one descriptor.
        let last = opened(&[
            (1, "/log", &at(40, log), Some(40)),
            (2, "/log", &at(40, log), Some(40)),
            (5, "/data", &at(300, data), Some(4096)),
            (6, "/new", "pos:\t7\nflags:\t01\nmnt_id:\t1\nino:\t4\n", Some(7)),
        ]);
        uses.add(None, &first);
        uses.add(Some(&first), &last);
        let by_path = |path: &str| {
            let used = uses.0.values().find(|used| used.path == path).unwrap();
            (used.read, used.written)
        };
        assert_eq!(by_path("/data"), (200, 0));
        assert_eq!(by_path("/log"), (0, 30));
        assert_eq!(by_path("/new"), (0, 7));
    }

    #[test]
    fn a_file_opened_to_append_grew_by_what_it_grew() {
        let info = |pos: u64| format!("pos:\t{pos}\nflags:\t02001\nmnt_id:\t1\nino:\t2\n");
        let mut uses = Uses::default();
        let first = opened(&[(1, "/log", &info(0), Some(1000))]);
        let last = opened(&[(1, "/log", &info(1024), Some(1024))]);
        uses.add(None, &first);
        uses.add(Some(&first), &last);
        assert_eq!(uses.0["1:2"].written, 24);
    }
}
