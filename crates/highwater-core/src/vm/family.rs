//! Families of address spaces by fork: where else a page of one mm may be mapped.
//!
//! An anonymous page belongs to the mm whose fault created it. After a fork only the child and
//! its descendants may map it too, at the same address. So each mm that forked has a list of its
//! living *descendants* here. The mappings of one of its pages are searched in it and in those
//! (rules/rmap#forked). The kernel's `anon_vma` has the same information, by VMA instead of by
//! mm.
//!
//! Most mms never fork, and after a fork most pages are soon written by one side. So a flag of
//! the page, [`PageFlags::FORKED`](crate::page::PageFlags::FORKED), shows whether another mm may
//! map it. Without the flag this table is not used.
//!
//! | a page is marked | and its mapping becomes |
//! |---|---|
//! | by a fork, with the entry that is copied | stays |
//! | by a swap-in of a slot that others may name | the oldest mm of the family, if nothing maps the page |
//!
//! | the mark goes | and its mapping becomes |
//! |---|---|
//! | when a writer finds that it is the only user | the writer |
//! | with a swap-in of a slot that only the reader names | the reader |
//!
//! An mm that has ended keeps its entry while descendants live, because pages may still belong to
//! it.
//!
//! Synchronisation: [`Families`] is behind a `Table` lock, held for single steps.
//!
//! From: [`super::rmap`], [`super::mm`] · to: nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::ops::Bound;

use super::Mm;
use crate::host::{Cx, Devices, Lock, Tasks};
use crate::kernel::Kernel;
use crate::page::MmId;

/// Descendants by ancestor. Numbers of mms grow, so a parent's is smaller than its children's.
#[derive(Debug, Default)]
pub(crate) struct Families {
    descendants: BTreeMap<MmId, BTreeSet<MmId>>,
}

impl Families {
    /// An mm is one of its ancestors' family.
    fn add(&mut self, mm: MmId, ancestors: &[MmId]) {
        for &ancestor in ancestors {
            self.descendants.entry(ancestor).or_default().insert(mm);
        }
    }

    /// Removes an mm that maps nothing any more.
    fn remove(&mut self, mm: MmId, ancestors: &[MmId]) {
        for ancestor in ancestors {
            let Some(family) = self.descendants.get_mut(ancestor) else { continue };
            family.remove(&mm);
            if family.is_empty() {
                self.descendants.remove(ancestor);
            }
        }
    }

    /// Descendants of an mm that come after one, oldest first: how many were found. If the buffer is full,
    /// there may be more.
    pub(super) fn next_descendants(&self, of: MmId, after: MmId, found: &mut [MmId]) -> usize {
        let Some(family) = self.descendants.get(&of) else { return 0 };
        let next = family.range((Bound::Excluded(after), Bound::Unbounded));
        found.iter_mut().zip(next).map(|(place, mm)| *place = *mm).count()
    }

    /// Ancestor and descendant, each pair once: for audits.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (MmId, MmId)> {
        self.descendants.iter().flat_map(|(&of, all)| all.iter().map(move |&mm| (of, mm)))
    }
}

impl<H: Tasks> Mm<H> {
    /// The mm from which all that can map this one's pages came, itself among them.
    pub(super) fn oldest_ancestor(&self) -> MmId {
        self.ancestors.first().copied().unwrap_or(self.id)
    }
}

impl<H: Devices> Kernel<H> {
    pub(super) fn join_family(&self, cx: &Cx<'_, H>, mm: &Mm<H>) {
        if !mm.ancestors.is_empty() {
            self.families.lock(cx.cpu()).add(mm.id, &mm.ancestors);
        }
    }

    pub(super) fn leave_family(&self, cx: &Cx<'_, H>, mm: &Arc<Mm<H>>) {
        if !mm.ancestors.is_empty() {
            self.families.lock(cx.cpu()).remove(mm.id, &mm.ancestors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_oldest_first_and_outlive_who_forked_them() {
        let [a, b, c, d] = [1, 2, 3, 4].map(MmId);
        let mut all = Families::default();
        all.add(b, &[a]);
        all.add(c, &[a, b]);
        all.add(d, &[a]);
        let after = |all: &Families, of, from| {
            let mut found = [MmId(0); 2];
            let n = all.next_descendants(of, from, &mut found);
            found[..n].to_vec()
        };
        assert_eq!((after(&all, a, a), after(&all, a, c)), (alloc::vec![b, c], alloc::vec![d]));
        assert_eq!(after(&all, b, b), [c], "not its brothers");
        all.remove(b, &[a]);
        assert_eq!((after(&all, a, a), after(&all, b, b)), (alloc::vec![c, d], alloc::vec![c]));
        all.remove(c, &[a, b]);
        all.remove(d, &[a]);
        assert_eq!(all.pairs().count(), 0);
    }
}
