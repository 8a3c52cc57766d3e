//! A setting as the user gave it, and the option that gave it: what errors and remarks call it.

use std::fmt;

/// `KEY=VALUE`, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// `KEY=VALUE`, as it was written.
    pub text: String,
    /// The option that says so.
    pub by: SaidBy,
}

/// The option that says a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaidBy {
    /// `--set`.
    Set,
    /// A point of `--vary`.
    Vary,
    /// A value that `fit --min` tries.
    Min,
    /// An experiment, for `--beyond`.
    Beyond,
    /// An experiment, for one of its machines.
    Variant(String),
}

impl Said {
    /// `--set KEY=VALUE`.
    pub fn set(text: impl Into<String>) -> Said {
        Said { text: text.into(), by: SaidBy::Set }
    }

    /// A key with one of its values.
    pub fn of(by: SaidBy, key: &str, value: &str) -> Said {
        Said { text: format!("{key}={value}"), by }
    }

    /// The option with its key alone: what is said once for all values of a key.
    pub fn option(&self) -> String {
        let key = self.text.split('=').next().unwrap_or_default().trim();
        match &self.by {
            SaidBy::Set => format!("--set {key}"),
            SaidBy::Vary => format!("--vary {key}"),
            SaidBy::Min => format!("--min {key}"),
            SaidBy::Beyond => format!("--beyond, which sets {key}"),
            SaidBy::Variant(machine) => format!("machine {machine}, which sets {key}"),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.by {
            SaidBy::Set => write!(f, "--set {text}"),
            SaidBy::Vary => write!(f, "--vary {text}"),
            SaidBy::Min => match text.split_once('=') {
                Some((key, value)) => write!(f, "--min {key}, at {value}"),
                None => write!(f, "--min {text}"),
            },
            SaidBy::Beyond => write!(f, "--beyond, which sets {text}"),
            SaidBy::Variant(machine) => write!(f, "machine {machine}, which sets {text}"),
        }
    }
}

impl From<&str> for Said {
    /// `--set KEY=VALUE`.
    fn from(text: &str) -> Said {
        Said::set(text)
    }
}

impl From<String> for Said {
    /// `--set KEY=VALUE`.
    fn from(text: String) -> Said {
        Said::set(text)
    }
}
