//! Lists the definitions that come with the program, so that a new one is its file and nothing else; and hashes the
//! sources that decide results (`HIGHWATER_MODEL`), so that kept results of another model are not taken for this one's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// The lists that are made, and the folders whose TOML files they hold.
const LISTS: [(&str, &str); 5] = [
    ("EXPERIMENTS", "experiments"),
    ("MACHINES", "machines"),
    ("POLICIES", "policies"),
    ("COSTS", "machines/costs"),
    ("WORKLOADS", "workloads"),
];

/// What decides the bytes of a unit of work, beside what its recipe says: code, and tables of costs that machines name.
/// Folders, and files.
const MODEL: [&str; 12] = [
    "crates/highwater-core/src",
    "crates/highwater-sim/src",
    "crates/highwater-workloads/src",
    "crates/highwater-results/src",
    "crates/highwater-report/src/latency.rs",
    "crates/highwater/src/experiment",
    "crates/highwater/src/explain",
    "crates/highwater/src/machine_file",
    "crates/highwater/src/machine_file.rs",
    "crates/highwater/src/sysctls.rs",
    "crates/highwater/src/workload",
    "machines/costs",
];
/// Libraries whose next version might compute another number.
const LIBRARIES: [&str; 4] = ["hdrhistogram", "libm", "rand_core", "rand_xoshiro"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let mut text = String::new();
    for (name, folder) in LISTS {
        let entries = entries(&root.join(folder))?;
        let _ = writeln!(text, "pub(crate) const {name}: &[(&str, &str)] = &[{entries}];");
    }
    println!("cargo:rustc-env=HIGHWATER_MODEL={}", model(&root)?);
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

/// The hash of the model, in hexadecimal digits: of every file of [`MODEL`] its path below the root and its bytes, in the
/// order of the paths, and of every one of [`LIBRARIES`] its version.
fn model(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for part in MODEL {
        let path = root.join(part);
        println!("cargo:rerun-if-changed={}", path.display());
        match path.is_dir() {
            true => files_below(root, Path::new(part), &mut files)?,
            false => files.push(PathBuf::from(part)),
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(file.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update(Sha256::digest(fs::read(root.join(&file))?));
    }
    // A package that is built elsewhere has no lock file of its own.
    let lock = root.join("Cargo.lock");
    println!("cargo:rerun-if-changed={}", lock.display());
    let lock = fs::read_to_string(lock).unwrap_or_default();
    for package in lock.split("[[package]]") {
        let name = LIBRARIES.iter().find(|name| package.contains(&format!("name = \"{name}\"\n")));
        let version = package.lines().find(|line| line.starts_with("version = "));
        if let (Some(name), Some(version)) = (name, version) {
            hash.update(format!("{name} {version}\n").as_bytes());
        }
    }
    Ok(hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// The files below a folder, as paths from the root.
fn files_below(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => files_below(root, &path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
