//! Figures of the lists of many CPUs as one row.

use super::Figure;

/// The zone, the CPU and the number that a figure of a per-CPU list belongs to.
fn of_cpu(field: &str) -> Option<(&str, u32, &str)> {
    let (zone, rest) = field.split_once(": cpu ")?;
    let (cpu, what) = rest.split_once(' ')?;
    Some((zone, cpu.parse().ok()?, what))
}

/// The figures in order. Equal figures of several CPUs in a zone become one row, at the first CPU's
/// place.
pub(super) fn collapsed(figures: &[Figure]) -> Vec<Figure> {
    let mut rows: Vec<(Figure, Vec<u32>)> = Vec::new();
    for figure in figures {
        let Some((zone, cpu, what)) = of_cpu(&figure.field) else {
            rows.push((figure.clone(), Vec::new()));
            continue;
        };
        let is_same = |(known, _): &&mut (Figure, Vec<u32>)| {
            let place = of_cpu(&known.field).is_some_and(|(z, _, w)| (z, w) == (zone, what));
            place && (&known.real, &known.model) == (&figure.real, &figure.model)
        };
        // Rows of a zone are adjacent.
        let near = rows.iter_mut().rev().take_while(|(known, _)| known.field.starts_with(zone));
        match near.into_iter().find(is_same) {
            Some((_, cpus)) => cpus.push(cpu),
            None => rows.push((figure.clone(), vec![cpu])),
        }
    }
    rows.into_iter().map(|(figure, cpus)| named(figure, &cpus)).collect()
}

/// With all its CPUs in its name.
fn named(figure: Figure, cpus: &[u32]) -> Figure {
    let Some((zone, _, what)) = of_cpu(&figure.field).filter(|_| cpus.len() > 1) else {
        return figure;
    };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let list: Vec<String> = ranges.iter().map(range).collect();
    Figure { field: format!("{zone}: cpus {} {what}", list.join(",")), ..figure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Limit;

    #[test]
    fn equal_figures_of_cpus_are_one() {
        let high = |zone: &str, cpu: u32, real: u64| {
            let field = format!("node 0 {zone}: cpu {cpu} high");
            Figure::number(field, real, 7, Limit::Exact)
        };
        let batch = Figure::number("node 0 DMA: cpu 0 batch", 1, 1, Limit::Exact);
        let min = Figure::number("node 0 DMA: min", 1, 1, Limit::Exact);
        let figures = [
            min,
            high("DMA", 0, 5),
            batch,
            high("DMA", 1, 5),
            high("DMA", 3, 5),
            high("DMA", 2, 6),
            high("Normal", 0, 5),
        ];
        let rows = collapsed(&figures);
        let fields: Vec<&str> = rows.iter().map(|row| row.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "node 0 DMA: min",
                "node 0 DMA: cpus 0-1,3 high",
                "node 0 DMA: cpu 0 batch",
                "node 0 DMA: cpu 2 high",
                "node 0 Normal: cpu 0 high"
            ]
        );
    }
}
