//! A look at a run as lines of text: for the screen with colours, for a pipe without.

use std::collections::{BTreeMap, VecDeque};

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use highwater_sim::pressure::{Resource, SINCE};

use crate::watching::{Frame, ZoneView};

const MIB_PAGES: f64 = 256.0;
/// Values of a rate in its history.
const HISTORY_MAX: usize = 60;
/// Width of names at the left.
const NAME: usize = 22;
/// Most reasons to wait that are shown.
const WAITS_MAX: usize = 12;
/// Eighths of a block.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Counters that are shown as rates per second: heading, and prefixes of their names.
const RATES: [(&str, &[&str]); 7] = [
    ("scanned by kswapd", &["pgscan_kswapd"]),
    ("scanned directly", &["pgscan_direct"]),
    ("reclaimed", &["pgsteal_kswapd", "pgsteal_direct"]),
    ("swapped in and out", &["pswpin", "pswpout"]),
    ("page faults", &["pgfault"]),
    ("direct reclaims", &["allocstall_"]),
    ("compaction scanned", &["compact_migrate_scanned", "compact_free_scanned"]),
];

/// Counters that go up and down, as a share of memory: heading, names.
const LEVELS: [(&str, &[&str]); 7] = [
    ("active anonymous", &["nr_active_anon"]),
    ("inactive anonymous", &["nr_inactive_anon"]),
    ("active file", &["nr_active_file"]),
    ("inactive file", &["nr_inactive_file"]),
    ("dirty", &["nr_dirty"]),
    ("writeback", &["nr_writeback"]),
    ("slab", &["nr_slab_reclaimable", "nr_slab_unreclaimable"]),
];

/// The history so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    last: Option<(u64, [u64; RATES.len()])>,
    history: [VecDeque<f64>; RATES.len()],
}

impl Seen {
    /// Takes a look into account.
    pub(super) fn see(&mut self, frame: &Frame) {
        let sums = RATES.map(|(_, names)| names.iter().map(|name| frame.sum(name)).sum::<u64>());
        if let Some((at_ns, before)) = self.last.replace((frame.at_ns, sums))
            && frame.at_ns > at_ns
        {
            let s = (frame.at_ns - at_ns) as f64 / 1e9;
            for ((history, now), before) in self.history.iter_mut().zip(sums).zip(before) {
                history.push_back(now.saturating_sub(before) as f64 / s);
                if history.len() > HISTORY_MAX {
                    history.pop_front();
                }
            }
        }
    }

