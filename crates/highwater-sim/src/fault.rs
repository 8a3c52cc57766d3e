//! Seeded fault points: places where a test may make things go wrong.
//!
//! A component asks `faults.fires("disk_error")` where it could fail. Without the cargo feature
//! `fault-points` the answer is a constant `false` and nothing is stored. With it, each point draws
//! from a random stream of its own name, so that adding a point or a call elsewhere does not move
//! the faults of the others.
//!
//! A plan names the points that may fire and how often: see [`FaultPlan`].

/// How often a fault point fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultRate {
    /// Probability at each call.
    pub probability: f64,
    /// Calls that never fire, to get a run past its start.
    pub skip_calls: u64,
    /// Fires at most this often.
    pub fires_max: u64,
}

/// Which points fire, by name. Points that are not named never fire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Rates by point.
    pub rates: Vec<(String, FaultRate)>,
}

#[cfg(feature = "fault-points")]
pub use armed::Faults;
#[cfg(not(feature = "fault-points"))]
pub use disarmed::Faults;

#[cfg(not(feature = "fault-points"))]
mod disarmed {
    use super::FaultPlan;

    /// No faults: compiled without the feature `fault-points`.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Faults;

    impl Faults {
        /// Ignores the plan.
        pub fn new(_seed: u64, _plan: &FaultPlan) -> Self {
            Faults
        }

        /// Whether fault points are compiled in.
        pub const ENABLED: bool = false;

        /// Never.
        #[inline(always)]
        pub fn fires(&self, _point: &str) -> bool {
            false
        }
    }
}

#[cfg(feature = "fault-points")]
mod armed {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::{FaultPlan, FaultRate};
    use crate::rng::Stream;

    /// The fault points of one run.
    #[derive(Debug, Default)]
    pub struct Faults {
        points: RefCell<BTreeMap<String, Point>>,
    }

    #[derive(Debug)]
    struct Point {
        rate: FaultRate,
        stream: Stream,
        nr_calls: u64,
        nr_fires: u64,
    }

    impl Faults {
        /// Whether fault points are compiled in.
        pub const ENABLED: bool = true;

        /// Arms the points of a plan.
        pub fn new(seed: u64, plan: &FaultPlan) -> Self {
            let points = plan.rates.iter().map(|(name, rate)| {
                let stream = Stream::new(seed, &format!("fault/{name}"));
                let point = Point { rate: *rate, stream, nr_calls: 0, nr_fires: 0 };
                (name.clone(), point)
            });
            Faults { points: RefCell::new(points.collect()) }
        }

        /// True if this call is to fail.
        pub fn fires(&self, point: &str) -> bool {
            let mut points = self.points.borrow_mut();
            let Some(point) = points.get_mut(point) else { return false };
            point.nr_calls += 1;
            // Drawn at every call, so that the other limits do not shift the stream.
            let drawn = point.stream.chance(point.rate.probability);
            let fires = drawn
                && point.nr_calls > point.rate.skip_calls
                && point.nr_fires < point.rate.fires_max;
            point.nr_fires += u64::from(fires);
            fires
        }

        /// How often each armed point was asked and fired, by name.
        pub fn counts(&self) -> Vec<(String, u64, u64)> {
            let points = self.points.borrow();
            points.iter().map(|(name, p)| (name.clone(), p.nr_calls, p.nr_fires)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(names: &[&str]) -> FaultPlan {
        let rate = FaultRate { probability: 0.25, skip_calls: 10, fires_max: 20 };
        FaultPlan { rates: names.iter().map(|name| ((*name).to_owned(), rate)).collect() }
    }

    #[cfg(not(feature = "fault-points"))]
    #[test]
    fn without_the_feature_nothing_fires() {
        let faults = Faults::new(1, &plan(&["alloc"]));
        assert!((0..1000).all(|_| !faults.fires("alloc")));
        assert_eq!(size_of::<Faults>(), 0);
    }

    #[cfg(feature = "fault-points")]
    #[test]
    fn points_fire_from_their_own_streams_within_their_limits() {
        let alone = Faults::new(1, &plan(&["alloc"]));
        let pattern: Vec<bool> = (0..1000).map(|_| alone.fires("alloc")).collect();
        assert_eq!(pattern.iter().filter(|&&fired| fired).count(), 20);
        assert!(pattern[..10].iter().all(|&fired| !fired));

        let both = Faults::new(1, &plan(&["alloc", "disk"]));
        let with_disk: Vec<bool> = (0..1000)
            .map(|_| {
                both.fires("disk");
                both.fires("unknown");
                both.fires("alloc")
            })
            .collect();
        assert_eq!(pattern, with_disk);
        assert_eq!(both.counts()[0], ("alloc".to_owned(), 1000, 20));
        let other_seed = Faults::new(2, &plan(&["alloc"]));
        assert_ne!(pattern, (0..1000).map(|_| other_seed.fires("alloc")).collect::<Vec<_>>());
    }
}
