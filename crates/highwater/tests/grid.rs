//! The example `grid` writes the bytes of the command. This program is the example itself where it is started with
//! `HIGHWATER_GRID`, which it is by its own test: `cargo test --test grid` builds no examples.

#[path = "../examples/grid.rs"]
mod grid;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const EXAMPLE: &str = "HIGHWATER_GRID";

fn main() {
    if env::var_os(EXAMPLE).is_some() {
        grid::main().expect("the example runs");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let [ours, theirs] = ["ours", "theirs"].map(|name| dir.path().join(name));
    let me = env::current_exe().expect("a name");
    let status = Command::new(me).env(EXAMPLE, "1").arg(&ours).status().expect("it starts");
    assert!(status.success());
    // The command that the example's first lines name.
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/grid.rs"));
    let text = text.expect("the example").replace("\n//!", " ").replace('\\', " ");
    let (_, command) = text.split_once("$ highwater ").expect("a command");
    let words = command.split_whitespace().take_while(|word| *word != "DIR");
    let status = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(words)
        .arg(&theirs)
        .args(["--quiet", "--progress", "none"])
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.expect("it starts").success());
    // Four processes ran 48 units, 12 each.
    for number in 0..4 {
        let share = dir.path().join(format!("ours.share-{number}/units"));
        assert_eq!(fs::read_dir(share).expect("units").count(), 12, "share {number}");
    }
    let (ours, theirs) = (files(&ours), files(&theirs));
    assert_eq!(ours.len(), 24 * 2 + 2, "{:?}", ours.keys());
    for (name, bytes) in &theirs {
        let same = ours.get(name) == Some(bytes);
        assert!(same, "{name} differs, or is missing");
    }
    assert_eq!(ours.len(), theirs.len());
    println!("grid: {} files are those of the command", ours.len());
}

/// All files below a directory but those of units, by name.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "units" {
            let below = files(&path).into_iter();
            found.extend(below.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else if path.is_file() {
            found.insert(name, fs::read(&path).expect("readable"));
        }
    }
    found
}
