//! Each target with its seeds: whole, cut, and with bytes changed. Runs on any toolchain.

use std::fs;
use std::path::{Path, PathBuf};

use highwater_fuzz::{TARGETS, reference};

/// Damaged forms of each seed.
const DAMAGED: u64 = 24;
/// Longer seeds are cut: they are many lines of the same form.
const BYTES_MAX: usize = 1 << 15;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The seeds of a target, by name.
fn seeds(target: &str) -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut found = files(&own, &[""]);
    for (folder, ends) in reference(target) {
        let more = files(&root().join(folder), ends);
        assert!(!more.is_empty(), "{folder} has no seeds for {target}");
        found.extend(more);
    }
    assert!(!found.is_empty(), "{target} has no seeds");
    found.sort();
    found
}

fn files(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir(folder) else { return Vec::new() };
    let paths = all.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file());
    let is_seed = |path: &PathBuf| ends.iter().any(|end| path.to_string_lossy().ends_with(end));
    paths.filter(is_seed).collect()
}

/// A damaged form of a text: a piece is cut out, doubled or overwritten.
fn damaged(seed: &[u8], nr: u64) -> Vec<u8> {
    // xorshift64: the same damage in each run.
    let mut state = nr.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.max(1) as u64) as usize
    };
    let mut text = seed.to_vec();
    for _ in 0..=below(3) {
        let from = below(text.len());
        let to = (from + 1 + below(40)).min(text.len());
        match below(4) {
            0 => drop(text.drain(from.min(to)..to)),
            1 => {
                let piece = text[from.min(to)..to].to_vec();
                text.splice(from.min(to)..from.min(to), piece);
            }
            2 => text.truncate(to),
            _ => {
                const BYTES: &[u8] = b"\0\x1b\n\t\"[]{}=,.:-09azAZ\xff\xc3";
                if let Some(byte) = text.get_mut(from) {
                    *byte = BYTES[below(BYTES.len())];
                }
            }
        }
    }
    text
}

#[test]
fn every_target_holds_for_its_seeds() {
    for (name, target) in TARGETS {
        target(b"");
        for path in seeds(name) {
            let seed = fs::read(&path).expect("readable");
            target(&seed);
            let seed = &seed[..seed.len().min(BYTES_MAX)];
            (0..DAMAGED).for_each(|nr| target(&damaged(seed, nr)));
        }
    }
}

/// The manifest, the programs and the table have the same targets.
#[test]
fn every_target_is_a_program() {
    let manifest = include_str!("../Cargo.toml");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut programs: Vec<String> = files(&here, &[".rs"])
        .iter()
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    programs.sort();
    assert_eq!(programs, TARGETS.map(|(name, _)| name));
    for (name, _) in TARGETS {
        let path = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&path), "Cargo.toml has no {name}");
        let text = fs::read_to_string(here.join(format!("{name}.rs"))).expect("readable");
        assert!(text.contains(&format!("highwater_fuzz::{name}(")), "{name}.rs calls another");
    }
}
