//! Files whose texts a program holds in memory.
//!
//! A plan is made from names: an experiment, a machine, policies, and what their files name in turn. A
//! program that made the definitions itself, or got them from another computer, holds their texts
//! instead of writing files. [`with`] runs code that finds these texts under their paths, and
//! returns every text that the code read, so that a plan can be made again where no file is.
//!
//! ```
//! use highwater_files::input::held::{self, Texts};
//! use highwater_files::machine_file::MachineFile;
//!
//! let text = "[[node]]\nmemory = \"1G\"\ncpus = \"0-1\"\n".to_owned();
//! let texts = Texts::from([("small.toml".to_owned(), text)]);
//! let (machine, read) = held::with(&texts, || MachineFile::load("small.toml"));
//! assert_eq!(machine.unwrap().name, "small");
//! assert_eq!(read, texts);
//! ```
//!
//! Texts are held for the calling thread alone.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use highwater_results::input::{self, DEFINITION_BYTES_MAX};

/// Texts of files, by path as it is named.
pub type Texts = BTreeMap<String, String>;

/// The texts of a thread, and those that it read since.
#[derive(Default)]
struct Held {
    texts: Texts,
    read: Texts,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Runs code that finds files in `texts` before it looks for them on disk. The second value has the
/// text of every definition that it read, from either.
pub fn with<T>(texts: &Texts, work: impl FnOnce() -> T) -> (T, Texts) {
    // Put back in a panic, too.
    struct Back(Option<Held>);
    impl Drop for Back {
        fn drop(&mut self) {
            let before = self.0.take();
            HELD.with_borrow_mut(|held| *held = before);
        }
    }
    let held = Held { texts: texts.clone(), read: Texts::new() };
    let _back = Back(HELD.replace(Some(held)));
    let result = work();
    let read =
        HELD.with_borrow_mut(|held| held.as_mut().map(|held| std::mem::take(&mut held.read)));
    (result, read.unwrap_or_default())
}

/// Whether a text is held under this path.
pub(crate) fn has(path: &Path) -> bool {
    HELD.with_borrow(|held| held.as_ref().is_some_and(|held| held.text(path).is_some()))
}

/// The text of a definition: held, or of a file.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let held = HELD.with_borrow(|held| held.as_ref().and_then(|held| held.text(path).cloned()));
    let text = held.map_or_else(|| input::read_text(path, DEFINITION_BYTES_MAX), Ok)?;
    HELD.with_borrow_mut(|held| {
        if let Some(held) = held {
            held.read.insert(path.display().to_string(), text.clone());
        }
    });
    Ok(text)
}

impl Held {
    fn text(&self, path: &Path) -> Option<&String> {
        self.texts.get(path.to_str()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_file::MachineFile;
    use crate::policy_file;

    #[test]
    fn held_texts_are_found_and_all_that_is_read_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let costs = dir.path().join("costs.toml");
        std::fs::write(&costs, crate::input::catalogue::texts::COSTS[0].1).unwrap();
        let machine = dir.path().join("m.toml").display().to_string();
        let text = "costs = \"costs.toml\"\n[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n";
        let texts = Texts::from([
            (machine.clone(), text.to_owned()),
            ("calm.toml".to_owned(), "base = \"6.1\"\n".to_owned()),
        ]);
        let load = || (MachineFile::load(&machine), policy_file::load("calm.toml"));
        let ((loaded, policy), read) = with(&texts, load);
        assert_eq!((loaded.unwrap().name, policy.unwrap().name), ("m".into(), "calm".into()));
        assert_eq!(read.len(), 3, "{:?}", read.keys());
        // The same where no file is.
        std::fs::remove_file(&costs).unwrap();
        let ((again, _), second) = with(&read, load);
        assert!(again.is_ok() && second == read);
        assert!(MachineFile::load(&machine).is_err(), "nothing is held any more");
    }

    #[test]
    fn a_text_that_is_no_definition_gets_the_error_of_a_file() {
        let texts = Texts::from([("m.toml".to_owned(), "[[node]]\nmemory = 1\n".to_owned())]);
        let (machine, _) = with(&texts, || MachineFile::load("m.toml"));
        let error = machine.unwrap_err().to_string();
        assert!(error.starts_with("m.toml:2: "), "{error}");
    }
}
