//! From measured rows to the keys of a cost table.
//!
//! A program measures whole operations (a first write to a page); a cost table has their pieces. A
//! [`Rule`] names the row of the whole operation and the keys that are subtracted from it. A key
//! that is subtracted is measured itself if an earlier rule has it, else it is the base's. If
//! nothing is left after the subtraction, the pieces cost more than the whole did here: the key
//! keeps the base's figure, and a note says so.

use highwater_calibrate::{Calibration, Relation, Row};
use highwater_sim::cost::table::{described_keys, required_keys};

use super::{Base, Computer};

/// How one key follows from rows.
struct Rule {
    key: &'static str,
    /// The rows; several: their mean.
    rows: Rows,
    /// A row that is subtracted first.
    less_row: Option<&'static str>,
    /// The row is of this many operations.
    operations: f64,
    /// Keys that are subtracted, and how many of each.
    less: &'static [(&'static str, f64)],
}

/// Rows by name, or of a pair of CPUs.
enum Rows {
    Named(&'static [&'static str]),
    /// The row with this name before the pair, of a pair with this relation.
    Pair(&'static str, Relation),
}

const fn row(key: &'static str, rows: &'static [&'static str]) -> Rule {
    less(key, rows, &[])
}

const fn less(
    key: &'static str,
    rows: &'static [&'static str],
    less: &'static [(&'static str, f64)],
) -> Rule {
    Rule { key, rows: Rows::Named(rows), less_row: None, operations: 1.0, less }
}

const fn pair(key: &'static str, name: &'static str, relation: Relation) -> Rule {
    Rule { key, rows: Rows::Pair(name, relation), less_row: None, operations: 1.0, less: &[] }
}

const fn between(
    key: &'static str,
    rows: &'static [&'static str],
    less_row: &'static str,
    operations: f64,
) -> Rule {
    Rule { key, rows: Rows::Named(rows), less_row: Some(less_row), operations, less: &[] }
}

