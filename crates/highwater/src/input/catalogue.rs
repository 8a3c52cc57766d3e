//! Things by name: those that come with the program, and files of the user's.

use std::borrow::Cow;
use std::path::Path;

use highwater_results::import::KernelText;
use highwater_results::input;

use super::InputError;
use super::names::{not_modelled, unknown};

/// The texts that come with the program, by kind: the TOML files of the repository's folders, as the build script found
/// them.
pub(crate) mod texts {
    include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));
}

/// Texts of one kind that come with the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Catalogue {
    /// The kind, as `machine`.
    pub what: &'static str,
    /// How errors begin that are about a name: the option that takes it.
    pub option: &'static str,
    /// Where the texts are in the repository.
    pub folder: &'static str,
    /// Names and texts.
    pub texts: &'static [(&'static str, &'static str)],
}

/// A text and what to call it in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its file.
    pub file: String,
    /// The text.
    pub text: Cow<'static, str>,
}

impl Catalogue {
    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.texts.iter().map(|(name, _)| *name)
    }

    /// Every text, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Found> {
        self.texts.iter().map(|(name, text)| self.found(name, text))
    }

    /// The text of a name, or of what stands before its first dash: studies go by their number.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
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

    /// What a file calls by a name, for [`Catalogue::open`]: names that it does not know, `is_known` neither, and that
    /// look like files or are ones, are paths from the file's own directory.
    pub(crate) fn beside(&self, file: &str, name: &str, is_known: bool) -> String {
        if is_known || self.find(name).is_some() {
            return name.to_owned();
        }
        let (Some(dir), path) = (Path::new(file).parent(), Path::new(name)) else {
            return name.to_owned();
        };
        let beside = dir.join(path);
        let is_file = path.extension().is_some_and(|e| e == "toml") || beside.exists();
        if is_file { beside.display().to_string() } else { name.to_owned() }
    }

    /// The text of a name or of a file. `more` are names that somebody else knows, for the message.
    ///
    /// # Errors
    /// If there is no such name, or the file cannot be read.
    pub(crate) fn open(&self, name: &str, more: &[&str]) -> Result<Found, InputError> {
        if let Some(found) = self.find(name) {
            return Ok(found);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|e| e == "toml") || path.exists() {
            let text = input::read_text(path, input::DEFINITION_BYTES_MAX)
                .map_err(|error| InputError::whole(name, format!("cannot be read: {error}")))?;
            // A definition may quote a kernel's log, as the comment of a job that reproduces a bug does.
            let is_toml = || toml::from_str::<toml::Table>(&text).is_ok();
            if let Some(kernel) = KernelText::of(&text).filter(|_| !is_toml()) {
                let article =
                    if self.what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                let reason = format!("{}; expected: {article} {} file", kernel.advice(), self.what);
                return Err(InputError::whole(name, reason));
            }
            return Ok(Found { file: name.to_owned(), text: Cow::Owned(text) });
        }
        let mut known = more.to_vec();
        self.names().for_each(|name| known.push(name));
        let reason = match not_modelled(self.what, name) {
            Some(missing) => missing,
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
        assert!(error.starts_with("none.toml: cannot be read: "), "{error}");
    }
}
