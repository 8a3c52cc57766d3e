//! Names of the nodes of a ledger: phases, locks, waits.

use highwater_core::host::Phase;
use highwater_core::units::GroupId;
use highwater_sim::ledger::{GroupNames, NodeKey};

pub(crate) const RUNNING: &str = "running";
pub(crate) const WAITING: &str = "waiting";
const IN_QUEUE: &str = ", in the device's queue";
const SERVED: &str = ", served by the device";
/// The sleep of a task that charged a group above `memory.high`.
const OVER_HIGH: &str = "a group over memory.high";
const THROTTLED_FIXED: &str = "throttled: isolated pages (fixed time)";

/// Whether a node has no nodes inside it.
pub(crate) const fn is_leaf(key: NodeKey) -> bool {
    !matches!(key, NodeKey::Root | NodeKey::Lock(_)) && key.phase().is_none()
}

/// The name of the last node of a path. Phases for a memory cgroup name the group.
pub(crate) fn name(path: &[NodeKey], groups: &GroupNames) -> String {
    let Some((&last, before)) = path.split_last() else {
        return String::new();
    };
    let around = before.last().copied();
    match (last, around.and_then(NodeKey::phase)) {
        (NodeKey::Root, _) => String::new(),
        (NodeKey::Phase(phase), _) => phase.name().to_owned(),
        (NodeKey::GroupPhase(phase, group), _) => of_group(phase, group, groups),
        (NodeKey::Lock(class), _) => format!("lock {class}"),
        (NodeKey::Kernel, _) => RUNNING.to_owned(),
        (NodeKey::User, _) => "user".to_owned(),
        (NodeKey::Tick, _) => "timer ticks".to_owned(),
        (NodeKey::Interrupt, _) => "interrupts".to_owned(),
        (NodeKey::Answers, _) => "waiting for other CPUs to answer".to_owned(),
        (NodeKey::Cpu, _) => "waiting for a CPU".to_owned(),
        (NodeKey::Wait(OVER_HIGH), _) => match around {
            Some(NodeKey::GroupPhase(phase, group)) => {
                format!("throttled: {}", of_group(phase, group, groups))
            }
            _ => format!("throttled: {OVER_HIGH}"),
        },
        (NodeKey::Wait(why), Some(Phase::Throttle)) => format!("throttled: {why}"),
        (NodeKey::Wait(why), _) => format!("waiting: {why}"),
        (NodeKey::Queued(why), _) => format!("waiting: {why}{IN_QUEUE}"),
        (NodeKey::Served(why), _) => format!("waiting: {why}{SERVED}"),
        // 5.15's throttling that no event can end; later kernels wait for the same condition with a
        // wakeup.
        (NodeKey::Sleep, Some(Phase::Throttle)) => THROTTLED_FIXED.to_owned(),
        (NodeKey::Sleep, Some(Phase::BalanceDirty)) => "throttled: dirty pages".to_owned(),
        (NodeKey::Sleep, Some(Phase::OomKill)) => "waiting for the OOM killer".to_owned(),
        (NodeKey::Sleep, _) => "sleeping".to_owned(),
    }
}

/// `memory.high of web`.
fn of_group(phase: Phase, group: GroupId, groups: &GroupNames) -> String {
    format!("{} of {}", phase.name(), groups.of(group))
}

/// `balance node > inactive list`.
pub(crate) fn place(path: &[NodeKey], groups: &GroupNames) -> String {
    let names: Vec<String> = (1..=path.len()).map(|end| name(&path[..end], groups)).collect();
    names.join(" > ")
}

#[cfg(test)]
mod tests {
    use highwater_core::sync::order::LockClass;
    use highwater_report::explain::{bands, glossary};

    use super::*;

    fn name(path: &[NodeKey]) -> String {
        super::name(path, &GroupNames::default())
    }

    fn place(path: &[NodeKey]) -> String {
        super::place(path, &GroupNames::default())
    }

