//! The costs of this computer: measured, in the form that machine files take.
//!
//! ```text
//!  highwater_calibrate::run ──▶ rows ──▶ derive: rules, base ──▶ Costs ──▶ file: costs.toml
//!                                 └────▶ disk: figures of a [[disk]]
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `derive` | which rows give which cost, and what is subtracted |
//! | `file` | the file of costs |
//! | [`disk`] | the figures of a disk |
//!
//! The measuring itself is crate `highwater-calibrate`, which knows no cost table.

pub mod derive;
pub mod disk;
mod file;

use std::time::{SystemTime, UNIX_EPOCH};

pub use highwater_calibrate::{
    CacheSizes, Calibration, Options, SECONDS, SECONDS_MAX, SECONDS_MIN, SECONDS_QUICK, run,
};

pub use derive::{Cost, Costs, Origin};
pub use disk::DiskFigures;

use crate::capture::{Source, System};
use highwater_files::input::InputError;
use highwater_files::machine_file::{MachineFile, costs};
use highwater_sim::cost::CostTable;

/// Where costs come from that this computer was not asked for.
#[derive(Clone, Debug)]
pub struct Base {
    /// Name as the user gave it.
    pub name: String,
    /// Its costs and caches.
    pub table: CostTable,
}

impl Base {
    /// A cost table by name, or a machine by name or file.
    ///
    /// # Errors
    /// If there is none of that name, or the file is no machine.
    pub fn load(name: &str) -> Result<Base, InputError> {
        let is_table = costs::names().any(|known| known == name);
        let machine = match is_table {
            true => {
                // Any machine will do: the costs are those of the table.
                let text = format!("costs = \"{name}\"\n[[node]]\nmemory = \"1G\"\ncpus = \"0\"\n");
                MachineFile::parse("--base", &text)?
            }
            false => MachineFile::load(name).map_err(|error| match error.file.as_str() {
                "--machine" => InputError::whole("--base", error.reason),
                _ => error,
            })?,
        };
        let table =
            machine.cost_table().map_err(|error| InputError::whole(name, error.to_string()))?;
        Ok(Base { name: name.to_owned(), table })
    }
}

/// The computer, for the texts of sources and for the file's `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computer {
    /// Processor, kernel, as one line.
    pub name: String,
    /// Date of the measurement, as `2026-11-26`.
    pub date: String,
    /// Cache sizes; `None`: the kernel does not say.
    pub caches: Option<CacheSizes>,
    /// Sockets.
    pub nr_sockets: u64,
}

impl Computer {
    /// The running one.
    ///
    /// # Errors
    /// If it does not run Linux.
    pub fn running() -> Result<Computer, InputError> {
        let system = System::read(&Source::running()?, &mut Vec::new())?;
        Ok(Computer::of(&system))
    }

    /// The one of a capture.
    pub fn of(system: &System) -> Computer {
        let cpu = match system.cpu_model.trim() {
            "" => "a processor without a name",
            model => model,
        };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Computer {
            name: format!("{cpu}, {}", system.kernel),
            date: date(seconds / 86_400),
            caches: system.caches.map(|c| CacheSizes { l1: c.l1, l2: c.l2, llc: c.llc }),
            nr_sockets: system.nr_sockets,
        }
    }
}

/// The date of a day since 1970, in the Gregorian calendar.
fn date(days: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let (mut year, mut left) = (1970, days);
    loop {
        let of_year = 365 + u64::from(is_leap(year));
        if left < of_year {
            break;
        }
        left -= of_year;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for of_month in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < of_month {
            break;
        }
        left -= of_month;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_783), "2026-11-26");
        assert_eq!(date(20_818), "2026-12-31");
    }

    #[test]
    fn a_base_is_a_table_or_a_machine() {
        assert_eq!(Base::load("server-3ghz").unwrap().table.ns("tick"), Some(1500));
        assert_eq!(Base::load("laptop").unwrap().table.ns("syscall"), Some(100));
        let error = Base::load("labtop").unwrap_err().to_string();
        assert!(
            error.starts_with("--base: unknown machine \"labtop\"; did you mean laptop?"),
            "{error}"
        );
    }
}
