//! Request queues: tags, and the way to the host and back (rules/block#tags).
//!
//! A device takes `depth` requests at once, and each has a tag. A task that finds no free tag
//! sleeps. A quarter of the tags is for reads only, and a freed tag goes to a waiting reader first,
//! so a stream of writes does not hold readers up for a whole queue. Reads avoid the other tags
//! only as far as necessary: writers still get every tag that no reader wants. (mq-deadline bounds
//! how many reads may pass a write. Here the writers' tags proceed at their own speed. So a write
//! waits for other writes, and for reads only while readers fill the whole queue.)
//!
//! Up to 4.20 each direction had its own requests instead, the same number on every device, and a
//! device reported when they ran short ([`super::congestion`]).
//!
//! Devices that finish before submission returns (zram) have no queue: no tag, no plug.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::congestion::{self, Congestion, Flags, LEGACY_REQUESTS, Pool};
use super::plug::Limits;
use super::wbt::WriteThrottle;
use super::{Bio, BioKind, BioVector, BioVectors, DeviceId, DeviceSpec, Plug, WriteClass};
use crate::config::DeviceCongestion;
use crate::host::{Cost, Cx, Devices, IoDirection, IoError, IoRequest, Probe, Stall};
use crate::kernel::Kernel;
use crate::page::{PAGE_SIZE, PageFlags, Pfn};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::vmstat::VmEvent;
use crate::wait::WaitQueue;

const ONE_SECOND: u64 = 1 << 32;
const ALL_MASK: u64 = ONE_SECOND - 1;
/// What pgpgin and pgpgout count a page as: `/proc/vmstat` shows them in KiB.
const PAGE_KIB: u64 = PAGE_SIZE as u64 / 1024;

/// One device's request queue: its tags, the tasks that wait for one, and what is in flight.
#[doc(alias = "request_queue")]
pub struct BlockDevice<H: Devices> {
    /// Its number.
    pub id: DeviceId,
    /// The device.
    pub spec: DeviceSpec,
    /// Its flags, if its kernel's queues have them.
    flags: Option<Flags>,
    /// Requests handed to the host and not back: all in the low half, those of the second lane in
    /// the high one.
    in_flight: AtomicU64,
    /// Number of the next request.
    next_id: AtomicU64,
    /// Submitters waiting for a tag, by [`Lane`].
    tag_wait: [WaitQueue<H>; 2],
    /// Writes in flight, if its kernel's queues bound them.
    pub(super) write_throttle: Option<WriteThrottle<H>>,
    /// Requests that failed since boot.
    nr_errors: AtomicU64,
}

/// All devices.
pub struct BlockLayer<H: Devices> {
    /// By number.
    pub devices: Box<[BlockDevice<H>]>,
    /// Memory of write bios.
    pub(super) vectors: BioVectors<H>,
    /// The congested devices.
    pub(crate) congestion: Congestion<H>,
}

/// Requests that compete for the same tags: reads and writes, or [`Pool`]s.
#[derive(Clone, Copy)]
enum Lane {
    First = 0,
    Second = 1,
}

impl<H: Devices> BlockLayer<H> {
    /// Queues for devices 0, 1, ...
    pub fn new(
        host: &H,
        specs: &[DeviceSpec],
        queues: DeviceCongestion,
        throttles_writes: bool,
    ) -> Self {
        let throttles_writes = throttles_writes && !congestion::exist(queues);
        let device = |(id, spec): (usize, &DeviceSpec)| BlockDevice {
            id: DeviceId(id as u8),
            spec: spec.clone(),
            flags: congestion::exist(queues).then(Flags::default),
            in_flight: AtomicU64::new(0),
            next_id: AtomicU64::new(0),
            tag_wait: [WaitQueue::new(host), WaitQueue::new(host)],
            write_throttle: (throttles_writes && spec.throttles_writes)
                .then(|| WriteThrottle::new(host)),
            nr_errors: AtomicU64::new(0),
        };
        let devices = specs.iter().enumerate().map(device).collect::<Vec<_>>().into();
        BlockLayer { devices, vectors: BioVectors::new(host), congestion: Congestion::new(host) }
    }

    /// A device.
    pub fn device(&self, id: DeviceId) -> &BlockDevice<H> {
        &self.devices[usize::from(id.0)]
    }
}

