//! Collecting bios before they go to a device (rules/block#plug).

use core::cell::{Cell, RefCell};

use alloc::vec::Vec;

use super::{Bio, BioKind, DeviceId, DeviceSpec};
use crate::config::PlugFlush;
use crate::host::{Cx, Devices, IoRequest, TaskLocal};
use crate::kernel::Kernel;
use crate::page::Pfn;

/// Requests a plug holds before it is flushed, if they all go to one device.
const PLUG_MAX_REQUESTS: usize = 32;
/// The same if they go to several.
const PLUG_MAX_REQUESTS_MULTI: usize = 2 * PLUG_MAX_REQUESTS;
/// A request of this many pages (128 KiB) is worth sending before another is begun.
const PLUG_FLUSH_PAGES: u32 = 32;

/// How far a request may grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Pages.
    pub(super) pages: u32,
    /// Pieces of memory ([`segments`]).
    pub(super) segments: u32,
}

impl Limits {
    /// Those of a device.
    pub(super) fn of(device: &DeviceSpec) -> Limits {
        let segments = if device.max_segments == 0 { u32::MAX } else { device.max_segments };
        Limits { pages: device.max_request_pages.max(1), segments }
    }

    /// True if the pieces of memory matter.
    fn counts_segments(self) -> bool {
        self.segments != u32::MAX
    }

    /// Pages at the start of a bio that fit into one request.
    pub(super) fn fitting(self, pages: &[Pfn]) -> usize {
        let nr = pages.len().min(self.pages as usize);
        if nr <= self.segments as usize {
            return nr;
        }
        let ends = pages.windows(2).take(nr - 1).enumerate().filter(|(_, pair)| is_gap(pair));
        ends.map(|(at, _)| at + 1).nth(self.segments as usize - 1).unwrap_or(nr)
    }
}

/// Pieces of memory that pages are in: frames that follow each other are one.
fn segments(pages: &[Pfn]) -> u32 {
    1 + pages.windows(2).filter(|pair| is_gap(pair)).count() as u32
}

fn is_gap(pair: &[Pfn]) -> bool {
    pair[0].0 + 1 != pair[1].0
}

/// Collects one task's bios before it hands them to the devices (`struct blk_plug`).
///
/// Lives in the task ([`crate::host::Cx`]); flushed when it is full, when the outermost plug
/// ends, and before the task sleeps.
#[doc(alias = "blk_plug")]
#[derive(Debug, Default)]
pub struct Plug {
    /// How many plugs are open; at 0 bios go straight to the device.
    depth: Cell<u32>,
    /// Requests in order of submission; they get their numbers when they are sent.
    requests: RefCell<Vec<IoRequest>>,
    /// Segments of the newest request.
    segments: Cell<u32>,
}

impl TaskLocal for Plug {}

impl Plug {
    /// True if bios are collected now.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.depth.get() != 0
    }

    /// Merges a bio into the newest plugged request if it continues it; gives it back otherwise.
    #[doc(alias = "blk_attempt_plug_merge")]
    pub(super) fn merge(&self, bio: Bio, limits: Limits) -> Option<Bio> {
        let mut requests = self.requests.borrow_mut();
        match requests.last_mut() {
            Some(request) if continues(request, &bio, limits.pages) => {
                if limits.counts_segments() {
                    // Counted apart, also where the bio's first frame follows the request's last.
                    let all = self.segments.get() + segments(&bio.pages);
                    if all > limits.segments {
                        return Some(bio);
                    }
                    self.segments.set(all);
                }
                request.nr_pages += bio.pages.len() as u32;
                request.urgency = request.urgency.max(bio.urgency);
                request.bios.push(bio);
                None
            }
            _ => Some(bio),
        }
    }

    /// True if the collected bios should be submitted before another request begins.
    pub(super) fn is_full(&self, flush: PlugFlush) -> bool {
        let requests = self.requests.borrow();
        let (Some(oldest), Some(newest)) = (requests.first(), requests.last()) else {
            return false;
        };
        let tested = match flush {
            PlugFlush::Newest => newest,
            PlugFlush::Oldest => oldest,
        };
        let same_device = |device: DeviceId| requests.iter().all(|r| r.device == device);
        tested.nr_pages >= PLUG_FLUSH_PAGES
            || requests.len() >= PLUG_MAX_REQUESTS_MULTI
            || requests.len() >= PLUG_MAX_REQUESTS && same_device(newest.device)
    }

    /// Begins another request.
    pub(super) fn push(&self, request: IoRequest, limits: Limits) {
        if limits.counts_segments() {
            self.segments.set(request.bios.first().map_or(0, |bio| segments(&bio.pages)));
        }
        self.requests.borrow_mut().push(request);
    }

    fn take(&self) -> Vec<IoRequest> {
        if self.requests.borrow().is_empty() {
            return Vec::new();
        }
        self.requests.take()
    }
}

/// True if a bio begins where a request ends, of the same kind, and both together are not too long.
fn continues(request: &IoRequest, bio: &Bio, max_pages: u32) -> bool {
    let kind = |bios: &[Bio]| bios.first().map(|bio: &Bio| -> BioKind { bio.kind });
    request.device == bio.device
        && request.start + u64::from(request.nr_pages) == bio.start
        && kind(&request.bios) == Some(bio.kind)
        && request.nr_pages + bio.pages.len() as u32 <= max_pages
}

impl<H: Devices> Kernel<H> {
    /// Opens a plug: bios are collected until the matching [`Kernel::plug_finish`].
    #[doc(alias = "blk_start_plug")]
    pub fn plug_start(&self, cx: &Cx<'_, H>) {
        let plug = cx.local::<Plug>();
        plug.depth.set(plug.depth.get() + 1);
    }

    /// Closes a plug; closing the outermost one submits what was collected.
    #[doc(alias = "blk_finish_plug")]
    pub fn plug_finish(&self, cx: &Cx<'_, H>) {
        let plug = cx.local::<Plug>();
        let depth = plug.depth.get();
        debug_assert!(depth > 0, "closed a plug that was not open");
        if depth == 1 {
            self.plug_flush(cx);
        }
        plug.depth.set(depth - 1);
    }

    /// Submits the requests that the task has plugged (called before it sleeps).
    #[doc(alias = "blk_flush_plug")]
    #[doc(alias = "blk_flush_plug_list")]
    pub fn plug_flush(&self, cx: &Cx<'_, H>) {
        for request in cx.local::<Plug>().take() {
            self.dispatch(cx, request);
        }
    }
}
