//! A flattened tree of causes: what the time was spent on, in all phases together.
//!
//! A tree shows in which phase a task waited. A reader who asks why an operation was slow first
//! wants the total of each kind of wait over all phases. A reason is a kind of time at a leaf.
//! Running is split by the activity around it. Everything inside a wait for a lock counts as
//! waiting for that lock.

use std::collections::BTreeMap;

use highwater_results::explain::{Cause, CauseKind};

/// A reason and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    /// `throttled: no progress`, `running in page fault`.
    pub(crate) name: String,
    /// All of its time.
    pub(crate) ns: u64,
}

/// Reasons, the largest first; ties by name. Their times add up to the root's.
pub(crate) fn reasons(root: &Cause) -> Vec<Reason> {
    let mut sums = BTreeMap::new();
    collect(root, None, &mut sums);
    let mut reasons: Vec<Reason> =
        sums.into_iter().map(|(name, ns)| Reason { name, ns }).filter(|r| r.ns > 0).collect();
    reasons.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    reasons
}

fn collect(cause: &Cause, inside: Option<&str>, sums: &mut BTreeMap<String, u64>) {
    let kind = cause.kind();
    if cause.children.is_empty() || kind == CauseKind::Lock {
        let name = match inside {
            // The phase around it tells what runs.
            Some(phase) if kind == CauseKind::Running && !phase.is_empty() => {
                format!("{} in {phase}", cause.name)
            }
            _ => cause.name.clone(),
        };
        *sums.entry(name).or_default() += cause.ns;
        return;
    }
    for child in &cause.children {
        collect(child, Some(&cause.name), sums);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cause, leaf, mmap};
    use super::*;

    #[test]
    fn kinds_of_time_are_added_up_wherever_they_were() {
        let root = cause(
            "mmap",
            1,
            vec![
                leaf("waiting for a CPU", 5, 1),
                leaf("running", 1, 1),
                cause(
                    "page fault",
                    1,
                    vec![
                        leaf("running", 2, 1),
                        leaf("waiting for a CPU", 6, 1),
                        cause("lock lru", 1, vec![leaf("running", 3, 1), leaf("interrupts", 1, 1)]),
                    ],
                ),
            ],
        );
        let all: Vec<(String, u64)> = reasons(&root).into_iter().map(|r| (r.name, r.ns)).collect();
        let expected = [
            ("waiting for a CPU", 11),
            ("lock lru", 4),
            ("running in page fault", 2),
            ("running in mmap", 1),
        ];
        assert_eq!(all, expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn they_add_up() {
        let root = mmap().causes;
        assert_eq!(reasons(&root).iter().map(|r| r.ns).sum::<u64>(), root.ns);
    }
}
