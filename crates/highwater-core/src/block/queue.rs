//! Request queues.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Bio, DeviceId, DeviceSpec};
use crate::host::{Cx, Devices, IoError, IoRequest};
use crate::kernel::Kernel;
use crate::sync::WaitQueue;
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// One device's queue.
pub struct BlockDevice<H: Devices> {
    /// Its number.
    pub id: DeviceId,
    /// What it is.
    pub spec: DeviceSpec,
    /// Requests handed to the host and not back.
    pub(crate) in_flight: AtomicU32,
    /// Number of the next request.
    pub(crate) next_id: AtomicU64,
    /// Submitters waiting for a tag.
    pub(crate) tag_wait: WaitQueue<H>,
}

/// All devices.
pub struct BlockLayer<H: Devices> {
    /// By number.
    pub devices: Box<[BlockDevice<H>]>,
}

impl<H: Devices> BlockLayer<H> {
    /// Queues for devices 0, 1, ...
    pub fn new(host: &H, specs: &[DeviceSpec]) -> Self {
        let device = |(id, spec): (usize, &DeviceSpec)| BlockDevice {
            id: DeviceId(id as u8),
            spec: spec.clone(),
            in_flight: AtomicU32::new(0),
            next_id: AtomicU64::new(0),
            tag_wait: WaitQueue::new(host),
        };
        BlockLayer { devices: specs.iter().enumerate().map(device).collect::<Vec<_>>().into() }
    }

    /// A device.
    pub fn device(&self, id: DeviceId) -> &BlockDevice<H> {
        &self.devices[usize::from(id.0)]
    }
}

impl<H: Devices> Kernel<H> {
    /// Opens a plug: bios are collected until the matching [`Kernel::plug_finish`].
    pub fn plug_start(&self, cx: &Cx<'_, H>) {
        let _ = cx;
        todo!()
    }

    /// Closes a plug; closing the outermost one submits what was collected.
    pub fn plug_finish(&self, cx: &Cx<'_, H>) {
        let _ = cx;
        todo!()
    }

    /// Submits what the task collected (called before it sleeps).
    pub fn plug_flush(&self, cx: &Cx<'_, H>) {
        let _ = cx;
        todo!()
    }

    /// Submits a bio, or adds it to the open plug. May sleep for a tag.
    pub fn submit_bio(&self, cx: &Cx<'_, H>, bio: Bio) {
        let _ = (cx, bio);
        todo!()
    }

    /// A request is done: its pages' owners learn of it, its tag is free. Called by the host, from
    /// interrupt context ([`crate::host::TaskFlags::IN_INTERRUPT`] set); never sleeps.
    pub fn end_request(&self, cx: &Cx<'_, H>, request: IoRequest, result: Result<(), IoError>) {
        let _ = (cx, request, result);
        todo!()
    }
}
