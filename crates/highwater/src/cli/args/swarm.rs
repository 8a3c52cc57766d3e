//! Options of `swarm`.

use clap::Args;

use super::JobsArgs;

/// `highwater swarm`.
#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// The seed, which decides everything: a number, or any word, such as a commit's hash
    #[arg(value_name = "SEED", default_value = "0")]
    pub seed: String,
    /// Number of seeds, from SEED on; of more than one, a line each instead of the options
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    #[command(flatten)]
    /// How many at a time.
    pub jobs: JobsArgs,
}
