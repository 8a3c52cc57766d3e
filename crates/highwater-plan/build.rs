//! Hashes the sources that decide results (`HIGHWATER_MODEL`): results that another model left in a store of units are
//! not taken for this one's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Sources that decide the bytes of a unit of work beside its recipe: crate, and folder or file in it.
const MODEL: [(&str, &str); 12] = [
    ("highwater-core", "src"),
    ("highwater-files", "machines/costs"),
    ("highwater-files", "src/machine_file"),
    ("highwater-files", "src/machine_file.rs"),
    ("highwater-plan", "src/experiment"),
    ("highwater-plan", "src/explain"),
    ("highwater-plan", "src/sysctls.rs"),
    ("highwater-report", "src/latency.rs"),
    ("highwater-results", "src"),
    ("highwater-runs", "src"),
    ("highwater-sim", "src"),
    ("highwater-workloads", "src"),
];
/// Libraries whose next version might compute another number.
const LIBRARIES: [&str; 4] = ["hdrhistogram", "libm", "rand_core", "rand_xoshiro"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo:rustc-env=HIGHWATER_MODEL={}", model(&here)?);
    Ok(())
}

/// Computes the hash of the model, in hexadecimal digits.
///
/// In the repository it covers paths and bytes of all files of [`MODEL`], in order, and versions of [`LIBRARIES`]. A
/// package from a registry has no crates beside it: there another crate counts with its version, which decides its source
/// (`Cargo.toml` asks for exactly this release of each).
fn model(here: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut all = |name: &str, root: &Path, part: &str| -> io::Result<()> {
        let path = root.join(part);
        println!("cargo:rerun-if-changed={}", path.display());
        let mut files = vec![];
        match path.is_dir() {
            true => files_below(root, Path::new(part), &mut files)?,
            false => files.push(PathBuf::from(part)),
        }
        files.sort();
        for file in files {
            hash.update(format!("{name}/{}", file.display()));
            hash.update([0]);
            hash.update(Sha256::digest(fs::read(root.join(&file))?));
        }
        Ok(())
    };
    let mut released = String::new();
    for (name, part) in MODEL {
        let beside = here.join("..").join(name);
        if beside.join(part).exists() {
            all(name, &beside, part)?;
        } else {
            let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
            let _ = writeln!(released, "{name} {version}");
        }
    }
    hash.update(released);
    // The repository's lock file; a package has its own, unless another package depends on it.
    let locks = [here.join("../../Cargo.lock"), here.join("Cargo.lock")];
    let lock = locks.iter().find(|lock| lock.exists()).unwrap_or(&locks[0]);
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
