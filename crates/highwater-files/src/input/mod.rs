//! User input: how files and values are found and read, and how errors in them are reported.
//!
//! | module | holds |
//! |---|---|
//! | [`catalogue`] | things with names: those of the program, and the user's files |
//! | [`source`] | the text of a TOML file and the places in it |
//! | [`error`] | errors in one line: file, line, field, reason |
//! | `flags` | 1 and 0 for true and false |
//! | [`held`] | files whose texts a program holds in memory |
//! | `kernel_text` | recognises files given to the wrong command |
//! | [`names`] | unknown names: the nearest known ones |
//! | [`unmodelled`] | features of Linux that are not modelled, by name |
//! | [`size`], [`time`] | `8G`, `0-3,8`; `20ms` |
//!
//! The formats themselves are elsewhere: experiments in `highwater_plan::experiment`, machines
//! in [`machine_file`](crate::machine_file), policies in [`policy_file`](crate::policy_file). Files
//! are opened by [`highwater_results::input`], which refuses endless files.

pub mod catalogue;
pub mod error;
mod flags;
pub mod held;
mod kernel_text;
pub mod names;
pub mod size;
pub mod source;
pub mod time;
pub mod unmodelled;

pub use catalogue::Catalogue;
pub use error::InputError;
pub use error::{one_line, said};
pub use flags::{read_flag, read_flags};
pub use kernel_text::{is_plan, kernel_text, misplaced, other_definition, recognised};
pub use source::Source;
