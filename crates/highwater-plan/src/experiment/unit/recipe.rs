//! Everything that decides the bytes of a unit's result, and the id computed from it.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::{env, fs};

use sha2::{Digest, Sha256};

use super::UnitStoreError;
use highwater_files::policy_file;
use highwater_runs::workload::{Job, STANDARD, Unit};

/// The sources that decide results, as the build hashed them.
const MODEL: &str = env!("HIGHWATER_MODEL");
/// The first line of a recipe.
const FORM: &str = "highwater-unit 1";

/// The name of a unit of work: the SHA-256 of its recipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId([u8; 32]);

impl UnitId {
    /// The id of a recipe with these lines.
    pub fn of(recipe: &str) -> UnitId {
        UnitId(Sha256::digest(recipe.as_bytes()).into())
    }

    /// The hash itself.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is no [`UnitId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a unit is 64 hexadecimal digits")]
pub struct NoUnitId;

impl FromStr for UnitId {
    type Err = NoUnitId;

    fn from_str(text: &str) -> Result<UnitId, NoUnitId> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoUnitId);
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| NoUnitId)?;
        }
        Ok(UnitId(bytes))
    }
}

/// Everything that decides the bytes of a unit's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    text: String,
    names: UnitNames,
}

/// The names behind the digests of a recipe: columns of a unit's rows in tables. Each follows from
/// the recipe, so two units with one id have the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitNames {
    /// The workload.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// The policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Number of the part of its cell, from 0.
    pub part: usize,
    /// Operations that the kernel of the policy does not count: results leave out their samples.
    pub not_counted: Vec<String>,
}

impl Recipe {
    /// The recipe of a unit of a job: the job, and what is recorded besides its outcome. `samples`
    /// describes the counter samples completely, in words.
    ///
    /// # Errors
    /// If the unit runs code of an embedding program, and the executable cannot be read.
    pub fn of(job: &dyn Job, unit: &Unit<'_>, samples: &str) -> Result<Recipe, UnitStoreError> {
        // Every field is here: one that is added decides about results, or it does not.
        let Unit {
            machine,
            policy,
            seed,
            host,
            part,
            explain,
            only_op,
            tolerates_failures,
            clock: _,
            sampling: _,
            recorder: _,
            watcher: _,
            files: _,
        } = *unit;
        let workload = job.definition();
        let machine = machine.definition();
        // Code that no source of Highwater has: only the executable says which.
        let is_own = !STANDARD.iter().any(|entry| entry.is_same(&job.entry()))
            || policy.own.name().is_some();
        let model = match is_own {
            true => format!("{MODEL} {}", executable()?),
            false => MODEL.to_owned(),
        };
        let mut text = format!("{FORM}\n");
        let lines = [
            ("model", model),
            ("host", host.name().to_owned()),
            ("workload", format!("{} {}", workload.name, digest(&workload.definition))),
            ("machine", digest(&format!("{}\n{}", machine.name, machine.definition))),
            ("policy", digest(&policy_file::to_toml(policy))),
            ("seed", seed.to_string()),
            ("part", part.to_string()),
            ("explain", explain.map_or_else(|| "none".to_owned(), |kept| kept.to_string())),
            ("samples", samples.to_owned()),
        ];
        for (key, value) in lines {
            text += &format!("{key} {value}\n");
        }
        if let Some(op) = only_op {
            text += &format!("operation {op}\n");
        }
        if tolerates_failures {
            text += "failures tolerated\n";
        }
        let not_counted = job.not_counted(policy.kernel).into_iter();
        let names = UnitNames {
            workload: workload.name,
            machine: machine.name,
            policy: policy.name.clone(),
            seed,
            part,
            not_counted: not_counted.map(|(operation, _)| operation).collect(),
        };
        Ok(Recipe { text, names })
    }

    /// A recipe of nothing, from its text.
    #[cfg(test)]
    pub(super) fn from_text(text: String) -> Recipe {
        Recipe { text, names: UnitNames::default() }
    }

    /// The lines.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of the workload, the machine and the policy.
    pub const fn names(&self) -> &UnitNames {
        &self.names
    }

    /// The unit's name.
    pub fn id(&self) -> UnitId {
        UnitId::of(&self.text)
    }
}

fn digest(text: &str) -> String {
    UnitId::of(text).to_string()
}

