//! Parameters of workloads: declared once, with docs, defaults and what they may be.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A parameter, for lists, templates and docs.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its field.
    pub field: &'static str,
    /// What it is; lines.
    pub doc: &'static str,
    /// What must be true of it, as messages have it; none: every value of its type will do.
    pub rules: &'static [&'static str],
    /// The number that a definition leaves out; none: it leaves out an empty list, or nothing.
    pub left_out: Option<u32>,
}

impl Param {
    /// Its key in files.
    pub fn key(&self) -> String {
        key(self.field)
    }

    /// The value of a key that a definition leaves out.
    pub fn value_left_out(&self) -> toml::Value {
        match self.left_out {
            Some(number) => toml::Value::Integer(number.into()),
            None => toml::Value::Array(Vec::new()),
        }
    }
}

/// The key of a field.
pub(super) fn key(field: &str) -> String {
    field.replace('_', "-")
}

/// Parameters that [`params!`](crate::params!) declared.
pub trait Params:
    Clone
    + std::fmt::Debug
    + Default
    + Serialize
    + DeserializeOwned
    + JsonSchema
    + Send
    + Sync
    + 'static
{
    /// All, in the order of their declarations.
    const PARAMS: &'static [Param];

    /// The first that cannot be.
    fn problem(&self) -> Option<Problem>;
}

/// What cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The keys that lead to it, with dots between them; elements of lists go by number.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// Declares the parameters of a workload: a struct with public fields, each with its docs, its
/// default and, if not every value of its type will do, a test and what is wrong if it fails. In
/// files the keys are in kebab case, and what a file does not name has its default.
///
/// ```
/// # extern crate highwater_runs as highwater;
/// highwater::params! {
///     /// Parameters of a benchmark that sleeps.
///     pub struct Naps {
///         /// How many naps.
///         naps: u32 = 3, |p| p.naps > 0 => "must be at least 1";
///         /// How long each is, milliseconds.
///         nap_ms: u64 = 10;
///     }
/// }
/// use highwater::workload::Params;
/// assert_eq!(Naps::default().nap_ms, 10);
/// let problem = Naps { naps: 0, ..Naps::default() }.problem().unwrap();
/// assert_eq!((&*problem.path, &*problem.reason), ("naps", "must be at least 1"));
/// ```
#[macro_export]
macro_rules! params {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $ty:ty = $default:expr $(, $is_ok:expr => $reason:literal)*;)*
    }) => {
        $(#[$about])*
        #[derive(
            Clone, Debug, PartialEq,
            $crate::workload::serde::Serialize, $crate::workload::serde::Deserialize,
            $crate::workload::schemars::JsonSchema,
        )]
        #[serde(crate = "highwater::workload::serde")]
        #[schemars(crate = "highwater::workload::schemars")]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $ty,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $crate::workload::Params for $name {
            const PARAMS: &'static [$crate::workload::Param] = &[
                $($crate::workload::Param {
                    field: stringify!($field),
                    doc: concat!($($doc, "\n"),+),
                    rules: &[$($reason),*],
                    left_out: None,
                },)*
            ];

            fn problem(&self) -> Option<$crate::workload::Problem> {
                $($({
                    let is_ok: fn(&$name) -> bool = $is_ok;
                    if !is_ok(self) {
                        let path = stringify!($field).replace('_', "-");
                        return Some($crate::workload::Problem { path, reason: $reason.to_owned() });
                    }
                })*)*
                None
            }
        }
    };
}
