//! Settings of a job's memory cgroups by name, and the version of cgroups that has each.
//!
//! Each is declared once: its key, its version, what the nearest setting of the other version is,
//! and how the kernel gets it. [`super::group`] has the groups.

use highwater_core::reclaim::GroupSetting;
use highwater_files::input::names::unknown;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::plan::pages_down;
use super::text::Amount;

/// Version of cgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum GroupVersion {
    /// `limit`, `memsw-limit`, `soft-limit`, `swappiness`, `oom-control`.
    V1,
    /// `max`, `high`, `low`, `min`, `swap-max`, `swap-high`, `oom-group`.
    #[default]
    V2,
}

impl GroupVersion {
    /// As it is written.
    pub const fn number(self) -> u8 {
        match self {
            GroupVersion::V1 => 1,
            GroupVersion::V2 => 2,
        }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == GroupVersion::default()
    }
}

impl From<GroupVersion> for u8 {
    fn from(version: GroupVersion) -> u8 {
        version.number()
    }
}

impl TryFrom<u8> for GroupVersion {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            1 => Ok(GroupVersion::V1),
            2 => Ok(GroupVersion::V2),
            _ => Err("the version of cgroups is 1 or 2"),
        }
    }
}

impl JsonSchema for GroupVersion {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GroupVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "enum": [1, 2] })
    }
}

/// A setting of a memory cgroup.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SettingName {
    /// `memory.max`.
    Max,
    /// `memory.high`.
    High,
    /// `memory.low`.
    Low,
    /// `memory.min`.
    Min,
    /// `memory.swap.max`.
    SwapMax,
    /// `memory.swap.high`.
    SwapHigh,
    /// `memory.oom.group`: `value` is 1 or 0.
    OomGroup,
    /// Version 1's `memory.limit_in_bytes`.
    Limit,
    /// Version 1's `memory.memsw.limit_in_bytes`.
    MemswLimit,
    /// Version 1's `memory.soft_limit_in_bytes`.
    SoftLimit,
    /// Version 1's `memory.swappiness`: `value` is 0 to 200.
    Swappiness,
    /// Version 1's `memory.oom_control`: `value` is 1 or 0.
    OomControl,
}

/// Settings that are sizes.
pub(super) const SIZES: [SettingName; 9] = [
    SettingName::Max,
    SettingName::High,
    SettingName::Low,
    SettingName::Min,
    SettingName::SwapMax,
    SettingName::SwapHigh,
    SettingName::Limit,
    SettingName::MemswLimit,
    SettingName::SoftLimit,
];
/// Settings that are numbers.
pub(super) const NUMBERS: [SettingName; 3] =
    [SettingName::OomGroup, SettingName::Swappiness, SettingName::OomControl];

impl SettingName {
    /// Its key, and, if only one version of cgroups has it, that version; the key of the other
    /// version that is the nearest.
    pub(super) const fn key(self) -> (&'static str, GroupVersion, &'static str) {
        use GroupVersion::{V1, V2};
        match self {
            SettingName::Max => ("max", V2, "limit"),
            SettingName::High => ("high", V2, "soft-limit"),
            SettingName::Low => ("low", V2, "soft-limit of the other groups"),
            SettingName::Min => ("min", V2, "soft-limit of the other groups"),
            SettingName::SwapMax => ("swap-max", V2, "memsw-limit"),
            SettingName::SwapHigh => ("swap-high", V2, "memsw-limit"),
            SettingName::OomGroup => ("oom-group", V2, "oom-control"),
            SettingName::Limit => ("limit", V1, "max"),
            SettingName::MemswLimit => ("memsw-limit", V1, "swap-max"),
            SettingName::SoftLimit => ("soft-limit", V1, "low of the other groups"),
            SettingName::Swappiness => ("swappiness", V1, "vm.swappiness of the machine"),
            SettingName::OomControl => ("oom-control", V1, "oom-group"),
        }
    }

