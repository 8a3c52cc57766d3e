//! How a section of the policy is declared: once, by [`policy!`].
//!
//! A declaration makes the struct with its fields, the enums of choices, the keys in TOML and JSON,
//! and the default values. It also makes the field's description as data: its path, its text, its
//! valid values, and the values that a swarm draws.
//!
//! Key types: [`PolicyField`] (the description of a switch), [`Value`] (its value), [`Values`] (its
//! valid values), [`PolicyError`] (why it was not set). All other functions over all switches are
//! built on [`Section::visit`].

use alloc::string::String;
use core::fmt;

use crate::config::KernelVersion;

/// A value of a switch. Choices go by the name that files use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// On or off.
    Bool(bool),
    /// A number.
    Number(u64),
    /// One of several.
    Choice(&'a str),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(on) => write!(f, "{on}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Choice(name) => f.write_str(name),
        }
    }
}

/// One value of a switch that chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name in files.
    pub name: &'static str,
    /// Its effect.
    pub doc: &'static str,
}

/// The values that a switch may be set to. Prints as the end of a sentence: "must be …".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// On or off.
    Bool,
    /// One of these.
    Choices(&'static [Choice]),
    /// A number.
    Numbers {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
        /// Values that a swarm draws: usual ones, and ones that may break something.
        drawn: &'static [u64],
    },
}

impl Values {
    /// Whether a switch may be set to a value.
    pub fn contain(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (Values::Bool, Value::Bool(_)) => true,
            (Values::Choices(choices), Value::Choice(name)) => {
                choices.iter().any(|choice| choice.name == name)
            }
            (Values::Numbers { min, max, .. }, Value::Number(number)) => {
                (*min..=*max).contains(&number)
            }
            _ => false,
        }
    }

    /// Number of values that a swarm draws from.
    pub fn nr_drawn(&self) -> usize {
        match self {
            Values::Bool => 2,
            Values::Choices(choices) => choices.len(),
            Values::Numbers { drawn, .. } => drawn.len(),
        }
    }

    /// The value of this rank among those that a swarm draws; the last one if the rank is past the
    /// end.
    pub fn drawn(&self, rank: usize) -> Value<'static> {
        match self {
            Values::Bool => Value::Bool(rank > 0),
            Values::Choices(choices) => Value::Choice(choices[rank.min(choices.len() - 1)].name),
            Values::Numbers { drawn, .. } => Value::Number(drawn[rank.min(drawn.len() - 1)]),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Bool => f.write_str("true or false"),
            Values::Choices(choices) => {
                f.write_str("one of ")?;
                for (rank, choice) in choices.iter().enumerate() {
                    write!(f, "{}{}", if rank == 0 { "" } else { ", " }, choice.name)?;
                }
                Ok(())
            }
            Values::Numbers { min, max, .. } => write!(f, "a number from {min} to {max}"),
        }
    }
}

/// One switch, described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyField {
    /// Section and key, as in `reclaim.throttle.node-pass`.
    pub path: String,
    /// What it decides.
    pub doc: &'static str,
    /// Its valid values.
    pub values: Values,
    /// Its default: the behaviour of kernels before one changed it.
    pub default: Value<'static>,
    /// All presets have the same value: it exists for custom policies.
    pub is_exploratory: bool,
}

/// Why a switch was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// There is no such switch.
    Unknown,
    /// The value is not one of these.
    MustBe(Values),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Unknown => f.write_str("unknown field"),
            PolicyError::MustBe(values) => write!(f, "must be {values}"),
        }
    }
}

impl core::error::Error for PolicyError {}

/// A field whose value can be read and set by name.
pub(super) trait Setting {
    fn get(&self) -> Value<'static>;
    /// Leaves the field unchanged if the value is not valid for it.
    fn set(&mut self, value: Value<'_>);
}

impl Setting for bool {
    fn get(&self) -> Value<'static> {
        Value::Bool(*self)
    }

