//! Date and time in a line of a trace, with nanoseconds.

use super::vmstat_log::days_since_1970;

const NS: u64 = 1_000_000_000;

/// Reads `2026-11-28 03:00:01.173 rest` or `2026-11-28T03:00:01,173+01:00 rest`: nanoseconds since
/// 1970 in the text's own time zone, and the rest.
pub(super) fn wall_clock(text: &[u8]) -> Option<(u64, &[u8])> {
    // The dash is tested first: nearly all lines have none there.
    if text.len() < 19 || text[4] != b'-' || text[7] != b'-' || !matches!(text[10], b' ' | b'T') {
        return None;
    }
    let (year, month, day) = (number(&text[..4])?, number(&text[5..7])?, number(&text[8..10])?);
    let (hours, minutes, seconds) =
        (number(&text[11..13])?, number(&text[14..16])?, number(&text[17..19])?);
    let is_time = text[13] == b':' && text[16] == b':';
    let is_date =
        (1970..=2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || !is_date || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let mut rest = &text[19..];
    let mut part = 0;
    if let [b'.' | b',', digits @ ..] = rest {
        let length = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        if length == 0 || length > 9 {
            return None;
        }
        part = number(&digits[..length])? * 10u64.pow(9 - length as u32);
        rest = &digits[length..];
    }
    // A time zone, or the colon before an event.
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    let is_end = |b: &u8| b.is_ascii_digit() || matches!(b, b'Z' | b'+' | b'-' | b':');
    if !rest[..end].iter().all(is_end) {
        return None;
    }
    let days = days_since_1970(year as u32, month as u32, day as u32);
    let seconds = u64::try_from(days).ok()? * 86_400 + hours * 3600 + minutes * 60 + seconds;
    Some((seconds * NS + part, &rest[end..]))
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_damage() {
        for (text, ns, rest) in [
            ("1970-01-01 00:00:01.5 x", 1_500_000_000, " x"),
            ("1970-01-02T00:00:00+01:00 x", 86_400 * NS, " x"),
            ("2000-01-01 00:00:00,000000001", 946_684_800 * NS + 1, ""),
        ] {
            assert_eq!(wall_clock(text.as_bytes()), Some((ns, rest.as_bytes())), "{text}");
        }
        for bad in [
            "",
            "1970-01-01 00:00",
            "1970-01-01 00:00:01.",
            "1970-01-01 00:00:01.0123456789",
            "1970-13-01 00:00:00",
            "1970-01-01 24:00:00",
            "1970-01-01 00:00:00x",
            "1969-01-01 00:00:00",
            "   a-b-1   [000]  00:00:00",
        ] {
            assert_eq!(wall_clock(bad.as_bytes()), None, "{bad}");
        }
    }
}
