//! A disk that fails and stalls now and then, by seed.
//!
//! [`Faulty`] wraps any model. A failed transfer takes the time of the transfer, as a real one does
//! at least. A slow transfer takes a multiple of its time. Later transfers may overtake it (on a
//! disk with one channel they wait).

use std::ops::Range;

use highwater_core::host::IoError;

use super::{DiskModel, PerDirection, Service, Transfer};
use crate::rng::Stream;

/// Kinds and rates of faults.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultySpec {
    /// Probability that a transfer fails.
    pub errors: PerDirection<f64>,
    /// Only transfers that touch these pages fail; `None`: any.
    pub pages: Option<Range<u64>>,
    /// This many first transfers succeed (slow ones included), to get a run past its start.
    pub nr_good_first: u64,
    /// Probability that a transfer is slow.
    pub slow: f64,
    /// A slow transfer takes this many times its time.
    pub slow_factor: u64,
}

impl Default for FaultySpec {
    /// No faults.
    fn default() -> Self {
        FaultySpec {
            errors: PerDirection::both(0.0),
            pages: None,
            nr_good_first: 0,
            slow: 0.0,
            slow_factor: 20,
        }
    }
}

impl FaultySpec {
    fn may_fail(&self, transfer: &Transfer) -> bool {
        self.pages.as_ref().is_none_or(|p| transfer.start < p.end && p.start < transfer.end())
    }
}

/// A model with faults.
#[derive(Clone, Debug)]
pub struct Faulty<D> {
    disk: D,
    spec: FaultySpec,
    stream: Stream,
    nr_served: u64,
    nr_failed: u64,
}

impl<D> Faulty<D> {
    /// `disk` with faults: disk number `index` of a run with this seed.
    pub fn new(disk: D, spec: FaultySpec, seed: u64, index: usize) -> Self {
        let stream = Stream::indexed(seed, "disk/faults", index as u64);
        Faulty { disk, spec, stream, nr_served: 0, nr_failed: 0 }
    }

    /// Transfers that failed so far.
    pub fn nr_failed(&self) -> u64 {
        self.nr_failed
    }
}

impl<D: DiskModel> DiskModel for Faulty<D> {
    fn channels(&self) -> usize {
        self.disk.channels()
    }

    fn serve(&mut self, now_ns: u64, transfer: &Transfer) -> Service {
        let mut service = self.disk.serve(now_ns, transfer);
        // Drawn for every transfer, so that the limits do not shift the stream.
        let fails = self.stream.chance(self.spec.errors.of(transfer.direction));
        let is_slow = self.stream.chance(self.spec.slow);
        self.nr_served += 1;
        if self.nr_served <= self.spec.nr_good_first {
            return service;
        }
        if is_slow {
            service.done_ns = now_ns + (service.done_ns - now_ns) * self.spec.slow_factor;
        }
        if fails && self.spec.may_fail(transfer) {
            self.nr_failed += 1;
            service.result = Err(IoError::Device);
        }
        service
    }

    fn heal(&mut self) {
        self.spec = FaultySpec::default();
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::host::IoDirection::{self, Read, Write};

    use super::super::{Ram, Ssd, SsdSpec};
    use super::*;

    fn failures(spec: FaultySpec, direction: IoDirection, start: u64) -> Vec<u64> {
        let mut disk = Faulty::new(Ram, spec, 3, 0);
        let transfer = Transfer { direction, start, nr_pages: 8 };
        (0..1000).filter(|&i| disk.serve(i, &transfer).result.is_err()).collect()
    }

    #[test]
    fn reads_and_writes_fail_at_their_own_rates() {
        let spec =
            FaultySpec { errors: PerDirection { read: 0.1, write: 0.0 }, ..FaultySpec::default() };
        let failed = failures(spec.clone(), Read, 0).len();
        assert!((70..130).contains(&failed), "{failed}");
        assert!(failures(spec, Write, 0).is_empty());
    }

    #[test]
    fn only_the_given_pages_fail_and_not_the_first_transfers() {
        let spec = FaultySpec {
            errors: PerDirection::both(1.0),
            pages: Some(100..110),
            nr_good_first: 5,
            ..FaultySpec::default()
        };
        assert!(failures(spec.clone(), Read, 92).is_empty());
        assert_eq!(failures(spec.clone(), Read, 93), (5..1000).collect::<Vec<_>>());
        assert_eq!(failures(spec.clone(), Write, 109).len(), 995);
        assert!(failures(spec, Write, 110).is_empty());
    }

    #[test]
    fn limits_do_not_shift_the_stream() {
        let always = FaultySpec { errors: PerDirection::both(0.2), ..FaultySpec::default() };
        let later = FaultySpec { nr_good_first: 500, ..always.clone() };
        let all = failures(always, Read, 0);
        let tail: Vec<u64> = all.iter().copied().filter(|&i| i >= 500).collect();
        assert_eq!(failures(later, Read, 0), tail);
    }

    #[test]
    fn a_healed_disk_has_no_faults() {
        let spec = FaultySpec { errors: PerDirection::both(1.0), ..FaultySpec::default() };
        let mut disk = Faulty::new(Ram, spec, 3, 0);
        let transfer = Transfer { direction: Read, start: 0, nr_pages: 8 };
        assert!(disk.serve(0, &transfer).result.is_err());
        disk.heal();
        assert!((1..100).all(|now| disk.serve(now, &transfer).result.is_ok()));
        assert_eq!(disk.nr_failed(), 1);
    }

    #[test]
    fn slow_transfers_take_a_multiple() {
        let spec = FaultySpec { slow: 0.5, slow_factor: 10, ..FaultySpec::default() };
        let mut plain = Ssd::new(SsdSpec::NVME, 4, 0);
        let mut disk = Faulty::new(plain.clone(), spec, 4, 0);
        let transfer = Transfer { direction: Read, start: 0, nr_pages: 1 };
        let mut nr_slow = 0;
        for i in 0..100u64 {
            let now_ns = i * 10_000_000;
            let usual_ns = plain.serve(now_ns, &transfer).done_ns - now_ns;
            let took_ns = disk.serve(now_ns, &transfer).done_ns - now_ns;
            assert!(took_ns == usual_ns || took_ns == 10 * usual_ns);
            nr_slow += u32::from(took_ns > usual_ns);
        }
        assert!((30..70).contains(&nr_slow));
    }
}
