//! The trace's clock beside the clock on the wall.

use highwater_results::import::events::Event;
use highwater_results::import::vmstat_log::{Scale, Stamp};

use super::super::window::{Time, Window};

const NS: f64 = 1e9;
/// A trace clock from here on counts since 1970 (2001-09-09): no machine runs that long.
const SINCE_1970_NS: u64 = 1_000_000_000_000_000_000;

/// Wall time minus the trace's time, from the events that have both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    offset_ns: Option<i128>,
    is_exact: bool,
}

impl Clock {
    /// Takes an event: a wall clock in its line, a date in a mark (`date > trace_marker`), or a
    /// clock that counts since 1970.
    pub(super) fn take(&mut self, event: &Event<'_>) {
        let own = i128::from(event.time_ns);
        if matches!(event.name(), "tracing_mark_write" | "print")
            && let Some(wall) = marked(&event.fields())
        {
            // The mark is written at the time that it names.
            (self.offset_ns, self.is_exact) = (Some(wall - own), true);
        } else if let Some(wall) = event.wall_ns.filter(|_| !self.is_exact) {
            // A program that stamps lines reads them late: the smallest difference is the best.
            let offset = i128::from(wall) - own;
            self.offset_ns = Some(self.offset_ns.map_or(offset, |best| best.min(offset)));
        } else if event.time_ns >= SINCE_1970_NS {
            self.offset_ns.get_or_insert(0);
        }
    }

    /// True if wall times are known.
    pub(super) fn is_wall(self) -> bool {
        self.offset_ns.is_some()
    }

    /// Wall time minus the trace's time.
    pub(super) fn offset_ns(self) -> Option<i128> {
        self.offset_ns
    }

    /// A moment of the trace in words.
    pub(super) fn text(self, ns: u64) -> String {
        match self.offset_ns {
            Some(offset) => Scale::Calendar.text((i128::from(ns) + offset) as f64 / NS),
            None => format!("{:.6} s", ns as f64 / NS),
        }
    }

    /// The same without its date, for a trace of one day.
    pub(super) fn text_of_day(self, ns: u64, span: Option<(u64, u64)>) -> String {
        let day = |text: &str| text.split_once(' ').map(|(day, _)| day.to_owned());
        let text = self.text(ns);
        let (first, last) = span.map(|(a, b)| (self.text(a), self.text(b))).unwrap_or_default();
        match text.split_once(' ') {
            Some((own, time)) if self.is_wall() => {
                let is_one_day = [first, last].iter().all(|at| day(at).as_deref() == Some(own));
                if is_one_day { time.to_owned() } else { text }
            }
            _ => text,
        }
    }

    /// A window on the trace's clock.
    pub(super) fn window(self, window: &Window, span: (u64, u64)) -> Result<[u64; 2], String> {
        let is_own = |time: Option<Time>| {
            time.is_none_or(
                |time| matches!(time, Time::Seconds(s) if s < SINCE_1970_NS as f64 / NS),
            )
        };
        let offset = self.offset_ns.filter(|_| !(is_own(window.from) && is_own(window.to)));
        let scale = if offset.is_some() { Scale::Calendar } else { Scale::Uptime };
        let offset = offset.unwrap_or(0);
        let on_scale = |ns: u64| (i128::from(ns) + offset) as f64 / NS;
        let [from, to] = window.on(scale, [on_scale(span.0), on_scale(span.1)])?;
        // Casts saturate: infinite limits are the whole trace.
        let own = |seconds: f64| ((seconds * NS) as i128).saturating_sub(offset);
        let clamped = |ns: i128| ns.clamp(0, i128::from(u64::MAX)) as u64;
        Ok([clamped(own(from)), clamped(own(to))])
    }
}

/// The time in a mark: what `date '+%F %T.%N'` or `date +%s.%N` prints, or `realtime_ts=` in
/// milliseconds, which systrace writes.
fn marked(fields: &str) -> Option<i128> {
    let text = fields.rsplit("tracing_mark_write:").next()?.trim();
    if let Some((_, ms)) = text.split_once("trace_event_clock_sync: realtime_ts=") {
        return Some(i128::from(ms.trim().parse::<u64>().ok()?) * 1_000_000);
    }
    let stamp = Stamp::of(text)?;
    matches!(stamp.scale, Scale::Calendar | Scale::Epoch)
        .then_some((stamp.seconds * NS).round() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_a_date() {
        let expected = Some(1_795_804_521_000_000_000);
        for text in [
            "2026-11-27 18:35:21",
            "2026-11-27 18:35:21.000",
            "1795804521",
            "ffffffff8123 tracing_mark_write: 2026-11-27 18:35:21.000000000",
            "trace_event_clock_sync: realtime_ts=1795804521000",
        ] {
            assert_eq!(marked(text), expected, "{text}");
        }
        for bad in ["", "hello", "18:35:21", "trace_event_clock_sync: realtime_ts=x", "7"] {
            assert_eq!(marked(bad), None, "{bad}");
        }
    }

    #[test]
    fn windows_are_times_of_either_clock() {
        let clock = Clock { offset_ns: Some(1_795_804_521_000_000_000), is_exact: true };
        let on = |from: &str, to: &str| {
            let time = |text: &str| Time::parse(text).ok();
            clock.window(&Window { from: time(from), to: time(to) }, (0, 60_000_000_000))
        };
        assert_eq!(on("18:35:31", "18:35:41"), Ok([10_000_000_000, 20_000_000_000]));
        assert_eq!(on("10", "20"), Ok([10_000_000_000, 20_000_000_000]));
        assert_eq!(on("", ""), Ok([0, u64::MAX]));
        assert!(on("19:35", "").is_err());
        assert_eq!(clock.text(1_500_000_000), "2026-11-27 18:35:22.500");
        assert_eq!(Clock::default().text(1_500_000_000), "1.500000 s");
        let of_day = |last: u64| clock.text_of_day(1_500_000_000, Some((0, last * 1_000_000_000)));
        assert_eq!(
            (of_day(60), of_day(86_400)),
            ("18:35:22.500".to_owned(), clock.text(1_500_000_000))
        );
    }
}
