//! The CPUs that this process may use, pairs of them, and pinning.

use std::fs;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// How two CPUs lie to each other, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Threads of one core.
    SameCore,
    /// Cores of one socket.
    SameSocket,
    /// Cores of different sockets.
    OtherSocket,
}

impl Relation {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Relation::SameCore => "threads of one core",
            Relation::SameSocket => "one socket",
            Relation::OtherSocket => "different sockets",
        }
    }
}

/// Two CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The first.
    pub a: usize,
    /// The second.
    pub b: usize,
    /// How they lie to each other.
    pub relation: Relation,
}

/// CPUs that this process may run on.
pub(crate) fn allowed() -> Result<Vec<usize>, String> {
    let set = sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// The calling thread runs on one CPU from now on.
pub(crate) fn pin(cpu: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| format!("pinning to CPU {cpu}: {error}"))
}

/// The thread's CPUs as they are now; they are restored at the end.
pub(crate) struct Home(Option<CpuSet>);

impl Home {
    pub(crate) fn here() -> Home {
        Home(sched_getaffinity(None).ok())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(set) = &self.0 {
            // The set was ours before, so the kernel accepts it unless a CPU went away.
            let _ = sched_setaffinity(None, set);
        }
    }
}

/// At most `most` pairs: one of each relation first, then the first CPU with others, then the rest.
pub(crate) fn pairs(cpus: &[usize], most: usize) -> Vec<Pair> {
    let mut all = Vec::new();
    'all: for (at, &a) in cpus.iter().enumerate() {
        for &b in &cpus[at + 1..] {
            all.push(Pair { a, b, relation: relation(a, b) });
            // Of very many CPUs the first few hundred pairs have every relation to the first CPU.
            if all.len() >= 512 {
                break 'all;
            }
        }
    }
    let relations = [Relation::SameCore, Relation::SameSocket, Relation::OtherSocket];
    let mut chosen: Vec<Pair> = relations
        .iter()
        .filter_map(|relation| all.iter().find(|pair| pair.relation == *relation).copied())
        .collect();
    // Evenly through the rest, so that not all are neighbours.
    let step = all.len().div_ceil(most.max(1)).max(1);
    for pair in all.into_iter().step_by(step) {
        if !chosen.contains(&pair) {
            chosen.push(pair);
        }
    }
    chosen.truncate(most);
    chosen.sort_by_key(|pair| (pair.a, pair.b));
    chosen
}

fn relation(a: usize, b: usize) -> Relation {
    let number = |cpu: usize, file: &str| -> Option<i64> {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{file}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let socket = |cpu| number(cpu, "physical_package_id");
    // A kernel that does not say has one socket and no threads of a core.
    let same_socket = socket(a).zip(socket(b)).is_none_or(|(a, b)| a == b);
    // Numbers of cores may repeat in another die of the socket, so the list of threads decides.
    let threads = format!("/sys/devices/system/cpu/cpu{a}/topology/thread_siblings_list");
    let same_core = fs::read_to_string(threads).is_ok_and(|list| is_in(&list, b));
    match (same_socket, same_core) {
        (false, _) => Relation::OtherSocket,
        (true, true) => Relation::SameCore,
        (true, false) => Relation::SameSocket,
    }
}

/// Whether a list of the kernel, `0,4-7`, has a CPU.
fn is_in(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let range = from.parse::<usize>().ok().zip(to.parse::<usize>().ok());
        range.is_some_and(|(from, to)| (from..=to).contains(&cpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert!(is_in("0,4-7\n", 5) && is_in("0,4-7", 0) && is_in("3", 3));
        assert!(!is_in("0,4-7", 3) && !is_in("", 0));
    }

    #[test]
    fn pairs_are_bounded_and_differ() {
        let cpus: Vec<usize> = (0..64).collect();
        let chosen = pairs(&cpus, 8);
        assert!(!chosen.is_empty() && chosen.len() <= 8);
        assert!(chosen.windows(2).all(|two| two[0] != two[1]));
        assert!(chosen.iter().all(|pair| pair.a < pair.b));
        assert!(pairs(&[3], 8).is_empty());
    }

    #[test]
    fn a_thread_is_pinned_and_comes_home() {
        let all = allowed().unwrap();
        {
            let _home = Home::here();
            pin(all[0]).unwrap();
            assert_eq!(allowed().unwrap(), [all[0]]);
        }
        assert_eq!(allowed().unwrap(), all);
    }
}
