//! Which kernel it is, and the preset that comes nearest.

use highwater_core::config::PRESETS;

/// What a capture is judged by where its kernel says nothing that could be understood.
const DEFAULT_PRESET: &str = "6.1";

/// A kernel's version, as far as presets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// The number before the dot.
    pub major: u32,
    /// The number behind it.
    pub minor: u32,
}

impl KernelVersion {
    /// The first version in a text: `6.1` of `Linux 6.1 (Debian 6.1.192)`.
    pub fn find(text: &str) -> Option<KernelVersion> {
        let starts = text.char_indices().filter(|(at, c)| {
            let before = text[..*at].chars().next_back();
            c.is_ascii_digit() && !before.is_some_and(|c| c.is_ascii_digit() || c == '.')
        });
        starts.map(|(at, _)| &text[at..]).find_map(|rest| {
            let (major, rest) = rest.split_once('.')?;
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            Some(KernelVersion { major: major.parse().ok()?, minor: rest[..end].parse().ok()? })
        })
    }

    /// The version that a preset has for a name; none: it has another one.
    fn of_preset(name: &str) -> Option<KernelVersion> {
        let (major, minor) = name.split_once('.')?;
        Some(KernelVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// The preset that stands for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its name.
    pub preset: &'static str,
    /// It is of the kernel's own version.
    pub is_exact: bool,
}

impl Nearest {
    /// The newest preset that is not newer than the kernel; of older kernels the oldest.
    pub fn to(kernel: &str) -> Nearest {
        let Some(version) = KernelVersion::find(kernel) else {
            return Nearest { preset: DEFAULT_PRESET, is_exact: false };
        };
        let known = PRESETS
            .iter()
            .filter_map(|(name, _)| KernelVersion::of_preset(name).map(|v| (v, *name)));
        let oldest = known.clone().min();
        let newest = known.filter(|(known, _)| *known <= version).max();
        match newest.or(oldest) {
            Some((found, preset)) => Nearest { preset, is_exact: found == version },
            None => Nearest { preset: DEFAULT_PRESET, is_exact: false },
        }
    }

    /// A line about a kernel that is no preset; none for one that is.
    pub fn note(&self, kernel: &str) -> Option<String> {
        let preset = self.preset;
        let said = format!(
            "{kernel} is no preset: its figures are compared with those of {preset}, the nearest one"
        );
        (!self.is_exact).then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_counts() {
        let find = |text| KernelVersion::find(text).map(|v| (v.major, v.minor));
        assert_eq!(find("Linux 6.1 (Debian 6.1.192)"), Some((6, 1)));
        assert_eq!(find("Linux version 5.10.0-rc3 (a@b) (gcc 12.2)"), Some((5, 10)));
        assert_eq!(find("x86_64 6.18.44-fc"), Some((6, 18)));
        assert_eq!(find("Linux"), None);
        assert_eq!(find("99999999999.1"), None);
    }

    #[test]
    fn the_nearest_preset_is_not_newer() {
        let nearest = |kernel| {
            let nearest = Nearest::to(kernel);
            (nearest.preset, nearest.is_exact)
        };
        assert_eq!(nearest("Linux 6.1.140"), ("6.1", true));
        assert_eq!(nearest("Linux 7.2"), ("6.1", false));
        assert_eq!(nearest("Linux 5.15"), ("5.10", false));
        assert_eq!(nearest("Linux 5.4"), ("5.4", true));
        assert_eq!(nearest("Linux 3.10"), ("4.3", false));
        assert_eq!(nearest("no number"), ("6.1", false));
        assert_eq!(Nearest::to("Linux 6.1").note("Linux 6.1"), None);
        assert!(Nearest::to("Linux 6.18").note("Linux 6.18").is_some_and(|n| n.contains("6.1,")));
    }
}
