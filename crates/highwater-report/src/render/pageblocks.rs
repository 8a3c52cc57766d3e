//! Memory maps as CSV: a line for each moment and zone.
//!
//! | column | is |
//! |---|---|
//! | machine, policy, label | the run; the label is its heading in tables |
//! | seed, part | seed of the run, and name of its step |
//! | ms | virtual time since boot |
//! | zone | `node0/Normal` |
//! | first_pfn, blocks_per_cell | first frame of the first cell, and pageblocks per cell |
//! | cells | a letter for each cell, and after it the number of equal cells in a row: `m3f` is `mmmf`; [`BLOCK_STATES`] |
//!
//! [`BLOCK_STATES`]: highwater_results::pageblocks::BLOCK_STATES

use highwater_results::RunMaps;
use highwater_results::pageblocks::{BlockMaps, MappedZone, lengthened, shortened};

use super::csv::Records;
use super::lines::{LineError, Lines};

const COLUMNS: [&str; 10] = [
    "machine",
    "policy",
    "label",
    "seed",
    "part",
    "ms",
    "zone",
    "first_pfn",
    "blocks_per_cell",
    "cells",
];
/// Largest number of cells that a file may have over all moments. The letters are run-length
/// encoded, so a few can stand for many cells.
const CELLS_MAX: usize = 1 << 26;

/// The maps of all runs in one table.
pub fn maps(all: &[RunMaps]) -> String {
    let mut records = Records::new(&COLUMNS);
    for run in all {
        for (at_ns, letters) in &run.maps.moments {
            for (zone, letters) in run.maps.zones.iter().zip(letters) {
                records.push([
                    run.machine.clone(),
                    run.policy.clone(),
                    run.label.clone(),
                    run.seed.to_string(),
                    run.maps.part.clone(),
                    (*at_ns as f64 / 1e6).to_string(),
                    zone.name.clone(),
                    zone.first_pfn.to_string(),
                    zone.blocks_per_cell.to_string(),
                    shortened(letters),
                ]);
            }
        }
    }
    records.into_text()
}

/// The maps of a table as [`maps`] writes it.
///
/// # Errors
/// The first line that does not belong to such a table.
pub fn read(text: &str) -> Result<Vec<RunMaps>, LineError> {
    let mut lines = Lines::of(text, "pageblocks", &COLUMNS)?;
    let mut all: Vec<RunMaps> = Vec::new();
    let mut left = CELLS_MAX;
    while let Some(line) = lines.next()? {
        let (seed, at_ns) = (lines.number(&line, 3)?, lines.time_ns(&line, 5)?);
        let is_same = |run: &RunMaps| {
            let known = [&run.machine, &run.policy, &run.label, &run.maps.part];
            known.into_iter().eq([0, 1, 2, 4].map(|at| line.get(at))) && run.seed == seed
        };
        if !all.last().is_some_and(is_same) {
            let [machine, policy, label, part] = [0, 1, 2, 4].map(|at| line.get(at).to_owned());
            let maps = BlockMaps { part, ..BlockMaps::default() };
            all.push(RunMaps { machine, policy, label, seed, maps });
        }
        let Some(RunMaps { maps, .. }) = all.last_mut() else { continue };
        if maps.moments.last().is_none_or(|(known, _)| *known != at_ns) {
            maps.moments.push((at_ns, Vec::new()));
        }
        let zone = MappedZone {
            name: line.get(6).to_owned(),
            first_pfn: lines.number(&line, 7)?,
            blocks_per_cell: lines.number(&line, 8)?,
        };
        let nr_moments = maps.moments.len();
        let Some((_, letters)) = maps.moments.last_mut() else { continue };
        match maps.zones.get(letters.len()) {
            None if nr_moments == 1 => maps.zones.push(zone),
            Some(known) if *known == zone => {}
            _ => return Err(lines.wrong(&line, 6, "not the zone of this line at other times")),
        }
        let cells = lengthened(line.get(9), left);
        let cells = cells.ok_or_else(|| {
            lines.wrong(&line, 9, "not letters of cells, or more than a file may have")
        })?;
        left -= cells.len();
        letters.push(cells);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "machine,policy,label,seed,part,ms,zone,first_pfn,blocks_per_cell,cells\n\
                        m,6.1,after,1,mmap-4,0,node0/DMA,0,1,-Uf6\n\
                        m,6.1,after,1,mmap-4,0,node0/DMA32,4096,2,f2M\n\
                        m,6.1,after,1,mmap-4,16.5,node0/DMA,0,1,-Uf6\n\
                        m,6.1,after,1,mmap-4,16.5,node0/DMA32,4096,2,Mx2\n";

    #[test]
    fn maps_are_written_and_read() {
        let all = read(TEXT).unwrap();
        let maps = &all[0].maps;
        assert_eq!((all.len(), maps.zones.len(), maps.moments.len()), (1, 2, 2));
        assert_eq!(maps.moments[1], (16_500_000, vec!["-Uffffff".to_owned(), "Mxx".to_owned()]));
        assert_eq!(super::maps(&all), TEXT);
    }

    #[test]
    fn what_is_no_such_table_is_told_with_its_line() {
        let said =
            |from: &str, to: &str| read(&TEXT.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            said("zone,first", "zone,last").starts_with("line 1: a table of pageblocks begins")
        );
        assert_eq!(
            said("f2M", "q2M"),
            "line 3, field `cells`: not letters of cells, or more than a file may have"
        );
        let far = said("f2M", "f67108864");
        assert!(
            far.starts_with("line 3, field `cells`: "),
            "with those before it is too many: {far}"
        );
        assert_eq!(said("0,1,-Uf6", "x,1,-Uf6"), "line 2, field `first_pfn`: not a whole number");
        let last = "16.5,node0/DMA32";
        let said = said(last, "16.5,node0/Normal");
        assert_eq!(said, "line 5, field `zone`: not the zone of this line at other times");
    }
}
