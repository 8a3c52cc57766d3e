//! The vmstat block: derived figures of `/proc/vmstat` over the run
//! (rules/mmtests-tables#vmstat-block).
//!
//! Key types: [`Figures`] (counters and elapsed time of one run), [`vmstat`] (the table). A row is
//! a name and a formula; the two lists below are the whole definition. Absent counters count as 0.
//! Older kernels count some events per zone: the zones are added up, for allocation stalls too
//! (mmtests shows the last zone only).

use highwater_results::words::count;
use highwater_results::{Counters, Run};

use crate::style::Style;
use crate::table::{Cell, Layout, Suffix, Table};

/// Suffixes of counters that exist per zone.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

/// The inputs of a row.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// Counter differences over the run.
    pub counters: &'a Counters,
    /// Elapsed seconds.
    pub elapsed_s: f64,
}

/// The block for runs of one machine.
pub fn vmstat(runs: &[&Run], style: Style) -> Table {
    let layout = Layout::Mmtests { field: style.vmstat_width(), suffix: Suffix::None };
    let columns = runs.iter().map(|run| run.label.clone()).collect();
    let labels: &[&str] = if style == Style::Y2015 { &["figure"] } else { &["block", "figure"] };
    let mut table = Table::new("vmstat", labels, columns, layout);
    for row in rows(style) {
        let cells = runs.iter().map(|run| row.cell(&Figures::of(run), style)).collect();
        if style == Style::Y2015 {
            table.push(&[row.name], cells);
        } else {
            table.push(&["Ops", row.name], cells);
        }
    }
    table
}

/// The block without rows in which nothing happened: rows with the value that they would have if
/// every counter had stood still (including an efficiency of 100 % of no scans).
pub fn brief(runs: &[&Run], style: Style) -> Table {
    let mut table = vmstat(runs, style);
    let nr_rows = table.rows.len();
    let still = Counters::default();
    let happened = |name: &str, run: &Run| {
        let figures = Figures::of(run);
        let idle = Figures { counters: &still, elapsed_s: figures.elapsed_s };
        figure(name, &figures) != figure(name, &idle)
    };
    table.rows.retain(|row| {
        let name = row.labels.last().map_or("", String::as_str);
        runs.iter().any(|run| happened(name, run))
    });
    let left_out = count(nr_rows - table.rows.len(), "row");
    table.notes.push(format!("{left_out} in which nothing happened left out"));
    table
}

/// One figure by its name in either style; `None` for a name that no style has.
pub fn figure(name: &str, figures: &Figures<'_>) -> Option<f64> {
    let mut all = ROWS_2021.iter().chain(ROWS_2015.iter());
    all.find(|row| row.name == name).map(|row| (row.value)(figures))
}

/// Name and formula of a row, and its format in style 2015.
#[derive(Clone, Copy)]
struct Line {
    name: &'static str,
    value: fn(&Figures<'_>) -> f64,
    print_2015: Print,
}

#[derive(Clone, Copy, PartialEq)]
enum Print {
    /// Truncated to an integer.
    Count,
    /// Truncated, with a percent sign.
    Percent,
    /// Three decimals.
    Velocity,
}

use Print::{Count, Percent, Velocity};

const fn line(name: &'static str, value: fn(&Figures<'_>) -> f64) -> Line {
    shown(name, Count, value)
}

const fn shown(name: &'static str, print_2015: Print, value: fn(&Figures<'_>) -> f64) -> Line {
    Line { name, value, print_2015 }
}

fn rows(style: Style) -> &'static [Line] {
    if style == Style::Y2015 { ROWS_2015 } else { ROWS_2021 }
}