/// The rules, in the order in which they are applied. Frames come from free lists, whose order is
/// random in memory: so the rows of memory are those of random pages. A frame right after another
/// one costs what pages in address order do.
const RULES: &[Rule] = &[
    row("syscall", &["trap.getppid"]),
    row("zero_4k_l1", &["clear.l1.random"]),
    row("zero_4k_l2", &["clear.l2.random"]),
    row("zero_4k_llc", &["clear.llc.random"]),
    row("zero_4k_dram", &["clear.memory.random"]),
    row("zero_4k_llc_in_order", &["clear.llc.in-order"]),
    row("zero_4k_dram_in_order", &["clear.memory.in-order"]),
    row("zero_2m", &["clear.2m"]),
    row("copy_4k_l1", &["copy-to.l1.random", "copy-from.l1.random"]),
    row("copy_4k_l2", &["copy-to.l2.random", "copy-from.l2.random"]),
    row("copy_4k_llc", &["copy-to.llc.random", "copy-from.llc.random"]),
    row("copy_4k_dram", &["copy-to.memory.random", "copy-from.memory.random"]),
    row("copy_4k_llc_in_order", &["copy-to.llc.in-order", "copy-from.llc.in-order"]),
    row("copy_4k_dram_in_order", &["copy-to.memory.in-order", "copy-from.memory.in-order"]),
    row("user_touch", &["touch.mapped"]),
    row("lock_hot", &["lock.hot"]),
    pair("lock_same_socket", "lock.moved", Relation::SameSocket),
    pair("lock_cross_socket", "lock.moved", Relation::OtherSocket),
    pair("lock_handoff", "lock.handoff", Relation::SameSocket),
    row("wakeup", &["futex.wake.one-cpu"]),
    // The call that wakes and the call that sleeps.
    less("context_switch", &["futex.switch.one-cpu"], &[("syscall", 2.0), ("wakeup", 1.0)]),
    less(
        "wake_idle_shallow",
        &["futex.latency.shallow"],
        &[("syscall", 1.0), ("wakeup", 1.0), ("context_switch", 1.0)],
    ),
    less(
        "wake_idle_deep",
        &["futex.latency.deep"],
        &[("syscall", 1.0), ("wakeup", 1.0), ("context_switch", 1.0)],
    ),
    row("tick", &["interrupt.tick"]),
    between("ipi_first", &["ipi.one"], "ipi.none", 1.0),
    between("ipi_next", &["ipi.three"], "ipi.one", 2.0),
    less("fault_entry", &["fault.zero-page"], &[("set_pte", 1.0)]),
    less(
        "anon_fault",
        &["fault.anon"],
        &[
            ("fault_entry", 1.0),
            ("pcp_alloc", 1.0),
            ("zero_4k_l2", 1.0),
            ("set_pte", 1.0),
            ("lru_move", 1.0),
        ],
    ),
    // A fault maps the pages around it, sixteen in all.
    less("file_map", &["fault.file"], &[("fault_entry", 1.0 / 16.0)]),
    less("shared_write_fault", &["fault.shared-write"], &[("fault_entry", 1.0)]),
    less(
        "copy_fault",
        &["fault.copy"],
        &[("fault_entry", 1.0), ("pcp_alloc", 1.0), ("copy_4k_l2", 1.0), ("lru_move", 1.0)],
    ),
    row("zap_zero", &["unmap.zero-page"]),
    less("zap_anon", &["unmap.anon"], &[("lru_move", 1.0), ("pcp_free", 1.0)]),
    row("zap_file", &["unmap.file"]),
    less(
        "read_hit",
        &["pread.4k"],
        &[("syscall", 1.0), ("page_cache_lookup", 1.0), ("copy_4k_l2", 1.0)],
    ),
    less(
        "write_hit",
        &["pwrite.4k"],
        &[("syscall", 1.0), ("page_cache_lookup", 1.0), ("copy_4k_l2", 1.0)],
    ),
    less(
        "page_cache_add",
        &["pwrite.new"],
        &[
            ("syscall", 1.0),
            ("page_cache_lookup", 1.0),
            ("copy_4k_l2", 1.0),
            ("write_hit", 1.0),
            ("pcp_alloc", 1.0),
            ("lru_move", 1.0),
        ],
    ),
    less("truncate_page", &["truncate"], &[("lru_move", 1.0), ("pcp_free", 1.0)]),
    // For a message the sender locks its queue twice, the receiver once; the other side had the line
    // before. A segment carries so many messages of 64 bytes that its share, some 10 to 50 ns, is
    // left in.
    less(
        "packet_send",
        &["tcp.64.send"],
        &[("syscall", 1.0), ("lock_same_socket", 1.0), ("lock_hot", 1.0)],
    ),
    less("packet_receive", &["tcp.64.receive"], &[("syscall", 1.0), ("lock_same_socket", 1.0)]),
    // A segment for each message against one for many, whose share is neglected.
    between("segment_send", &["tcp-nodelay.1024.send"], "tcp.1024.send", 1.0),
    between("segment_receive", &["tcp-nodelay.1024.receive"], "tcp.1024.receive", 1.0),
];

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Measured on this computer.
    Measured,
    /// From the base.
    Base,
}

/// A cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Key of the cost table.
    pub key: &'static str,
    /// The operation that it prices.
    pub about: &'static str,
    /// Nanoseconds.
    pub ns: u64,
    /// Nanoseconds of the base.
    pub base_ns: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// Its source, in words.
    pub source: String,
}

/// The costs of a computer.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Every key of a cost table, in its order.
    pub costs: Vec<Cost>,
    /// Name of the base.
    pub base: String,
    /// Keys that keep the base's figure although a row was measured: one line each.
    pub notes: Vec<String>,
}

