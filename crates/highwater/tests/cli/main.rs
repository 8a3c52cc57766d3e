//! The command as a stranger runs it: its output, its exit status, its one line of complaint.

mod ablate;
mod against;
mod bad_input;
mod bisect;
mod calibrate;
mod capture;
mod capture_groups;
mod cgroupfs;
mod check;
mod determinism;
mod diagnose;
mod explain;
mod fit;
mod groups;
mod groups_v1;
mod jobs;
mod kernel_settings;
mod locks;
mod manual;
mod memcg;
mod newcomers;
mod not_counted;
mod page;
mod posted;
mod posted_import;
mod posted_proc;
mod proc;
mod replaced;
mod replay;
mod report;
mod resume;
mod round_trip;
mod samples;
mod schemas;
mod services;
mod set_job;
mod settings;
mod several;
mod show;
mod sockets;
mod state;
mod stutterp;
mod swarm;
mod sweep;
mod tables;
mod trace;
mod trace_quality;
mod vary;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the workspace: reference data and definitions are named from there.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program under test: `HIGHWATER`, seen from the root, or the one that was built with these
/// tests.
fn program() -> PathBuf {
    let named = std::env::var_os("HIGHWATER").map(|path| root().join(path));
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_highwater").into())
}

/// Runs the command in the root of the workspace.
fn highwater(args: &[&str]) -> Output {
    Command::new(program())
        .current_dir(root())
        .env_remove("COLUMNS")
        .args(args)
        .output()
        .expect("the command starts")
}

/// The standard output of a run that must succeed.
fn stdout(args: &[&str]) -> String {
    let output = highwater(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("the output is text")
}

/// The JSON of a run that must succeed.
fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(args)).expect("the output is JSON")
}

/// A machine on which studies take no time.
const SMALL: &str = "crates/highwater/tests/cli/small.toml";

/// A trace of the reference data.
fn trace(work: &str) -> String {
    format!("reference/linux-6.1/traces/{work}.trace.gz")
}