const ROWS_2021: &[Line] = &[
    line("Minor Faults", |f| f.minor_faults()),
    line("Major Faults", |f| f.get("pgmajfault")),
    line("Swap Ins", |f| f.get("pswpin")),
    line("Swap Outs", |f| f.get("pswpout")),
    line("Allocation stalls", |f| f.zoned("allocstall")),
    line("Fragmentation stalls", |f| f.get("fragment_stall")),
    line("DMA allocs", |f| f.get("pgalloc_dma")),
    line("DMA32 allocs", |f| f.get("pgalloc_dma32")),
    line("Normal allocs", |f| f.get("pgalloc_normal")),
    line("Movable allocs", |f| f.get("pgalloc_movable")),
    line("Direct pages scanned", |f| f.direct_scanned()),
    line("Kswapd pages scanned", |f| f.kswapd_scanned()),
    line("Kswapd pages reclaimed", |f| f.kswapd_reclaimed()),
    line("Direct pages reclaimed", |f| f.direct_reclaimed()),
    line("Kswapd efficiency %", |f| f.kswapd_efficiency()),
    line("Kswapd velocity", |f| f.per_second(f.kswapd_scanned())),
    line("Direct efficiency %", |f| f.direct_efficiency()),
    line("Direct velocity", |f| f.per_second(f.direct_scanned())),
    line("Percentage direct scans", |f| f.direct_share()),
    line("Page writes by reclaim", |f| f.get("nr_vmscan_write")),
    line("Page writes file", |f| f.get("nr_vmscan_write") - f.get("pswpout")),
    line("Page writes anon", |f| f.get("pswpout")),
    line("Page reclaim immediate", |f| f.get("nr_vmscan_immediate_reclaim")),
    line("Sector Reads", |f| f.get("pgpgin")),
    line("Sector Writes", |f| f.get("pgpgout")),
    line("Page rescued immediate", |f| f.get("pgrescued")),
    line("Slabs scanned", |f| f.get("slabs_scanned")),
    line("Direct inode steals", |f| f.get("pginodesteal")),
    line("Kswapd inode steals", |f| f.get("kswapd_inodesteal")),
    line("Kswapd skipped wait", |f| f.get("kswapd_skip_congestion_wait")),
    line("THP fault alloc", |f| f.get("thp_fault_alloc")),
    line("THP fault fallback", |f| f.get("thp_fault_fallback")),
    line("THP collapse alloc", |f| f.get("thp_collapse_alloc")),
    line("THP collapse fail", |f| f.get("thp_collapse_alloc_failed")),
    line("THP split", |f| f.thp_splits()),
    line("THP split failed", |f| f.get("thp_split_page_failed")),
    line("Compaction stalls", |f| f.get("compact_stall")),
    line("Compaction success", |f| f.get("compact_success")),
    line("Compaction failures", |f| f.get("compact_fail")),
    line("Compaction efficiency", |f| f.share_of("compact_success", "compact_stall", 0.0)),
    line("Page migrate success", |f| f.get("pgmigrate_success")),
    line("Page migrate failure", |f| f.get("pgmigrate_fail")),
    line("Compaction pages isolated", |f| f.get("compact_isolated")),
    line("Compaction migrate scanned", |f| f.get("compact_migrate_scanned")),
    line("Compaction free scanned", |f| f.get("compact_free_scanned")),
    line("Compact scan efficiency", |f| {
        f.share_of("compact_migrate_scanned", "compact_free_scanned", 1.0)
    }),
    line("Compaction cost", |f| f.compaction_cost()),
    line("Kcompactd wake", |f| f.get("compact_daemon_wake")),
    line("Kcompactd migrate scanned", |f| f.get("compact_daemon_migrate_scanned")),
    line("Kcompactd free scanned", |f| f.get("compact_daemon_free_scanned")),
    line("NUMA alloc hit", |f| f.get("numa_hit")),
    line("NUMA alloc miss", |f| f.get("numa_miss")),
    line("NUMA interleave hit", |f| f.get("numa_interleave")),
    line("NUMA alloc local", |f| f.get("numa_local")),
    line("NUMA base-page range updates", |f| f.get("numa_pte_updates")),
    line("NUMA PTE updates", |f| f.numa_base_updates()),
    line("NUMA PMD updates", |f| f.get("numa_huge_pte_updates")),
    line("NUMA hint faults", |f| f.get("numa_hint_faults")),
    line("NUMA hint local faults %", |f| f.get("numa_hint_faults_local")),
    line("NUMA hint local percent", |f| {
        f.share_of("numa_hint_faults_local", "numa_hint_faults", 100.0)
    }),
    line("NUMA pages migrated", |f| f.get("numa_pages_migrated")),
    line("AutoNUMA cost", |f| f.autonuma_cost()),
];

