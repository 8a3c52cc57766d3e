//! Counters of a job's steps, which `check` compares with captured ones, for every job that marks
//! its steps.

use std::collections::BTreeSet;
use std::rc::Rc;

use highwater_results::Counters;

use super::named;

/// Reported counters of a step; a name with a plus is a sum.
pub const COUNTERS: &[&str] = &[
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
pub fn sum(counters: &Counters, key: &str) -> i64 {
    key.split('+').map(|name| counters.get(name)).sum()
}

/// State so far: the counters at the start of the step, and the finished steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    begin: Option<Counters>,
    /// Counters of finished steps by name, and their number if steps with one name are added up.
    over: Vec<(String, Counters, u64)>,
    /// For endless rounds: steps with one name are added up and reported as an average. Only steps
    /// with these names are kept.
    endless: Option<Rc<BTreeSet<String>>>,
}

impl Steps {
    /// `endless`: keep only the steps with these names, of a task with endless rounds. `None`: keep
    /// all steps.
    pub(super) fn new(endless: Option<Rc<BTreeSet<String>>>) -> Steps {
        Steps { endless, ..Steps::default() }
    }

    /// A step is over, or, without a name, the first one begins.
    pub(super) fn mark(&mut self, name: Option<String>, now: Counters) {
        let is_kept = |name: &String| self.endless.as_ref().is_none_or(|all| all.contains(name));
        if let Some(name) = name.filter(is_kept) {
            // If the first step has no start mark, it starts at the beginning.
            let before = self.begin.take().unwrap_or_default();
            let change = Counters::difference(&before, &now);
            let is_endless = self.endless.is_some();
            let same = self.over.iter_mut().find(|(known, ..)| is_endless && *known == name);
            match same {
                Some((_, sum, times)) => {
                    sum.merge(&change);
                    *times += 1;
                }
                None => self.over.push((name, change, 1)),
            }
        }
        self.begin = Some(now);
    }

    /// The samples of the steps of these names.
    pub(super) fn samples(&self, names: &[String]) -> Vec<(String, f64)> {
        let of_step = |(name, counters, times): &(String, Counters, u64)| {
            let (name, counters, times) = (name.clone(), counters.clone(), *times as f64);
            COUNTERS.iter().map(move |key| (named(&name, key), sum(&counters, key) as f64 / times))
        };
        self.over.iter().filter(|(name, ..)| names.contains(name)).flat_map(of_step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_rounds_without_end_are_told_of_on_average() {
        let now = |value: i64| {
            let mut counters = Counters::default();
            counters.add("pgpgin", value);
            counters
        };
        let told = |is_endless: bool| {
            let names = || Rc::new(BTreeSet::from(["a".to_owned()]));
            let mut steps = Steps::new(is_endless.then(names));
            steps.mark(None, now(5));
            // Work between two steps belongs to neither.
            for (name, value) in [("a", 15), ("b", 20), ("a", 40), ("b", 41)] {
                steps.mark(Some(name.to_owned()), now(value));
            }
            // Only steps that are reported.
            assert_eq!(steps.over.len(), if is_endless { 1 } else { 4 });
            let mut samples = steps.samples(&["a".to_owned()]);
            samples.retain(|(name, _)| name == "a pgpgin");
            samples.iter().map(|(_, value)| *value).collect::<Vec<f64>>()
        };
        assert_eq!((told(true), told(false)), (vec![15.0], vec![10.0, 20.0]));
    }
}
