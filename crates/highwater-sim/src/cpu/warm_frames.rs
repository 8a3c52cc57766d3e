//! Records of the frames that were touched lately: a hash table by frame number that forgets.
//!
//! A machine has millions of frames and its caches hold thousands, so a record for each frame would be
//! memory that is touched for nothing, and a cache miss of the host for each simulated touch. Here only
//! frames touched lately have one. When three quarters of the places are taken the owner says which
//! records still matter ([`WarmFrames::retain`]); the others go, and the table has twice to four times as
//! many places as are left. So at least a quarter of the places are filled between two sweeps, and a
//! sweep costs a few steps for each record put in.
//!
//! Open addressing, linear probing. No record is ever taken out between sweeps, so probing needs no
//! tombstones; [`WarmFrames::forget`] leaves a record that says nothing. Nothing iterates in an order
//! that anybody could see.

use super::CpuId;

/// What is remembered of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The frame.
    pub(super) pfn: u32,
    /// Who touched it last.
    pub(super) last_cpu: CpuId,
    /// The byte counter of that CPU then.
    pub(super) cpu_stamp: u64,
    /// The sum of that CPU's socket then.
    pub(super) socket_stamp: u64,
}

/// No frame has this number: memory ends below 16 TiB.
const NOBODY: u32 = u32::MAX;
/// `last_cpu` of a frame that no cache holds.
const FORGOTTEN: CpuId = CpuId(u16::MAX);
/// Places of a new table.
const PLACES_MIN: usize = 1 << 10;

impl Record {
    const NONE: Record = Record { pfn: NOBODY, last_cpu: FORGOTTEN, cpu_stamp: 0, socket_stamp: 0 };
}

/// Where a frame's record is, or would be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(usize);

/// The records.
#[derive(Clone, Debug)]
pub(super) struct WarmFrames {
    /// A power of two.
    places: Vec<Record>,
    /// Places that are taken.
    nr_taken: usize,
    /// Memory of the last table, for the next sweep.
    spare: Vec<Record>,
}

impl Default for WarmFrames {
    fn default() -> Self {
        WarmFrames { places: vec![Record::NONE; PLACES_MIN], nr_taken: 0, spare: Vec::new() }
    }
}

impl WarmFrames {
    /// Where a frame's record is, or would be. Good until something is put elsewhere.
    #[inline]
    pub(super) fn find(&self, pfn: u32) -> Place {
        let mask = self.places.len() - 1;
        // Multiplying spreads neighbours; the upper half of the product depends on all bits of the number.
        let mut at = (u64::from(pfn).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            let found = self.places[at].pfn;
            if found == pfn || found == NOBODY {
                return Place(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The record there, if it says anything.
    #[inline]
    pub(super) fn at(&self, place: Place) -> Option<&Record> {
        let record = &self.places[place.0];
        (record.last_cpu != FORGOTTEN).then_some(record)
    }

    /// Puts a record where its frame was looked for; true if a sweep is due.
    #[inline]
    pub(super) fn put(&mut self, place: Place, record: Record) -> bool {
        let old = &mut self.places[place.0];
        let is_new = old.pfn == NOBODY;
        debug_assert!(is_new || old.pfn == record.pfn, "the place of another frame");
        *old = record;
        self.nr_taken += usize::from(is_new);
        is_new && self.nr_taken * 4 > self.places.len() * 3
    }

    /// The frame is as if nobody had touched it.
    pub(super) fn forget(&mut self, pfn: u32) {
        let place = self.find(pfn);
        self.places[place.0].last_cpu = FORGOTTEN;
    }

    /// Keeps the records that matter.
    pub(super) fn retain(&mut self, matters: impl Fn(&Record) -> bool) {
        let keep = |record: &&Record| record.last_cpu != FORGOTTEN && matters(record);
        let nr_kept = self.places.iter().filter(keep).count();
        let nr_places = (nr_kept * 2).next_power_of_two().max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, std::mem::take(&mut self.spare));
        self.places.clear();
        self.places.resize(nr_places, Record::NONE);
        for record in old.iter().filter(keep) {
            let place = self.find(record.pfn);
            self.places[place.0] = *record;
        }
        self.nr_taken = nr_kept;
        self.spare = old;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(pfn: u32, cpu_stamp: u64) -> Record {
        Record { pfn, last_cpu: CpuId(1), cpu_stamp, socket_stamp: 0 }
    }

    #[test]
    fn records_are_found_until_they_no_longer_matter() {
        let mut frames = WarmFrames::default();
        let mut nr_sweeps = 0;
        for pfn in 0..100_000 {
            let place = frames.find(pfn);
            assert_eq!(frames.at(place), None);
            if frames.put(place, record(pfn, u64::from(pfn) + 1)) {
                nr_sweeps += 1;
                let lately = u64::from(pfn).saturating_sub(5000);
                frames.retain(|record| record.cpu_stamp > lately);
            }
            for old in [pfn, pfn.saturating_sub(4999)] {
                let found = frames.at(frames.find(old)).copied();
                assert_eq!(found, Some(record(old, u64::from(old) + 1)), "{old} at {pfn}");
            }
        }
        assert!(frames.places.len() <= 4 * 5000, "{} places", frames.places.len());
        // A quarter of the places at least is filled in between.
        assert!(nr_sweeps <= 100_000 / (PLACES_MIN / 4), "{nr_sweeps} sweeps");
    }

    #[test]
    fn what_is_forgotten_may_come_back() {
        let mut frames = WarmFrames::default();
        frames.put(frames.find(7), record(7, 1));
        frames.forget(7);
        frames.forget(8);
        assert_eq!(frames.at(frames.find(7)), None);
        frames.put(frames.find(7), record(7, 2));
        assert_eq!(frames.at(frames.find(7)), Some(&record(7, 2)));
        assert_eq!(frames.nr_taken, 1);
    }
}
