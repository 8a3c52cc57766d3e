//! The script of a memory cgroup capture: one operation a line, typed.
//!
//! ```text
//! group a                         the main program
//! worker w a                      starts a worker in a group
//! &w wr f 65536                   the worker does this, and the main program goes on
//! wait w
//! snap written                    counters are read
//! ```
//!
//! Sizes are pages, except for the settings and `reclaim`, which are bytes as Linux's files have
//! them.

use serde::Deserialize;

/// Longest sleep and time limit, milliseconds: a bound on how long a bad file can keep us busy.
const MS_MAX: u64 = 600_000;
/// Most pages, files, children or repetitions of an operation, for the same reason.
const COUNT_MAX: u64 = 1 << 24;

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Line {
    /// As written.
    pub text: String,
    /// Its meaning.
    pub op: Op,
}

/// An operation of the main program.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Makes a file of so many pages, on disk and not in the cache.
    MakeFile {
        /// Its name.
        file: String,
        /// Pages.
        pages: u32,
    },
    /// Makes a group.
    Group(String),
    /// Removes a group.
    RemoveGroup(String),
    /// Writes a setting of a group.
    Set {
        /// The group.
        group: String,
        /// The setting.
        setting: Setting,
    },
    /// Writes bytes to `memory.reclaim`.
    Reclaim {
        /// The group.
        group: String,
        /// Bytes.
        bytes: u64,
    },
    /// Starts a worker in a group.
    Worker {
        /// Its name.
        worker: String,
        /// Its group.
        group: String,
        /// The CPU that it is pinned to.
        cpu: u16,
    },
    /// Moves a worker to another group.
    Move {
        /// The worker.
        worker: String,
        /// The new group.
        group: String,
    },
    /// Kills a worker.
    Kill(String),
    /// Sleeps, milliseconds.
    Sleep(u64),
    /// Drops clean caches.
    Drop,
    /// Writes all dirty pages.
    Sync,
    /// Drops caches once, here instead of before the first snapshot.
    Begin,
    /// Reads all counters: the first one is the start, each later one ends a step.
    Snap(String),
    /// A worker does something.
    Work {
        /// The worker.
        worker: String,
        /// Its operation.
        work: Work,
        /// The main program goes on meanwhile.
        is_parallel: bool,
    },
    /// Waits until a worker has done what it was given.
    Wait(String),
}

/// A setting, in bytes; `None` = `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the file of its name")]
pub enum Setting {
    Min(u64),
    Low(u64),
    High(Option<u64>),
    Max(Option<u64>),
    SwapHigh(Option<u64>),
    SwapMax(Option<u64>),
    OomGroup(bool),
}

/// An operation of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Maps private anonymous memory.
    Map {
        /// Name of the mapping.
        map: String,
        /// Pages.
        pages: u32,
    },
    /// Stores to each page, in order.
    Touch {
        /// The mapping.
        map: String,
        /// First page.
        from: u32,
        /// Page after the last one; `None`: to the end.
        to: Option<u32>,
        /// Stops after so many milliseconds.
        limit_ms: Option<u64>,
    },
    /// Reads each page, in order.
    Load(String),
    /// Stores to random pages.
    TouchRandom {
        /// The mapping.
        map: String,
        /// Stores.
        times: u64,
    },
    /// Gives pages back (`MADV_DONTNEED`).
    Free {
        /// The mapping.
        map: String,
        /// First page.
        from: u32,
        /// Page after the last one.
        to: u32,
    },
    /// Unmaps.
    Unmap(String),
    /// Reads a file from its start to its end.
    Read {
        /// The file.
        file: String,
        /// Pages read at most.
        pages: u32,
        /// Passes.
        times: u64,
    },
    /// Writes a file from its start.
    Write {
        /// The file.
        file: String,
        /// Pages.
        pages: u32,
    },
    /// Writes random pages of a file.
    WriteRandom {
        /// The file.
        file: String,
        /// Pages to choose from.
        pages: u32,
        /// Writes.
        times: u64,
    },
    /// Writes a file's dirty pages to disk.
    Fsync(String),
    /// Maps a file shared, reads a byte of each page, unmaps it.
    MapFile {
        /// The file.
        file: String,
        /// Pages.
        pages: u32,
    },
    /// Makes a directory with empty files.
    MakeDirectory {
        /// Its name.
        directory: String,
        /// Files.
        files: u64,
    },
    /// Looks at each file of a directory.
    Stat {
        /// The directory.
        directory: String,
        /// Files.
        files: u64,
    },
    /// Looks for names that are not there.
    Negative {
        /// The directory.
        directory: String,
        /// Names.
        names: u64,
    },
    /// Starts children that only wait.
    Fork(u64),
    /// Sends bytes over a loopback connection that nobody reads.
    Tcp {
        /// KiB.
        kib: u64,
    },
    /// Ends.
    Exit,
}