    /// The setting of version 2 with this key and this value: a size (`64M`, or bytes), `max`, or a
    /// truth value (0, 1, `true`, `false`).
    ///
    /// # Errors
    /// If there is no such key, or the value is none of it.
    pub fn read(key: &str, value: &str) -> Result<GroupSetting, String> {
        let all = || SIZES.into_iter().chain(NUMBERS);
        let Some(name) = all().find(|name| name.key().0 == key) else {
            let v2 = all().map(SettingName::key).filter(|(_, of, _)| *of == GroupVersion::V2);
            let keys: Vec<&str> = v2.map(|(key, ..)| key).collect();
            return Err(unknown("setting of a group", key, &keys));
        };
        if let (_, GroupVersion::V1, nearest) = name.key() {
            return Err(format!(
                "{key} is a setting of version 1, which cannot change from outside; the nearest \
                 of version 2 is {nearest}"
            ));
        }
        if NUMBERS.contains(&name) {
            let number = match value {
                "true" => Some(1),
                "false" => Some(0),
                number => number.parse().ok(),
            };
            let number = number.and_then(|number| name.of_number(number));
            return number.ok_or_else(|| format!("{key} is {}, not {value:?}", name.range()));
        }
        // Without a unit bytes, as the file takes them.
        let amount = value.parse().map(Amount::Bytes).or_else(|_| value.parse())?;
        let pages = match amount {
            Amount::Share(_) => {
                return Err(format!("{value}: give a size such as 512M, or max; no share"));
            }
            amount => pages_down(amount, 0),
        };
        name.of_pages(pages).ok_or_else(|| format!("{key} has no size"))
    }

    /// The error if groups of a version do not have it.
    pub(super) fn problem_in(self, version: GroupVersion) -> Option<String> {
        let (key, of, nearest) = self.key();
        (of != version).then(|| {
            format!(
                "{key} is a setting of version {}, and the job's groups are version {} \
                 (group-version); the nearest there is {nearest}",
                of.number(),
                version.number()
            )
        })
    }

    /// The setting with a number that is no size; none of sizes, and of other numbers.
    pub(super) const fn of_number(self, number: u32) -> Option<GroupSetting> {
        Some(match (self, number) {
            (SettingName::OomGroup, 0 | 1) => GroupSetting::OomGroup(number == 1),
            (SettingName::OomControl, 0 | 1) => GroupSetting::OomControl(number == 1),
            (SettingName::Swappiness, 0..=200) => GroupSetting::Swappiness(number as u64),
            _ => return None,
        })
    }

    /// The values of a number, in the words of errors.
    pub(super) const fn range(self) -> &'static str {
        match self {
            SettingName::Swappiness => "0 to 200",
            _ => "0 or 1",
        }
    }

    /// The setting with a size; none of numbers.
    pub(super) const fn of_pages(self, pages: u64) -> Option<GroupSetting> {
        Some(match self {
            SettingName::Max => GroupSetting::Max(pages),
            SettingName::High => GroupSetting::High(pages),
            SettingName::Low => GroupSetting::Low(pages),
            SettingName::Min => GroupSetting::Min(pages),
            SettingName::SwapMax => GroupSetting::SwapMax(pages),
            SettingName::SwapHigh => GroupSetting::SwapHigh(pages),
            SettingName::Limit => GroupSetting::Limit(pages),
            SettingName::MemswLimit => GroupSetting::MemswLimit(pages),
            SettingName::SoftLimit => GroupSetting::SoftLimit(pages),
            SettingName::OomGroup | SettingName::Swappiness | SettingName::OomControl => {
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_their_keys() {
        for (key, value, setting) in [
            ("high", "64M", GroupSetting::High(16_384)),
            ("max", "max", GroupSetting::Max(u64::MAX)),
            ("low", "0", GroupSetting::Low(0)),
            ("swap-max", "6K", GroupSetting::SwapMax(1)),
            ("swap-high", "8192", GroupSetting::SwapHigh(2)),
            ("oom-group", "1", GroupSetting::OomGroup(true)),
            ("oom-group", "false", GroupSetting::OomGroup(false)),
        ] {
            assert_eq!(SettingName::read(key, value), Ok(setting));
        }
        for (key, value, reason) in [
            ("hihg", "64M", "unknown setting of a group \"hihg\"; did you mean high?"),
            ("limit", "64M", "limit is a setting of version 1, which cannot change from outside"),
            ("swap", "64M", "unknown setting of a group \"swap\""),
            ("high", "50%", "50%: give a size such as 512M, or max; no share"),
            ("oom-group", "2", "oom-group is 0 or 1, not \"2\""),
        ] {
            let error = SettingName::read(key, value).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
