//! Unknown names: which known name is nearest, and which features of Linux are not modelled.

use super::unmodelled;

/// How alike two names have to be for one to be proposed for the other, from 0 to 1 (Jaro-Winkler).
const ALIKE: f64 = 0.8;
/// Most names that are suggested.
const PROPOSED_MAX: usize = 5;
/// If none is near, up to this many names are all listed.
pub(super) const LISTED_MAX: usize = 12;
/// Kinds of names that Linux has too. For these an unknown name is looked up among Linux's
/// features.
const KINDS_OF_LINUX: [&str; 9] = [
    "policy",
    "field",
    "key",
    "parameter",
    "switch",
    "sysctl",
    "memory policy",
    "model",
    "scheduler",
];

/// The names nearest to a mistyped one, nearest first; empty if none is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near = by_likeness(name, known);
    near.retain(|(likeness, _)| *likeness >= ALIKE);
    near.truncate(PROPOSED_MAX);
    near.into_iter().map(|(_, known)| known).collect()
}

/// All names, the most similar first.
fn by_likeness<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<(f64, &'a str)> {
    let name = name.to_lowercase();
    let likeness = |other: &str| match other.contains(&name) && name.len() > 2 {
        // Part of a name is how people abbreviate.
        true => 1.0,
        false => strsim::jaro_winkler(&name, other),
    };
    let mut all: Vec<(f64, &str)> = known.into_iter().map(|k| (likeness(k), k)).collect();
    // A stable sort: among equally near names the first declared comes first.
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

/// The known names, for the end of a message: all of them if they are few, otherwise their number
/// and the nearest.
pub fn there(name: &str, known: &[&str]) -> String {
    match known {
        [] => "there is none".to_owned(),
        [one] => format!("there is {one}"),
        all if all.len() <= LISTED_MAX => format!("there are {}", all.join(", ")),
        all => {
            let near: Vec<&str> = by_likeness(name, all.iter().copied())
                .into_iter()
                .take(PROPOSED_MAX)
                .map(|(_, known)| known)
                .collect();
            format!("there are {}, among them {}", all.len(), near.join(", "))
        }
    }
}

/// The message about an unknown name: `unknown policy "5.81"; did you mean 5.18? (there are ...)`.
/// If Linux has something of that name, it says what is not modelled.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    if let Some(missing) = not_modelled(what, name) {
        return missing;
    }
    match nearest(name, known.iter().copied()).as_slice() {
        [] => format!("unknown {what} \"{name}\"; {}", there(name, known)),
        near => {
            let near = near.join(" or ");
            let unknown = format!("unknown {what} \"{name}\"; did you mean {near}?");
            match known.len() <= LISTED_MAX {
                true => format!("{unknown} ({})", there(name, known)),
                false => unknown,
            }
        }
    }
}

/// The line about a name that Linux has and the model has not, or has under another name.
pub fn not_modelled(what: &str, name: &str) -> Option<String> {
    if !KINDS_OF_LINUX.contains(&what) {
        return None;
    }
    let feature = unmodelled::find(name).map(unmodelled::Feature::line);
    let feature = feature.or_else(|| unmodelled::elsewhere(name).map(str::to_owned));
    feature.or_else(|| unmodelled::kernel(name).filter(|_| what == "policy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let known = ["stutterp", "netperf-tcp", "unmap"];
        for (typed, meant) in
            [("stuterp", "stutterp"), ("netprf", "netperf-tcp"), ("UNMAP", "unmap")]
        {
            assert_eq!(nearest(typed, known), [meant], "{typed}");
        }
        assert!(nearest("zebra", known).is_empty());
        assert_eq!(nearest("tcp", known), ["netperf-tcp"], "a part will do");
    }

    #[test]
    fn what_is_there_is_said_in_any_case() {
        let text = unknown("policy", "cachd", &["cached", "6.1"]);
        assert_eq!(text, "unknown policy \"cachd\"; did you mean cached? (there are cached, 6.1)");
        assert_eq!(unknown("disk", "sda", &["data"]), "unknown disk \"sda\"; there is data");
        assert_eq!(unknown("disk", "sda", &[]), "unknown disk \"sda\"; there is none");
    }

    #[test]
    fn of_many_names_the_nearest_are_told() {
        let many: Vec<String> = (0..30).map(|at| format!("policy-{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = unknown("policy", "zebra", &many);
        assert!(text.starts_with("unknown policy \"zebra\"; there are 30, among them "), "{text}");
        assert_eq!(text.matches(", ").count(), PROPOSED_MAX, "{text}");
        let text = unknown("policy", "policy-31", &many);
        let (_, near) = text.split_once("did you mean ").unwrap();
        assert_eq!(near.matches(" or ").count() + 1, PROPOSED_MAX, "{text}");
        assert!(near.ends_with('?'), "{text}");
    }

    #[test]
    fn what_linux_has_is_no_slip() {
        let text = unknown("policy", "mglru", &["cached", "6.1"]);
        assert!(text.starts_with("the multi-generational LRU is a reclaim algorithm: "), "{text}");
        let text = unknown("policy", "zswap", &["cached", "6.1"]);
        assert!(text.starts_with("zswap: not modelled (in Linux since 3.11)"), "{text}");
        let text = unknown("policy", "6.6", &["cached", "6.1"]);
        assert!(text.starts_with("Linux 6.6 is not modelled; nearest: 6.1 before it"), "{text}");
        let text = unknown("disk", "zram0", &["data"]);
        assert_eq!(text, "unknown disk \"zram0\"; there is data", "a name of the user's");
    }
}
