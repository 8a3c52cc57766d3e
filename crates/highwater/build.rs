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

/// Code of this crate, and tables of costs, that decide the bytes of a unit of work beside its recipe.
const MODEL: [&str; 7] = [
    "machines/costs",
    "src/experiment",
    "src/explain",
    "src/machine_file",
    "src/machine_file.rs",
    "src/sysctls.rs",
    "src/workload",
];
/// Code of the crates below that decides them too.
const BELOW: [(&str, &str); 5] = [
    ("highwater-core", "src"),
    ("highwater-report", "src/latency.rs"),
    ("highwater-results", "src"),
    ("highwater-sim", "src"),
    ("highwater-workloads", "src"),
];
/// Libraries whose next version might compute another number.
const LIBRARIES: [&str; 4] = ["hdrhistogram", "libm", "rand_core", "rand_xoshiro"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut text = String::new();
    for (name, folder) in LISTS {
        let entries = entries(&here.join(folder))?;
        let _ = writeln!(text, "pub(crate) const {name}: &[(&str, &str)] = &[{entries}];");
    }
    println!("cargo:rustc-env=HIGHWATER_MODEL={}", model(&here)?);
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

/// Computes the hash of the model, in hexadecimal digits.
///
/// In the repository it covers paths and bytes of all files of [`MODEL`] and [`BELOW`], in order, and versions of
/// [`LIBRARIES`]. A package from a registry has no crates beside it: there a crate of [`BELOW`] counts with its version,
/// which decides its source (`Cargo.toml` asks for exactly this release of each).
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
    for part in MODEL {
        all("highwater", here, part)?;
    }
    let mut released = String::new();
    for (name, part) in BELOW {
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
