//! Column headings: a run's name over several lines (rules/mmtests-tables#headings).
//!
//! mmtests splits a name at its first dash and keeps a release candidate (`5.17.0-rc3`) whole. Its
//! defects are not copied: a name without a dash keeps its last letter, `-rc10` is not cut, and a
//! name wider than its column continues on another line instead of running into its neighbour.

/// The two parts of a name: `6.1.12-noplug-v1` is `6.1.12` over `noplug-v1`. The second may be
/// empty.
pub fn split(name: &str) -> (&str, &str) {
    let Some(first) = name.find('-') else {
        return (name, "");
    };
    let after = &name[first + 1..];
    let nr_digits = after
        .strip_prefix("rc")
        .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if nr_digits == 0 {
        return (&name[..first], after);
    }
    let end = first + 1 + "rc".len() + nr_digits;
    match name[end..].strip_prefix('-') {
        Some(rest) => (&name[..end], rest),
        None => (name, ""),
    }
}

/// The lines of one heading, none wider than `width - 1`, so that neighbours stay apart.
pub fn lines(name: &str, width: usize) -> Vec<String> {
    let (version, rest) = split(name);
    let mut lines = Vec::new();
    wrap(version, width.saturating_sub(1).max(1), &mut lines);
    wrap(rest, width.saturating_sub(1).max(1), &mut lines);
    lines
}

/// Cuts after the last dash that fits, else wherever the width ends.
fn wrap(text: &str, width: usize, lines: &mut Vec<String>) {
    let mut letters: Vec<char> = text.chars().collect();
    while letters.len() > width {
        let dash = letters[..width].iter().rposition(|&letter| letter == '-');
        let rest = letters.split_off(dash.map_or(width, |dash| dash + 1));
        lines.push(letters.iter().collect());
        letters = rest;
    }
    lines.push(letters.iter().collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_at_the_first_dash_but_not_before_a_candidate() {
        for (name, expected) in [
            ("5.17.0-rc3-vanilla", ("5.17.0-rc3", "vanilla")),
            ("6.1.12-noplug-v1", ("6.1.12", "noplug-v1")),
            ("4.3.0-rc1-nozlc-v4", ("4.3.0-rc1", "nozlc-v4")),
            ("5.15.0-rc10-patched", ("5.15.0-rc10", "patched")),
            ("5.15.0-rc3", ("5.15.0-rc3", "")),
            ("5.15.0-rcu-fix", ("5.15.0", "rcu-fix")),
            ("5.15.0-rc3x-fix", ("5.15.0-rc3x-fix", "")),
            ("vanilla", ("vanilla", "")),
            ("", ("", "")),
        ] {
            assert_eq!(split(name), expected, "{name}");
        }
    }

    #[test]
    fn long_names_go_on_in_further_lines() {
        assert_eq!(
            lines("6.1-zonelist-cache-before", 12),
            ["6.1", "zonelist-", "cache-", "before"]
        );
        assert_eq!(lines("abcdefghijklmnop", 12), ["abcdefghijk", "lmnop", ""]);
        assert_eq!(lines("vanilla", 12), ["vanilla", ""]);
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_and_no_line_too_wide(name in "[a-z0-9.-]{0,40}", width in 2usize..24) {
            let lines = lines(&name, width);
            prop_assert!(lines.iter().all(|line| line.len() < width));
            let letters = |text: &str| text.chars().filter(|&letter| letter != '-').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&name));
        }
    }
}