/// Tags that requests of a direction may use: all for reads, three quarters for writes.
pub(super) const fn tag_limit(depth: u32, direction: IoDirection) -> u32 {
    match direction {
        IoDirection::Read => depth,
        IoDirection::Write => depth - depth / 4,
    }
}

impl<H: Devices> BlockDevice<H> {
    /// Requests on the device now.
    pub fn in_flight(&self) -> u32 {
        (self.in_flight.load(Relaxed) & ALL_MASK) as u32
    }

    /// Requests that failed since boot.
    pub fn nr_errors(&self) -> u64 {
        self.nr_errors.load(Relaxed)
    }

    /// True if the device says that it is congested with requests of a pool.
    pub fn is_congested(&self, pool: Pool) -> bool {
        self.flags.as_ref().is_some_and(|flags| flags.is_set(pool))
    }

    fn lane(&self, request: &IoRequest) -> Lane {
        let is_first = match self.flags {
            Some(_) => Pool::of(request) == Pool::Sync,
            None => request.direction == IoDirection::Read,
        };
        if is_first { Lane::First } else { Lane::Second }
    }

    fn try_tag(&self, lane: Lane) -> bool {
        let depth = self.spec.depth.max(1);
        let take = |state: u64| {
            let [all, second] = counts(state);
            let is_free = match (&self.flags, lane) {
                (Some(_), Lane::First) => all - second < LEGACY_REQUESTS,
                (Some(_), Lane::Second) => second < LEGACY_REQUESTS,
                (None, Lane::First) => all < depth,
                (None, Lane::Second) => {
                    all < depth && second < tag_limit(depth, IoDirection::Write)
                }
            };
            is_free.then_some(state + unit(lane))
        };
        self.in_flight.fetch_update(SeqCst, Relaxed, take).is_ok()
    }

    /// Takes a tag if one is free, even where others wait; else joins them, looks again, and
    /// sleeps.
    ///
    /// Linux: mq-deadline limits one kind of request to three quarters of the tags
    /// (`dd_limit_depth`); the lanes do that here.
    #[doc(alias = "blk_mq_get_tag")]
    #[doc(alias = "dd_limit_depth")]
    fn take_tag(&self, cx: &Cx<'_, H>, lane: Lane) {
        if !self.try_tag(lane) {
            let _stall = cx.stall(Stall::Io);
            self.tag_wait[lane as usize].wait(cx, "a request tag", || self.try_tag(lane));
        }
    }

    /// Gives a tag back: to a reader if one waits, else to a writer. A writer that finds the
    /// writers' share used up continues to wait; the holders of that share wake it. (Old queues: to
    /// the same pool.)
    #[doc(alias = "blk_mq_put_tag")]
    fn put_tag(&self, cx: &Cx<'_, H>, lane: Lane) {
        self.in_flight.fetch_sub(unit(lane), SeqCst);
        let [reads, writes] = &self.tag_wait;
        let first = match (&self.flags, lane) {
            (Some(_), lane) => &self.tag_wait[lane as usize],
            (None, _) if reads.has_waiters() => reads,
            (None, _) => writes,
        };
        first.wake_one(cx.host, cx.cpu());
    }

    /// A tag of a lane was taken or given back: is the device congested now?
    fn note_tags(&self, cx: &Cx<'_, H>, all: &Congestion<H>, lane: Lane) {
        let Some(flags) = &self.flags else { return };
        let [total, second] = counts(self.in_flight.load(SeqCst));
        let (pool, used) = match lane {
            Lane::First => (Pool::Sync, total - second),
            Lane::Second => (Pool::Async, second),
        };
        flags.update(cx.host, cx.cpu(), all, pool, used);
    }
}

/// All requests, and those of the second lane.
const fn counts(state: u64) -> [u32; 2] {
    [(state & ALL_MASK) as u32, (state >> 32) as u32]
}

const fn unit(lane: Lane) -> u64 {
    match lane {
        Lane::First => 1,
        Lane::Second => 1 + ONE_SECOND,
    }
}

