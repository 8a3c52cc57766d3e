//! Contents of an address space: its VMAs by address, its page tables by level.
//!
//! ```text
//! top table (PGD) ─ third level (PUD), 512 GiB ─ second (PMD), 1 GiB ─ lowest (PTE), 2 MiB
//!                   vpn >> 27                    vpn >> 18             vpn >> 9
//! ```
//!
//! Every table is a frame, zeroed and unmovable. The upper levels exist only as frames.
//! [`MmTables`] has their content: a directory for each second-level table, found by index,
//! whose entries are the lowest tables.
//!
//! Reclaim's walks come back for page after page, and need not search again while nothing changed
//! ([`MmTables::changes`]).
//!
//! Synchronisation: behind `Mm::tables` (class `Table`), for single steps. VMAs change only with
//! the `mmap_lock` held for writing. Faults add tables (with the lock held for reading); unmapping
//! removes those of ranges without a VMA.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{PTES, PageTable, Vma};
use crate::host::Tasks;
use crate::page::Pfn;
use crate::sync::changes::Changes;

/// Pages that a lowest table covers, log2.
pub(super) const TABLE_SHIFT: u32 = 9;
/// Pages that a second-level table covers, log2.
pub(super) const PMD_SHIFT: u32 = 18;
/// Pages that a third-level table covers, log2.
pub(super) const PUD_SHIFT: u32 = 27;

/// A second-level table.
struct Directory<H: Tasks> {
    pfn: Pfn,
    nr_tables: u32,
    tables: [Option<Arc<PageTable<H>>>; PTES],
}

/// The VMAs and tables of an address space.
pub struct MmTables<H: Tasks> {
    /// VMAs by start. They do not overlap.
    vmas: BTreeMap<u32, Arc<Vma<H>>>,
    directories: Vec<Option<Box<Directory<H>>>>,
    puds: Vec<Option<Pfn>>,
    /// The top table; none once the mm is gone.
    pub(super) pgd: Option<Pfn>,
    /// No free range that was ever passed over lies below this.
    pub(super) next_free: u32,
    changes: Changes,
}

/// The levels that must exist before a lowest table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// A third-level table.
    Pud,
    /// A second-level table.
    Pmd,
}

fn grown<T>(list: &mut Vec<Option<T>>, index: usize) -> &mut Option<T> {
    if list.len() <= index {
        list.resize_with(index + 1, || None);
    }
    &mut list[index]
}

/// VMAs.
impl<H: Tasks> MmTables<H> {
    pub(super) fn new(pgd: Pfn, next_free: u32) -> Self {
        MmTables {
            vmas: BTreeMap::new(),
            directories: Vec::new(),
            puds: Vec::new(),
            pgd: Some(pgd),
            next_free,
            changes: Changes::default(),
        }
    }

    /// Additions and removals of VMAs and lowest tables. While their number is the same, earlier
    /// results of lookups are valid.
    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Adds a VMA, or puts one in the place of the one that begins where it does.
    pub(super) fn insert_vma(&mut self, vma: Arc<Vma<H>>) {
        self.changes.count();
        self.vmas.insert(vma.start, vma);
    }

    /// Takes out the VMA that begins at a virtual page.
    pub(super) fn remove_vma(&mut self, start: u32) {
        self.changes.count();
        self.vmas.remove(&start);
    }

    /// VMAs that begin at a virtual page or after it, ascending.
    pub(super) fn vmas_from(&self, vpn: u32) -> impl Iterator<Item = &Arc<Vma<H>>> {
        self.vmas.range(vpn..).map(|(_, vma)| vma)
    }

    /// The VMA around a virtual page.
    #[inline]
    pub fn vma(&self, vpn: u32) -> Option<&Arc<Vma<H>>> {
        let (_, vma) = self.vmas.range(..=vpn).next_back()?;
        (vpn < vma.end).then_some(vma)
    }

    /// VMAs that overlap a range, ascending; an empty range has none.
    pub fn vmas_in(&self, start: u32, end: u32) -> impl Iterator<Item = &Arc<Vma<H>>> {
        let first = self.vma(start).map_or(start, |vma| vma.start);
        let end = if start < end { end } else { first };
        self.vmas.range(first..end).map(|(_, vma)| vma)
    }

    /// All VMAs, ascending.
    pub fn all_vmas(&self) -> impl Iterator<Item = &Arc<Vma<H>>> {
        self.vmas.values()
    }

    /// End of the VMA before a range and start of the one after it (`top` if there is none): the
    /// range within which tables may be freed (floor and ceiling, rules/faults#table-freeing).
    pub fn room_around(&self, start: u32, end: u32, top: u32) -> (u32, u32) {
        let floor = self.vmas.range(..start).next_back().map_or(0, |(_, vma)| vma.end);
        let ceiling = self.vmas.range(end..).next().map_or(top, |(&start, _)| start);
        (floor, ceiling)
    }
}

