//! `highwater calibrate` and `highwater predict`.

use std::path::PathBuf;

use clap::Args;
use highwater_report::render::Format;

use super::formats;
use crate::calibrate::{SECONDS, SECONDS_MAX, SECONDS_MIN};

/// `highwater calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// File of costs to write, for `costs = "FILE"` of a machine file
    #[arg(long, short, value_name = "FILE", default_value = "costs.toml")]
    pub output: PathBuf,
    /// Directory whose disk and file system are measured; its files stay as they are
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Seconds that it takes, at most about
    #[arg(long, value_name = "N", default_value_t = SECONDS, value_parser = seconds)]
    pub seconds: f64,
    /// Take 3 seconds, for a first look
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// Costs of everything that cannot be measured: a cost table by name, or a machine by name or file
    #[arg(long, value_name = "NAME|FILE", default_value = "server-3ghz")]
    pub base: String,
    /// Write even if that replaces a file
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

/// `highwater predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Machine file of this computer with its costs, as `capture --calibrate` writes it
    #[arg(long, value_name = "NAME|FILE", default_value = "machine.toml")]
    pub machine: String,
    /// Policy that the model runs
    #[arg(long, value_name = "NAME|FILE", default_value = "6.1")]
    pub policy: String,
    /// Directory for files that are mapped and read, on the disk of the machine file
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Seconds of measuring on this computer, about
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// Output format
    #[arg(long, default_value = "terminal", value_parser = formats())]
    pub format: Format,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let ok = (SECONDS_MIN..=SECONDS_MAX).contains(&value);
    ok.then_some(value).ok_or_else(|| format!("must be between {SECONDS_MIN} and {SECONDS_MAX}"))
}