impl Costs {
    /// Of a calibration; the rest is the base's.
    pub fn new(calibration: &Calibration, computer: &Computer, base: &Base) -> Costs {
        let mut costs: Vec<Cost> = described_keys()
            .filter_map(|(key, about)| {
                let (_, figure) = base.table.entries().find(|(known, _)| *known == key)?;
                let (ns, origin) = (figure.value, Origin::Base);
                let source = format!("{}: {}", base.name, figure.source);
                Some(Cost { key, about, ns, base_ns: ns, origin, source })
            })
            .collect();
        let mut notes = Vec::new();
        for rule in RULES {
            let Some(found) = rule.rows(calibration) else { continue };
            match rule.apply(calibration, &found, &costs) {
                Some((ns, how)) => {
                    let Computer { name, date, .. } = computer;
                    let cost = costs.iter_mut().find(|cost| cost.key == rule.key);
                    if let Some(cost) = cost {
                        cost.ns = ns;
                        cost.origin = Origin::Measured;
                        cost.source = format!("measured {date}, {name}: {how}");
                    }
                }
                None => notes.push(rule.not_more(&found, &base.name)),
            }
        }
        Costs { costs, base: base.name.clone(), notes }
    }

    /// Number of keys with this origin.
    pub fn nr(&self, origin: Origin) -> usize {
        self.costs.iter().filter(|cost| cost.origin == origin).count()
    }
}

impl Rule {
    /// The rows of the rule; none unless all were measured.
    fn rows<'a>(&self, calibration: &'a Calibration) -> Option<Vec<&'a Row>> {
        let names: Vec<String> = match &self.rows {
            Rows::Named(names) => names.iter().map(|name| (*name).to_owned()).collect(),
            Rows::Pair(name, relation) => {
                let pair = calibration.pairs.iter().find(|pair| pair.relation == *relation)?;
                vec![format!("{name}.{}-{}", pair.a, pair.b)]
            }
        };
        if let Some(less) = self.less_row {
            calibration.row(less)?;
        }
        names.iter().map(|name| calibration.row(name)).collect()
    }

    /// The key's nanoseconds and where they come from; `None` if nothing is left of the row.
    fn apply(
        &self,
        calibration: &Calibration,
        rows: &[&Row],
        costs: &[Cost],
    ) -> Option<(u64, String)> {
        let mean = |of: fn(&Row) -> f64| {
            rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64
        };
        let (median, q1, q3) =
            (mean(|r| r.spread.median), mean(|r| r.spread.q1), mean(|r| r.spread.q3));
        let mut ns = median;
        let mut less = Vec::new();
        if let Some(name) = self.less_row {
            ns -= calibration.median(name)?;
            less.push(name.to_owned());
        }
        for (key, count) in self.less {
            let cost = costs.iter().find(|cost| cost.key == *key)?;
            ns -= cost.ns as f64 * count;
            less.push(match *count {
                1.0 => (*key).to_owned(),
                count if count < 1.0 => format!("1/{:.0} {key}", 1.0 / count),
                count => format!("{count:.0} {key}"),
            });
        }
        ns /= self.operations;
        let samples: usize = rows.iter().map(|row| row.spread.samples).sum();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let mut how = format!(
            "{} {} (quartiles {} to {}, {samples} samples)",
            names.join(" and "),
            figure(median),
            figure(q1),
            figure(q3)
        );
        if !less.is_empty() {
            how += &format!(", less {}", less.join(", "));
        }
        if self.operations > 1.0 {
            how += &format!(", for each of {:.0}", self.operations);
        }
        // A cost of nothing would be a wrong figure, not a fast computer.
        (ns.is_finite() && ns >= 0.5).then(|| (ns.round() as u64, how))
    }

    /// Says that the parts of an operation cost more than the whole.
    fn not_more(&self, rows: &[&Row], base: &str) -> String {
        let (key, total) = (self.key, rows.first().map_or(0.0, |row| row.spread.median));
        let name = rows.first().map_or("", |row| row.name.as_str());
        format!(
            "{key}: {base}'s figure stays: {name} takes {} ns here, not more than its other parts",
            figure(total)
        )
    }
}

