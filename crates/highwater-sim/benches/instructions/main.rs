//! The loops that must not get slower, one at a time and of any length: `scripts/instructions`
//! counts their instructions.
//!
//! `instructions --list` prints the loops: name, unit, and two amounts of work. `instructions NAME
//! AMOUNT` does the work and prints the number of units, checked where possible. The difference
//! between two amounts is the loop alone: start, boot and filling memory are the same in both, and
//! the process ends right after the work.
//!
//! `cargo test --benches` runs each loop with its smaller amount, or with 1 if that is 0.

mod engine;
mod kernel;
mod scan;
#[path = "../stage/mod.rs"]
mod stage;

use std::process::{Command, ExitCode, exit};

/// A loop.
struct Loop {
    name: &'static str,
    unit: &'static str,
    /// A small and a large amount of work.
    amounts: [u64; 2],
    /// Does this amount of work, reports it and ends the process.
    work: fn(u64) -> Units,
}

/// The number of units done.
struct Units(u64);

impl Units {
    /// Prints the units and ends the process at once, so that the clean-up is not counted.
    fn tell(self) -> ! {
        println!("{}", self.0);
        exit(0);
    }
}

const fn one(
    name: &'static str,
    unit: &'static str,
    amounts: [u64; 2],
    work: fn(u64) -> Units,
) -> Loop {
    Loop { name, unit, amounts, work }
}

/// All loops. Each amount takes callgrind a second or two.
const LOOPS: [Loop; 28] = [
    one("engine-interrupt", "sleep and wake", [4, 64], engine::interrupt),
    one("engine-cpus", "sleep and wake", [4, 64], engine::on_cpus),
    one("event-queue", "pop and push", [2_000, 52_000], engine::queue),
    one("lock", "lock and unlock", [1_000, 101_000], engine::lock),
    one("lock-held", "lock and unlock", [10, 1_010], engine::held_lock),
    one("sim-pair-0", "alloc and free", [1_000, 21_000], kernel::pair),
    one("scan-clean", "scan", [2_000, 12_000], scan::clean),
    one("scan-active", "scan", [2_000, 12_000], scan::active),
    one("scan-mapped", "scan", [0, 1], scan::mapped),
    one("scan-anon", "scan", [0, 1], scan::anon),
    one("scan-held", "scan", [0, 1], scan::held),
    one("scan-dirty", "scan", [0, 1], scan::dirty),
    one("scan-ungrouped", "scan", [2_000, 42_000], scan::ungrouped),
    one("scan-groups", "scan", [2_000, 42_000], scan::groups),
    one("touch", "page", [1, 17], kernel::touch),
    one("sweep", "table", [1, 65], kernel::sweep),
    one("anon-fault", "page", [1, 5], kernel::anon_fault),
    one("file-fault", "page", [1, 9], kernel::file_fault),
    one("swap", "page in, page out", [1_024, 9_216], kernel::swap),
    one("cache-read", "page", [1, 17], kernel::cache_read),
    one("native-pair-0", "alloc and free", [1_000, 51_000], kernel::native_order_0),
    one("native-pair-9", "alloc and free", [1_000, 21_000], kernel::native_order_9),
    one("native-bulk-0", "alloc and free", [1, 9], kernel::native_bulk_0),
    one("native-bulk-3", "alloc and free", [1, 33], kernel::native_bulk_3),
    one("native-rand-0", "alloc and free", [1, 9], kernel::native_rand_0),
    one("native-rand-3", "alloc and free", [1, 33], kernel::native_rand_3),
    one("compact-sources", "frame", [1, 9], kernel::compact_sources),
    one("compact-targets", "frame", [1, 33], kernel::compact_targets),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => each_a_little(),
        ["--list"] => {
            for Loop { name, unit, amounts: [less, more], .. } in LOOPS {
                println!("{name}\t{unit}\t{less}\t{more}");
            }
            ExitCode::SUCCESS
        }
        [name, amount] => match (LOOPS.iter().find(|it| it.name == name), amount.parse()) {
            (Some(it), Ok(amount)) => (it.work)(amount).tell(),
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions --list | NAME AMOUNT");
    ExitCode::from(2)
}

/// Runs every loop in a separate process, because a loop ends its process.
fn each_a_little() -> ExitCode {
    for Loop { name, amounts, .. } in LOOPS {
        let (exe, amount) = (std::env::current_exe().expect("this program"), amounts[0].max(1));
        let ran = Command::new(exe).args([name, &amount.to_string()]).status();
        assert!(ran.expect("it starts").success(), "{name}");
    }
    ExitCode::SUCCESS
}
