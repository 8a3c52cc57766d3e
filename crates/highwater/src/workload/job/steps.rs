//! Counters of a job's steps: what `check` compares with captured ones, of every job that marks its steps.

use highwater_results::Counters;

use super::named;

/// What is told of a step; a name with a plus is a sum.
pub(crate) const COUNTERS: &[&str] = &[
    "pgpgin",
    "pswpin",
    "pswpout",
    "pgscan_kswapd+pgscan_direct",
    "pgsteal_kswapd+pgsteal_direct",
    "pgscan_anon",
    "pgscan_file",
    "pgactivate",
    "pgdeactivate",
    "pgrefill",
    "pgmajfault",
    "pgfault",
    "workingset_refault_anon",
    "workingset_refault_file",
    "workingset_activate_anon",
    "workingset_activate_file",
    "workingset_restore_anon",
    "workingset_restore_file",
    "nr_dirtied",
    "nr_written",
    "compact_stall",
    "compact_success",
    "pgmigrate_success",
    "thp_fault_alloc",
    "thp_fault_fallback",
];

/// A counter, or several together.
pub(crate) fn sum(counters: &Counters, key: &str) -> i64 {
    key.split('+').map(|name| counters.get(name)).sum()
}

/// What has been read so far: the counters when the step began, and the steps that are over.
#[derive(Debug, Default)]
pub(super) struct Steps {
    begin: Option<Counters>,
    over: Vec<(String, Counters)>,
}

impl Steps {
    /// A step is over, or, without a name, the first one begins.
    pub(super) fn mark(&mut self, name: Option<String>, now: Counters) {
        if let Some(name) = name {
            // Without a beginning of its own the first step is all there was.
            let before = self.begin.take().unwrap_or_default();
            self.over.push((name, Counters::difference(&before, &now)));
        }
        self.begin = Some(now);
    }

    /// The samples of all steps.
    pub(super) fn samples(&self) -> Vec<(String, f64)> {
        let of_step = |(name, counters): &(String, Counters)| {
            let (name, counters) = (name.clone(), counters.clone());
            COUNTERS.iter().map(move |key| (named(&name, key), sum(&counters, key) as f64))
        };
        self.over.iter().flat_map(of_step).collect()
    }
}
