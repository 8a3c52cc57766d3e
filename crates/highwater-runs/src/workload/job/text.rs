//! Values of a job that are texts: amounts, patterns, arrivals.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use highwater_workloads::jobs::{Pattern, Spacing};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A group's limit that is none.
const NO_LIMIT: &str = "max";

/// Bytes, or a share of the machine's memory or of a group's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// This share of memory.
    Share(f64),
    /// As a group's limit: none (`max`).
    Unlimited,
}

impl Amount {
    /// Whether the amount is zero.
    pub(super) fn is_nothing(self) -> bool {
        match self {
            Amount::Bytes(bytes) => bytes == 0,
            Amount::Share(share) => share <= 0.0,
            Amount::Unlimited => false,
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        if text.trim() == NO_LIMIT {
            return Ok(Amount::Unlimited);
        }
        let Some(percent) = text.trim().strip_suffix('%') else {
            return highwater_files::input::size::parse_size(text).map(Amount::Bytes);
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=6400.0).contains(&percent) => Ok(Amount::Share(percent / 100.0)),
            _ => Err(format!("\"{text}\" is no share of memory, as \"25%\" is")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Bytes(bytes) => f.write_str(&highwater_files::input::size::size_text(*bytes)),
            Amount::Share(share) => write!(f, "{}%", share * 100.0),
            Amount::Unlimited => f.write_str(NO_LIMIT),
        }
    }
}

/// A pattern, as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PatternText(pub Pattern);

impl FromStr for PatternText {
    type Err = String;

    fn from_str(text: &str) -> Result<PatternText, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let numbers: Vec<&str> = words.collect();
        let number = |at: usize, what: &str| -> Result<f64, String> {
            let value = numbers.get(at).and_then(|word| word.parse().ok());
            value
                .filter(|value: &f64| value.is_finite() && *value > 0.0)
                .ok_or_else(|| format!("\"{text}\": {name} wants {what}, a number above 0"))
        };
        let share = |at: usize, what: &str| {
            let share = number(at, what)?;
            (share <= 1.0)
                .then_some(share)
                .ok_or_else(|| format!("\"{text}\": {what} is at most 1"))
        };
        let (pattern, wanted) = match name {
            "sequential" => (Pattern::Sequential, 0),
            "uniform" => (Pattern::Uniform, 0),
            "chase" => (Pattern::Chase, 0),
            "follow" => (Pattern::Follow, 0),
            "stride" => (Pattern::Strided(number(0, "how many")? as u64), 1),
            "except" => (Pattern::Except(number(0, "how many")? as u64), 1),
            "zipf" => (Pattern::Zipf(number(0, "its exponent")?), 1),
            "hot" => {
                let (share, accesses) = (share(0, "the hot share")?, share(1, "its accesses")?);
                (Pattern::Hot { share, accesses }, 2)
            }
            "drift" | "jump" => {
                let (share, every) = (share(0, "the window")?, number(1, "accesses")? as u64);
                match name {
                    "drift" => (Pattern::Drift { share, every }, 2),
                    _ => (Pattern::Jump { share, every }, 2),
                }
            }
            other => {
                let known = [
                    "sequential",
                    "stride",
                    "except",
                    "uniform",
                    "zipf",
                    "hot",
                    "drift",
                    "jump",
                    "chase",
                    "follow",
                ];
                return Err(highwater_files::input::names::unknown("pattern", other, &known));
            }
        };
        match numbers.len() == wanted {
            true => Ok(PatternText(pattern)),
            false => Err(format!("\"{text}\": {name} takes {wanted} numbers")),
        }
    }
}

impl fmt::Display for PatternText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Pattern::Sequential => f.write_str("sequential"),
            Pattern::Strided(n) => write!(f, "stride {n}"),
            Pattern::Except(n) => write!(f, "except {n}"),
            Pattern::Uniform => f.write_str("uniform"),
            Pattern::Zipf(exponent) => write!(f, "zipf {exponent}"),
            Pattern::Hot { share, accesses } => write!(f, "hot {share} {accesses}"),
            Pattern::Drift { share, every } => write!(f, "drift {share} {every}"),
            Pattern::Jump { share, every } => write!(f, "jump {share} {every}"),
            Pattern::Chase => f.write_str("chase"),
            Pattern::Follow => f.write_str("follow"),
        }
    }
}