    fn set(&mut self, value: Value<'_>) {
        if let Value::Bool(on) = value {
            *self = on;
        }
    }
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn get(&self) -> Value<'static> {
                Value::Number(u64::from(*self))
            }

            fn set(&mut self, value: Value<'_>) {
                if let Value::Number(number) = value
                    && let Ok(number) = <$type>::try_from(number)
                {
                    *self = number;
                }
            }
        }
    )*};
}

number!(u8 u16 u64);

/// A switch of a policy at hand.
pub(super) struct Switch<'p> {
    /// Section and key.
    pub path: String,
    pub doc: &'static str,
    pub values: Values,
    pub is_exploratory: bool,
    pub value: &'p mut dyn Setting,
}

impl Switch<'_> {
    /// Sets it, if the value is valid for it.
    pub(super) fn set(&mut self, value: Value<'_>) -> Result<(), PolicyError> {
        // Linux writes flags as 0 and 1.
        let value = match (self.values, value) {
            (Values::Bool, Value::Number(number @ (0 | 1))) => Value::Bool(number == 1),
            (_, value) => value,
        };
        if !self.values.contain(value) {
            return Err(PolicyError::MustBe(self.values));
        }
        self.value.set(value);
        Ok(())
    }
}

/// A part of the policy that holds switches.
pub(super) trait Section {
    /// Shows each switch, in the order of their declarations. `path` is the section's own.
    fn visit(&mut self, path: &str, show: &mut dyn FnMut(Switch<'_>));
    /// Calls `show` for each inner section, with its path and description.
    fn sections(path: &str, show: &mut dyn FnMut(String, &'static str));
}

/// A name is no switch.
impl Section for String {
    fn visit(&mut self, _: &str, _: &mut dyn FnMut(Switch<'_>)) {}
    fn sections(_: &str, _: &mut dyn FnMut(String, &'static str)) {}
}

/// A version is no switch: two policies do not differ in behaviour by it.
impl Section for KernelVersion {
    fn visit(&mut self, _: &str, _: &mut dyn FnMut(Switch<'_>)) {}
    fn sections(_: &str, _: &mut dyn FnMut(String, &'static str)) {}
}

/// A key below a section; that of the whole policy is "".
pub(super) fn join(section: &str, key: &str) -> String {
    let dot = if section.is_empty() { "" } else { "." };
    [section, dot, key].concat()
}

/// Bytes of an identifier in kebab case.
pub(super) const fn kebab_len(ident: &str) -> usize {
    let bytes = ident.as_bytes();
    let (mut at, mut len) = (0, bytes.len());
    while at < bytes.len() {
        if at > 0 && bytes[at].is_ascii_uppercase() {
            len += 1;
        }
        at += 1;
    }
    len
}

/// An identifier in kebab case, as serde has it: `HighOrder15` and `high_order15` are
/// `high-order15`.
pub(super) const fn kebab_bytes<const LEN: usize>(ident: &str) -> [u8; LEN] {
    let bytes = ident.as_bytes();
    let mut kebab = [b'-'; LEN];
    let (mut at, mut to) = (0, 0);
    while at < bytes.len() {
        if at > 0 && bytes[at].is_ascii_uppercase() {
            to += 1;
        }
        if bytes[at] != b'_' {
            kebab[to] = bytes[at].to_ascii_lowercase();
        }
        at += 1;
        to += 1;
    }
    kebab
}

/// An identifier's name in files.
macro_rules! kebab {
    ($ident:ident) => {{
        const IDENT: &str = stringify!($ident);
        const BYTES: [u8; $crate::config::policy::table::kebab_len(IDENT)] =
            $crate::config::policy::table::kebab_bytes(IDENT);
        const NAME: &str = match core::str::from_utf8(&BYTES) {
            Ok(name) => name,
            Err(_) => panic!("an identifier is text"),
        };
        NAME
    }};
}
pub(super) use kebab;

/// Declares a section of the policy. A field is one of
///
/// ```text
/// /// What it decides.
/// name: Enum = Usual {            // a choice; declares the enum too
///     /// What this does.
///     Usual,
///     /// ...
///     Other,
/// },
/// /// A choice whose enum is declared elsewhere.
/// name: Enum = (Enum::Usual),
/// /// What happens if true; false: what does not.
/// name: bool = false,
/// /// Of what how many.
/// name: u8 = 15 in (1..=15; 1, 14, 15),   // least..=most; those that a swarm draws
/// /// What it is about.
/// name: OtherSection,             // a section within
/// ```
///
/// The value after `=` is what kernels did before any of them changed it: the oldest preset is made
/// of these, and each further one says what it sets otherwise. A switch in which no preset differs
/// from another ends with `is exploratory`.
macro_rules! policy {
    (
        $(#[doc = $section_doc:literal])*
        $section:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ident
                $(= $default:tt $({ $($variants:tt)* })? $(in $numbers:tt)? $(is $mark:ident)?)?,
            )*
        }
    ) => {
        $(#[doc = $section_doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
        pub struct $section {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                $section {
                    $($field: $crate::config::policy::table::policy!(
                        @default $type $(= $default $({ $($variants)* })?)?
                    ),)*
                }
            }
        }

        impl $crate::config::policy::table::Section for $section {
            fn visit(
                &mut self,
                path: &str,
                show: &mut dyn FnMut($crate::config::policy::table::Switch<'_>),
            ) {
                $($crate::config::policy::table::policy!(
                    @visit (&mut self.$field, path, show, $field, concat!($($doc),*)) $type
                    $(= $default $({ $($variants)* })? $(in $numbers)? $(is $mark)?)?
                );)*
            }

            #[allow(unused_variables, reason = "a section with none within")]
            fn sections(path: &str, show: &mut dyn FnMut(alloc::string::String, &'static str)) {
                $($crate::config::policy::table::policy!(
                    @section (path, show, $field, concat!($($doc),*)) $type $(= $default)?
                );)*
            }
        }

        $($crate::config::policy::table::policy!(
            @choice [$(#[doc = $doc])*] $type
            $(= $default $({ $($variants)* })? $(in $numbers)?)?
        );)*
    };

    (@default $type:ident) => { <$type>::default() };
    (@default $type:ident = $default:ident { $($variants:tt)* }) => { $type::$default };
    (@default $type:ident = $default:tt) => { $default };

    (@visit ($place:expr, $path:expr, $show:expr, $field:ident, $doc:expr) $section:ident) => {{
        use $crate::config::policy::table::{self, Section};
        Section::visit($place, &table::join($path, table::kebab!($field)), $show);
    }};
    (
        @visit ($place:expr, $path:expr, $show:expr, $field:ident, $doc:expr) $type:ident
        = $default:tt $({ $($variants:tt)* })? $(in $numbers:tt)? $(is $mark:ident)?
    ) => {{
        use $crate::config::policy::table;
        $show(table::Switch {
            path: table::join($path, table::kebab!($field)),
            doc: $doc.trim_ascii(),
            values: table::policy!(@values $type $({ $($variants)* })? $(in $numbers)?),
            is_exploratory: table::policy!(@mark $($mark)?),
            value: $place,
        });
    }};

    // A name is no section.
    (@section ($path:expr, $show:expr, $field:ident, $doc:expr) String) => {};
    (@section ($path:expr, $show:expr, $field:ident, $doc:expr) Own) => {};
    (@section ($path:expr, $show:expr, $field:ident, $doc:expr) KernelVersion) => {};
    (@section ($path:expr, $show:expr, $field:ident, $doc:expr) $section:ident) => {{
        use $crate::config::policy::table::{self, Section};
        let path = table::join($path, table::kebab!($field));
        $show(path.clone(), $doc.trim_ascii());
        <$section as Section>::sections(&path, $show);
    }};
    (@section ($path:expr, $show:expr, $field:ident, $doc:expr) $type:ident = $default:tt) => {};

    (@values bool) => { $crate::config::policy::table::Values::Bool };
    (@values $type:ident $({ $($variants:tt)* })?) => {
        $crate::config::policy::table::Values::Choices($type::CHOICES)
    };
    (@values $type:ident in ($min:literal..=$max:literal; $($drawn:literal),+)) => {
        $crate::config::policy::table::Values::Numbers {
            min: $min,
            max: $max,
            drawn: &[$($drawn),+],
        }
    };

    // Of fields that do not choose there is no enum to declare.
    (@choice [$($doc:tt)*] $type:ident $(= $default:tt $(in $numbers:tt)?)?) => {};
    (@mark) => { false };
    (@mark exploratory) => { true };

    (
        @choice [$(#[doc = $doc:literal])*] $name:ident = $default:ident
        { $($(#[doc = $about:literal])* $variant:ident,)+ }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
        pub enum $name { $($(#[doc = $about])* $variant,)+ }

        impl $name {
            /// Every value with its name in files.
            pub const CHOICES: &'static [$crate::config::Choice] = &[$($crate::config::Choice {
                name: $crate::config::policy::table::kebab!($variant),
                doc: concat!($($about),*).trim_ascii(),
            },)+];
        }

        impl $crate::config::policy::table::Setting for $name {
            fn get(&self) -> $crate::config::Value<'static> {
                $crate::config::Value::Choice(Self::CHOICES[*self as usize].name)
            }

            fn set(&mut self, value: $crate::config::Value<'_>) {
                $(if value == $crate::config::Value::Choice(
                    $crate::config::policy::table::kebab!($variant)
                ) {
                    *self = $name::$variant;
                })+
            }
        }
    };
}
pub(super) use policy;

#[cfg(test)]
#[allow(unreachable_pub, reason = "what the macro declares is for everyone elsewhere")]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    // One of each kind of field, as the book shows them.
    policy! {
        /// What an example is about.
        Example {
            /// Carried along, no switch.
            title: String,
            /// Which way
            /// it goes.
            // A remark for readers of the source.
            way: ExampleWay = FarAround {
                /// The short one.
                Short,
                /// The long one.
                FarAround,
            },
            /// It hurries.
            in_haste: bool = true,
            /// Steps.
            nr_steps: u16 = 7 in (1..=9; 1, 9) is exploratory,
            /// An inner section.
            inner: ExampleInner,
        }
    }

    policy! {
        /// A section within.
        ExampleInner {
            /// Just that.
            deep: bool = false,
        }
    }

    #[test]
    fn a_declaration_makes_fields_words_and_values() {
        let mut example = Example::default();
        assert_eq!((example.way, example.nr_steps), (ExampleWay::FarAround, 7));
        assert!(example.in_haste && !example.inner.deep);
        let mut seen = Vec::new();
        example.visit("top", &mut |switch| {
            seen.push((switch.path, switch.doc, switch.value.get(), switch.is_exploratory));
        });
        let expected = [
            ("top.way", "Which way it goes.", Value::Choice("far-around"), false),
            ("top.in-haste", "It hurries.", Value::Bool(true), false),
            ("top.nr-steps", "Steps.", Value::Number(7), true),
            ("top.inner.deep", "Just that.", Value::Bool(false), false),
        ];
        assert_eq!(seen, expected.map(|(path, doc, value, is)| (path.into(), doc, value, is)));
        assert_eq!(ExampleWay::CHOICES[1], Choice { name: "far-around", doc: "The long one." });
    }

    #[test]
    fn setting_to_what_is_no_value_changes_nothing() {
        let (mut on, mut number, mut way) = (true, 7_u8, ExampleWay::FarAround);
        on.set(Value::Number(0));
        number.set(Value::Number(256));
        number.set(Value::Bool(false));
        way.set(Value::Choice("short-cut"));
        assert_eq!((on, number, way), (true, 7, ExampleWay::FarAround));
        way.set(Value::Choice("short"));
        number.set(Value::Number(255));
        assert_eq!((number, way), (255, ExampleWay::Short));
    }
}
