//! Versions of Linux: which kernel a policy is, and since which one something exists.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A version of Linux, as `5.18`. Point releases do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The first number.
    pub major: u16,
    /// The second one.
    pub minor: u16,
}

impl KernelVersion {
    /// This version.
    pub const fn new(major: u16, minor: u16) -> KernelVersion {
        KernelVersion { major, minor }
    }

    /// The version of a declaration, as `"5.18"`: text, because 5.10 is not the number 5.1.
    ///
    /// # Panics
    /// If the text is no version: a declaration that cannot be compiled.
    pub const fn of(text: &str) -> KernelVersion {
        let bytes = text.as_bytes();
        let (mut numbers, mut which, mut at) = ([0u16; 2], 0, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'.' => which += 1,
                digit => {
                    assert!(digit.is_ascii_digit(), "a version is two numbers");
                    numbers[which] = numbers[which] * 10 + (digit - b'0') as u16;
                }
            }
            at += 1;
        }
        assert!(which == 1, "a version is two numbers");
        KernelVersion::new(numbers[0], numbers[1])
    }
}

/// The oldest preset's.
impl Default for KernelVersion {
    fn default() -> KernelVersion {
        KernelVersion::new(4, 3)
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for KernelVersion {
    type Err = String;

    /// Parses `5.18`, a point release (`5.18.3`), and versions of distributions (`6.1.0-49-amd64`).
    fn from_str(text: &str) -> Result<KernelVersion, String> {
        let wrong = || format!("\"{text}\" is no version of Linux, as \"5.18\" is");
        let mut parts = text.splitn(3, '.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        let (minor, rest) = minor.split_at(digits);
        let is_rest = rest.is_empty() || rest.starts_with(['-', '+', '_']);
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) if is_rest => Ok(KernelVersion { major, minor }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for KernelVersion {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a text of a policy does not say it (those before there were versions), the default.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for KernelVersion {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<String>::deserialize(deserializer)? {
            None => Ok(KernelVersion::default()),
            Some(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let of = |text: &str| text.parse::<KernelVersion>();
        assert!(of("5.9") < of("5.10") && of("5.18") < of("6.1"));
        assert_eq!(of("5.18"), Ok(KernelVersion::of("5.18")));
        for text in ["6.1.192", "6.1.0-49-amd64", "6.1-rc3", "6.1+"] {
            assert_eq!(of(text), Ok(KernelVersion::new(6, 1)), "{text}");
        }
        for text in ["", "6", "six.one", "6.1x", "6.", "mglru"] {
            assert!(of(text).is_err(), "{text}");
        }
        assert_eq!(KernelVersion::of("5.10").to_string(), "5.10");
    }
}
