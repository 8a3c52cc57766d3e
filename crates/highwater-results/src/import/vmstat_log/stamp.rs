//! Times that people and programs put between samples: `vmstat -t`, `date`, seconds since 1970.

/// A time as seconds on a scale of its own kind, and as printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamp {
    /// Seconds. Differences between stamps of one text are what they mean.
    pub seconds: f64,
    /// As printed, shortened to date and time.
    pub text: String,
    /// The meaning of the seconds.
    pub scale: Scale,
}

/// The meaning of a stamp's seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    /// A time of day without a date; it begins again at midnight.
    TimeOfDay,
    /// Date and time, in the time zone of the text; as seconds since 1970 there.
    Calendar,
    /// Seconds since 1970, printed as a number.
    Epoch,
    /// Seconds since boot, or of another clock.
    Uptime,
}

impl Scale {
    /// A moment of this scale as a stamp prints it, without a fraction of 0.
    #[must_use]
    pub fn text(self, seconds: f64) -> String {
        // Milliseconds: a double has no more of times since 1970 that can be relied on.
        let millis = (seconds.clamp(-1e15, 1e15) * 1e3).round() as i64;
        let whole = millis.div_euclid(1000);
        let part = match millis.rem_euclid(1000) {
            0 => String::new(),
            part => format!(".{part:03}"),
        };
        let (day, second) = (whole.div_euclid(86_400), whole.rem_euclid(86_400));
        let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
        match self {
            Scale::TimeOfDay => format!("{h:02}:{m:02}:{s:02}{part}"),
            Scale::Calendar => {
                let (year, month, day) = date_of(day);
                format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}{part}")
            }
            Scale::Epoch => format!("{whole}{part}"),
            Scale::Uptime => format!("{whole}{part} s"),
        }
    }

    /// True if its times are those of a clock on the wall.
    #[must_use]
    pub const fn is_wall(self) -> bool {
        !matches!(self, Scale::Uptime)
    }
}

/// Longest text in which a stamp is looked for.
const TEXT_BYTES_MAX: usize = 96;
/// Seconds of a day.
const DAY: f64 = 86_400.0;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Stamp {
    /// Reads a line, or the part of a line, that has a time and nothing else but names of days and
    /// time zones.
    #[must_use]
    pub fn of(text: &str) -> Option<Stamp> {
        let text = text.trim().trim_matches(|c| "[]#()".contains(c)).trim().trim_end_matches(':');
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return None;
        }
        since_1970(text).or_else(|| calendar(text))
    }

    /// The same stamp, later than `last`: a time of day that begins again is one of the next day.
    #[must_use]
    pub fn after(mut self, last: Option<f64>) -> Stamp {
        // Half a day: a clock that was set back by less stays what it is.
        if let Some(last) = last.filter(|_| self.scale == Scale::TimeOfDay) {
            let days = ((last - self.seconds) / DAY).round().clamp(0.0, 1e6);
            self.seconds += days * DAY;
        }
        self
    }
}

/// `1700000000`, `1700000000.25`, milliseconds or nanoseconds of that, or `/proc/uptime`:
/// `350735.47 234388.90`.
fn since_1970(text: &str) -> Option<Stamp> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    let is_number = |word: &str| {
        word.bytes().all(|b| b.is_ascii_digit() || b == b'.') && word.parse::<f64>().is_ok()
    };
    let has_fraction = first.contains('.');
    let rest_is_uptime =
        words.next().is_none_or(|word| has_fraction && word.contains('.') && is_number(word));
    let digits = first.split('.').next().map_or(0, str::len);
    if !is_number(first) || !rest_is_uptime || words.next().is_some() {
        return None;
    }
    let (divisor, scale) = match digits {
        19 => (1e9, Scale::Epoch),
        16 => (1e6, Scale::Epoch),
        13 => (1e3, Scale::Epoch),
        9 | 10 => (1.0, Scale::Epoch),
        1..=8 if has_fraction => (1.0, Scale::Uptime),
        _ => return None,
    };
    let seconds = first.parse::<f64>().ok()? / divisor;
    Some(Stamp { seconds, text: first.to_owned(), scale })
}

/// `2026-11-27 18:35:21`, `2026-11-27T18:35:21.5+0100`, `Fri Nov 27 18:35:21 UTC 2026`,
/// `Fri 27 Nov 2026 06:35:21 PM CET`, `18:35:21`.
fn calendar(text: &str) -> Option<Stamp> {
    let (mut date, mut time, mut day, mut month, mut year) = (None, None, None, None, None);
    let mut is_afternoon = None;
    for word in text.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        let (first, second) = match word.split_once('T') {
            Some((date, time)) if date.contains('-') => (date, Some(time)),
            _ => (word, None),
        };
        for part in std::iter::once(first).chain(second) {
            if let Some(found) = time_of_day(part) {
                time = time.or(Some(found));
            } else if let Some(found) = iso_date(part) {
                date = Some(found);
            } else if let Some(at) = MONTHS.iter().position(|name| part.starts_with(name)) {
                month = Some(at as u32 + 1);
            } else if let Ok(number) = part.trim_end_matches('.').parse::<u32>() {
                match number {
                    1..=31 if day.is_none() => day = Some(number),
                    1970..=2200 => year = Some(number),
                    _ => return None,
                }
            } else if matches!(part, "AM" | "PM") {
                is_afternoon = Some(part == "PM");
            } else if !is_name(part) {
                return None;
            }
        }
    }
    let (mut seconds, printed) = time?;
    if let Some(is_afternoon) = is_afternoon {
        seconds = seconds % (DAY / 2.0) + if is_afternoon { DAY / 2.0 } else { 0.0 };
    }
    let date = date.or_else(|| Some((year?, month?, day?)));
    let Some((year, month, day)) = date else {
        return Some(Stamp { seconds, text: printed, scale: Scale::TimeOfDay });
    };
    let days = days_since_1970(year, month, day);
    let text = format!("{year:04}-{month:02}-{day:02} {printed}");
    Some(Stamp { seconds: days as f64 * DAY + seconds, text, scale: Scale::Calendar })
}

