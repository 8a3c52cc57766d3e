//! Things with names: those that come with the program, and the user's files.

use std::borrow::Cow;
use std::path::Path;

use highwater_results::Contents;
use highwater_results::import::KernelText;
use highwater_results::words::refusal;

use super::names::{not_modelled, unknown};
use super::{InputError, held, other_definition};

/// The texts that come with the program, by kind: the TOML files of the repository's folders, as the build script found
/// them.
pub mod texts {
    include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));
}

/// Texts of one kind that come with the program.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// The kind, as `machine`.
    pub what: &'static str,
    /// Kinds of definitions that a file may be instead.
    pub kinds: &'static [&'static str],
    /// Prefix of errors about a name: the option that takes it.
    pub option: &'static str,
    /// The folder of the texts in the repository.
    pub folder: &'static str,
    /// Names and texts.
    pub texts: &'static [(&'static str, &'static str)],
}

/// Whether a name means a file: the file exists, or the name looks like a path.
pub fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    let looks_so = path.extension().is_some_and(|e| e == "toml") || name.contains('/');
    looks_so || held::has(path) || path.exists()
}

/// A text, and its name in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its file.
    pub file: String,
    /// The text.
    pub text: Cow<'static, str>,
}

impl Catalogue {
    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.texts.iter().map(|(name, _)| *name)
    }

    /// Every text, in order.
    pub fn all(&self) -> impl Iterator<Item = Found> {
        self.texts.iter().map(|(name, text)| self.found(name, text))
    }

    /// The text with a name, or with the part of it before the first dash: studies have numbers.
    pub fn find(&self, name: &str) -> Option<Found> {
        let is_it = |known: &str| known == name;
        let is_number = |known: &str| {
            known.split_once('-').is_some_and(|(number, _)| {
                number == name && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        let (known, text) =
            self.texts.iter().find(|(known, _)| is_it(known) || is_number(known))?;
        Some(self.found(known, text))
    }

    fn found(&self, name: &str, text: &'static str) -> Found {
        Found { file: format!("{}/{name}.toml", self.folder), text: Cow::Borrowed(text) }
    }

    /// Resolves a name in a file, for [`Catalogue::open`]. A name that is unknown here and to the
    /// caller (`is_known`), and that looks like a file or is one, is a path relative to the file's
    /// own directory.
    pub fn beside(&self, file: &str, name: &str, is_known: bool) -> String {
        if is_known || self.find(name).is_some() {
            return name.to_owned();
        }
        let (Some(dir), path) = (Path::new(file).parent(), Path::new(name)) else {
            return name.to_owned();
        };
        let beside = dir.join(path);
        let looks_so = path.extension().is_some_and(|e| e == "toml");
        let is_file = looks_so || held::has(&beside) || beside.exists();
        if is_file { beside.display().to_string() } else { name.to_owned() }
    }

    /// The text of a file.
    fn read(&self, name: &str) -> Result<Found, InputError> {
        let wrong = |reason: String| InputError::whole(name, reason);
        let path = Path::new(name);
        if let Some(contents) = Contents::of(path).filter(|_| !held::has(path)) {
            let advice = contents.instead_of_definition(path);
            return Err(wrong(format!("{advice}; expected: {}", self.expected())));
        }
        let text = held::read(path).map_err(|error| {
            let with_suffix = format!("{name}.toml");
            let meant = match Path::new(&with_suffix).is_file() {
                true => format!("; did you mean {with_suffix}?"),
                false => String::new(),
            };
            wrong(format!("cannot be read: {}{meant}", refusal(&error)))
        })?;
        // A definition may quote a kernel's log, as the comment of a job that reproduces a bug does.
        let is_toml = || toml::from_str::<toml::Table>(&text).is_ok();
        if text.trim_start().starts_with('{') {
            let advice =
                "this is JSON: `highwater report DIR` shows results that --out kept in DIR";
            return Err(wrong(format!("{advice}; expected: {}", self.expected())));
        }
        let advice = match KernelText::of(&text).filter(|_| !is_toml()) {
            Some(kernel) => Some(kernel.advice()),
            None => other_definition(&text, self.kinds).map(str::to_owned),
        };
        match advice {
            Some(advice) => Err(wrong(format!("{advice}; expected: {}", self.expected()))),
            None => Ok(Found { file: name.to_owned(), text: Cow::Owned(text) }),
        }
    }

    /// Lists the kinds of file that this catalogue takes, for errors.
    fn expected(&self) -> String {
        let with_article = |kind: &&str| {
            let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            format!("{article} {kind} file")
        };
        self.kinds.iter().map(with_article).collect::<Vec<_>>().join(" or ")
    }

    /// The text with a name or from a file. `more` lists further names for the message.
    ///
    /// # Errors
    /// If there is no such name, or the file cannot be read.
    pub fn open(&self, name: &str, more: &[&str]) -> Result<Found, InputError> {
        if let Some(found) = self.find(name) {
            return Ok(found);
        }
        if is_file(name) {
            return self.read(name);
        }
        let mut known = more.to_vec();
        self.names().for_each(|name| known.push(name));
        let reason = match not_modelled(self.what, name) {
            Some(missing) => missing,
            None if Path::new(&format!("{name}.toml")).is_file() => {
                format!("unknown {} \"{name}\"; did you mean the file {name}.toml?", self.what)
            }
            None => {
                let (unknown, folder) = (unknown(self.what, name, &known), self.folder);
                let then = if unknown.ends_with('?') { "" } else { ";" };
                format!("{unknown}{then} `highwater list {folder}` lists them, or give a file")
            }
        };
        Err(InputError::whole(self.option, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDIES: Catalogue = Catalogue {
        what: "study",
        kinds: &["experiment"],
        option: "--study",
        folder: "studies",
        texts: &[("001-first", "one"), ("002-second", "two"), ("6.1-third", "three")],
    };

    #[test]
    fn names_and_numbers_lead_to_texts() {
        let found = STUDIES.open("002", &[]).unwrap();
        assert_eq!((found.file.as_str(), &*found.text), ("studies/002-second.toml", "two"));
        assert_eq!(STUDIES.open("002-second", &[]).unwrap(), found);
        assert!(STUDIES.find("6.1").is_none(), "a version is no number of a study");
        assert_eq!(STUDIES.all().count(), 3);
    }

    #[test]
    fn files_are_found_beside_the_one_that_names_them() {
        let beside = |name| STUDIES.beside("some/dir/e.toml", name, name == "6.1");
        assert_eq!(beside("001-first"), "001-first");
        assert_eq!(beside("6.1"), "6.1");
        assert_eq!(beside("m.toml"), "some/dir/m.toml");
        assert_eq!(beside("/m.toml"), "/m.toml");
        assert_eq!(beside("nosuch"), "nosuch", "told as a name");
        assert_eq!(STUDIES.beside("e.toml", "m.toml", false), "m.toml");
    }

    #[test]
    fn what_is_not_there_is_told_with_what_was_meant() {
        let error = STUDIES.open("frist", &["fourth"]).unwrap_err().to_string();
        let there = "there are fourth, 001-first, 002-second, 6.1-third";
        let list = "`highwater list studies` lists them, or give a file";
        assert_eq!(error, format!("--study: unknown study \"frist\"; {there}; {list}"));
        let error = STUDIES.open("first", &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean 001-first?"), "{error}");
        let error = STUDIES.open("none.toml", &[]).unwrap_err().to_string();
        assert_eq!(error, "none.toml: cannot be read: no such file or directory");
        let error = STUDIES.open("some/none", &[]).unwrap_err().to_string();
        assert_eq!(error, "some/none: cannot be read: no such file or directory", "no name has /");
    }
}
