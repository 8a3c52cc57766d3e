//! Which CPU gets a woken or new task (rules/scheduler#select).

use super::{Candidate, Sched};
use crate::cpu::CpuId;
use crate::engine::task::{Placement, TaskIndex};

/// Percent by which the waker's CPU may be more loaded than the woken task's last one, at most: half
/// of the imbalance that a node allows.
const AFFINE_PERCENT: u64 = 108;

impl Sched {
    /// Chooses the CPU of a woken task under `fifo`: the last CPU if it is idle, else an idle one of its node, else
    /// any idle one, else the shortest queue (of its node if that is no longer than elsewhere).
    ///
    /// Linux: also weighs caches, load and capacity.
    pub(super) fn select_cpu(&self, candidate: Candidate) -> CpuId {
        let last = candidate.last_cpu;
        match candidate.placement {
            Placement::Pinned(cpu) => cpu,
            Placement::Interrupt(_) => last,
            Placement::Node(_) | Placement::Anywhere => {
                let allowed = |cpu: CpuId| self.is_allowed(candidate.placement, cpu);
                if self.is_idle(last) && allowed(last) {
                    return last;
                }
                let home = match candidate.placement {
                    Placement::Node(node) => node,
                    _ => self.node_of(last),
                };
                let anywhere = candidate.placement == Placement::Anywhere;
                let idle = self
                    .idle_after(last, self.node_cpus.get(usize::from(home)))
                    .or_else(|| if anywhere { self.idle_after(last, None) } else { None });
                idle.unwrap_or_else(|| {
                    std::iter::once(last)
                        .chain(self.others(last))
                        .filter(|&cpu| allowed(cpu))
                        .min_by_key(|&cpu| {
                            (self.cpus[cpu.idx()].runqueue.len(), self.node_of(cpu) != home)
                        })
                        .unwrap_or(last)
                })
            }
        }
    }

    /// Chooses the CPU of a woken or new task under CFS and EEVDF.
    ///
    /// Linux: also counts how many tasks a waker wakes, averages loads over time, and limits the
    /// search for idle CPUs by how busy the cache's CPUs are.
    #[doc(alias = "select_task_rq_fair")]
    pub(super) fn select_fairly(&self, candidate: Candidate) -> CpuId {
        let last = candidate.last_cpu;
        let is_allowed = |cpu: CpuId| self.is_allowed(candidate.placement, cpu);
        match candidate.placement {
            Placement::Pinned(cpu) => cpu,
            Placement::Interrupt(_) => last,
            _ if self.is_new(candidate.task) || !is_allowed(last) => {
                self.select_emptiest(candidate)
            }
            _ => {
                let waker = candidate.woken_by.map(|(_, cpu)| cpu).filter(|&cpu| is_allowed(cpu));
                let target = match waker {
                    Some(waker) if waker != last => self.affine(candidate, waker),
                    _ => last,
                };
                self.idle_near(candidate, target)
            }
        }
    }

    /// The CPU near which a woken task should run: its last one, or its waker's.
    #[doc(alias = "wake_affine")]
    fn affine(&self, candidate: Candidate, waker: CpuId) -> CpuId {
        let last = candidate.last_cpu;
        if self.is_idle(last) {
            return last;
        }
        if self.is_idle(waker) && self.node_of(waker) == self.node_of(last) {
            return waker;
        }
        let Some(fair) = &self.fair else { return last };
        let load = |cpu: CpuId| fair.cpus[cpu.idx()].queue.weight(&fair.entities);
        let own = fair.entities[candidate.task].weight.get();
        match (load(waker) + own) * 100 < load(last) * AFFINE_PERCENT {
            true => waker,
            false => last,
        }
    }

    /// An idle CPU of the target's node: the target, the task's last CPU, or the first one after
    /// the target. Without an idle one the target.
    #[doc(alias = "select_idle_sibling")]
    fn idle_near(&self, candidate: Candidate, target: CpuId) -> CpuId {
        let node = self.node_of(target);
        let last = candidate.last_cpu;
        if self.is_idle(target) {
            return target;
        }
        if self.is_idle(last) && self.node_of(last) == node {
            return last;
        }
        // All CPUs of a node are allowed, or none: a pinned task does not come here.
        self.idle_after(target, self.node_cpus.get(usize::from(node))).unwrap_or(target)
    }

    /// Chooses the CPU of a new task: an idle one of the node with the most idle CPUs, else the one
    /// with the least load. Of equal nodes the task's own comes first.
    #[doc(alias = "find_idlest_cpu")]
    fn select_emptiest(&self, candidate: Candidate) -> CpuId {
        let last = candidate.last_cpu;
        let home = self.node_of(last);
        let nr_idle = |node: usize| -> u32 {
            let idle = self.node_cpus[node].iter().zip(&self.idle);
            idle.map(|(of_node, idle)| (of_node & idle).count_ones()).sum()
        };
        let is_allowed = |cpu: CpuId| self.is_allowed(candidate.placement, cpu);
        let nodes = (0..self.node_cpus.len()).filter(|&node| match candidate.placement {
            Placement::Node(only) => usize::from(only) == node,
            _ => true,
        });
        // The first of the best: `max_by_key` would return the last.
        let node =
            nodes.min_by_key(|&node| (std::cmp::Reverse(nr_idle(node)), node != usize::from(home)));
        let idle = node.and_then(|node| self.idle_after(last, self.node_cpus.get(node)));
        idle.unwrap_or_else(|| {
            let load = |cpu: CpuId| {
                let fair = self.fair.as_ref();
                fair.map_or(0, |fair| fair.cpus[cpu.idx()].queue.weight(&fair.entities))
            };
            std::iter::once(last)
                .chain(self.others(last))
                .filter(|&cpu| is_allowed(cpu))
                .min_by_key(|&cpu| (load(cpu), self.node_of(cpu) != home))
                .unwrap_or(last)
        })
    }

