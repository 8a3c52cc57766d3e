//! Part of a text over time: `--from` and `--to`.

use highwater_results::import::vmstat_log::{Scale, Stamp};

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The part of a text that is asked for; all of it by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Its begin.
    pub from: Option<Time>,
    /// Its end.
    pub to: Option<Time>,
}

/// A time as somebody writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// Seconds of the text's own clock: since boot, since 1970, or since the first row.
    Seconds(f64),
    /// Date and time, as seconds since 1970 in the time zone of the text.
    Calendar(f64),
    /// A time of day: the first in the text.
    OfDay(f64),
}

impl Time {
    /// Reads `5127.2`, `03:00`, `03:00:01.5`, `2026-11-28 03:00`.
    ///
    /// # Errors
    /// If it is no time.
    pub fn parse(text: &str) -> Result<Time, String> {
        let refused = || {
            "must be seconds of the text's clock (5127.2), a time of day (03:00:01) or a date with time \
             (\"2026-11-28 03:00\")"
                .to_owned()
        };
        let text = text.trim();
        if let Ok(seconds) = text.parse::<f64>() {
            let is_usable = seconds.is_finite() && (0.0..1e12).contains(&seconds);
            return is_usable.then_some(Time::Seconds(seconds)).ok_or_else(refused);
        }
        // A time without seconds.
        let time = text.split([' ', 'T']).next_back().unwrap_or(text);
        let whole = match time.matches(':').count() {
            1 => format!("{text}:00"),
            _ => text.to_owned(),
        };
        let stamp = Stamp::of(&whole).ok_or_else(refused)?;
        match stamp.scale {
            Scale::TimeOfDay => Ok(Time::OfDay(stamp.seconds)),
            Scale::Calendar => Ok(Time::Calendar(stamp.seconds)),
            Scale::Epoch | Scale::Uptime => Err(refused()),
        }
    }
}

impl Window {
    /// True if it is the whole text.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// The window on a scale, for a text that has moments from `first` to `last`.
    ///
    /// # Errors
    /// If the text has no such clock, or nothing in the window.
    pub(super) fn on(&self, scale: Scale, [first, last]: [f64; 2]) -> Result<[f64; 2], String> {
        let from = match self.from {
            Some(time) => on_scale("--from", time, scale, first, [first, last])?,
            None => f64::NEG_INFINITY,
        };
        let to = match self.to {
            Some(time) => on_scale("--to", time, scale, from.max(first), [from.max(first), last])?,
            None => f64::INFINITY,
        };
        if from >= to {
            return Err("--from is not before --to".to_owned());
        }
        if from > last || to < first {
            return Err(format!(
                "nothing between --from and --to: the text goes from {} to {}",
                scale.text(first),
                scale.text(last)
            ));
        }
        Ok([from, to])
    }
}

/// A time on a scale; a time of day is the first one from `after` on.
fn on_scale(
    option: &str,
    time: Time,
    scale: Scale,
    after: f64,
    [first, last]: [f64; 2],
) -> Result<f64, String> {
    match (time, scale) {
        (Time::Seconds(at), Scale::Uptime | Scale::Epoch) => Ok(at),
        (Time::Seconds(at), Scale::Calendar) if at >= 1e8 => Ok(at),
        (Time::Seconds(_), _) => Err(format!(
            "{option}: the text has times such as {}: give such a time",
            scale.text(first)
        )),
        (Time::Calendar(at), Scale::Calendar | Scale::Epoch) => Ok(at),
        (Time::Calendar(_), Scale::TimeOfDay) => {
            Err(format!("{option}: the text has times of day without dates: give the time only"))
        }
        (Time::Calendar(_) | Time::OfDay(_), Scale::Uptime) => Err(format!(
            "{option}: the text has no wall clock: give seconds, from {} to {}",
            scale.text(first),
            scale.text(last)
        )),
        (Time::OfDay(at), _) => {
            let next = at + ((after - at) / DAY).ceil() * DAY;
            // A time shortly before the text's first is that of the same day.
            let before = next - DAY;
            Ok(if next > last && first - before < next - last { before } else { next })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: &str, to: &str) -> Window {
        let time = |text: &str| (!text.is_empty()).then(|| Time::parse(text).unwrap());
        Window { from: time(from), to: time(to) }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(Time::parse("12.5"), Ok(Time::Seconds(12.5)));
        assert_eq!(Time::parse("03:00"), Ok(Time::OfDay(10_800.0)));
        assert_eq!(Time::parse("2000-01-01 00:00"), Ok(Time::Calendar(946_684_800.0)));
        assert_eq!(Time::parse("2000-01-01T00:00:01.5"), Ok(Time::Calendar(946_684_801.5)));
        for bad in ["", "-1", "inf", "nan", "25:00", "yesterday", "12:00:00:00", "1e300"] {
            assert!(Time::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_of_day_is_the_first_in_the_text() {
        // 22:00 to 04:00.
        let text = [79_200.0, 100_800.0];
        let on = |from: &str, to: &str| window(from, to).on(Scale::TimeOfDay, text);
        assert_eq!(on("03:00", "03:30"), Ok([97_200.0, 99_000.0]));
        assert_eq!(on("21:00", ""), Ok([75_600.0, f64::INFINITY]));
        assert_eq!(on("", "23:00"), Ok([f64::NEG_INFINITY, 82_800.0]));
        assert!(on("05:00", "").unwrap_err().contains("from 22:00:00 to 04:00:00"));
        assert!(on("2026-11-28 03:00", "").is_err() && on("5", "").is_err());
    }

    #[test]
    fn a_text_without_a_wall_clock_says_so() {
        let on = |from: &str, to: &str| window(from, to).on(Scale::Uptime, [10.0, 20.0]);
        assert_eq!(on("12", "15"), Ok([12.0, 15.0]));
        assert!(on("03:00", "").unwrap_err().contains("no wall clock"));
        assert!(on("15", "12").unwrap_err().contains("not before"));
        assert!(on("25", "").unwrap_err().contains("from 10 s to 20 s"));
        assert!(Window::default().is_all());
    }
}
