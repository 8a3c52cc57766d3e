//! Times as people write them: `1.5s`, `20ms`, `300us`, `50ns`; a number alone is of seconds.

/// Parses a time into nanoseconds.
///
/// # Errors
/// What is wrong with it.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let ns = match unit.trim() {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "ns" => 1.0,
        _ => return Err(format!("\"{text}\" is no time such as 1.5s, 20ms, 300us")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("\"{text}\" is no time such as 1.5s, 20ms, 300us"))?;
    let ns = (number * ns).round();
    if ns < u64::MAX as f64 { Ok(ns as u64) } else { Err(format!("\"{text}\" is too long")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_several_units() {
        let all = [("1.5s", 1_500_000_000), ("2", 2_000_000_000), ("20ms", 20_000_000)];
        for (text, ns) in all.into_iter().chain([("300 us", 300_000), ("7ns", 7), ("0", 0)]) {
            assert_eq!(parse_time(text), Ok(ns), "{text}");
        }
        for bad in ["", "s", "1h", "-1", "1.2.3", "1e400", "99999999999999999999"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
