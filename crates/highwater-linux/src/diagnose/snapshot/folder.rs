//! Finds the texts of a machine in a folder: `/proc` itself, the root of a copy, an unpacked
//! sosreport.

use std::path::{Path, PathBuf};

/// Texts that are looked for.
const NAMES: [&str; 4] = ["zoneinfo", "buddyinfo", "pagetypeinfo", "meminfo"];
/// Texts of `/proc/pressure`.
const PRESSURE: [&str; 4] = ["memory", "io", "cpu", "irq"];
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 4096;

/// The texts of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Texts of one machine.
    Texts(Vec<PathBuf>),
    /// Folders of several machines.
    Several(Vec<PathBuf>),
}

/// Files of a folder with one of the texts: those of `/proc` by name, else those whose name ends
/// like it, else those of the only folder in it that has some.
pub(super) fn texts_of(folder: &Path) -> Found {
    let named = named_in(folder);
    if !named.is_empty() {
        return Found::Texts(named);
    }
    let entries = entries(folder);
    let ends = |path: &&PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        NAMES.iter().any(|end| name.ends_with(end)) && path.is_file()
    };
    let ending: Vec<PathBuf> = entries.iter().filter(ends).cloned().collect();
    if !ending.is_empty() {
        return Found::Texts(ending);
    }
    let mut below = entries.into_iter().filter(|path| path.is_dir());
    let mut below = below.by_ref().filter(|path| !named_in(path).is_empty());
    match (below.next(), below.next()) {
        (Some(first), Some(second)) => Found::Several(vec![first, second]),
        (Some(only), None) => Found::Texts(named_in(&only)),
        _ => Found::Texts(Vec::new()),
    }
}

/// Texts of `/proc/pressure` in a folder that has no others, with a heading before each.
pub(in super::super) fn pressure_of(folder: &Path) -> Option<String> {
    let mut text = String::new();
    let places = ["", "pressure", "proc/pressure", "root/proc/pressure"];
    let place = places
        .iter()
        .map(|place| folder.join(place))
        .find(|place| read_pressure(&place.join(PRESSURE[0])).is_some())?;
    for name in PRESSURE {
        if let Some(own) = read_pressure(&place.join(name)) {
            text.push_str(&format!("==> {name} <==\n{own}\n"));
        }
    }
    Some(text)
}

fn read_pressure(path: &Path) -> Option<String> {
    let text = highwater_results::import::whole_text(path).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    (text.starts_with("some avg10=") || text.starts_with("full avg10=")).then_some(text)
}

/// The texts of a folder, or of the `/proc` in it.
fn named_in(folder: &Path) -> Vec<PathBuf> {
    for folder in ["", "proc", "root/proc"].map(|place| folder.join(place)) {
        let named = NAMES.map(|name| folder.join(name));
        if named[..3].iter().any(|path| path.is_file()) {
            return named.into_iter().filter(|path| path.is_file()).collect();
        }
    }
    Vec::new()
}

/// Entries of a folder, by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<PathBuf> =
        entries.take(ENTRIES_MAX).flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn texts_are_found_in_the_usual_places() {
        for place in ["", "proc", "root/proc", "sosreport-a/proc", "a/root/proc"] {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join(place);
            fs::create_dir_all(&folder).unwrap();
            assert_eq!(texts_of(dir.path()), Found::Texts(Vec::new()));
            fs::write(folder.join("buddyinfo"), "").unwrap();
            let found = texts_of(dir.path());
            assert_eq!(found, Found::Texts(vec![folder.join("buddyinfo")]), "{place}");
        }
    }

    #[test]
    fn two_machines_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        for host in ["a", "b"] {
            fs::create_dir_all(dir.path().join(host).join("proc")).unwrap();
            fs::write(dir.path().join(host).join("proc/zoneinfo"), "").unwrap();
        }
        let both = ["a", "b"].map(|host| dir.path().join(host)).to_vec();
        assert_eq!(texts_of(dir.path()), Found::Several(both));
    }

    #[test]
    fn pressure_is_read_with_its_names() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(pressure_of(dir.path()), None);
        let folder = dir.path().join("proc/pressure");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("memory"), "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n")
            .unwrap();
        fs::write(folder.join("cpu"), "other").unwrap();
        let text = pressure_of(dir.path()).unwrap();
        assert!(text.starts_with("==> memory <==\nsome avg10=1.00"), "{text}");
        assert!(!text.contains("cpu"));
    }
}