/// The digest of the program that runs.
fn executable() -> Result<String, UnitStoreError> {
    static DIGEST: OnceLock<String> = OnceLock::new();
    if let Some(known) = DIGEST.get() {
        return Ok(known.clone());
    }
    let read = env::current_exe().and_then(fs::read).map_err(UnitStoreError::Executable)?;
    let hash = UnitId(Sha256::digest(read).into()).to_string();
    Ok(DIGEST.get_or_init(|| hash).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::config::preset;
    use highwater_files::machine_file::MachineFile;
    use highwater_runs::workload::Registry;

    #[test]
    fn an_id_is_the_hash_of_the_recipe_as_the_book_has_it() {
        // printf 'highwater-unit 1\n' | sha256sum
        let recipe = Recipe::from_text("highwater-unit 1\n".to_owned());
        let known = "d287c282c56043ace3233acde54ccc0b569866e5459258f530b52bf6b7595101";
        assert_eq!(recipe.id().to_string(), known);
        assert_eq!(known.parse(), Ok(recipe.id()));
        let wrong = [&known[1..], &known.replace('d', "g"), "", "+1"];
        assert!(wrong.iter().all(|text| text.parse::<UnitId>() == Err(NoUnitId)));
    }

    #[test]
    fn whatever_decides_a_result_is_in_its_id() {
        let text = "[[node]]\nmemory = \"64M\"\ncpus = \"0-1\"\n";
        let machine = MachineFile::parse("m.toml", text).unwrap();
        let larger = MachineFile::parse("m.toml", &text.replace("64M", "65M")).unwrap();
        let (policy, other) = (preset("6.1").unwrap(), preset("5.4").unwrap());
        let job = |name: &str| Registry::default().find(name).unwrap().defaults();
        let unmap = job("unmap");
        let unit = Unit::of(&machine, &policy, 1);
        let id =
            |job: &dyn Job, unit: &Unit<'_>, samples| Recipe::of(job, unit, samples).unwrap().id();
        let first = id(&*unmap, &unit, "none");
        assert_eq!(first, id(&*unmap, &unit, "none"));
        let others = [
            id(&*job("pagealloc"), &unit, "none"),
            id(&*unmap, &Unit { machine: &larger, ..unit }, "none"),
            id(&*unmap, &Unit { policy: &other, ..unit }, "none"),
            id(&*unmap, &Unit { seed: 2, ..unit }, "none"),
            id(&*unmap, &Unit { part: 1, ..unit }, "none"),
            id(&*unmap, &Unit { explain: Some(5), ..unit }, "none"),
            id(&*unmap, &Unit { only_op: Some("reader.get"), ..unit }, "none"),
            id(&*unmap, &Unit { tolerates_failures: true, ..unit }, "none"),
            id(&*unmap, &unit, "every 10 ms"),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != first && !others[..at].contains(other), "{at}");
        }
        let text = Recipe::of(&*unmap, &unit, "none").unwrap().text;
        let keys: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        let known = "highwater-unit model host workload machine policy seed part explain samples";
        assert_eq!(keys.join(" "), known);
    }

    /// The text of every source file below a folder, without comments and tests.
    fn code(path: &std::path::Path) -> String {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            return entries.map(|entry| code(&entry.unwrap().path())).collect();
        }
        let text = fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect()
    }

    /// A kept unit of an older program is used again only if none of these sources changed.
    #[test]
    fn every_source_that_decides_results_is_in_the_model() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let build = fs::read_to_string(crates.join("highwater-plan/build.rs")).unwrap();
        let (_, list) = build.split_once("const MODEL:").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let words: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        let parts: Vec<(&str, &str)> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        assert!(parts.contains(&("highwater-core", "src")), "{parts:?}");
        // Messages and schemas; definitions that a recipe contains in full; code that only
        // observes.
        let decides_nothing = [
            ("highwater-files", "input schema policy_file"),
            ("highwater-plan", "settings"),
            ("highwater-report", "report"),
        ];
        let is_in = |name: &str, module: &str| {
            parts.iter().any(|&(of, part)| {
                let part = part.trim_end_matches(".rs");
                of == name && (part == "src" || part.strip_prefix("src/") == Some(module))
            })
        };
        let mut nr_uses = 0;
        for &(of, part) in parts.iter().filter(|(_, part)| part.starts_with("src")) {
            let code = code(&crates.join(of).join(part));
            for (name, known) in decides_nothing {
                let path = format!("{}::", name.replace('-', "_"));
                // Within the reports, `latency` stands alone.
                let is_own = of == name && name != "highwater-report";
                let own = if is_own { code.split("crate::") } else { "".split("crate::") };
                for used in code.split(path.as_str()).skip(1).chain(own.skip(1)) {
                    let end = used.find(|c: char| !c.is_ascii_lowercase() && c != '_');
                    let module = &used[..end.unwrap_or(used.len())];
                    let is_known = known.split(' ').any(|one| one == module);
                    assert!(
                        is_in(name, module) || is_known,
                        "{of}/{part} uses {path}{module}, which is not in MODEL of build.rs"
                    );
                    nr_uses += 1;
                }
            }
        }
        assert!(nr_uses > 20, "the search found what the model uses: {nr_uses}");
    }
}
