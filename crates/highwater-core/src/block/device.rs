//! The kernel's description of a device, and of common devices (rules/block#tags).

/// Largest request the block layer merges to: 1280 KiB (rules/block#plug), in pages.
const REQUEST_PAGES_MAX: u32 = 320;
/// Tags of a drive with a hardware queue (NVMe: 1024 entries, one of them unusable).
const NVME_TAGS: u32 = 1023;

/// The kernel's description of a device.
///
/// The constructors are named by kind of disk. For a disk that differs in a figure, override it:
///
/// ```
/// use highwater_core::block::DeviceSpec;
///
/// let checksummed = DeviceSpec { stable_writes: true, ..DeviceSpec::nvme(1 << 20) };
/// assert!(checksummed.depth > DeviceSpec::hdd(1 << 20).depth);
/// ```
///
/// | | seeks cost time | done before submission returns | tags |
/// |---|---|---|---|
/// | [`nvme`](Self::nvme) | no | no | 1023 |
/// | [`sata_ssd`](Self::sata_ssd) | no | no | 62 |
/// | [`hdd`](Self::hdd) | yes | no | 62 |
/// | [`ram`](Self::ram) | no | yes | 1023 |
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, rename_all = "kebab-case"))]
pub struct DeviceSpec {
    /// Size in pages.
    pub pages: u64,
    /// Requests in flight at once (tags).
    pub depth: u32,
    /// Largest request, pages.
    pub max_request_pages: u32,
    /// Largest number of pieces of memory in a request (`queue/max_segments`); 0: no limit. Pages of
    /// one bio whose frames follow each other are one piece.
    pub max_segments: u32,
    /// Largest readahead window of a file without advice, pages (`queue/read_ahead_kb`); 0 = no readahead.
    pub ra_pages: u32,
    /// Seeks cost time (`queue/rotational`): swap slots and swap readahead depend on it.
    pub rotational: bool,
    /// Done before submission returns (RAM-backed).
    pub synchronous: bool,
    /// Pages under writeback must not change (checksums).
    pub stable_writes: bool,
    /// Its queue bounds the writes in flight where the kernel's do at all (`queue/wbt_lat_usec` is not 0).
    pub throttles_writes: bool,
}

impl DeviceSpec {
    /// Default readahead of a device in pages: 128 KiB (`VM_READAHEAD_PAGES`).
    pub const RA_PAGES: u32 = 32;
    /// Commands that a SATA drive accepts at once. A device with more is an NVMe drive.
    pub const SATA_COMMANDS: u32 = 31;

    /// An NVMe drive, with a deep hardware queue.
    pub const fn nvme(pages: u64) -> Self {
        DeviceSpec {
            pages,
            depth: NVME_TAGS,
            max_request_pages: REQUEST_PAGES_MAX,
            max_segments: 0,
            ra_pages: Self::RA_PAGES,
            rotational: false,
            synchronous: false,
            stable_writes: false,
            throttles_writes: true,
        }
    }

    /// A SATA solid-state drive: twice as many tags as commands, as requests wait for a scheduler too.
    pub const fn sata_ssd(pages: u64) -> Self {
        DeviceSpec { depth: 2 * Self::SATA_COMMANDS, ..Self::nvme(pages) }
    }

    /// A rotating disk.
    pub const fn hdd(pages: u64) -> Self {
        DeviceSpec { rotational: true, ..Self::sata_ssd(pages) }
    }

    /// A disk in memory (brd, zram).
    pub const fn ram(pages: u64) -> Self {
        DeviceSpec { synchronous: true, ..Self::nvme(pages) }
    }
}
