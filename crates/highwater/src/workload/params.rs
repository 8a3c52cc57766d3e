//! Parameters of workloads: declared once, with docs, defaults and what they may be.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A parameter, for lists, templates and docs.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its field.
    pub field: &'static str,
    /// What it is; lines.
    pub doc: &'static str,
    /// What must be true of it, as messages have it; none: every value of its type will do.
    pub rules: &'static [&'static str],
}

impl Param {
    /// Its key in files.
    pub fn key(&self) -> String {
        key(self.field)
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

/// Declares the parameters of a workload: a struct with public fields, each with its docs, its default and, if not
/// every value of its type will do, a test and what is wrong if it fails. In files the keys are in kebab case, and
/// what a file does not name has its default.
///
/// ```
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

/// A number of bytes written as `256K`, `8G`, or plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::input::size::parse_size(&text).map(Bytes).map_err(de::Error::custom)
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        crate::schema::size()
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&crate::input::size::size_text(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_they_are_read() {
        for text in ["0", "4K", "1536K", "256M", "8G", "1025M"] {
            let value = toml::Value::String(text.to_owned());
            let bytes: Bytes = value.clone().try_into().unwrap();
            assert_eq!(toml::Value::try_from(bytes).unwrap(), value);
        }
        assert!(toml::Value::String("8Q".to_owned()).try_into::<Bytes>().is_err());
    }
}