    /// Lines of a look, `width` columns wide.
    pub(super) fn lines(&self, frame: &Frame, width: usize) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        heading(
            &mut lines,
            "Zones: free memory up to four times the high watermark; | are min, low and high",
        );
        for zone in &frame.zones {
            zone_lines(&mut lines, zone, width);
        }
        heading(&mut lines, "Lists, of all memory");
        let all: u64 = frame.zones.iter().map(|zone| zone.managed).sum();
        for (name, counters) in LEVELS {
            let pages: u64 = counters.iter().map(|counter| frame.counter(counter)).sum();
            let bar = width.saturating_sub(NAME + 15).min(60);
            let filled = bar_of(pages as f64 / all.max(1) as f64, bar);
            lines.push(Line::from(vec![
                Span::raw(format!("  {name:<NAME$}")),
                Span::styled(filled, Style::new().fg(Color::Blue)),
                Span::raw(format!(" {:>8.1} MiB", pages as f64 / MIB_PAGES)),
            ]));
        }
        heading(&mut lines, "A second of virtual time");
        for ((name, _), history) in RATES.iter().zip(&self.history) {
            let now = history.back().copied().unwrap_or(0.0);
            let nr_shown = history.len().min(width.saturating_sub(NAME + 16));
            let shown = history.iter().skip(history.len() - nr_shown).copied().collect();
            lines.push(Line::from(vec![
                Span::raw(format!("  {name:<NAME$}{now:>12.0}  ")),
                Span::styled(sparkline(&shown), Style::new().fg(Color::Yellow)),
            ]));
        }
        heading(&mut lines, "Waited for since boot, percent of the time");
        lines.push(Line::raw(cut(&pressure_line(frame), width)));
        heading(&mut lines, "Tasks");
        self.task_lines(&mut lines, frame, width);
        lines
    }

    fn task_lines(&self, lines: &mut Vec<Line<'static>>, frame: &Frame, width: usize) {
        let mut running: Vec<_> = frame.tasks.iter().filter(|task| task.cpu.is_some()).collect();
        running.sort_by_key(|task| task.cpu);
        let nr_running = running.len();
        let mut waits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for task in frame.tasks.iter().filter(|task| task.cpu.is_none() && !task.is_idle) {
            let why = task.doing.rsplit(" > ").next().unwrap_or_default();
            waits.entry(why).or_default().push(&task.name);
        }
        let nr_idle = frame.tasks.iter().filter(|task| task.is_idle).count();
        let text = format!("  {nr_running} on CPUs, {nr_idle} daemons at rest");
        lines.push(Line::raw(text));
        for task in running.iter().take(WAITS_MAX) {
            let cpu = task.cpu.unwrap_or(0);
            lines.push(Line::from(vec![
                Span::styled(format!("  CPU {cpu:<3} "), Style::new().fg(Color::Green)),
                Span::raw(cut(&format!("{}: {}", task.name, task.doing), width.saturating_sub(10))),
            ]));
        }
        let mut waits: Vec<(&str, Vec<&str>)> = waits.into_iter().collect();
        waits.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(b.0)));
        for (why, who) in waits.into_iter().take(WAITS_MAX) {
            let nr = who.len();
            let text = format!("{why} ({})", who.join(", "));
            lines.push(Line::from(vec![
                Span::styled(format!("  {nr:>4} x  "), Style::new().fg(Color::Red)),
                Span::raw(cut(&text, width.saturating_sub(10))),
            ]));
        }
    }
}

/// PSI: the share of time in which some tasks, and all tasks, waited for memory, I/O or CPU.
fn pressure_line(frame: &Frame) -> String {
    let Some(pressure) = frame.pressure else {
        return format!("  not counted in {} (since {SINCE})", frame.kernel);
    };
    let share = |total_us: u64| 100.0 * total_us as f64 * 1e3 / frame.at_ns.max(1) as f64;
    let of = |resource: Resource| {
        let lines = pressure.of(resource);
        let some = format!("{} some {:.1}", resource.name(), share(lines.some.total_us));
        match resource {
            Resource::Cpu => some,
            _ => format!("{some} full {:.1}", share(lines.full.total_us)),
        }
    };
    format!("  {}", Resource::ALL.map(of).join(", "))
}

fn heading(lines: &mut Vec<Line<'static>>, text: &str) {
    let style = Style::new().add_modifier(Modifier::BOLD);
    lines.push(Line::from(Span::styled(text.to_owned(), style)));
}

/// Free memory as a bar up to twice the high watermark, or all memory if that is less, with the watermarks in it; and
/// its blocks by order.
fn zone_lines(lines: &mut Vec<Line<'static>>, zone: &ZoneView, width: usize) {
    let [min, low, high] = zone.marks;
    let bar = width.saturating_sub(NAME + 34).clamp(20, 60);
    let scale = zone.managed.min(high.saturating_mul(4)).max(1) as f64;
    let place = |pages: u64| ((pages as f64 / scale * bar as f64) as usize).min(bar);
    let filled = place(zone.free);
    let mut cells: Vec<char> = (0..bar).map(|at| if at < filled { '█' } else { '·' }).collect();
    for mark in [min, low, high] {
        if let Some(cell) = cells.get_mut(place(mark)) {
            *cell = '|';
        }
    }
    let colour = match zone.free {
        free if free <= min => Color::Red,
        free if free <= low => Color::Yellow,
        _ => Color::Green,
    };
    let more = if zone.free as f64 > scale { '>' } else { ' ' };
    let mib = |pages: u64| pages as f64 / MIB_PAGES;
    lines.push(Line::from(vec![
        Span::raw(format!("  {:<NAME$}", zone.name)),
        Span::styled(cells.into_iter().collect::<String>(), Style::new().fg(colour)),
        Span::raw(format!("{more}{:>9.1} of {:.1} MiB", mib(zone.free), mib(zone.managed))),
    ]));
    let blocks: VecDeque<f64> = zone.blocks.iter().map(|&n| (n as f64 + 1.0).ln()).collect();
    let counts: Vec<String> = zone.blocks.iter().map(u64::to_string).collect();
    lines.push(Line::from(vec![
        Span::raw(format!("  {:<NAME$}", "  blocks by order")),
        Span::styled(sparkline(&blocks), Style::new().fg(Color::Cyan)),
        Span::raw(cut(
            &format!("  {}", counts.join(" ")),
            width.saturating_sub(NAME + 2 + blocks.len()),
        )),
    ]));
}

