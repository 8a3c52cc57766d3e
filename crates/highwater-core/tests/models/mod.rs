//! The allocator against a naive model: sets of frames, who owns what, and arithmetic.
//!
//! * `long_run`: seeded random operations, 100,000 of them; `HIGHWATER_MODEL_OPS=10000000` for more
//!   (in release), `HIGHWATER_MODEL_SEED=n` to replay the run of one seed. A seed decides machine,
//!   policy and the mix of operations. A failure prints the command that replays it.
//! * `short_runs_shrink`: the same operations under proptest, which shrinks what fails.

mod machine;
mod model;
mod ops;

use machine::{Rng, Setup};
use ops::{Op, Run};
use proptest::prelude::*;

const OPS_DEFAULT: u64 = 100_000;
/// Operations on one machine, before the next seed draws another.
const OPS_PER_RUN: u64 = 10_000;
const SEED_DEFAULT: u64 = 1;

fn env(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// Says how to come back here if the run fails.
struct Replay(u64, u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "replay: HIGHWATER_MODEL_SEED={} HIGHWATER_MODEL_OPS={} cargo test -p \
                 highwater-core --test all models::long_run",
                self.0, self.1
            );
        }
    }
}

/// Runs `nr_ops` random operations on the machine of a seed; a digest of everything traced.
fn run(seed: u64, nr_ops: u64) -> u64 {
    let _replay = Replay(seed, nr_ops);
    let mut rng = Rng::new(seed);
    let setup = Setup::draw(&mut rng);
    let mut run = Run::new(&setup);
    let mut mix = ops::Mix::draw(&mut rng);
    for i in 0..nr_ops {
        if i % 1000 == 0 {
            mix = ops::Mix::draw(&mut rng);
        }
        run.step(&mix.op(&mut rng));
    }
    run.finish()
}

#[test]
fn long_run() {
    let nr_ops = env("HIGHWATER_MODEL_OPS").unwrap_or(OPS_DEFAULT);
    if let Some(seed) = env("HIGHWATER_MODEL_SEED") {
        run(seed, nr_ops);
        return;
    }
    let per_run = OPS_PER_RUN.max(nr_ops / 200).min(nr_ops);
    for i in 0..nr_ops / per_run {
        run(SEED_DEFAULT + i, per_run);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 4, 5] {
        let digest = run(seed, 3000);
        assert_eq!(run(seed, 3000), digest);
        assert_ne!(run(seed, 2000), digest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn short_runs_shrink(
        setup in any::<u64>(),
        ops in proptest::collection::vec((0u8..ops::KINDS, any::<u32>(), any::<u32>()), 1..200),
    ) {
        let setup = Setup::draw(&mut Rng::new(setup));
        let mut run = Run::new(&setup);
        for (kind, a, b) in ops {
            run.step(&Op { kind, a, b });
            run.audit();
        }
        run.finish();
    }
}
