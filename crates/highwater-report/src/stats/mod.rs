//! Statistics over plain slices: no tables, no names.
//!
//! * [`summary`]: means and deviations; [`Sorted`]: a sample set in best-first order.
//! * [`quantile`]: percentiles and best-means, by the rules of the three styles.
//! * [`ttest`]: the two-sample t-test of style 2021.
//! * [`mann_whitney`]: the rank test, exact for small samples.
//! * [`bootstrap`]: percentile and BCa confidence intervals with a deterministic generator.
//! * [`paired`]: the same for runs with the same seeds, resampled seed by seed.
//!
//! A statistic that the samples do not define is `None`, never a made-up number.

pub mod bootstrap;
pub mod mann_whitney;
pub mod paired;
pub mod quantile;
pub mod summary;
pub mod ttest;

pub use summary::Sorted;
