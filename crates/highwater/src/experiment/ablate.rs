//! A change taken apart: each of its points alone, and the change without it.

use highwater_core::config::Policy;

/// Policies with their headings, between a baseline and a change that differ in several switches: the baseline; the
/// baseline with one switch as the change has it (`+KEY`), for each; the change with one switch as the baseline has it
/// (`-KEY`), for each; the change. Where there are two switches, one alone is the other left out: those come once.
/// None if there are fewer than two: then there is nothing to take apart.
pub fn ablation(
    baseline: &(Policy, String),
    change: &(Policy, String),
) -> Option<Vec<(Policy, String)>> {
    let points = baseline.0.differences(&change.0);
    if points.len() < 2 {
        return None;
    }
    let mut policies = vec![baseline.clone()];
    let mut add = |of: &Policy, label: String, path: &str, value| {
        let mut policy = of.clone();
        // A value that the other policy has can be set.
        let is_set = policy.set(path, value);
        // With parts of both it has the sysctls of both.
        policy.kernel = baseline.0.kernel.max(change.0.kernel);
        debug_assert!(is_set.is_ok(), "{path}");
        policy.name.clone_from(&label);
        if policies.iter().all(|(other, _)| !other.differences(&policy).is_empty()) {
            policies.push((policy, label));
        }
    };
    for point in &points {
        add(&baseline.0, format!("+{}", point.path), &point.path, point.to);
    }
    for point in &points {
        add(&change.0, format!("-{}", point.path), &point.path, point.from);
    }
    policies.push(change.clone());
    Some(policies)
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
}