/// A figure with three digits or so.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Keys that no rule has: what a program without root cannot see.
pub fn never_measured() -> impl Iterator<Item = &'static str> {
    required_keys().filter(|key| RULES.iter().all(|rule| rule.key != *key))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use highwater_calibrate::{Pair, Place, Spread, Unit};

    /// A calibration with rows of these medians.
    pub(in crate::calibrate) fn calibration(rows: &[(&str, f64)]) -> Calibration {
        let row = |(name, median): &(&str, f64)| {
            let spread = Spread { median: *median, q1: median * 0.9, q3: median * 1.1, samples: 9 };
            Row { name: (*name).to_owned(), unit: Unit::Ns, spread, how: "x".to_owned() }
        };
        let place = Place { dir: ".".into(), disk: None, is_rotational: None, filesystem: None };
        Calibration {
            rows: rows.iter().map(row).collect(),
            left_out: Vec::new(),
            cpus: vec![0, 1],
            pairs: vec![Pair { a: 0, b: 1, relation: Relation::SameSocket }],
            place,
            seconds: 1.0,
            others: None,
        }
    }

    pub(in crate::calibrate) fn computer() -> Computer {
        Computer {
            name: "a CPU, Linux 6.1".to_owned(),
            date: "2026-11-26".to_owned(),
            caches: None,
            nr_sockets: 1,
        }
    }

    fn costs(rows: &[(&str, f64)]) -> Costs {
        Costs::new(&calibration(rows), &computer(), &Base::load("server-3ghz").unwrap())
    }

    fn ns(costs: &Costs, key: &str) -> u64 {
        costs.costs.iter().find(|cost| cost.key == key).unwrap().ns
    }

    #[test]
    fn pieces_are_wholes_less_other_pieces() {
        let rows = [
            ("trap.getppid", 68.4),
            ("fault.zero-page", 410.0),
            ("fault.anon", 700.0),
            ("clear.l2.random", 60.0),
            ("lock.moved.0-1", 77.0),
            ("ipi.none", 100.0),
            ("ipi.one", 1600.0),
            ("fault.file", 80.0),
        ];
        let costs = costs(&rows);
        // 410 - 10; 700 - 400 - 50 - 60 - 10 - 15; 80 - 400 / 16.
        let keys =
            ["syscall", "fault_entry", "anon_fault", "lock_same_socket", "ipi_first", "file_map"];
        assert_eq!(keys.map(|key| ns(&costs, key)), [68, 400, 165, 77, 1500, 55]);
        assert_eq!(costs.nr(Origin::Measured), 7, "and zero_4k_l2");
        assert_eq!(costs.nr(Origin::Base) + 7, required_keys().count());
        let anon = costs.costs.iter().find(|cost| cost.key == "anon_fault").unwrap();
        assert_eq!(
            anon.source,
            "measured 2026-11-26, a CPU, Linux 6.1: fault.anon 700 (quartiles 630 to 770, 9 samples), \
             less fault_entry, pcp_alloc, zero_4k_l2, set_pte, lru_move"
        );
        let base = costs.costs.iter().find(|cost| cost.key == "pcp_free").unwrap();
        assert_eq!(base.source, "server-3ghz: the other half");
    }

    #[test]
    fn a_whole_below_its_parts_leaves_the_figure_of_the_base() {
        let costs = costs(&[("fault.anon", 200.0)]);
        assert_eq!((ns(&costs, "anon_fault"), costs.nr(Origin::Measured)), (75, 0));
        assert_eq!(
            costs.notes,
            [
                "anon_fault: server-3ghz's figure stays: fault.anon takes 200 ns here, not more than its other parts"
            ]
        );
    }

    #[test]
    fn every_rule_has_a_key_of_the_table_and_subtracts_keys() {
        for rule in RULES {
            for key in rule.less.iter().map(|(key, _)| *key).chain([rule.key]) {
                assert!(required_keys().any(|known| known == key), "{key}");
            }
        }
        assert!(never_measured().any(|key| key == "pcp_alloc"));
    }
}