    fn is_new(&self, task: TaskIndex) -> bool {
        self.fair.as_ref().is_some_and(|fair| fair.entities[task].is_new)
    }

    /// The first idle CPU after `start`, wrapping around, among those of a mask.
    pub(super) fn idle_after(&self, start: CpuId, mask: Option<&Vec<u64>>) -> Option<CpuId> {
        if self.nr_idle == 0 {
            return None;
        }
        let nr_words = self.idle.len();
        let (first, bit) = (start.idx() / 64, start.idx() % 64);
        // The word of `start` comes twice: first its bits above, at last those up to `start`.
        (0..=nr_words).find_map(|i| {
            let word = (first + i) % nr_words;
            let mut bits = self.idle[word];
            if let Some(mask) = mask {
                bits &= mask[word];
            }
            let above = (!1_u64) << bit;
            if i == 0 {
                bits &= above;
            } else if i == nr_words {
                bits &= !above;
            }
            (bits != 0).then(|| CpuId((word * 64) as u16 + bits.trailing_zeros() as u16))
        })
    }

    pub(super) fn is_allowed(&self, placement: Placement, cpu: CpuId) -> bool {
        match placement {
            Placement::Pinned(only) => only == cpu,
            Placement::Node(node) => self.node_of(cpu) == node,
            Placement::Anywhere => true,
            Placement::Interrupt(_) => false,
        }
    }

    /// The other CPUs, in index order from `start` on, wrapping around.
    pub(super) fn others(&self, start: CpuId) -> impl Iterator<Item = CpuId> + use<> {
        let nr_cpus = self.cpus.len();
        let after = start.idx() + 1..nr_cpus;
        after.chain(0..start.idx()).map(|cpu| CpuId(cpu as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Leaves, Placed, SchedParams, SchedPolicy, Topology};
    use super::*;
    use crate::cpu::Nice;

    const P: TaskIndex = TaskIndex(100);

    fn spawn(sched: &mut Sched, task: TaskIndex, cpu: CpuId, now_ns: u64) -> Placed {
        sched.begin(task, Nice::default(), cpu);
        let placement = Placement::Pinned(cpu);
        let woken_by = None;
        sched.place(Candidate { task, placement, last_cpu: cpu, woken_by }, now_ns)
    }

    /// Where a task wakes that ran last on `prev`, woken from `waker`, beside hogs.
    fn wakes_on(node_of: &[u16], busy: &[u16], prev: u16, waker: u16) -> u16 {
        let topology = Topology { node_of: node_of.to_vec() };
        let params = SchedParams { policy: SchedPolicy::Cfs, ..SchedParams::FREE };
        let mut sched = Sched::new(&topology, params);
        let prev = CpuId(prev);
        let nowhere_else = |task| -> Candidate { unreachable!("{task:?} waits for no CPU") };
        spawn(&mut sched, P, prev, 0);
        assert_eq!(sched.next_on(prev, Leaves::Sleeps, nowhere_else), None);
        for &cpu in busy {
            spawn(&mut sched, TaskIndex(u32::from(cpu)), CpuId(cpu), 1000);
        }
        let woken_by = Some((TaskIndex(u32::from(waker)), CpuId(waker)));
        let placement = Placement::Anywhere;
        let candidate = Candidate { task: P, placement, last_cpu: prev, woken_by };
        match sched.place(candidate, 2000) {
            Placed::Starts { cpu, .. } | Placed::Queued { cpu, .. } => cpu.0,
        }
    }

    #[test]
    fn a_woken_task_finds_a_cpu() {
        let one_node = &[0, 0, 0, 0];
        // Its last CPU is idle.
        assert_eq!(wakes_on(one_node, &[0], 2, 0), 2);
        // Equal loads: the search begins behind the last CPU.
        assert_eq!(wakes_on(one_node, &[0, 2], 2, 0), 3);
        assert_eq!(wakes_on(one_node, &[0, 2, 3], 2, 0), 1);
        assert_eq!(wakes_on(one_node, &[0, 1, 2, 3], 2, 0), 2);
        // An interrupt on an idle CPU.
        assert_eq!(wakes_on(one_node, &[], 2, 1), 2);
        assert_eq!(wakes_on(one_node, &[2], 2, 1), 1);
        // The search does not leave the node.
        assert_eq!(wakes_on(&[0, 0, 1, 1], &[0, 1], 1, 0), 1);
    }
}
