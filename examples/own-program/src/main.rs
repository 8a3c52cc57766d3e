//! Highwater's command with a custom workload and a custom policy, each in one file: `naps` and
//! `second_chance`.

mod naps;
mod second_chance;

use std::process::ExitCode;

use highwater::cli::Program;
use highwater::workload::Entry;

fn main() -> ExitCode {
    let program = Program::default().workload(Entry::of::<naps::Naps>());
    program.policy(second_chance::SECOND_CHANCE).main()
}
