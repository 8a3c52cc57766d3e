//! Lists the definitions that come with the program, so that a new one is its file and nothing else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The lists that are made, and the folders whose TOML files they hold.
const LISTS: [(&str, &str); 5] = [
    ("EXPERIMENTS", "experiments"),
    ("MACHINES", "machines"),
    ("POLICIES", "policies"),
    ("COSTS", "machines/costs"),
    ("WORKLOADS", "workloads"),
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut text = String::new();
    for (name, folder) in LISTS {
        let entries = entries(&here.join(folder))?;
        let _ = writeln!(
            text,
            "/// Names and texts of `{folder}`.\npub const {name}: &[(&str, &str)] = &[{entries}];"
        );
    }
    let out = PathBuf::from(env::var("OUT_DIR").unwrap_or_default());
    fs::write(out.join("catalogue.rs"), text)
}

/// Name and text of every TOML file of a folder, by name.
fn entries(folder: &Path) -> io::Result<String> {
    let folder = folder.canonicalize()?;
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    // Not by the whole name: of `vm.toml` and `vm-4.toml` the first has the shorter name.
    files.sort_by_key(|file| file.file_stem().map(ToOwned::to_owned));
    let mut entries = String::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let _ = write!(entries, "({name:?}, include_str!({:?})), ", file.display().to_string());
    }
    Ok(entries)
}