/// Tables: finding and adding.
impl<H: Tasks> MmTables<H> {
    /// The lowest table of a virtual page.
    #[inline(always)]
    pub fn table(&self, vpn: u32) -> Option<&Arc<PageTable<H>>> {
        let directory = self.directories.get((vpn >> PMD_SHIFT) as usize)?.as_ref()?;
        directory.tables[(vpn >> TABLE_SHIFT) as usize % PTES].as_ref()
    }

    /// The first lowest table that covers pages of `from..end`, and the first page it covers.
    pub fn next_table(&self, from: u32, end: u32) -> Option<(u32, &Arc<PageTable<H>>)> {
        if from >= end {
            return None;
        }
        let mut vpn = from >> TABLE_SHIFT << TABLE_SHIFT;
        while vpn < end {
            let Some(directory) = self.directories.get((vpn >> PMD_SHIFT) as usize)? else {
                vpn = ((vpn >> PMD_SHIFT) + 1).checked_mul(1 << PMD_SHIFT)?;
                continue;
            };
            if let Some(table) = &directory.tables[(vpn >> TABLE_SHIFT) as usize % PTES] {
                return Some((vpn, table));
            }
            vpn = vpn.checked_add(1 << TABLE_SHIFT)?;
        }
        None
    }

    /// The upper table that is missing for a lowest table of a virtual page.
    #[inline]
    pub(super) fn missing_level(&self, vpn: u32) -> Option<Level> {
        let has_pmd = |d: &Option<Box<Directory<H>>>| d.is_some();
        if self.directories.get((vpn >> PMD_SHIFT) as usize).is_some_and(has_pmd) {
            return None;
        }
        let has_pud = self.puds.get((vpn >> PUD_SHIFT) as usize).is_some_and(Option::is_some);
        Some(if has_pud { Level::Pmd } else { Level::Pud })
    }

    /// Adds an upper table; false if it exists already or (second level) its parent does not.
    pub(super) fn insert_upper(&mut self, level: Level, vpn: u32, pfn: Pfn) -> bool {
        if self.missing_level(vpn) != Some(level) {
            return false;
        }
        match level {
            Level::Pud => *grown(&mut self.puds, (vpn >> PUD_SHIFT) as usize) = Some(pfn),
            Level::Pmd => {
                let tables = core::array::from_fn(|_| None);
                let directory = Box::new(Directory { pfn, nr_tables: 0, tables });
                *grown(&mut self.directories, (vpn >> PMD_SHIFT) as usize) = Some(directory);
            }
        }
        true
    }

    /// Adds a lowest table unless there is one; returns the present table, and whether it is the
    /// new one. `None` if the second level is missing.
    pub(super) fn insert_table(
        &mut self,
        vpn: u32,
        new: impl FnOnce() -> Arc<PageTable<H>>,
    ) -> Option<(Arc<PageTable<H>>, bool)> {
        let directory = self.directories.get_mut((vpn >> PMD_SHIFT) as usize)?.as_mut()?;
        let slot = &mut directory.tables[(vpn >> TABLE_SHIFT) as usize % PTES];
        if let Some(table) = slot {
            return Some((Arc::clone(table), false));
        }
        let table = slot.insert(new());
        directory.nr_tables += 1;
        self.changes.count();
        Some((Arc::clone(table), true))
    }
}

/// Removes tables whose range no VMA touches any more; the caller frees the frames.
impl<H: Tasks> MmTables<H> {
    /// Takes out the lowest table of a virtual page.
    pub fn take_table(&mut self, vpn: u32) -> Option<Arc<PageTable<H>>> {
        let directory = self.directories.get_mut((vpn >> PMD_SHIFT) as usize)?.as_mut()?;
        let table = directory.tables[(vpn >> TABLE_SHIFT) as usize % PTES].take()?;
        directory.nr_tables -= 1;
        self.changes.count();
        Some(table)
    }

    /// Takes out the second-level table of a virtual page; none while lowest tables hang on it.
    pub fn take_pmd(&mut self, vpn: u32) -> Option<Pfn> {
        let slot = self.directories.get_mut((vpn >> PMD_SHIFT) as usize)?;
        if slot.as_ref().is_some_and(|directory| directory.nr_tables > 0) {
            return None;
        }
        slot.take().map(|directory| directory.pfn)
    }

    /// Takes out the third-level table of a virtual page; none while second-level tables hang on
    /// it.
    pub fn take_pud(&mut self, vpn: u32) -> Option<Pfn> {
        let first = (vpn >> PUD_SHIFT << (PUD_SHIFT - PMD_SHIFT)) as usize;
        let below = self.directories.iter().skip(first).take(PTES);
        if below.flatten().next().is_some() {
            return None;
        }
        self.puds.get_mut((vpn >> PUD_SHIFT) as usize)?.take()
    }

    /// All frames that hold tables: the top one, third level, second level, lowest level.
    pub fn table_frames(&self) -> impl Iterator<Item = Pfn> {
        let lower = self.directories.iter().flatten().flat_map(|directory| {
            let tables = directory.tables.iter().flatten().map(|table| table.pfn);
            core::iter::once(directory.pfn).chain(tables)
        });
        self.upper_frames().chain(lower)
    }

