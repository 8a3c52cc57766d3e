//! A grid of 24 points in four processes: each runs a share of the units by id and keeps them in a directory of its own.
//! The first process then puts all of them together. The files are those of
//!
//! ```console
//! $ highwater compare 003 --quick --iterations 1 --mem 128M --cpus 4 --vary unmap.rounds=1,2,3 \
//!     --vary vm.swappiness=0,60,100,200 --vary policy.watermark.boost=true,false --out DIR
//! ```
//!
//! Usage: `grid DIR`. It starts itself with the number of a share and the ids of its units.

use std::error::Error;
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;

use highwater::experiment::Quiet;
use highwater::experiment::unit::{UnitId, UnitStore};
use highwater::plan::Options;
use highwater::workload::Registry;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::compare("003").quick().iterations(1).machine_of("128M", 4).jobs(1);
    let options = options.vary("unmap.rounds", ["1", "2", "3"]);
    let options = options.vary("vm.swappiness", ["0", "60", "100", "200"]);
    let options = options.vary("policy.watermark.boost", ["true", "false"]);
    let plan = options.plan(&Registry::default())?;

    let args: Vec<String> = std::env::args().skip(1).collect();
    let dir = args.first().ok_or("usage: grid DIR")?;
    let share = |number: usize| format!("{dir}.share-{number}");
    if let [_, number, ids @ ..] = &args[..] {
        let ids: Vec<UnitId> = ids.iter().map(|id| id.parse()).collect::<Result<_, _>>()?;
        let store = UnitStore::create(share(number.parse()?))?;
        return Ok(plan.run_units(&ids, &store, &Quiet, &AtomicBool::new(false))?);
    }

    let ids: Vec<String> = plan.units()?.iter().map(|unit| unit.id.to_string()).collect();
    let start = |number: usize| {
        let share = ids.iter().skip(number).step_by(4);
        Command::new(std::env::current_exe()?).args([dir, &number.to_string()]).args(share).spawn()
    };
    let mut processes: Vec<Child> = (0..4).map(start).collect::<Result<_, _>>()?;
    for process in &mut processes {
        process.wait()?.success().then_some(()).ok_or("a process failed")?;
    }
    plan.collect(&[0, 1, 2, 3].map(share))?.write(dir)?;
    Ok(())
}
