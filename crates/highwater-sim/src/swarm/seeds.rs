//! Seeds as words, and the verdict on a seed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Options, Summary, check};

/// A number as it is; for any other word, such as a commit's hash, the FNV-1a hash of its bytes.
pub fn parse_seed(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| {
        word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    })
}

/// Checks a seed. A panic is a failure like any other.
///
/// # Errors
/// The failure, in words.
pub fn verdict(seed: u64) -> Result<Summary, String> {
    let run = || check(&Options::draw(seed));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(summary)) => Ok(summary),
        Ok(Err(failure)) => Err(failure.to_string()),
        Err(panic) => Err(format!("panicked: {}", text_of(panic.as_ref()))),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_or_any_word() {
        assert_eq!(parse_seed("123"), 123);
        assert_eq!(parse_seed("1145dee"), parse_seed("1145dee"));
        assert_ne!(parse_seed("1145dee"), parse_seed("1145def"));
    }
}
