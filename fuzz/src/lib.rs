//! Promises of the readers of foreign text for any bytes, one function for each fuzz target.
//!
//! A reader returns a value within its bounds, or an error of one line that a terminal can print.
//! It never panics. `cargo test` calls the same functions with the seeds, whole and damaged.
#![forbid(unsafe_code)]

mod captured;
mod kernel_log;
mod written;

pub use captured::{kmem_trace, static_json, zoneinfo};
pub use kernel_log::kernel_log;
pub use written::{costs_toml, experiment_toml, job_toml, machine_toml, plan_toml, policy_toml};

/// A target: what `cargo fuzz run NAME` calls.
pub type Target = fn(&[u8]);

/// All targets by name. Seeds are in `seeds/NAME`, and in [`reference`] for some.
pub const TARGETS: [(&str, Target); 10] = [
    ("costs_toml", costs_toml),
    ("experiment_toml", experiment_toml),
    ("job_toml", job_toml),
    ("kernel_log", kernel_log),
    ("kmem_trace", kmem_trace),
    ("machine_toml", machine_toml),
    ("plan_toml", plan_toml),
    ("policy_toml", policy_toml),
    ("static_json", static_json),
    ("zoneinfo", zoneinfo),
];

/// Folders of the repository whose files are seeds of a target, too, and how the names end.
#[must_use]
pub fn reference(target: &str) -> &'static [(&'static str, &'static [&'static str])] {
    const PROC: &[&str] = &[".zoneinfo", ".buddyinfo", ".pagetypeinfo"];
    match target {
        "costs_toml" => &[("machines/costs", &[".toml"])],
        "experiment_toml" => &[("experiments", &[".toml"])],
        "job_toml" => &[("workloads", &[".toml"])],
        "kernel_log" => &[("docs/src/logs", &[".txt"])],
        "machine_toml" => &[("machines", &[".toml"])],
        "policy_toml" => &[("policies", &[".toml"])],
        "static_json" => &[("reference/linux-6.1/static", &[".json"])],
        "zoneinfo" => &[("reference/linux-6.1/traces", PROC)],
        _ => &[],
    }
}

/// An error's text is one line without characters that control a terminal.
fn is_one_line(text: &str) {
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
