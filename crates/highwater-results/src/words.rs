//! Words for messages: numbers with their nouns, and the system's reasons in plain words.

use std::fmt::Display;
use std::io;

/// A number with its noun: `1 row`, `2 rows`, `0 policies`. In a phrase, the last word takes the
/// plural: `2 more switches`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    if number == N::from(1) { format!("1 {noun}") } else { format!("{number} {}", plural(noun)) }
}

/// The verb that agrees with the number: `is`, `are`.
pub fn is<N: PartialEq + From<u8>>(number: N) -> &'static str {
    if number == N::from(1) { "is" } else { "are" }
}

/// The verb that agrees with the number: `was`, `were`.
pub fn was<N: PartialEq + From<u8>>(number: N) -> &'static str {
    if number == N::from(1) { "was" } else { "were" }
}

/// The regular English plural of a noun.
fn plural(noun: &str) -> String {
    let consonant_y = |stem: &str| !stem.ends_with(['a', 'e', 'i', 'o', 'u']);
    match noun.strip_suffix('y').filter(|stem| consonant_y(stem)) {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with("ss") || noun.ends_with("ch") || noun.ends_with('x') => {
            format!("{noun}es")
        }
        None => format!("{noun}s"),
    }
}

/// The system's error in plain words, without its number: `no such file or directory`.
pub fn refusal(error: &io::Error) -> String {
    let said = error.to_string();
    let Some((text, _)) = said.split_once(" (os error ") else { return said };
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string());
    // A name in capitals, such as I/O, stays.
    if letters.clone().next().is_some_and(char::is_lowercase) {
        first.unwrap_or_default() + letters.as_str()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_from_several() {
        let nouns = [
            ("row", "rows"),
            ("more switch", "more switches"),
            ("policy", "policies"),
            ("key", "keys"),
            ("process", "processes"),
            ("CPU", "CPUs"),
            ("box", "boxes"),
            ("slab", "slabs"),
        ];
        for (one, several) in nouns {
            assert_eq!(count(1_u64, one), format!("1 {one}"));
            assert_eq!(count(2_usize, one), format!("2 {several}"));
            assert_eq!(count(0_u32, one), format!("0 {several}"));
        }
        assert_eq!([is(0_u64), is(1_u64), is(2_u64)], ["are", "is", "are"]);
        assert_eq!([was(0_u64), was(1_u64), was(2_u64)], ["were", "was", "were"]);
    }

    #[test]
    fn the_systems_number_is_no_word() {
        let missing = std::fs::metadata("/no/such/file").unwrap_err();
        assert_eq!(refusal(&missing), "no such file or directory");
        assert_eq!(refusal(&io::Error::from_raw_os_error(13)), "permission denied");
        assert_eq!(refusal(&io::Error::other("Our own (os)")), "Our own (os)");
    }
}