impl TryFrom<String> for Line {
    type Error = String;

    fn try_from(text: String) -> Result<Line, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let op = operation(&words).map_err(|reason| format!("{text:?}: {reason}"))?;
        Ok(Line { text, op })
    }
}

fn operation(words: &[&str]) -> Result<Op, String> {
    let name = |word: &&str| (*word).to_owned();
    match words {
        ["mkfile", file, pages] => Ok(Op::MakeFile { file: name(file), pages: pages_of(pages)? }),
        ["group", path] => Ok(Op::Group(name(path))),
        ["rmgroup", path] => Ok(Op::RemoveGroup(name(path))),
        ["set", group, file, value] => {
            Ok(Op::Set { group: name(group), setting: setting(file, value)? })
        }
        ["reclaim", group, bytes] => Ok(Op::Reclaim { group: name(group), bytes: number(bytes)? }),
        ["worker", worker, group, rest @ ..] => {
            let cpu = match rest {
                [] => 1,
                [cpu] => cpu.parse().map_err(|_| format!("{cpu:?} is not a CPU"))?,
                _ => return Err("too many words".to_owned()),
            };
            Ok(Op::Worker { worker: name(worker), group: name(group), cpu })
        }
        ["move", worker, group] => Ok(Op::Move { worker: name(worker), group: name(group) }),
        ["kill", worker] => Ok(Op::Kill(name(worker))),
        ["sleep", seconds] => {
            let ms = seconds.parse::<f64>().map_or(-1.0, |seconds| seconds * 1e3);
            if !(0.0..=MS_MAX as f64).contains(&ms) {
                return Err(format!("{seconds:?} is not a number of seconds up to 600"));
            }
            Ok(Op::Sleep(ms as u64))
        }
        ["drop"] => Ok(Op::Drop),
        ["sync"] => Ok(Op::Sync),
        ["begin"] => Ok(Op::Begin),
        ["snap", label] => Ok(Op::Snap(name(label))),
        ["wait", worker] => Ok(Op::Wait(name(worker))),
        [worker, verb, rest @ ..] => {
            let (is_parallel, worker) = match worker.strip_prefix('&') {
                Some(worker) => (true, worker),
                None => (false, *worker),
            };
            Ok(Op::Work { worker: worker.to_owned(), work: work(verb, rest)?, is_parallel })
        }
        [] => Err("empty".to_owned()),
        [word] => Err(format!("unknown operation {word:?}")),
    }
}

fn work(verb: &str, words: &[&str]) -> Result<Work, String> {
    let name = |word: &&str| (*word).to_owned();
    match (verb, words) {
        ("map", [map, pages]) => Ok(Work::Map { map: name(map), pages: pages_of(pages)? }),
        ("touch", [map]) => Ok(Work::Touch { map: name(map), from: 0, to: None, limit_ms: None }),
        ("touch", [map, from, to, rest @ ..]) => {
            let limit_ms = match rest {
                [] => None,
                [ms] => Some(number(ms)?.min(MS_MAX)),
                _ => return Err("too many words".to_owned()),
            };
            let to = Some(pages_of(to)?).filter(|&to| to > 0);
            Ok(Work::Touch { map: name(map), from: pages_of(from)?, to, limit_ms })
        }
        ("load", [map]) => Ok(Work::Load(name(map))),
        ("touchr", [map, times]) => {
            Ok(Work::TouchRandom { map: name(map), times: times_of(times)? })
        }
        ("free", [map, from, to]) => {
            Ok(Work::Free { map: name(map), from: pages_of(from)?, to: pages_of(to)? })
        }
        ("un", [map]) => Ok(Work::Unmap(name(map))),
        ("rd", [file, pages, rest @ ..]) => {
            let times = match rest {
                [] => 1,
                [times] => times_of(times)?,
                _ => return Err("too many words".to_owned()),
            };
            Ok(Work::Read { file: name(file), pages: pages_of(pages)?, times })
        }
        ("wr", [file, pages]) => Ok(Work::Write { file: name(file), pages: pages_of(pages)? }),
        ("wr4", [file, pages, times]) => Ok(Work::WriteRandom {
            file: name(file),
            pages: pages_of(pages)?,
            times: times_of(times)?,
        }),
        ("fsync", [file]) => Ok(Work::Fsync(name(file))),
        ("fmap", [file, pages]) => Ok(Work::MapFile { file: name(file), pages: pages_of(pages)? }),
        ("mkd", [directory, files]) => {
            Ok(Work::MakeDirectory { directory: name(directory), files: times_of(files)? })
        }
        ("stat", [directory, files]) => {
            Ok(Work::Stat { directory: name(directory), files: times_of(files)? })
        }
        ("neg", [directory, names]) => {
            Ok(Work::Negative { directory: name(directory), names: times_of(names)? })
        }
        ("fork", [children]) => Ok(Work::Fork(times_of(children)?)),
        ("tcp", [kib]) => Ok(Work::Tcp { kib: times_of(kib)? }),
        ("exit", []) => Ok(Work::Exit),
        (
            "map" | "touch" | "load" | "touchr" | "free" | "un" | "rd" | "wr" | "wr4" | "fsync",
            _,
        )
        | ("fmap" | "mkd" | "stat" | "neg" | "fork" | "tcp" | "exit", _) => {
            Err(format!("{verb} does not take {} words", words.len()))
        }
        _ => Err(format!("unknown operation {verb:?}")),
    }
}

