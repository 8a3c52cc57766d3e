//! Names that lead nowhere: which of those that there are was meant.

/// How alike two names have to be for one to be proposed for the other, from 0 to 1 (Jaro-Winkler).
const ALIKE: f64 = 0.8;
/// Most names that are proposed.
const PROPOSED_MAX: usize = 3;

/// The names nearest to a mistyped one, nearest first; none if nothing is near.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let likeness = |other: &str| match other.contains(&name) && name.len() > 2 {
        // Part of a name is how people abbreviate.
        true => 1.0,
        false => strsim::jaro_winkler(&name, other),
    };
    let mut near: Vec<(f64, &str)> = known.into_iter().map(|k| (likeness(k), k)).collect();
    near.retain(|(likeness, _)| *likeness >= ALIKE);
    // Stable: of those equally near the first declared comes first.
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.truncate(PROPOSED_MAX);
    near.into_iter().map(|(_, known)| known).collect()
}

/// What is wrong with a name that is not known: `unknown policy "5.81"; did you mean 5.18? There are ...`.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let there = match known {
        [] => "there is none".to_owned(),
        [one] => format!("there is {one}"),
        all => format!("there are {}", all.join(", ")),
    };
    match nearest(name, known.iter().copied()).as_slice() {
        [] => format!("unknown {what} \"{name}\"; {there}"),
        near => format!("unknown {what} \"{name}\"; did you mean {}? ({there})", near.join(" or ")),
    }
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
        let text = unknown("policy", "5.81", &["5.18", "6.1"]);
        assert_eq!(text, "unknown policy \"5.81\"; did you mean 5.18? (there are 5.18, 6.1)");
        assert_eq!(unknown("disk", "sda", &["data"]), "unknown disk \"sda\"; there is data");
        assert_eq!(unknown("disk", "sda", &[]), "unknown disk \"sda\"; there is none");
    }
}
