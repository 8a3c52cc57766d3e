//! The kernel version of a capture, and the nearest preset.

use std::fmt;

use highwater_core::config::{Algorithm, PRESETS, Policy, preset_with};

use highwater_files::input::InputError;
use highwater_files::policy_file;

/// The preset for a capture whose kernel version cannot be parsed.
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

    /// Releases since 2.6.0: 4.0 follows 3.19, 5.0 follows 4.20, and so on.
    fn release(self) -> u32 {
        let before = match self.major {
            0..=2 => 0,
            3 => 40,
            4 => 60,
            major => 81 + (major - 5) * 20,
        };
        before + self.minor
    }

    /// The version in a preset's name; `None` if its name is not a version.
    pub(crate) fn of_preset(name: &str) -> Option<KernelVersion> {
        let (major, minor) = name.split_once('.')?;
        Some(KernelVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The preset that stands for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its name.
    pub preset: &'static str,
    /// It is of the kernel's own version.
    pub is_exact: bool,
    /// The preset of the kernel's own version and its number of differing figures, if this preset
    /// has less than half of them.
    pub instead_of: Option<(&'static str, usize)>,
}

/// A kernel for which a preset is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged<'a> {
    /// Its version, as it prints it.
    pub(crate) kernel: &'a str,
    /// Lines of its zones that only some kernels print.
    pub(crate) lines: ZoneLines,
}

/// Lines of `/proc/zoneinfo` that say how old a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneLines {
    /// The text is not there.
    Unknown,
    /// Neither `promo` nor `high_min`: before about 6.7.
    Old,
    /// `promo` only: 6.12 has it.
    Promo,
    /// `high_min` too: 6.18 has it.
    HighMin,
}

impl ZoneLines {
    /// True if a kernel of this version prints such lines.
    fn fit(self, version: KernelVersion) -> bool {
        let of = |major, minor| KernelVersion { major, minor };
        match self {
            ZoneLines::Unknown => true,
            ZoneLines::Old => version < of(6, 7),
            ZoneLines::Promo => (of(6, 7)..of(6, 13)).contains(&version),
            ZoneLines::HighMin => version >= of(6, 13),
        }
    }
}

impl Nearest {
    /// The presets that may stand for a kernel, the likeliest first: that of its version; or the one before and the one
    /// behind it; or, of a kernel that does not say its version, all that print such lines.
    fn candidates(Judged { kernel, lines }: Judged<'_>) -> Vec<Nearest> {
        let mut known: Vec<(KernelVersion, &'static str)> = PRESETS
            .iter()
            .filter_map(|(name, _)| KernelVersion::of_preset(name).map(|v| (v, *name)))
            .collect();
        known.sort();
        let nearest = |(_, preset): &(KernelVersion, &'static str)| Nearest {
            preset,
            is_exact: false,
            instead_of: None,
        };
        let Some(version) = KernelVersion::find(kernel) else {
            known.retain(|(version, _)| lines.fit(*version));
            let first = known.iter().filter(|(_, preset)| *preset == DEFAULT_PRESET);
            let rest = known.iter().rev().filter(|(_, preset)| *preset != DEFAULT_PRESET);
            return first.chain(rest).map(nearest).collect();
        };
        if let Some(own) = known.iter().find(|(known, _)| *known == version) {
            return vec![Nearest { is_exact: true, ..nearest(own) }];
        }
        let before = known.iter().rev().find(|(known, _)| *known < version);
        let behind = known.iter().find(|(known, _)| *known > version);
        let distance =
            |(known, _): &&(KernelVersion, &str)| known.release().abs_diff(version.release());
        let mut both: Vec<_> = before.into_iter().chain(behind).collect();
        both.sort_by_key(distance);
        both.into_iter().map(nearest).collect()
    }

    /// The same kernel as it reclaims memory; without change if that is not known, or if no preset
    /// is so.
    pub(crate) fn reclaiming(self, has_mglru: Option<bool>) -> Nearest {
        let algorithm = match has_mglru {
            Some(true) => Algorithm::Mglru,
            Some(false) => Algorithm::TwoList,
            None => return self,
        };
        Nearest { preset: preset_with(self.preset, algorithm).unwrap_or(self.preset), ..self }
    }

    /// A note about a kernel that has no preset of its own; `None` if it has one.
    pub fn note(&self, kernel: &str) -> Option<String> {
        let preset = self.preset;
        if let Some((own, nr_wrong)) = self.instead_of {
            return Some(format!(
                "{kernel} says that it is {own}, which has {nr_wrong} figures otherwise: they are compared with those of \
                 {preset}, which fit better"
            ));
        }
        let said = if KernelVersion::find(kernel).is_none() {
            format!(
                "the kernel's version is not known: its figures are compared with those of {preset}, which fit best"
            )
        } else {
            format!(
                "{kernel} is no preset: its figures are compared with those of {preset}, the nearest one"
            )
        };
        (!self.is_exact).then_some(said)
    }
}

/// The preset by which a kernel is judged. `judge` compares the kernel with a preset and returns
/// the number of figures that differ. The best of the [candidates](Nearest::candidates) has the
/// fewest; among equals the likeliest wins. Distributions change their kernels, and captures get
/// wrong version labels. So a preset of another version replaces the kernel's own if it has less
/// than half of its differences.
pub(crate) fn judged_by<T>(
    kernel: Judged<'_>,
    mut judge: impl FnMut(&Policy) -> Result<(T, usize), InputError>,
) -> Result<(Nearest, T), InputError> {
    let mut ask = |nearest: Nearest| -> Result<(usize, Nearest, T), InputError> {
        let (judged, nr_wrong) = judge(&policy_file::load(nearest.preset)?)?;
        Ok((nr_wrong, nearest, judged))
    };
    let mut best: Option<(usize, Nearest, T)> = None;
    for nearest in Nearest::candidates(kernel) {
        let asked = ask(nearest)?;
        if best.as_ref().is_none_or(|best| asked.0 < best.0) {
            best = Some(asked);
        }
    }
    let (nr_wrong, nearest, judged) =
        best.ok_or_else(|| InputError::whole("policies", "there is no preset of a kernel"))?;
    if nr_wrong == 0 || !nearest.is_exact {
        return Ok((nearest, judged));
    }
    let mut other: Option<(usize, Nearest, T)> = None;
    // Among equals the oldest preset wins: it is the first with these rules.
    let mut others = Nearest::candidates(Judged { kernel: "", ..kernel });
    others.sort_by_key(|other| KernelVersion::of_preset(other.preset));
    for candidate in others {
        let asked = ask(candidate)?;
        if asked.0 * 2 < nr_wrong && other.as_ref().is_none_or(|other| asked.0 < other.0) {
            other = Some(asked);
        }
    }
    match other {
        Some((_, found, judged)) => {
            Ok((Nearest { instead_of: Some((nearest.preset, nr_wrong)), ..found }, judged))
        }
        None => Ok((nearest, judged)),
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
        let of = |text| KernelVersion::find(text).unwrap();
        assert!(of("Linux 5.10 (Debian)") < of("Linux 6.1") && of("Linux 6.1") < of("Linux 6.12"));
        assert_eq!(find("99999999999.1"), None);
    }

    fn candidates(kernel: &str) -> Vec<&'static str> {
        let kernel = Judged { kernel, lines: ZoneLines::Unknown };
        Nearest::candidates(kernel).into_iter().map(|nearest| nearest.preset).collect()
    }