fn setting(file: &str, value: &str) -> Result<Setting, String> {
    let bytes = || number(value);
    let limit = || match value {
        "max" => Ok(None),
        _ => bytes().map(Some),
    };
    match file {
        "memory.min" => Ok(Setting::Min(limit()?.unwrap_or(u64::MAX))),
        "memory.low" => Ok(Setting::Low(limit()?.unwrap_or(u64::MAX))),
        "memory.high" => Ok(Setting::High(limit()?)),
        "memory.max" => Ok(Setting::Max(limit()?)),
        "memory.swap.high" => Ok(Setting::SwapHigh(limit()?)),
        "memory.swap.max" => Ok(Setting::SwapMax(limit()?)),
        "memory.oom.group" => match value {
            "0" => Ok(Setting::OomGroup(false)),
            "1" => Ok(Setting::OomGroup(true)),
            _ => Err(format!("{value:?} is not 0 or 1")),
        },
        _ => Err(format!("unknown setting {file:?}")),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word:?} is not a number"))
}

fn times_of(word: &str) -> Result<u64, String> {
    match number(word)? {
        times if times <= COUNT_MAX => Ok(times),
        times => Err(format!("{times} is more than {COUNT_MAX}")),
    }
}

fn pages_of(word: &str) -> Result<u32, String> {
    Ok(times_of(word)? as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(text: &str) -> Op {
        Line::try_from(text.to_owned()).expect(text).op
    }

    fn refused(text: &str) -> String {
        Line::try_from(text.to_owned()).expect_err(text)
    }

    #[test]
    fn the_main_program() {
        assert_eq!(op("group p/c"), Op::Group("p/c".to_owned()));
        let worker = |cpu| Op::Worker { worker: "w".to_owned(), group: "a".to_owned(), cpu };
        assert_eq!((op("worker w a"), op("worker w a 0")), (worker(1), worker(0)));
        assert_eq!(op("sleep 0.3"), Op::Sleep(300));
        let set = |setting| Op::Set { group: "a".to_owned(), setting };
        assert_eq!(op("set a memory.max 4096"), set(Setting::Max(Some(4096))));
        assert_eq!(op("set a memory.high max"), set(Setting::High(None)));
        assert_eq!(op("set a memory.oom.group 1"), set(Setting::OomGroup(true)));
    }

    #[test]
    fn workers() {
        let work = |text: &str| match op(text) {
            Op::Work { work, is_parallel, .. } => (work, is_parallel),
            other => panic!("{other:?}"),
        };
        let touch = |from, to, limit_ms| Work::Touch { map: "m".to_owned(), from, to, limit_ms };
        assert_eq!(work("w touch m"), (touch(0, None, None), false));
        assert_eq!(work("w touch m 1 10"), (touch(1, Some(10), None), false));
        assert_eq!(work("w touch m 0 0 25000"), (touch(0, None, Some(25_000)), false));
        assert_eq!(work("&w wr f 8"), (Work::Write { file: "f".to_owned(), pages: 8 }, true));
        let read = |times| Work::Read { file: "f".to_owned(), pages: 8, times };
        assert_eq!((work("w rd f 8").0, work("w rd f 8 3").0), (read(1), read(3)));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        assert_eq!(refused("w fly m"), "\"w fly m\": unknown operation \"fly\"");
        assert_eq!(refused("w map m"), "\"w map m\": map does not take 1 words");
        assert_eq!(refused("w map m x"), "\"w map m x\": \"x\" is not a number");
        assert_eq!(
            refused("set a memory.swap 1"),
            "\"set a memory.swap 1\": unknown setting \"memory.swap\""
        );
        assert!(refused("sleep 601").contains("600"));
        assert_eq!(refused(""), "\"\": empty");
        assert_eq!(refused("snap"), "\"snap\": unknown operation \"snap\"");
    }
}
