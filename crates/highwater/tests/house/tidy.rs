//! The source itself: dependencies point down, rooms are not crowded, nothing reaches outside.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// Crates by layer, lowest first; a crate uses only crates of lower layers.
const LAYERS: &[&[&str]] = &[
    &["highwater-core", "highwater-results", "highwater-calibrate"],
    &["highwater-sim", "highwater-native", "highwater-workloads", "highwater-report"],
    &["highwater-files"],
    &["highwater-runs"],
    &["highwater-plan"],
    &["highwater-ledger", "highwater-linux"],
    &["highwater"],
];
/// A file is one room.
const LINES_MAX: usize = 700;

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&name))
}

#[test]
fn dependencies_point_down() {
    for (depth, names) in LAYERS.iter().enumerate() {
        for name in *names {
            let path = root().join("crates").join(name).join("Cargo.toml");
            let text = fs::read_to_string(&path).expect("every crate has a manifest");
            let manifest: toml::Table = text.parse().expect("a manifest is TOML");
            let Some(dependencies) = manifest.get("dependencies").and_then(|d| d.as_table()) else {
                continue;
            };
            for used in dependencies.keys().filter_map(|d| layer(d).map(|l| (d, l))) {
                assert!(used.1 < depth, "{name} uses {}", used.0);
            }
        }
    }
}

/// A crate is a package of its own: its folder has all that a reader of crates.io wants.
#[test]
fn every_crate_can_be_a_package() {
    let all = fs::read_dir(root().join("crates")).expect("readable");
    for path in all.map(|entry| entry.expect("readable").path()) {
        let name = path.file_name().expect("a folder").to_string_lossy().into_owned();
        assert!(layer(&name).is_some(), "{name} is in no layer");
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(path.join(file).is_file(), "{name} has no {file}");
        }
        let text = fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let package = manifest["package"].as_table().expect("a package");
        for key in ["description", "license", "readme", "keywords", "categories", "rust-version"] {
            assert!(package.contains_key(key), "{name} says no {key}");
        }
    }
}

/// Measuring reads clocks, so nothing that is simulated may reach it: the crates that run
/// simulations do not depend on it, and no crate but those that talk to the computer does.
#[test]
fn nothing_that_is_simulated_reaches_the_measuring_of_this_computer() {
    const MEASURING: &str = "highwater-calibrate";
    const MAY_USE: [&str; 1] = ["highwater-linux"];
    for name in LAYERS.iter().copied().flatten() {
        let path = root().join("crates").join(name).join("Cargo.toml");
        let text = fs::read_to_string(&path).expect("every crate has a manifest");
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let uses = manifest.get(section).and_then(|d| d.get(MEASURING)).is_some();
            assert!(!uses || MAY_USE.contains(name), "{name} uses {MEASURING} ({section})");
        }
    }
    // In the crate that may, only the modules that ask for measurements do.
    let mut found = Vec::new();
    sources(&root().join("crates/highwater-linux/src"), &mut found);
    for path in found {
        let text = fs::read_to_string(&path).expect("readable");
        let asks = ["/calibrate/", "/predict/"].iter().any(|m| path.to_string_lossy().contains(m));
        assert!(asks || !text.contains("highwater_calibrate"), "{}", path.display());
    }
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn rooms_are_not_crowded_and_nothing_reaches_outside() {
    let mut found = Vec::new();
    sources(&root().join("crates"), &mut found);
    assert!(found.len() > 100, "the search found the sources");
    let outside = ["../", "shared/"].concat();
    for path in found {
        let text = fs::read_to_string(&path).expect("readable");
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
        assert!(!text.contains(&outside), "{} reaches out of the project", path.display());
    }
}

/// Where tests are joined in one program, a file that is not declared would be no test at all.
#[test]
fn every_file_of_tests_is_compiled() {
    let mut nr_joined = 0;
    for name in LAYERS.iter().copied().flatten() {
        let tests = root().join("crates").join(name).join("tests");
        let Ok(joined) = fs::read_to_string(tests.join("all.rs")) else { continue };
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest: toml::Table =
            fs::read_to_string(manifest).expect("a manifest").parse().expect("a manifest is TOML");
        let programs: Vec<&str> = manifest["test"]
            .as_array()
            .expect("its test programs")
            .iter()
            .map(|test| test["name"].as_str().expect("a name"))
            .collect();
        for entry in fs::read_dir(&tests).expect("readable") {
            let path = entry.expect("readable").path();
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_declared = joined.lines().any(|line| line == format!("mod {file};"));
            let is_program = programs.contains(&file.as_str());
            assert!(
                is_declared != is_program,
                "{}: declared in all.rs or a program",
                path.display()
            );
            nr_joined += usize::from(is_declared);
        }
    }
    assert!(nr_joined > 20, "the joined ones were found: {nr_joined}");
}

#[test]
fn the_book_has_every_page_it_lists_and_lists_every_page() {
    let book = root().join("docs/src");
    let summary = fs::read_to_string(book.join("SUMMARY.md")).expect("a summary");
    let listed: Vec<&str> =
        summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(listed.len() > 10, "the summary was understood");
    for page in &listed {
        assert!(book.join(page).is_file(), "{page} is listed but not there");
    }
    for dir in
        ["", "decisions", "embedding", "formats", "how-to", "rules"].map(|dir| book.join(dir))
    {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.strip_prefix(&book).expect("inside").to_string_lossy().into_owned();
            let is_page = name.ends_with(".md") && name != "SUMMARY.md";
            assert!(!is_page || listed.contains(&name.as_str()), "{name} is not listed");
        }
    }
}
