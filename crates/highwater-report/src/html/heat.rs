//! Grids as heat maps: two keys span the map, and each cell has the colour and the number of its
//! change.

use super::figure::Figure;
use super::svg::{Svg, short};
use crate::grid::{Grid, MACHINE, Seen};
use crate::table::{Cell, Layout, Table};

/// Largest number of maps on a page; maps of most operations look alike.
const MAPS_MAX: usize = 24;
const CELL: (f64, f64) = (74.0, 30.0);
const LETTER_PX: f64 = 6.6;

/// A map for each machine, operation, policy other than the baseline, and combination of the
/// remaining keys.
pub(super) fn maps(grid: &Grid<'_>) -> Vec<Figure> {
    let seen = grid.seen();
    let nr_keys = grid.keys.len();
    let Some((across, before)) = grid.keys.split_last() else { return Vec::new() };
    let down = before.last().map_or("", String::as_str);
    // A single policy has means, several have changes.
    let is_compared = seen.iter().any(|seen| seen.change.is_some());
    let mut groups: Vec<(String, Vec<&Seen<'_>>)> = Vec::new();
    for it in seen.iter().filter(|seen| !is_compared || seen.change.is_some()) {
        let values = grid.values(it.point, it.machine);
        let fixed = grid.keys.iter().zip(values).take(nr_keys.saturating_sub(2));
        let fixed: String = fixed.map(|(key, value)| format!(", {key}={value}")).collect();
        let on = match grid.has_key(MACHINE) {
            true => String::new(),
            false => format!(" on {}", it.machine),
        };
        let title = format!("{}, {}{on}{fixed}", it.operation, it.label);
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, group)) => group.push(it),
            None => groups.push((title, vec![it])),
        }
    }
    groups.truncate(MAPS_MAX);
    groups.iter().map(|(title, group)| map(grid, title, group, [across, down])).collect()
}

fn map(grid: &Grid<'_>, title: &str, group: &[&Seen<'_>], [across, down]: [&str; 2]) -> Figure {
    let value = |seen: &Seen<'_>, key: &str| {
        let at = grid.keys.iter().position(|known| known == key);
        at.map_or_else(String::new, |at| grid.values(seen.point, seen.machine)[at].to_owned())
    };
    let levels = |key: &str| {
        let mut levels: Vec<String> = Vec::new();
        for level in group.iter().map(|seen| value(seen, key)) {
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        levels
    };
    let (columns, rows) = (levels(across), levels(down));
    let longest = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0).max(down.len());
    let left = LETTER_PX * longest as f64 + 12.0;
    let (width, height) =
        (left + CELL.0 * columns.len() as f64 + 8.0, CELL.1 * rows.len() as f64 + 46.0);
    let mut svg = Svg::new(width as u32, height as u32, title);
    svg.words((left, 12.0), "start", across);
    svg.words((left - 8.0, 28.0), "end", down);
    let heads = ["mean", "change, %"].map(str::to_owned).to_vec();
    let labels: Vec<&str> = if down.is_empty() { vec![across] } else { vec![down, across] };
    let mut table = Table::new(title, &labels, heads, Layout::Fitted);
    for (at, column) in columns.iter().enumerate() {
        svg.words((left + CELL.0 * (at as f64 + 0.5), 28.0), "middle", column);
    }
    for (nr, row) in rows.iter().enumerate() {
        let top = 36.0 + CELL.1 * nr as f64;
        svg.words((left - 8.0, top + 19.0), "end", row);
        for (at, column) in columns.iter().enumerate() {
            let is_it =
                |seen: &&&Seen<'_>| value(seen, across) == *column && value(seen, down) == *row;
            let Some(seen) = group.iter().find(is_it) else { continue };
            let x = left + CELL.0 * at as f64;
            let words = match seen.change {
                Some(change) => format!("{change:+.1}%"),
                None => short(seen.mean),
            };
            let told = format!("mean {}", short(seen.mean));
            let class = format!("heat h{}", heat(seen.change));
            svg.rect(&class, (x, top), (CELL.0 - 2.0, CELL.1 - 2.0), &told);
            svg.words((x + CELL.0 / 2.0 - 1.0, top + 19.0), "middle", &words);
            let labels: Vec<&str> = if down.is_empty() { vec![column] } else { vec![row, column] };
            let change = seen.change.map_or(Cell::Missing, |change| Cell::number(change, 2));
            table.push(&labels, vec![Cell::number(seen.mean, 4), change]);
        }
    }
    let mut figure = Figure::drawn(title, svg.finish(), &table);
    figure.is_wide = true;
    figure
}

/// Colour class: much worse, worse, about the same, better, much better; or no change to show.
fn heat(change: Option<f64>) -> usize {
    match change {
        None => 2,
        Some(change) if change <= -25.0 => 0,
        Some(change) if change <= -2.0 => 1,
        Some(change) if change < 2.0 => 2,
        Some(change) if change < 25.0 => 3,
        Some(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_worse_to_better() {
        let changes = [-100.0, -3.0, 0.0, 3.0, 30.0].map(Some);
        assert_eq!(changes.map(heat), [0, 1, 2, 3, 4]);
        assert_eq!(heat(None), 2);
    }
}
