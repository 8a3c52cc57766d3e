//! The file of costs.

use std::fmt::Write as _;

use highwater_calibrate::{CacheSizes, Calibration};

use super::{Base, Computer, Costs, DiskFigures, Origin};
use highwater_files::input::InputError;
use highwater_files::machine_file::costs;

impl Costs {
    /// The file's text, which a machine file takes with `costs = "FILE"`. It is read again before
    /// it is returned, as a machine file would read it.
    ///
    /// # Errors
    /// Never for the program as released: a cost table without a key would be one.
    pub fn to_toml(
        &self,
        file: &str,
        calibration: &Calibration,
        computer: &Computer,
        base: &Base,
    ) -> Result<String, InputError> {
        let mut text = String::new();
        // Writing to a string does not fail.
        let (measured, of_base) = (self.nr(Origin::Measured), self.nr(Origin::Base));
        let others = match calibration.others {
            Some(share) => format!("\n# Others used {:.0}% of the CPUs meanwhile.", 100.0 * share),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "# What operations cost on this computer, by `highwater calibrate`. A machine file takes it with\n\
             # costs = \"FILE\" (a path from the machine file). Measured: {measured} of {} costs; from {}: {of_base}.{others}\n\
             summary = {}\n\n[cost]",
            measured + of_base,
            self.base,
            quoted(&format!("{}, {}", computer.name, computer.date))
        );
        for cost in &self.costs {
            let _ = writeln!(
                text,
                "{} = {{ ns = {}, source = {} }}",
                cost.key,
                cost.ns,
                quoted(&cost.source)
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "# {note}");
        }
        caches(&mut text, computer, base);
        if let Some(disk) = DiskFigures::new(calibration, computer) {
            let _ = writeln!(
                text,
                "\n# Figures of the disk {}, for a [[disk]] of a machine file:",
                disk.disk
            );
            for line in disk.lines() {
                let _ = writeln!(text, "#   {line}");
            }
            let _ = writeln!(text, "#   source = {}", quoted(&disk.source));
        }
        text.push_str("\n# Every measured row: the costs above are derived from these.\n");
        for row in &calibration.rows {
            let spread = &row.spread;
            let _ = writeln!(
                text,
                "[[measured]]\nname = {}\nunit = {}\nmedian = {}\nq1 = {}\nq3 = {}\nsamples = {}\nhow = {}\n",
                quoted(&row.name),
                quoted(row.unit.name()),
                number(spread.median),
                number(spread.q1),
                number(spread.q3),
                spread.samples,
                quoted(&row.how)
            );
        }
        for left in &calibration.left_out {
            let _ =
                writeln!(text, "# Not measured: {}: {}", left.name, left.why.replace('\n', " "));
        }
        costs::parse(file, &text)?;
        Ok(text)
    }
}

/// The sizes from which the footprints followed, or those of the base.
fn caches(text: &mut String, computer: &Computer, base: &Base) {
    let _ = writeln!(text, "\n[cache]");
    let of_base = |figure: &highwater_sim::cost::table::Figure| {
        (figure.value, format!("{}: {}", base.name, figure.source))
    };
    let source = "/sys/devices/system/cpu";
    let own = |bytes: u64| (bytes, source.to_owned());
    let table = &base.table;
    let [l1, l2, llc] = match computer.caches {
        Some(CacheSizes { l1, l2, llc }) => [own(l1), own(l2), own(llc)],
        None => [&table.l1_bytes, &table.l2_bytes, &table.llc_bytes].map(of_base),
    };
    for (name, (bytes, source)) in [("l1", l1), ("l2", l2), ("llc", llc)] {
        let _ = writeln!(text, "{name} = {{ bytes = {bytes}, source = {} }}", quoted(&source));
    }
    let sockets = computer.nr_sockets;
    let _ = writeln!(text, "sockets = {{ count = {sockets}, source = \"{source}\" }}");
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A figure that is a number of TOML, with a point.
fn number(value: f64) -> String {
    match value.abs() < 1000.0 {
        true => format!("{value:.3}"),
        false => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::derive::tests::{calibration, computer};
    use super::*;
    use highwater_calibrate::LeftOut;
    use highwater_sim::cost::CostTable;

    #[test]
    fn the_file_is_read_again_as_costs() {
        let mut measured = calibration(&[("trap.getppid", 68.4)]);
        let why = "no swap area is in use".to_owned();
        measured.left_out.push(LeftOut { name: "swap".to_owned(), why });
        let base = Base::load("server-3ghz").unwrap();
        let mut computer = computer();
        computer.name = "a \"CPU\", Linux 6.1".to_owned();
        computer.caches = Some(CacheSizes { l1: 32 << 10, l2: 1 << 20, llc: 32 << 20 });
        let costs = Costs::new(&measured, &computer, &base);
        let text = costs.to_toml("costs.toml", &measured, &computer, &base).unwrap();
        let table = CostTable::parse("costs.toml", &text).unwrap();
        assert_eq!((table.ns("syscall"), table.ns("tick")), (Some(68), Some(1500)));
        assert_eq!((table.l2_bytes.value, table.nr_sockets.value), (1 << 20, 1));
        let rows: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(rows["measured"][0]["median"].as_float(), Some(68.4));
        assert!(text.contains("# Not measured: swap: no swap area is in use\n"), "{text}");
        assert!(text.contains("Measured: 1 of "), "{text}");
    }
}