/// How operations arrive, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpacingText(pub Spacing);

impl FromStr for SpacingText {
    type Err = String;

    fn from_str(text: &str) -> Result<SpacingText, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["poisson"] => Ok(SpacingText(Spacing::Poisson)),
            ["steady"] => Ok(SpacingText(Spacing::Steady)),
            ["bursts", n] => match n.parse() {
                Ok(n) if n > 0 => Ok(SpacingText(Spacing::Bursts(n))),
                _ => Err(format!("\"{text}\": of how many operations is a burst?")),
            },
            _ => Err(format!("\"{text}\": arrivals are poisson, steady or bursts N")),
        }
    }
}

impl fmt::Display for SpacingText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Spacing::Poisson => f.write_str("poisson"),
            Spacing::Steady => f.write_str("steady"),
            Spacing::Bursts(n) => write!(f, "bursts {n}"),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Bytes(_) | Amount::Unlimited => serializer.collect_str(self),
            // Whole percents as they are written; others exactly.
            Amount::Share(share) => match self.to_string().parse() == Ok(*self) {
                true => serializer.collect_str(self),
                false => serializer.serialize_f64(*share),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        struct Reader;

        impl de::Visitor<'_> for Reader {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes, as \"64M\", or a share of memory, as \"25%\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Amount, E> {
                match (0.0..=64.0).contains(&share) {
                    true => Ok(Amount::Share(share)),
                    false => Err(E::custom(format!("{share} is no share of memory, as 0.25 is"))),
                }
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "Bytes, as `64M`, or a share of the machine's memory, as `25%` or 0.25; shares are whole MiB. `max` is for groups.";
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "number", "minimum": 0, "maximum": 64 }], "description": about })
    }
}

/// Reads and writes a type as its text.
macro_rules! as_text {
    ($($type:ident: $about:literal,)*) => { $(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $about })
            }
        }
    )* };
}

as_text! {
    PatternText: "A pattern and its numbers, as `zipf 0.99`.",
    SpacingText: "`poisson`, `steady`, or `bursts N`.",
}

#[cfg(test)]
mod tests {
    use super::super::file::JobPhase;
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in [
            "sequential",
            "stride 8",
            "except 8",
            "zipf 0.99",
            "hot 0.1 0.9",
            "drift 0.2 100",
            "jump 0.2 5",
            "chase",
            "follow",
        ] {
            assert_eq!(text.parse::<PatternText>().unwrap().to_string(), text);
        }
        for text in ["poisson", "steady", "bursts 12"] {
            assert_eq!(text.parse::<SpacingText>().unwrap().to_string(), text);
        }
        assert_eq!("25%".parse(), Ok(Amount::Share(0.25)));
        for (text, amount) in [
            ("64M", Amount::Bytes(64 << 20)),
            ("150%", Amount::Share(1.5)),
            ("max", Amount::Unlimited),
        ] {
            assert_eq!((text.parse(), amount.to_string()), (Ok(amount), text.to_owned()));
        }
    }

    #[test]
    fn what_is_none_says_what_would_be() {
        let pattern = |text: &str| text.parse::<PatternText>().unwrap_err();
        assert!(pattern("zipff 1").contains("did you mean zipf?"), "{}", pattern("zipff 1"));
        assert_eq!(pattern("zipf"), "\"zipf\": zipf wants its exponent, a number above 0");
        assert_eq!(pattern("hot 1.5 0.5"), "\"hot 1.5 0.5\": the hot share is at most 1");
        assert_eq!(pattern("uniform 3"), "\"uniform 3\": uniform takes 0 numbers");
        assert!("bursts x".parse::<SpacingText>().unwrap_err().contains("of how many"));
        assert!("-1%".parse::<Amount>().unwrap_err().contains("no share"));
        // As a fraction, too: what captured files have.
        let phase: JobPhase = toml::from_str("do = \"map\"\nsize = 1.3\n").unwrap();
        assert_eq!(phase.size, Some(Amount::Share(1.3)));
        assert!(toml::from_str::<JobPhase>("do = \"map\"\nsize = -1.0\n").is_err());
    }
}
