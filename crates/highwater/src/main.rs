//! The `highwater` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    highwater::cli::main()
}
