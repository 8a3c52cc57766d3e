//! The disk specification of a machine.

use highwater_core::block::DeviceSpec;
use highwater_core::page::PAGE_SIZE;

use super::{
    DiskModel, DiskQueue, Faulty, FaultySpec, Hdd, HddSpec, Limited, Ram, RateLimit, Scheduler,
    Ssd, SsdSpec,
};

/// Kind of a disk, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// Solid-state.
    Ssd(SsdSpec),
    /// Rotating.
    Hdd(HddSpec),
    /// In memory: done at once.
    Ram,
}

/// One disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// Name shown in reports.
    pub name: String,
    /// Size in pages.
    pub nr_pages: u64,
    /// Kind and figures.
    pub kind: DiskKind,
    /// Requests in flight at once, including those that wait for the scheduler (tags).
    pub depth: u32,
    /// Largest request, pages.
    pub request_pages_max: u32,
    /// Largest number of pieces of memory in a request (`queue/max_segments`); 0: no limit.
    pub max_segments: u32,
    /// Largest readahead window of a file without advice, KiB (`queue/read_ahead_kb`); 0 = no readahead.
    pub read_ahead_kb: u32,
    /// Choice of the next waiting request.
    pub scheduler: Scheduler,
    /// The kernel treats seeks as expensive (`queue/rotational`).
    pub rotational: bool,
    /// Pages under writeback must not change.
    pub stable_writes: bool,
    /// The kernel bounds the writes in flight of this queue, unless the machine's settings turn
    /// that off for all (`wbt`).
    pub throttles_writes: bool,
    /// Bandwidth limit; `None`: no limit.
    pub limit: Option<RateLimit>,
    /// Faults; `None`: no faults.
    pub faults: Option<FaultySpec>,
}

const KIB_PER_PAGE: u32 = (PAGE_SIZE / 1024) as u32;

impl DiskSpec {
    /// A disk with the usual settings of its kind. NVMe drives have a deep hardware queue; other
    /// disks have mq-deadline before a short one (rules/block#tags, [`DeviceSpec`]).
    pub fn new(name: impl Into<String>, kind: DiskKind, nr_pages: u64) -> Self {
        let (usual, scheduler) = match kind {
            DiskKind::Ssd(spec) if spec.channels > DeviceSpec::SATA_COMMANDS => {
                (DeviceSpec::nvme(nr_pages), Scheduler::None)
            }
            DiskKind::Ssd(_) => (DeviceSpec::sata_ssd(nr_pages), Scheduler::Deadline),
            DiskKind::Hdd(_) => (DeviceSpec::hdd(nr_pages), Scheduler::Deadline),
            DiskKind::Ram => (DeviceSpec::ram(nr_pages), Scheduler::None),
        };
        DiskSpec {
            name: name.into(),
            nr_pages,
            kind,
            depth: usual.depth,
            request_pages_max: usual.max_request_pages,
            max_segments: usual.max_segments,
            read_ahead_kb: usual.ra_pages * KIB_PER_PAGE,
            scheduler,
            rotational: usual.rotational,
            stable_writes: usual.stable_writes,
            throttles_writes: usual.throttles_writes,
            limit: None,
            faults: None,
        }
    }

    /// An NVMe drive.
    pub fn nvme(name: impl Into<String>, nr_pages: u64) -> Self {
        Self::new(name, DiskKind::Ssd(SsdSpec::NVME), nr_pages)
    }

    /// A SATA solid-state drive.
    pub fn sata_ssd(name: impl Into<String>, nr_pages: u64) -> Self {
        Self::new(name, DiskKind::Ssd(SsdSpec::SATA), nr_pages)
    }

    /// A rotating disk.
    pub fn hdd(name: impl Into<String>, nr_pages: u64) -> Self {
        Self::new(name, DiskKind::Hdd(HddSpec::DESKTOP), nr_pages)
    }

    /// A disk in memory.
    pub fn ram(name: impl Into<String>, nr_pages: u64) -> Self {
        Self::new(name, DiskKind::Ram, nr_pages)
    }

    /// The device description for the kernel.
    pub fn device(&self) -> DeviceSpec {
        DeviceSpec {
            pages: self.nr_pages,
            depth: self.depth,
            max_request_pages: self.request_pages_max,
            max_segments: self.max_segments,
            ra_pages: self.read_ahead_kb / KIB_PER_PAGE,
            rotational: self.rotational,
            synchronous: self.is_synchronous(),
            stable_writes: self.stable_writes,
            throttles_writes: self.throttles_writes,
        }
    }

    /// True if transfers are done before the submission returns.
    pub fn is_synchronous(&self) -> bool {
        self.kind == DiskKind::Ram
    }

    /// The idle disk: disk number `index` of a run with this seed.
    pub fn build(&self, seed: u64, index: usize) -> DiskQueue {
        let model: Box<dyn DiskModel> = match self.kind {
            DiskKind::Ssd(spec) => Box::new(Ssd::new(spec, seed, index)),
            DiskKind::Hdd(spec) => Box::new(Hdd::new(spec, self.nr_pages, seed, index)),
            DiskKind::Ram => Box::new(Ram),
        };
        let model = match self.limit {
            None => model,
            Some(limit) => Box::new(Limited::new(model, limit)),
        };
        let model = match &self.faults {
            None => model,
            Some(faults) => Box::new(Faulty::new(model, faults.clone(), seed, index)),
        };
        DiskQueue::new(model, self.scheduler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_get_the_queues_they_usually_have() {
        let nvme = DiskSpec::nvme("n", 1000);
        assert_eq!((nvme.depth, nvme.scheduler), (1023, Scheduler::None));
        assert_eq!(DiskSpec::sata_ssd("s", 1).depth, 62);
        let hdd = DiskSpec::hdd("h", 1000);
        assert_eq!((hdd.depth, hdd.scheduler), (62, Scheduler::Deadline));
        assert!(hdd.device().rotational && !hdd.device().synchronous);
        let ram = DiskSpec::ram("r", 77).device();
        assert!(ram.synchronous && !ram.rotational && ram.pages == 77);
    }
}