/// A bar of a share, this many columns wide.
fn bar_of(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let (whole, rest) = (eighths / 8, eighths % 8);
    let mut bar: String = std::iter::repeat_n('█', whole).collect();
    if rest > 0 && whole < width {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][rest - 1]);
    }
    let len = bar.chars().count();
    bar.extend(std::iter::repeat_n('·', width.saturating_sub(len)));
    bar
}

/// Values as columns of eight heights; blank for 0.
pub(super) fn sparkline(values: &VecDeque<f64>) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let column = |&value: &f64| match value {
        v if v <= 0.0 || most <= 0.0 => ' ',
        v => EIGHTHS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    values.iter().map(column).collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The words of lines, without colours.
pub(super) fn plain(lines: &[Line<'_>]) -> String {
    let text = |line: &Line<'_>| {
        let words: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        format!("{}\n", words.trim_end())
    };
    lines.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watching::TaskLine;

    fn frame(at_ns: u64, scanned: u64) -> Frame {
        let zone = ZoneView {
            name: "node 0 Normal".to_owned(),
            managed: 10_000,
            free: 512,
            marks: [256, 320, 384],
            blocks: vec![4, 0, 1],
        };
        let task = |name: &str, cpu, doing: &str, is_idle| TaskLine {
            name: name.to_owned(),
            is_daemon: is_idle,
            cpu,
            doing: doing.to_owned(),
            is_idle,
        };
        Frame {
            at_ns,
            zones: vec![zone],
            counters: [("pgscan_kswapd", scanned), ("nr_dirty", 2560)].into_iter().collect(),
            tasks: vec![
                task("hog/1", Some(3), "page fault > direct reclaim", false),
                task("hog/2", None, "write > throttle > throttled: no progress", false),
                task("hog/3", None, "page fault > throttle > throttled: no progress", false),
                task("kcompactd0", None, "waiting: kcompactd has nothing to do", true),
            ],
            ..Frame::default()
        }
    }

    #[test]
    fn a_look_has_zones_lists_rates_and_who_waits() {
        let mut seen = Seen::default();
        seen.see(&frame(1_000_000_000, 0));
        seen.see(&frame(1_500_000_000, 100));
        let last = frame(2_000_000_000, 500);
        seen.see(&last);
        let text = plain(&seen.lines(&last, 100));
        let has = |words: &str| assert!(text.contains(words), "{words}\n{text}");
        has("2.0 of 39.1 MiB");
        has("4 0 1");
        has("dirty                 ███████████████▍");
        has("scanned by kswapd              800  ▂█");
        has("1 on CPUs, 1 daemons at rest");
        has("CPU 3   hog/1: page fault > direct reclaim");
        has("   2 x  throttled: no progress (hog/2, hog/3)");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        // A narrow terminal shows units too.
        (0..100).for_each(|at| seen.see(&frame(2_100_000_000 + at * 100_000_000, 600 + at)));
        let narrow = plain(&seen.lines(&last, 80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert_eq!(narrow.matches(" MiB\n").count(), 1 + LEVELS.len(), "{narrow}");
    }

    #[test]
    fn bars_and_columns_are_as_long_as_they_say() {
        assert_eq!(bar_of(0.5, 4), "██··");
        assert_eq!(bar_of(0.28125, 4), "█▏··");
        assert_eq!(bar_of(2.0, 4), "████");
        assert_eq!(sparkline(&[0.0, 1.0, 8.0].into_iter().collect()), " ▁█");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