    #[test]
    fn a_kernel_between_presets_may_be_either() {
        assert_eq!(candidates("Linux 6.1.140"), ["6.1"]);
        assert_eq!(candidates("Linux 5.4"), ["5.4"]);
        assert_eq!(candidates("Linux 3.10"), ["4.3"]);
        // Six releases before 5.4, twelve behind 4.6.
        assert_eq!(candidates("Linux 4.18.0"), ["5.4", "4.6"]);
        assert_eq!(candidates("Linux 4.9"), ["4.6", "5.4"]);
        assert!(candidates("no number").len() > 4 && candidates("")[0] == "6.1");
        assert_eq!(candidates("Linux 99.1").len(), 1);
    }

    /// Lines that only later kernels print say so where the version does not.
    #[test]
    fn a_kernel_with_later_lines_is_none_of_the_presets_before() {
        let some = |kernel, lines| Nearest::candidates(Judged { kernel, lines });
        let names = |kernel, lines| -> Vec<&str> {
            some(kernel, lines).iter().map(|one| one.preset).collect()
        };
        assert_eq!(names("", ZoneLines::Promo), ["6.12"]);
        assert_eq!(names("", ZoneLines::HighMin), ["7.2"]);
        let old = names("", ZoneLines::Old);
        assert!(old[0] == "6.1" && !old.contains(&"6.12") && old.contains(&"4.3"), "{old:?}");
        assert_eq!(names("Linux 6.12.3", ZoneLines::HighMin), ["6.12"]);
        let newest = some("", ZoneLines::HighMin)[0];
        assert!(newest.note("Linux").is_some_and(|note| note.contains("which fit best")));
    }

    #[test]
    fn the_preset_is_the_one_with_fewest_differences() {
        let judge = |kernel: &str, wrong: &[(&str, usize)]| {
            let kernel = Judged { kernel, lines: ZoneLines::Unknown };
            let (nearest, ()) = judged_by(kernel, |policy| {
                let known = wrong.iter().find(|(name, _)| *name == policy.name);
                Ok(((), known.map_or(99, |(_, nr)| *nr)))
            })
            .unwrap();
            (nearest.preset, nearest.instead_of)
        };
        assert_eq!(judge("Linux 4.18", &[("4.6", 2), ("5.4", 8)]), ("4.6", None));
        assert_eq!(judge("Linux 4.18", &[("4.6", 8), ("5.4", 8)]), ("5.4", None));
        assert_eq!(judge("Linux 6.1", &[("6.1", 3), ("5.4", 2)]), ("6.1", None));
        assert_eq!(judge("Linux 6.1", &[("6.1", 32), ("5.4", 15)]), ("5.4", Some(("6.1", 32))));
        assert_eq!(judge("", &[("5.4", 0)]), ("5.4", None));
        let exact = Nearest { preset: "6.1", is_exact: true, instead_of: None };
        assert_eq!(exact.note("Linux 6.1"), None);
        let lists = |has_mglru| exact.reclaiming(has_mglru).preset;
        assert_eq!(
            [lists(None), lists(Some(false)), lists(Some(true))],
            ["6.1", "6.1", "6.1-mglru"]
        );
        let near = Nearest { is_exact: false, ..exact };
        assert!(near.note("Linux 6.4").is_some_and(|note| note.contains("6.1,")));
    }
}
