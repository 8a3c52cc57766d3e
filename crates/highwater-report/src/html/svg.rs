//! Drawings as SVG text: axes, lines, bars. Colours are the page's (`var(--c0)`), so a theme can
//! change them.

use std::fmt::Write;

/// The mapping of values to places along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    is_log: bool,
    from: f64,
    to: f64,
    /// Pixel positions of both ends.
    ends: [f64; 2],
}

/// If the largest value is more than this many times the smallest, the axis is logarithmic.
const LOG_FROM: f64 = 50.0;

impl Axis {
    /// An axis that covers all values; logarithmic if they differ by much and all are above 0.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, ends: [f64; 2]) -> Axis {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        if !(low.is_finite() && high.is_finite()) {
            return Axis { is_log: false, from: 0.0, to: 1.0, ends };
        }
        if low > 0.0 && high / low > LOG_FROM {
            return Axis { is_log: true, from: low.log10(), to: high.log10(), ends };
        }
        // Margin around the values.
        let pad = if high > low { 0.03 * (high - low) } else { 0.5 * high.abs().max(1.0) };
        let from = if low >= 0.0 && low < 0.3 * high { 0.0 } else { low - pad };
        Axis { is_log: false, from, to: high + pad, ends }
    }

    /// An axis from 0 to 1.
    pub(super) const fn unit(ends: [f64; 2]) -> Axis {
        Axis { is_log: false, from: 0.0, to: 1.0, ends }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let value = match self.is_log {
            true if value <= 0.0 => self.from,
            true => value.log10(),
            false => value,
        };
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.ends[0] + share * (self.ends[1] - self.ends[0])
    }

    /// Values of the tick marks in order; their number is close to `about`.
    pub(super) fn ticks(&self, about: usize) -> Vec<f64> {
        if self.is_log {
            let decades: Vec<i32> = (self.from.ceil() as i32..=self.to.floor() as i32).collect();
            let every = decades.len().div_ceil(about.max(1)).max(1);
            let all: Vec<f64> = decades.iter().step_by(every).map(|&d| 10_f64.powi(d)).collect();
            if all.len() >= 2 {
                return all;
            }
            let steps = (self.from.floor() as i32..=self.to.ceil() as i32)
                .flat_map(|d| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(d)));
            return steps.filter(|v| (self.from..=self.to).contains(&v.log10())).collect();
        }
        let raw = (self.to - self.from) / about.max(1) as f64;
        let decade = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|s| s * decade).into_iter().find(|&s| s >= raw);
        let step = step.unwrap_or(decade);
        let first = (self.from / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|&v| v <= self.to).collect()
    }
}

/// A number with as few digits as a reader needs.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if value == 0.0 => return "0".to_owned(),
        s if s >= 1e9 => format!("{:.3}G", value / 1e9),
        s if s >= 1e6 => format!("{:.3}M", value / 1e6),
        s if s >= 1e4 => format!("{:.2}k", value / 1e3),
        s if s >= 100.0 => format!("{value:.0}"),
        s if s >= 1.0 => format!("{value:.2}"),
        s if s >= 1e-3 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    };
    // No trailing zeros: 12.50k becomes 12.5k.
    let (number, unit) = match text.chars().last() {
        Some(unit @ ('G' | 'M' | 'k')) => (&text[..text.len() - 1], unit.to_string()),
        _ => (text.as_str(), String::new()),
    };
    if number.contains('.') && !number.contains('e') {
        format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
    } else {
        text
    }
}

/// Text inside markup.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// A drawing with a width and height; writing to it does not fail.
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// `what` is the text for screen readers.
    pub(super) fn new(width: u32, height: u32, what: &str) -> Svg {
        let what = escape(what);
        Svg {
            text: format!(
                "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
                 aria-label=\"{what}\"><title>{what}</title>"
            ),
        }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(
            self.text,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// A line through the points in order.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut last = None;
        let mut path = String::new();
        for &(x, y) in points {
            let point = format!("{x:.1} {y:.1}");
            if last.as_ref() != Some(&point) {
                let _ = write!(path, "{}{point}", if path.is_empty() { "M" } else { "L" });
                last = Some(point);
            }
        }
        let _ = write!(self.text, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A rectangle, with the text of its tooltip.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), title: &str) {
        let ((x, y), (width, height)) = (at, (size.0.max(0.5), size.1.max(0.5)));
        let title = if title.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escape(title))
        };
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">{title}</rect>"
        );
    }

    /// Text; `anchor` is `start`, `middle` or `end`.
    pub(super) fn words(&mut self, at: (f64, f64), anchor: &str, words: &str) {
        let (x, y) = at;
        let words = escape(words);
        let _ = write!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        );
    }

    /// A horizontal axis with grid lines up to `top`, and its unit.
    pub(super) fn across(&mut self, axis: &Axis, bottom: f64, top: f64, unit: &str) {
        for tick in axis.ticks(5) {
            let x = axis.at(tick);
            self.line("grid", (x, bottom), (x, top));
            self.words((x, bottom + 13.0), "middle", &short(tick));
        }
        self.words((axis.ends[1], bottom + 27.0), "end", unit);
    }

    /// A vertical axis with grid lines to `right`.
    pub(super) fn up(&mut self, axis: &Axis, left: f64, right: f64, percent: bool) {
        for tick in axis.ticks(5) {
            let y = axis.at(tick);
            self.line("grid", (left, y), (right, y));
            let words = if percent { format!("{:.0}%", 100.0 * tick) } else { short(tick) };
            self.words((left - 4.0, y + 4.0), "end", &words);
        }
    }

    pub(super) fn finish(self) -> String {
        self.text + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_what_they_are_of() {
        let linear = Axis::of([10.0, 20.0].into_iter(), [0.0, 100.0]);
        assert!(linear.at(10.0) > 0.0 && linear.at(20.0) < 100.0);
        assert_eq!(linear.ticks(5), [10.0, 15.0, 20.0]);
        let log = Axis::of([0.1, 1000.0].into_iter(), [100.0, 0.0]);
        assert_eq!(log.ticks(5), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert!((log.at(10.0) - 50.0).abs() < 1e-9);
        let narrow = Axis::of([1.5, 90.0].into_iter(), [0.0, 1.0]);
        assert!(narrow.ticks(5).len() >= 2, "{:?}", narrow.ticks(5));
        let none = Axis::of(std::iter::empty(), [0.0, 1.0]);
        assert_eq!(none.at(0.5), 0.5);
        let same = Axis::of([5.0, 5.0].into_iter(), [0.0, 100.0]);
        assert_eq!(same.at(5.0), 50.0);
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 12_500.0, 2e6, 3.25e9, 512.4, 1.5, 0.25, 1e-6, -3.0];
        let texts = ["0", "12.5k", "2M", "3.25G", "512", "1.5", "0.25", "1.0e-6", "-3"];
        assert_eq!(all.map(short), texts.map(str::to_owned));
    }
}