    #[test]
    fn a_wait_is_called_by_what_it_is_for() {
        let throttled = [NodeKey::Phase(Phase::Throttle), NodeKey::Wait("no progress")];
        assert_eq!(name(&throttled), "throttled: no progress");
        assert_eq!(place(&throttled), "throttle > throttled: no progress");
        let paused = [NodeKey::Phase(Phase::BalanceDirty), NodeKey::Sleep];
        assert_eq!(name(&paused), "throttled: dirty pages");
        let isolated = [NodeKey::Phase(Phase::Throttle), NodeKey::Sleep];
        assert_eq!(name(&isolated), "throttled: isolated pages (fixed time)");
        let killed = [NodeKey::Phase(Phase::OomKill), NodeKey::Sleep];
        assert_eq!(name(&killed), "waiting for the OOM killer");
        let high = NodeKey::GroupPhase(Phase::MemoryHigh, GroupId(3));
        let over = [high, NodeKey::Wait(OVER_HIGH)];
        assert_eq!(place(&over), "memory.high of group 3 > throttled: memory.high of group 3");
        assert_eq!(name(&[high, NodeKey::Wait("a request tag")]), "waiting: a request tag");
        let limit = NodeKey::GroupPhase(Phase::LimitReclaim, GroupId(1));
        let taken = place(&[limit, NodeKey::Phase(Phase::Isolate)]);
        assert_eq!(taken, "reclaim for the limit of group 1 > isolate");
        assert_eq!(name(&[NodeKey::Wait("a page lock")]), "waiting: a page lock");
        assert_eq!(place(&[]), "");
    }

    /// The text of every file of a crate.
    fn sources(of: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(of).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                sources(&path, text);
            } else {
                *text += &std::fs::read_to_string(&path).expect("text");
            }
        }
    }

    /// Reports treat some causes by name. Every such name must still exist.
    #[test]
    fn reports_know_only_causes_that_there_are() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut text = String::new();
        ["highwater-core/src", "highwater-sim/src"]
            .iter()
            .for_each(|dir| sources(&crates.join(dir), &mut text));
        let leaves = [
            NodeKey::Kernel,
            NodeKey::User,
            NodeKey::Tick,
            NodeKey::Interrupt,
            NodeKey::Answers,
            NodeKey::Cpu,
            NodeKey::Sleep,
        ];
        let mut names: Vec<String> = leaves.map(|leaf| name(&[leaf])).to_vec();
        names.extend(Phase::ALL.iter().map(|phase| phase.name().to_owned()));
        names.extend(Phase::ALL.iter().map(|&p| name(&[NodeKey::Phase(p), NodeKey::Sleep])));
        names.extend(LockClass::ALL.iter().map(|class| name(&[NodeKey::Lock(class.name())])));
        let is_known = |cause: &str, is_whole: bool| {
            let reason =
                ["throttled: ", "waiting: "].iter().find_map(|kind| cause.strip_prefix(kind));
            let parts = [IN_QUEUE, SERVED];
            let is_part = |reason: &&str| parts.iter().any(|part| reason.ends_with(part));
            // A part of a device's wait is named by the wait.
            let (reason, is_whole) = match reason.filter(is_part) {
                Some(part) => (part.strip_suffix(IN_QUEUE).or(part.strip_suffix(SERVED)), true),
                None => (reason, is_whole),
            };
            let end = if is_whole { "\"" } else { "" };
            reason.is_some_and(|reason| text.contains(&format!("\"{reason}{end}")))
                || names
                    .iter()
                    .any(|name| if is_whole { name == cause } else { name.starts_with(cause) })
        };
        for word in glossary::words() {
            assert!(is_known(word, false), "{word}");
        }
        for &cause in bands::IDLE {
            assert!(is_known(cause, true), "{cause}");
        }
        assert!(is_known(&format!("waiting: {OVER_HIGH}"), true));
        assert!(!is_known("waiting: a page's outpu", false) && !is_known("sleep", true));
    }
}
