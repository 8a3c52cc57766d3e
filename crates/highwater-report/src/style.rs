//! The three looks of an mmtests report (rules/mmtests-tables#styles): which rows, names, widths
//! and significance rule.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Period of mmtests whose reports are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// 2012 to 2018: `Mean`, `Max-90%`, no significance, vmstat block of integers.
    Y2015,
    /// Oct 2018 to Nov 2024: `Amean`/`Hmean`, `Max-90`, asterisks by t-test, `Ops` and `Duration`
    /// rows.
    #[default]
    Y2021,
    /// From Nov 2024: `Pctile.90`, `BAmean.95`, `HStddev`, asterisks by confidence intervals.
    Y2026,
}

/// The text names no style.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown report style \"{0}\"; there are 2015, 2021 and 2026")]
pub struct UnknownStyle(String);

impl Style {
    /// Width of a value in a benchmark's table.
    pub fn field_width(self) -> usize {
        if self == Style::Y2026 { 18 } else { 12 }
    }

    /// Width of a percentage.
    pub fn percent_width(self) -> usize {
        if self == Style::Y2015 { 6 } else { 7 }
    }

    /// Width of a value in the vmstat block.
    pub fn vmstat_width(self) -> usize {
        if self == Style::Y2015 { 12 } else { 15 }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Style::Y2015 => "2015",
            Style::Y2021 => "2021",
            Style::Y2026 => "2026",
        })
    }
}

impl FromStr for Style {
    type Err = UnknownStyle;

    fn from_str(text: &str) -> Result<Self, UnknownStyle> {
        match text {
            "2015" => Ok(Style::Y2015),
            "2021" => Ok(Style::Y2021),
            "2026" => Ok(Style::Y2026),
            _ => Err(UnknownStyle(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for style in [Style::Y2015, Style::Y2021, Style::Y2026] {
            assert_eq!(style.to_string().parse(), Ok(style));
        }
        assert!("2020".parse::<Style>().unwrap_err().to_string().contains("2026"));
    }
}
