//! Runs of the program: each once in this process, however many pages have it, and at most two at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError};

use tempfile::TempDir;

use crate::root;

/// Runs at a time.
const NR_AT_A_TIME: usize = 2;

/// What a run left behind.
pub(crate) struct Done {
    /// Its exit status; none if a signal ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Where a simulation put its results.
    pub(crate) results: PathBuf,
}

type Runs = BTreeMap<Vec<String>, Arc<OnceLock<Arc<Done>>>>;

static RUNS: Mutex<Runs> = Mutex::new(Runs::new());
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(NR_AT_A_TIME), Condvar::new());
static FILES: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a place for files"));

/// A file of this name with this text, which pages show and readers write.
pub(crate) fn file(name: &str, text: &str) -> PathBuf {
    let path = FILES.path().join(name);
    std::fs::write(&path, text).expect("writable");
    path
}

/// Where a file is that a command of a page writes.
pub(crate) fn place(page: &str, name: &str) -> PathBuf {
    FILES.path().join(format!("{page}-{name}").replace('/', "-"))
}

/// Options that only say what is shown of a simulation; a word follows each.
const SHOWN: [&str; 3] = ["--worst", "--folded", "--format"];
/// Operations of an explanation that are kept: as many as any page shows, and more.
const NR_WORST: &str = "8";

/// Runs the program with these arguments in the root of the workspace. Commands that show different things of the
/// same simulation print them from what one kept.
pub(crate) fn highwater(args: &[String]) -> Arc<Done> {
    let again = match args[0].as_str() {
        // A grid keeps a document for each point, and no report prints all.
        "compare" if args.iter().any(|word| word == "--vary") => return once(args, false),
        "compare" => "report",
        "explain" => "explain",
        // Its directory is required.
        "sweep" => return once(args, true),
        _ => return once(args, false),
    };
    let (mut made, mut shown) = (Vec::new(), Vec::new());
    let mut words = args.iter().cloned();
    while let Some(word) = words.next() {
        if SHOWN.contains(&word.as_str()) {
            shown.push(word);
            shown.extend(words.next());
        } else {
            made.push(word);
        }
    }
    if again == "explain" {
        made.extend(["--worst", NR_WORST].map(str::to_owned));
    }
    let first = once(&made, true);
    let is_all = again == "report" && shown.is_empty();
    if first.status != Some(0) || is_all {
        return first;
    }
    let mut print = vec![again.to_owned(), first.results.to_string_lossy().into_owned()];
    print.extend(shown);
    once(&print, false)
}

/// Runs the program, unless it ran with these arguments, and keeps its results if that is what it can.
fn once(args: &[String], keeps: bool) -> Arc<Done> {
    let run = Arc::clone(
        RUNS.lock().unwrap_or_else(PoisonError::into_inner).entry(args.to_vec()).or_default(),
    );
    let start = || {
        let program = std::env::var_os("HIGHWATER").map(PathBuf::from);
        // A relative path is one from the root, as in a shell there.
        let program = program.map(|path| root().join(path));
        let mut command =
            Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_highwater").into()));
        command.args(args);
        let results = FILES.path().join(args.join(" ").replace('/', "-"));
        if keeps {
            command.arg("--out").arg(&results);
        }
        Arc::new(finish(command, results))
    };
    Arc::clone(run.get_or_init(start))
}

fn finish(mut command: Command, results: PathBuf) -> Done {
    let (free, freed) = (&FREE.0, &FREE.1);
    let mut nr_free = free.lock().unwrap_or_else(PoisonError::into_inner);
    while *nr_free == 0 {
        nr_free = freed.wait(nr_free).unwrap_or_else(PoisonError::into_inner);
    }
    *nr_free -= 1;
    drop(nr_free);
    let output = command.current_dir(root()).env_remove("COLUMNS").output();
    *free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    freed.notify_one();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8(bytes).expect("the output is text");
    Done {
        status: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
        results,
    }
}

/// True if the file or folder is there, seen from the root.
pub(crate) fn exists(path: impl AsRef<Path>) -> bool {
    root().join(path).exists()
}