    /// Frames of the top table and of the third level, which `nr_page_table_pages` does not count.
    pub fn upper_frames(&self) -> impl Iterator<Item = Pfn> {
        self.pgd.iter().chain(self.puds.iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Solo;
    use crate::sync::order::LockClass;
    use crate::units::MemoryPolicy;
    use crate::vm::{Backing, VmaFlags};

    fn tables() -> MmTables<Solo> {
        MmTables::new(Pfn(0), 0)
    }

    fn table<H: Tasks>(host: &H, pfn: u32) -> Arc<PageTable<H>> {
        Arc::new(PageTable::new(host, Pfn(pfn)))
    }

    #[test]
    fn a_table_needs_the_levels_above_it_and_goes_before_them() {
        let host = Solo::default();
        let mut all = tables();
        let vpn = (3 << PUD_SHIFT) + (5 << PMD_SHIFT) + 700;
        assert_eq!(all.missing_level(vpn), Some(Level::Pud));
        assert!(!all.insert_upper(Level::Pmd, vpn, Pfn(2)));
        assert!(all.insert_table(vpn, || table(&host, 3)).is_none());
        assert!(all.insert_upper(Level::Pud, vpn, Pfn(1)));
        assert!(!all.insert_upper(Level::Pud, vpn, Pfn(9)), "the loser of a race");
        assert!(all.insert_upper(Level::Pmd, vpn, Pfn(2)));
        assert_eq!(all.missing_level(vpn), None);
        assert!(all.insert_table(vpn, || table(&host, 3)).is_some_and(|(_, is_new)| is_new));
        let again = all.insert_table(vpn + 1, || unreachable!("it is there"));
        assert!(again.is_some_and(|(table, is_new)| !is_new && table.pfn == Pfn(3)));
        assert!(all.table_frames().eq([0, 1, 2, 3].map(Pfn)));
        assert!(all.take_pmd(vpn).is_none() && all.take_pud(vpn).is_none());
        assert_eq!(all.take_table(vpn).map(|table| table.pfn), Some(Pfn(3)));
        assert!(all.take_pud(vpn).is_none());
        assert_eq!((all.take_pmd(vpn), all.take_pud(vpn)), (Some(Pfn(2)), Some(Pfn(1))));
        assert!(all.table(vpn).is_none() && all.take_table(vpn).is_none());
    }

    fn vma<H: Tasks>(host: &H, flags: VmaFlags) -> Arc<Vma<H>> {
        let (backing, policy) = (Backing::Anon, MemoryPolicy::default());
        let swap = Arc::new(host.new_lock(LockClass::Table, Default::default()));
        Arc::new(Vma { start: 7, end: 9, flags, backing, policy, swap })
    }

    /// Otherwise a caller that comes back would use an outdated result.
    #[test]
    fn whatever_comes_or_goes_is_a_change() {
        let host = Solo::default();
        let mut all = tables();
        assert!(all.insert_upper(Level::Pud, 0, Pfn(1)) && all.insert_upper(Level::Pmd, 0, Pfn(2)));
        let mut last = all.changes().get();
        let mut is_change = |all: &MmTables<Solo>| {
            let now = all.changes().get();
            core::mem::replace(&mut last, now) != now
        };
        all.insert_vma(vma(&host, VmaFlags::READ));
        assert!(is_change(&all));
        all.insert_vma(vma(&host, VmaFlags::LOCKED));
        assert!(is_change(&all), "in the place of the other");
        all.remove_vma(7);
        assert!(is_change(&all));
        assert!(all.insert_table(7, || table(&host, 3)).is_some());
        assert!(is_change(&all));
        assert!(all.insert_table(8, || unreachable!("it is there")).is_some());
        assert!(!is_change(&all), "nothing came");
        assert!(all.take_table(7).is_some());
        assert!(is_change(&all));
        assert!(all.take_table(7).is_none() && !is_change(&all), "nothing is left to go");
    }

    #[test]
    fn the_next_table_is_found_across_empty_directories() {
        let host = Solo::default();
        let mut all = tables();
        let far = 4 << PMD_SHIFT;
        assert!(all.insert_upper(Level::Pud, far, Pfn(1)));
        assert!(all.insert_upper(Level::Pmd, far, Pfn(2)));
        for vpn in [far + 512, far + 2048] {
            assert!(all.insert_table(vpn, || table(&host, vpn)).is_some());
        }
        let next = |from, end| all.next_table(from, end).map(|(vpn, _)| vpn);
        assert_eq!(next(0, u32::MAX), Some(far + 512));
        assert_eq!(
            next(far + 1023, far + 1024),
            Some(far + 512),
            "it covers the page before its end"
        );
        assert_eq!(next(far + 1024, far + 2048), None);
        assert_eq!(next(far + 1000, far + 1000), None, "an empty range has no table");
        assert_eq!(next(far + 1024, far + 2049), Some(far + 2048));
        assert_eq!(next(far + 4096, u32::MAX), None);
    }
}
