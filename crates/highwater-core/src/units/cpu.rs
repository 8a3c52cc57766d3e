//! CPUs and sets of them.

use core::fmt;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Index of a logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuId(pub u16);

impl CpuId {
    /// The index as `usize`.
    #[inline(always)]
    pub const fn idx(self) -> usize {
        self.0 as usize
    }
}

/// A CPU was named that the machine does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchCpu {
    /// The CPU.
    pub cpu: CpuId,
    /// How many there are, numbered from 0.
    pub nr_cpus: usize,
}

impl fmt::Display for NoSuchCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoSuchCpu { cpu, nr_cpus } = self;
        match nr_cpus {
            1 => write!(f, "there is no CPU {}: the machine has CPU 0 only", cpu.0),
            _ => write!(f, "there is no CPU {}: the machine has CPUs 0 to {}", cpu.0, nr_cpus - 1),
        }
    }
}

impl core::error::Error for NoSuchCpu {}

const WORDS: usize = CpuSet::MAX_CPUS / 64;

/// A set of CPUs.
#[doc(alias = "cpumask")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSet([u64; WORDS]);

impl CpuSet {
    /// Most CPUs a machine may have.
    pub const MAX_CPUS: usize = 1024;
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet([0; WORDS]);

    /// This set and another CPU.
    ///
    /// # Panics
    /// If the number is not below [`CpuSet::MAX_CPUS`].
    #[must_use]
    pub const fn with(mut self, cpu: CpuId) -> CpuSet {
        self.0[cpu.idx() / 64] |= 1 << (cpu.idx() % 64);
        self
    }

    /// This set without a CPU.
    ///
    /// # Panics
    /// If the number is not below [`CpuSet::MAX_CPUS`].
    #[must_use]
    pub const fn without(mut self, cpu: CpuId) -> CpuSet {
        self.0[cpu.idx() / 64] &= !(1 << (cpu.idx() % 64));
        self
    }

    /// The CPUs of either set.
    #[must_use]
    pub fn union(mut self, other: &CpuSet) -> CpuSet {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
        self
    }

    /// Membership.
    ///
    /// # Panics
    /// If the number is not below [`CpuSet::MAX_CPUS`].
    #[inline]
    pub const fn contains(&self, cpu: CpuId) -> bool {
        self.0[cpu.idx() / 64] >> (cpu.idx() % 64) & 1 != 0
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The CPUs in order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut left = word;
            core::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then(|| CpuId((i * 64) as u16 + bit as u16))
            })
        })
    }
}

/// A set of CPUs that many change.
#[derive(Debug)]
pub struct AtomicCpuSet([AtomicU64; WORDS]);

impl Default for AtomicCpuSet {
    fn default() -> Self {
        AtomicCpuSet(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl AtomicCpuSet {
    /// Adds a CPU.
    ///
    /// # Panics
    /// If the number is not below [`CpuSet::MAX_CPUS`].
    pub fn insert(&self, cpu: CpuId) {
        self.0[cpu.idx() / 64].fetch_or(1 << (cpu.idx() % 64), Relaxed);
    }

    /// Removes a CPU.
    ///
    /// # Panics
    /// If the number is not below [`CpuSet::MAX_CPUS`].
    pub fn remove(&self, cpu: CpuId) {
        self.0[cpu.idx() / 64].fetch_and(!(1 << (cpu.idx() % 64)), Relaxed);
    }

    /// Membership.
    ///
    /// # Panics
    /// If the number is not below [`CpuSet::MAX_CPUS`].
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.0[cpu.idx() / 64].load(Relaxed) >> (cpu.idx() % 64) & 1 != 0
    }

    /// The set now.
    pub fn load(&self) -> CpuSet {
        CpuSet(core::array::from_fn(|i| self.0[i].load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order() {
        let set = CpuSet::EMPTY.with(CpuId(700)).with(CpuId(3)).with(CpuId(64)).without(CpuId(64));
        assert!(set.iter().eq([CpuId(3), CpuId(700)]));
        assert_eq!((set.len(), set.contains(CpuId(64)), set.is_empty()), (2, false, false));
        let shared = AtomicCpuSet::default();
        shared.insert(CpuId(64));
        assert!(shared.load().union(&set).iter().eq([CpuId(3), CpuId(64), CpuId(700)]));
        shared.remove(CpuId(64));
        assert!(shared.load().is_empty());
    }
}