/// Names of days and time zones: `Fri`, `UTC`, `+0100`, `CEST`.
fn is_name(word: &str) -> bool {
    let zone = word.strip_prefix(['+', '-']).unwrap_or(word);
    let is_offset =
        zone.len() < word.len() && zone.bytes().all(|b| b.is_ascii_digit() || b == b':');
    let is_day =
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].iter().any(|d| word.starts_with(d));
    let is_zone = word.len() <= 5 && word.bytes().all(|b| b.is_ascii_uppercase());
    is_offset || is_day || is_zone
}

/// `18:35:21`, `18:35:21.123456`, with `Z` or an offset: seconds of the day, and the text.
fn time_of_day(text: &str) -> Option<(f64, String)> {
    let end = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let mut parts = text[..end].split(':');
    let mut next = |max: f64| {
        let part = parts.next()?;
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        part.parse::<f64>().ok().filter(|value| is_number && *value < max)
    };
    let (hours, minutes, seconds) = (next(24.0)?, next(60.0)?, next(61.0)?);
    parts.next().is_none().then(|| {
        (hours * 3600.0 + minutes * 60.0 + seconds, text[..end.min(text.len())].to_owned())
    })
}

/// `2026-11-27`, `2026/11/27`.
fn iso_date(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split(['-', '/']);
    let mut next = || parts.next()?.parse::<u32>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let is_date =
        (1970..=2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    (is_date && parts.next().is_none()).then_some((year, month, day))
}

/// Days of the proleptic Gregorian calendar; years are counted from March on.
pub(in crate::import) fn days_since_1970(year: u32, month: u32, day: u32) -> i64 {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

/// The date so many days after 1970-01-01: year, month, day.
fn date_of(days: i64) -> (i64, i64, i64) {
    // Eras of 400 years have 146097 days; years are counted from March on.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_means_the_same_moment() {
        let expected = 1_795_804_521.0;
        for text in [
            "1795804521",
            "1795804521.0",
            "1795804521000",
            "2026-11-27 18:35:21",
            "2026-11-27T18:35:21Z",
            "2026-11-27 18:35:21 UTC",
            "Fri Nov 27 18:35:21 UTC 2026",
            "Fri Nov 27 06:35:21 PM UTC 2026",
            "Fri 27 Nov 2026 18:35:21 CET",
            "[2026-11-27 18:35:21]",
            "# 2026-11-27 18:35:21:",
        ] {
            assert_eq!(Stamp::of(text).map(|stamp| stamp.seconds), Some(expected), "{text}");
        }
        assert_eq!(days_since_1970(2000, 3, 1), 11_017);
        assert_eq!(Stamp::of("350735.47 234388.90").unwrap().seconds, 350_735.47);
    }

    #[test]
    fn a_time_of_day_goes_on_after_midnight() {
        let late = Stamp::of("23:59:59").unwrap();
        assert_eq!(late.scale, Scale::TimeOfDay);
        let early = Stamp::of("00:00:01").unwrap().after(Some(late.seconds));
        assert_eq!(early.seconds - late.seconds, 2.0);
        let same = Stamp::of("23:59:58").unwrap().after(Some(late.seconds));
        assert_eq!(same.seconds - late.seconds, -1.0);
    }

    #[test]
    fn other_texts_are_no_stamps() {
        for text in [
            "",
            "memory",
            "some avg10=0.00",
            "12",
            "1 2 3",
            "25:00:00",
            "12:34",
            "load 0.5 18:35:21",
            "2026-13-27",
            "::",
            "18:35:\u{e9}1",
            "99999999999999999999999999",
        ] {
            assert_eq!(Stamp::of(text), None, "{text}");
        }
    }

    #[test]
    fn moments_print_as_stamps_do() {
        for text in ["1970-01-01 00:00:00", "2000-02-29 23:59:59", "2026-11-27 18:35:21.500"] {
            let stamp = Stamp::of(text).unwrap();
            assert_eq!(Scale::Calendar.text(stamp.seconds), text);
        }
        for day in (-800_000..800_000).step_by(97) {
            let (year, month, of_month) = date_of(day);
            let [year, month, of_month] =
                [year, month, of_month].map(|n| u32::try_from(n).unwrap_or(0));
            assert!(year == 0 || days_since_1970(year, month, of_month) == day, "{day}");
        }
        assert_eq!(Scale::TimeOfDay.text(86_400.0 + 61.25), "00:01:01.250");
        assert_eq!(Scale::Epoch.text(1.7e9), "1700000000");
        assert_eq!(Scale::Uptime.text(12.5), "12.500 s");
    }
}