const ROWS_2015: &[Line] = &[
    line("Minor Faults", |f| f.minor_faults()),
    line("Major Faults", |f| f.get("pgmajfault")),
    line("Swap Ins", |f| f.get("pswpin")),
    line("Swap Outs", |f| f.get("pswpout")),
    line("Allocation stalls", |f| f.zoned("allocstall")),
    line("DMA allocs", |f| f.get("pgalloc_dma")),
    line("DMA32 allocs", |f| f.get("pgalloc_dma32")),
    line("Normal allocs", |f| f.get("pgalloc_normal")),
    line("Movable allocs", |f| f.get("pgalloc_movable")),
    line("Direct pages scanned", |f| f.direct_scanned()),
    line("Kswapd pages scanned", |f| f.kswapd_scanned()),
    line("Kswapd pages reclaimed", |f| f.kswapd_reclaimed()),
    line("Direct pages reclaimed", |f| f.direct_reclaimed()),
    shown("Kswapd efficiency", Percent, |f| f.kswapd_efficiency()),
    shown("Kswapd velocity", Velocity, |f| f.per_second(f.kswapd_scanned())),
    shown("Direct efficiency", Percent, |f| f.direct_efficiency()),
    shown("Direct velocity", Velocity, |f| f.per_second(f.direct_scanned())),
    shown("Percentage direct scans", Percent, |f| f.direct_share()),
    shown("Zone normal velocity", Velocity, |f| f.zone_velocity("normal")),
    shown("Zone dma32 velocity", Velocity, |f| f.zone_velocity("dma32")),
    shown("Zone dma velocity", Velocity, |f| f.zone_velocity("dma")),
    line("Page writes by reclaim", |f| f.get("nr_vmscan_write")),
    line("Page writes file", |f| f.get("nr_vmscan_write") - f.get("pswpout")),
    line("Page writes anon", |f| f.get("pswpout")),
    line("Page reclaim immediate", |f| f.get("nr_vmscan_immediate_reclaim")),
    line("Sector Reads", |f| f.get("pgpgin")),
    line("Sector Writes", |f| f.get("pgpgout")),
    line("Page rescued immediate", |f| f.get("pgrescued")),
    line("Slabs scanned", |f| f.get("slabs_scanned")),
    line("Direct inode steals", |f| f.get("pginodesteal")),
    line("Kswapd inode steals", |f| f.get("kswapd_inodesteal")),
    line("Kswapd skipped wait", |f| f.get("kswapd_skip_congestion_wait")),
    line("THP fault alloc", |f| f.get("thp_fault_alloc")),
    line("THP collapse alloc", |f| f.get("thp_collapse_alloc")),
    line("THP splits", |f| f.thp_splits()),
    line("THP fault fallback", |f| f.get("thp_fault_fallback")),
    line("THP collapse fail", |f| f.get("thp_collapse_alloc_failed")),
    line("Compaction stalls", |f| f.get("compact_stall")),
    line("Compaction success", |f| f.get("compact_success")),
    line("Compaction failures", |f| f.get("compact_fail")),
    line("Page migrate success", |f| f.get("pgmigrate_success")),
    line("Page migrate failure", |f| f.get("pgmigrate_fail")),
    line("Compaction pages isolated", |f| f.get("compact_isolated")),
    line("Compaction migrate scanned", |f| f.get("compact_migrate_scanned")),
    line("Compaction free scanned", |f| f.get("compact_free_scanned")),
    line("Compaction cost", |f| f.compaction_cost()),
    line("NUMA alloc hit", |f| f.get("numa_hit")),
    line("NUMA alloc miss", |f| f.get("numa_miss")),
    line("NUMA interleave hit", |f| f.get("numa_interleave")),
    line("NUMA alloc local", |f| f.get("numa_local")),
    line("NUMA base PTE updates", |f| f.numa_base_updates()),
    line("NUMA huge PMD updates", |f| f.get("numa_huge_pte_updates")),
    line("NUMA page range updates", |f| f.get("numa_pte_updates")),
    line("NUMA hint faults", |f| f.get("numa_hint_faults")),
    line("NUMA hint local faults", |f| f.get("numa_hint_faults_local")),
    shown("NUMA hint local percent", Percent, |f| {
        f.share_of("numa_hint_faults_local", "numa_hint_faults", 100.0)
    }),
    line("NUMA pages migrated", |f| f.get("numa_pages_migrated")),
    line("AutoNUMA cost", |f| f.autonuma_cost()),
];

impl Line {
    fn cell(&self, figures: &Figures<'_>, style: Style) -> Cell {
        let value = (self.value)(figures);
        match (style, self.print_2015) {
            (Style::Y2015, Count) => Cell::number(value.trunc(), 0),
            (Style::Y2015, Percent) => Cell::WholePercent { value: value as i64 },
            (Style::Y2015, Velocity) => Cell::number(value, 3),
            _ => Cell::number(value, 2),
        }
    }
}

impl<'a> Figures<'a> {
    /// The figures of a run.
    pub fn of(run: &'a Run) -> Self {
        Figures { counters: &run.counters, elapsed_s: run.times.elapsed_s() }
    }

    fn get(&self, name: &str) -> f64 {
        self.counters.get(name) as f64
    }

    /// The counter itself plus its per-zone parts: a kernel has one or the other.
    fn zoned(&self, name: &str) -> f64 {
        ZONES.iter().fold(self.get(name), |sum, zone| sum + self.get(&format!("{name}_{zone}")))
    }

    /// `100 × part / whole`, or the given value if the whole is 0; 0 if the part is 0 and the whole
    /// is not.
    fn share_of(&self, part: &str, whole: &str, without: f64) -> f64 {
        share(self.get(part), self.get(whole), without)
    }

