//! What people write: how it is found, read, and told that it cannot be.
//!
//! | room | holds |
//! |---|---|
//! | [`catalogue`] | things by name that come with the program, or files of the user's |
//! | [`source`] | the text of a TOML file and the places in it |
//! | [`error`] | one line about what is wrong: file, line, field, reason |
//! | `flags` | 1 and 0 for true and false |
//! | `kernel_text` | texts of Linux and files of ours that were given to another command |
//! | [`names`] | which name was meant |
//! | [`unmodelled`] | what Linux has and the model has not, by the names that people ask for it with |
//! | [`size`], [`time`] | `8G`, `0-3,8`; `20ms` |
//!
//! The formats themselves are elsewhere: experiments in [`experiment`](crate::experiment), machines in
//! [`machine_file`](crate::machine_file), policies in [`policy_file`](crate::policy_file). Files are opened by
//! [`highwater_results::input`], which refuses what has no end.

pub(crate) mod catalogue;
pub mod error;
mod flags;
mod kernel_text;
pub(crate) mod names;
pub mod size;
pub(crate) mod source;
pub mod time;
pub mod unmodelled;

pub(crate) use catalogue::Catalogue;
pub use error::InputError;
pub(crate) use error::{one_line, said};
pub(crate) use flags::{read_flag, read_flags};
pub(crate) use kernel_text::{kernel_text, misplaced, other_definition, recognised};
pub(crate) use source::Source;
