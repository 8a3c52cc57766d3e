//! Tables of costs: those that come with the program, and files such as `highwater calibrate`
//! writes.
//!
//! ```toml
//! summary = "one line"                      # optional
//!
//! [cost]                                    # every key, as in a machine file
//! syscall = { ns = 68, source = "measured ..." }
//!
//! [cache]                                   # optional; that of the machine file comes first
//!
//! [[measured]]                              # optional: what the figures were derived from
//! ```
//!
//! A machine file names a table, or a file by its path from the machine file's own directory.

use std::path::Path;

use highwater_results::words::refusal;
use highwater_sim::cost::CostTable;

use super::{GENERIC_COSTS, default_simulation};
use crate::input::catalogue::texts;
use crate::input::names::unknown;
use crate::input::{InputError, held, one_line};

/// Sections of a file of costs.
const SECTIONS: [&str; 4] = ["summary", "cache", "cost", "measured"];

/// Names of the tables that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    texts::COSTS.iter().map(|(name, _)| *name)
}

/// Whether a name means a file.
pub fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    names().all(|known| known != name)
        && (path.extension().is_some_and(|e| e == "toml") || name.contains('/'))
}

/// The sections `cost` and, if it has one, `cache` of a table or of a file.
/// `beside` is the file that names it; a path is relative to that file's directory.
///
/// # Errors
/// If there is no such table, or the file is not one of costs. An error in a file names its line.
pub fn sections(beside: &str, name: &str) -> Result<toml::Table, InputError> {
    if let Some((_, text)) = texts::COSTS.iter().find(|(known, _)| *known == name) {
        return toml::from_str(text).map_err(|error| {
            InputError::whole(format!("machines/costs/{name}.toml"), one_line(error.message()))
        });
    }
    if !is_file(name) {
        let known: Vec<&str> = names().collect();
        let unknown = unknown("cost table", name, &known);
        let then = if unknown.ends_with('?') { "" } else { ", or give a file" };
        return Err(InputError::whole("costs", unknown + then));
    }
    let path = Path::new(beside).parent().unwrap_or(Path::new("")).join(name);
    let file = path.display().to_string();
    let text = held::read(&path).map_err(|error| {
        InputError::whole(file.as_str(), format!("cannot be read: {}", refusal(&error)))
    })?;
    parse(&file, &text)
}

/// The same of a file's text.
///
/// # Errors
/// As [`sections`].
pub fn parse(file: &str, text: &str) -> Result<toml::Table, InputError> {
    let mut tables: toml::Table = toml::from_str(text).map_err(|error| {
        let line =
            error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        InputError { line, ..InputError::whole(file, one_line(error.message())) }
    })?;
    if let Some(key) = tables.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
        let reason = format!("is no section of a file of costs, which has {}", SECTIONS.join(", "));
        return Err(InputError { field: Some(key.clone()), ..InputError::whole(file, reason) });
    }
    // A table alone is a file of costs, too. What is missing stands behind the text, so that
    // errors name the lines of the file.
    let mut whole = text.to_owned();
    if !tables.contains_key("cache") {
        let default = default_simulation(1).remove("cache").unwrap_or(toml::Table::new().into());
        let cache = toml::Table::from_iter([("cache".to_owned(), default)]);
        whole += &format!("\n{}", toml::to_string(&cache).unwrap_or_default());
    }
    CostTable::parse(file, &whole).map_err(|error| InputError {
        file: error.file,
        line: Some(error.line),
        field: Some(error.field),
        reason: error.problem,
    })?;
    tables.retain(|section, _| section == "cost" || section == "cache");
    Ok(tables)
}

/// The table of a generic server, which machines without costs have.
pub const fn generic() -> &'static str {
    GENERIC_COSTS
}

#[cfg(test)]
mod tests {
    use super::super::MachineFile;
    use super::*;

    /// A file of costs with one figure changed.
    fn costs(syscall: u64) -> String {
        let (_, text) = texts::COSTS.iter().find(|(name, _)| *name == generic()).unwrap();
        text.replace("syscall = { ns = 100", &format!("syscall = {{ ns = {syscall}"))
    }

    fn machine(costs: &str, rest: &str) -> String {
        format!("costs = \"{costs}\"\n[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n{rest}")
    }

    #[test]
    fn a_machine_takes_its_costs_from_a_file_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.toml").display().to_string();
        let cache = "l1 = { bytes = 7, source = \"s\" }\nl2 = { bytes = 8, source = \"s\" }\n\
                     llc = { bytes = 9, source = \"s\" }\nsockets = { count = 1, source = \"s\" }\n";
        let text = format!(
            "summary = \"mine\"\n{}[cache]\n{cache}[[measured]]\nname = \"x\"\n",
            costs(68)
        );
        std::fs::write(dir.path().join("mine.toml"), text).unwrap();
        let read = |text: &str| MachineFile::parse(&file, text).unwrap().cost_table().unwrap();
        let table = read(&machine("mine.toml", ""));
        assert_eq!((table.ns("syscall"), table.l1_bytes.value), (Some(68), 7));
        // Entries of the machine file come first.
        let own = format!(
            "[cost]\nsyscall = {{ ns = 5, source = \"s\" }}\n[cache]\n{}",
            cache.replace("= 7", "= 64")
        );
        let table = read(&machine("mine.toml", &own));
        assert_eq!((table.ns("syscall"), table.l1_bytes.value), (Some(5), 64));
        // Results keep every figure, and need the file no more.
        let parsed = MachineFile::parse(&file, &machine("mine.toml", "")).unwrap();
        let kept = MachineFile::parse("elsewhere.toml", &parsed.definition().definition).unwrap();
        assert_eq!(kept.cost_table().unwrap().ns("syscall"), Some(68));
    }

    #[test]
    fn errors_name_the_file_of_costs_and_its_line() {
        let error = |text: &str| parse("c.toml", text).unwrap_err().to_string();
        let good = costs(68);
        assert!(parse("c.toml", &good).is_ok(), "a table without caches");
        let line = 1 + good.lines().position(|line| line.starts_with("tick ")).unwrap();
        let tock = error(&good.replace("\ntick =", "\ntock ="));
        assert_eq!(tock, format!("c.toml:{line}: cost.tock: unknown key"));
        assert_eq!(
            error(&format!("{good}[[disk]]\nsize = 1\n")),
            "c.toml: disk: is no section of a file of costs, which has summary, cache, cost, measured"
        );
        assert!(error("[cost\n").starts_with("c.toml:1: "));
        let none = MachineFile::parse("no/m.toml", &machine("none.toml", "")).unwrap_err();
        assert_eq!(
            none.to_string(),
            "no/m.toml:1: costs: no/none.toml: cannot be read: no such file or directory"
        );
    }
}