impl<H: Devices> Kernel<H> {
    /// Submits a bio, or adds it to the task's open plug. May sleep for a tag.
    ///
    /// Linux: same name.
    #[doc(alias = "submit_bio_noacct")]
    pub fn submit_bio(&self, cx: &Cx<'_, H>, mut bio: Bio) {
        self.count_bio(cx, &bio);
        let is_read = matches!(bio.kind, BioKind::FileRead | BioKind::SwapRead);
        let is_back = |&pfn: &Pfn| self.mem.map.lookup(pfn).1.is(PageFlags::WORKINGSET);
        // Pages that were reclaimed too early come back.
        let _stall = (is_read && bio.pages.iter().any(is_back)).then(|| cx.stall(Stall::Memory));
        self.trim_bio_vectors(cx);
        let device = self.block.device(bio.device);
        let limits = Limits::of(&device.spec);
        loop {
            let rest = split(&mut bio, limits);
            cx.charge(Cost::BioSubmit, 1);
            self.queue_bio(cx, bio, limits);
            match rest {
                Some(rest) => bio = rest,
                None => return,
            }
        }
    }

    /// Waits for a tag and dispatches a bio as a separate request.
    #[doc(alias = "blk_mq_submit_bio")]
    fn queue_bio(&self, cx: &Cx<'_, H>, bio: Bio, limits: Limits) {
        let plug = cx.local::<Plug>();
        if !plug.is_open() || self.block.device(bio.device).spec.synchronous {
            return self.dispatch(cx, request_of(bio));
        }
        if let Some(bio) = plug.merge(bio, limits) {
            if plug.is_full(self.mem.policy.block.plug_flush) {
                self.plug_flush(cx);
            }
            plug.push(request_of(bio), limits);
        }
    }

    /// Hands a request to the host. May sleep for a tag.
    pub(super) fn dispatch(&self, cx: &Cx<'_, H>, mut request: IoRequest) {
        let device = self.block.device(request.device);
        if !device.spec.synchronous {
            if let Some(throttle) = &device.write_throttle {
                throttle.enter(cx, device.spec.depth, &mut request);
            }
            let lane = device.lane(&request);
            device.take_tag(cx, lane);
            device.note_tags(cx, &self.block.congestion, lane);
        }
        request.id = device.next_id.fetch_add(1, Relaxed);
        if let Some((request, result)) = cx.host.submit(request) {
            self.end_request(cx, request, result);
        }
    }

    /// Ends a request: completes its bios and frees its tag. Called by the host, from interrupt
    /// context ([`crate::host::TaskFlags::IN_INTERRUPT`] set); never sleeps.
    #[doc(alias = "blk_mq_end_request")]
    pub fn end_request(&self, cx: &Cx<'_, H>, request: IoRequest, result: Result<(), IoError>) {
        let device = self.block.device(request.device);
        if result.is_err() {
            device.nr_errors.fetch_add(1, Relaxed);
        }
        for bio in &request.bios {
            self.end_bio(cx, bio, result);
        }
        if !device.spec.synchronous {
            let lane = device.lane(&request);
            device.put_tag(cx, lane);
            device.note_tags(cx, &self.block.congestion, lane);
            if let Some(throttle) = &device.write_throttle {
                throttle.leave(cx, request.write_class);
            }
        }
    }

    /// Counts a bio as `/proc/vmstat` does, when it is submitted.
    fn count_bio(&self, cx: &Cx<'_, H>, bio: &Bio) {
        let pages = bio.pages.len() as u64;
        let (all, swap) = match bio.kind.direction() {
            IoDirection::Read => (VmEvent::Pgpgin, VmEvent::Pswpin),
            IoDirection::Write => (VmEvent::Pgpgout, VmEvent::Pswpout),
        };
        self.mem.events.add(cx.cpu(), all, pages * PAGE_KIB);
        if matches!(bio.kind, BioKind::SwapRead | BioKind::SwapWrite) {
            self.mem.events.add(cx.cpu(), swap, pages);
        }
    }
}

/// Cuts the part off a bio that exceeds the device's largest request.
#[doc(alias = "bio_split_to_limits")]
#[doc(alias = "blk_queue_split")]
fn split(bio: &mut Bio, limits: Limits) -> Option<Bio> {
    let nr = limits.fitting(&bio.pages);
    if nr == bio.pages.len() {
        return None;
    }
    let pages = bio.pages.split_off(nr);
    let start = bio.start + nr as u64;
    // One bio keeps the memory for both.
    Some(Bio { start, pages, vector: BioVector::Inline, ..*bio })
}

/// A request of one bio, not numbered yet.
fn request_of(bio: Bio) -> IoRequest {
    IoRequest {
        id: 0,
        device: bio.device,
        direction: bio.kind.direction(),
        start: bio.start,
        nr_pages: bio.pages.len() as u32,
        urgency: bio.urgency,
        write_class: WriteClass::Free,
        bios: alloc::vec![bio],
    }
}
