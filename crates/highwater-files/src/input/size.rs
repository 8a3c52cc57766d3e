//! Sizes and number lists as people type them: `8G`, `512M`; `0-3,8`.

use highwater_core::host::CpuSet;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Parses a size with a unit into bytes: `K`, `M`, `G` or `T` (powers of 1024), optionally followed
/// by `B` or `iB`; `B` alone is bytes. Only `0` needs no unit.
///
/// # Errors
/// Says what a size looks like.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("\"{text}\" is not a size such as 512M or 8G");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim();
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" if number == 0 || unit.eq_ignore_ascii_case("b") => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("\"{text}\" is more than 64 bits can count"))
}

/// A size as [`parse_size`] reads it: in the largest unit that says it exactly.
pub fn size_text(bytes: u64) -> String {
    let suffixes = [(30, "G"), (20, "M"), (10, "K")];
    let fits = |&&(shift, _): &&(u32, &str)| bytes != 0 && bytes.is_multiple_of(1 << shift);
    match suffixes.iter().find(fits) {
        Some((shift, suffix)) => format!("{}{suffix}", bytes >> shift),
        None if bytes == 0 => "0".to_owned(),
        None => format!("{bytes}B"),
    }
}

/// Numbers of a list of ranges, in its order: `0-3,8`; the empty text is the empty list.
///
/// # Errors
/// Says which part is no range.
pub fn parse_ranges(text: &str) -> Result<Vec<u16>, String> {
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |n: &str| {
            let wrong = format!("\"{part}\" is neither a CPU number nor a range such as 0-3");
            let n = n.trim().parse::<u16>().map_err(|_| wrong)?;
            let last = CPUS_MAX - 1;
            if n > last {
                Err(format!("CPU {n}: a machine has CPUs 0 to {last} at most"))
            } else {
                Ok(n)
            }
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("the range \"{part}\" runs backwards"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

/// Most CPUs of a machine here.
pub const CPUS_MAX: u16 = CpuSet::MAX_CPUS as u16;

/// A number of bytes written as `256K`, `8G`, or plainly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_size(&text).map(Bytes).map_err(de::Error::custom)
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
        serializer.collect_str(&size_text(self.0))
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

    #[test]
    fn sizes() {
        assert_eq!(parse_size("8G"), Ok(8 << 30));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("64kb"), Ok(64 << 10));
        assert_eq!((parse_size("0"), parse_size("512B")), (Ok(0), Ok(512)));
        for bytes in [0, 1, 512, 1000, 4096, 3 << 20, 5 << 30] {
            assert_eq!(parse_size(&size_text(bytes)), Ok(bytes));
        }
        for bad in ["", "8", "-1G", "G", "1.5G", "99999999999T", "8X"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(parse_ranges("0-2,5"), Ok(vec![0, 1, 2, 5]));
        assert_eq!(parse_ranges(" "), Ok(vec![]));
        assert_eq!(parse_ranges("1022-1023").unwrap().len(), 2);
        assert_eq!(
            parse_ranges("0-1024").unwrap_err(),
            "CPU 1024: a machine has CPUs 0 to 1023 at most"
        );
        for bad in ["3-1", "a", "1,,2", "-1", "0-99999"] {
            assert!(parse_ranges(bad).is_err(), "{bad}");
        }
    }
}
