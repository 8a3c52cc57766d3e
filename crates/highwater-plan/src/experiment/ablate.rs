//! A change taken apart: each of its points alone, and the change without it.

use highwater_core::config::{Difference, Policy};

/// Policies between a baseline and a change, with their headings. The order: the baseline; for each
/// switch the baseline with the change's value of it (`+KEY`); for each switch the change with the
/// baseline's value of it (`-KEY`); the change. With two switches, adding one equals leaving out
/// the other, so each policy comes once. `None` if the two differ in fewer than two switches.
pub fn ablation(
    baseline: &(Policy, String),
    change: &(Policy, String),
) -> Option<Vec<(Policy, String)>> {
    let points = baseline.0.differences(&change.0);
    let nr = points.len();
    if nr < 2 {
        return None;
    }
    let mut sets = vec![Vec::new()];
    sets.extend((0..nr).map(|at| vec![at]));
    if nr > 2 {
        sets.extend((0..nr).map(|out| (0..nr).filter(|&at| at != out).collect()));
    }
    sets.push((0..nr).collect());
    Some(sets.iter().map(|set| between(baseline, change, &points, set)).collect())
}

/// A policy between two others, with its heading: the first policy with the second's values of some
/// switches. The two ends are unchanged.
pub(crate) fn between(
    from: &(Policy, String),
    to: &(Policy, String),
    points: &[Difference],
    set: &[usize],
) -> (Policy, String) {
    if set.is_empty() {
        return from.clone();
    }
    if set.len() == points.len() {
        return to.clone();
    }
    let mut policy = from.0.clone();
    // With parts of both it has the sysctls of both.
    policy.kernel = from.0.kernel.max(to.0.kernel);
    for &at in set {
        let Difference { path, to: value, .. } = &points[at];
        match path.as_str() {
            "own" => policy.own = to.0.own,
            path => {
                // A value that the other policy has can be set.
                let is_set = policy.set(path, *value);
                debug_assert!(is_set.is_ok(), "{path}");
            }
        }
    }
    let label = label(points, set);
    policy.name.clone_from(&label);
    (policy, label)
}

/// The name of a policy between two others. It lists the switches taken from the second or from the
/// first, whichever list is shorter.
pub(crate) fn label(points: &[Difference], set: &[usize]) -> String {
    let is_few = 2 * set.len() <= points.len();
    let (sign, of) = match is_few {
        true => ("+", set.to_vec()),
        false => ("-", (0..points.len()).filter(|at| !set.contains(at)).collect()),
    };
    let texts: Vec<String> = of.iter().map(|&at| format!("{sign}{}", points[at].path)).collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use highwater_core::config::preset;

    use super::*;

    fn policy(name: &str) -> (Policy, String) {
        (preset(name).unwrap(), name.to_owned())
    }

    #[test]
    fn each_point_comes_alone_and_is_left_out_once() {
        let (before, after) = (policy("congestion-wait-5.15"), policy("events-5.16"));
        let points = before.0.differences(&after.0);
        assert!(points.len() > 2, "{}", points.len());
        let policies = ablation(&before, &after).unwrap();
        assert_eq!(policies.len(), 2 * points.len() + 2);
        assert_eq!((&policies[0], policies.last().unwrap()), (&before, &after));
        for (policy, label) in &policies[1..=points.len()] {
            let differing = before.0.differences(policy);
            assert_eq!(differing.len(), 1, "{label}");
            assert_eq!((label, &policy.name), (&format!("+{}", differing[0].path), label));
        }
        for (policy, label) in &policies[1 + points.len()..=2 * points.len()] {
            let differing = policy.differences(&after.0);
            assert_eq!(differing.len(), 1, "{label}");
            assert_eq!(*label, format!("-{}", differing[0].path));
        }
    }

    #[test]
    fn of_two_points_one_alone_is_the_other_left_out() {
        let before = policy("6.1");
        let mut after = before.clone();
        after.0.watermark.boost = !after.0.watermark.boost;
        assert!(ablation(&before, &after).is_none(), "one point");
        after.0.zonelist.fair = !after.0.zonelist.fair;
        "both".clone_into(&mut after.1);
        let labels: Vec<String> =
            ablation(&before, &after).unwrap().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["6.1", "+watermark.boost", "+zonelist.fair", "both"]);
    }

    /// A sysctl that only the newer kernel has acts in every policy but the older end.
    #[test]
    fn what_has_parts_of_both_has_the_newer_kernel() {
        for (first, second) in [("4.3", "4.6"), ("4.6", "4.3")] {
            let policies = ablation(&policy(first), &policy(second)).unwrap();
            let between = &policies[1..policies.len() - 1];
            let newer = policy("4.6").0.kernel;
            assert!(between.iter().all(|(policy, _)| policy.kernel == newer), "{first} {second}");
            assert_eq!(policies[0].0.kernel, policy(first).0.kernel);
        }
    }
}