    fn per_second(&self, count: f64) -> f64 {
        if self.elapsed_s > 0.0 { count / self.elapsed_s } else { 0.0 }
    }

    fn minor_faults(&self) -> f64 {
        self.get("pgfault") - self.get("pgmajfault")
    }

    fn direct_scanned(&self) -> f64 {
        self.zoned("pgscan_direct")
    }

    fn kswapd_scanned(&self) -> f64 {
        self.zoned("pgscan_kswapd")
    }

    fn direct_reclaimed(&self) -> f64 {
        self.zoned("pgsteal_direct")
    }

    fn kswapd_reclaimed(&self) -> f64 {
        self.zoned("pgsteal_kswapd")
    }

    fn kswapd_efficiency(&self) -> f64 {
        share(self.kswapd_reclaimed(), self.kswapd_scanned(), 100.0)
    }

    fn direct_efficiency(&self) -> f64 {
        share(self.direct_reclaimed(), self.direct_scanned(), 100.0)
    }

    fn direct_share(&self) -> f64 {
        share(self.direct_scanned(), self.direct_scanned() + self.kswapd_scanned(), 0.0)
    }

    fn zone_velocity(&self, zone: &str) -> f64 {
        let scanned =
            self.get(&format!("pgscan_kswapd_{zone}")) + self.get(&format!("pgscan_direct_{zone}"));
        self.per_second(scanned)
    }

    fn thp_splits(&self) -> f64 {
        // Renamed in 4.5.
        self.get("thp_split_page") + self.get("thp_split")
    }

    /// Cycles per event on x86-64, in millions: reading a page's state 7, isolating it 7 + 12,
    /// migrating it twice 7 + 4096/8, failing to 14. Free scanning is not costed
    /// (rules/mmtests-tables#compaction-cost).
    fn compaction_cost(&self) -> f64 {
        (7.0 * self.get("compact_migrate_scanned")
            + 19.0 * self.get("compact_isolated")
            + 1038.0 * self.get("pgmigrate_success")
            + 14.0 * self.get("pgmigrate_fail"))
            / 1e6
    }

    fn numa_base_updates(&self) -> f64 {
        self.get("numa_pte_updates") - 512.0 * self.get("numa_huge_pte_updates")
    }

    fn autonuma_cost(&self) -> f64 {
        (7.0 * self.get("numa_pte_updates")
            + 5000.0 * self.get("numa_hint_faults")
            + 19.0 * self.get("numa_pages_migrated"))
            / 1e6
    }
}

fn share(part: f64, whole: f64, without: f64) -> f64 {
    if whole == 0.0 { without } else { 100.0 * part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_shows_what_happened() {
        let mut run = Run::new("m", "p", "p");
        run.times.elapsed_ns = 1_000_000_000;
        run.counters = [("pgalloc_normal", 5)].into_iter().collect();
        let table = brief(&[&run], Style::Y2021);
        let names: Vec<_> = table.rows.iter().map(|row| row.labels[1].as_str()).collect();
        assert_eq!(names, ["Normal allocs"]);
    }

    #[test]
    fn sixty_two_rows_and_no_name_twice() {
        assert_eq!(ROWS_2021.len(), 62);
        for rows in [ROWS_2021, ROWS_2015] {
            let mut names: Vec<_> = rows.iter().map(|row| row.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), rows.len());
        }
    }

    #[test]
    fn zones_are_added_up_but_throttling_is_not_scanning() {
        let counters: Counters = [
            ("allocstall_dma32", 3),
            ("allocstall_normal", 4),
            ("pgscan_direct_normal", 10),
            ("pgscan_direct_dma32", 5),
            ("pgscan_direct_throttle", 1000),
        ]
        .into_iter()
        .collect();
        let figures = Figures { counters: &counters, elapsed_s: 2.0 };
        assert_eq!(figure("Allocation stalls", &figures), Some(7.0));
        assert_eq!(figure("Direct velocity", &figures), Some(7.5));
        assert_eq!(figure("Zone normal velocity", &figures), Some(5.0));
        assert_eq!(figure("No such row", &figures), None);
    }

    #[test]
    fn nothing_happened() {
        let figures = Figures { counters: &Counters::new(), elapsed_s: 0.0 };
        let expected = [
            ("Kswapd efficiency %", 100.0),
            ("Direct efficiency %", 100.0),
            ("Percentage direct scans", 0.0),
            ("Compaction efficiency", 0.0),
            ("Compact scan efficiency", 1.0),
            ("NUMA hint local percent", 100.0),
            ("Kswapd velocity", 0.0),
        ];
        for (name, value) in expected {
            assert_eq!(figure(name, &figures), Some(value), "{name}");
        }
    }
}
