//! What an address space maps where: mmap, finding areas, taking them out, changing their flags.
//!
//! Addresses are given out from the bottom up, first fit. Areas are values that never change: a
//! change of flags or an unmapped part puts new areas in the place of the old one.
//!
//! A file knows who maps it (`File::mappings`), for reverse mapping. New ranges are added before old
//! ones are removed, so that a walk in between meets a page's entry twice rather than never.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Area, AreaFlags, Backing, Space, SpaceTables};
use crate::host::{Cost, Cx, Devices, Lock, Probe, Tasks};
use crate::kernel::{Error, Kernel};
use crate::swap::VmaSwapState;
use crate::sync::order::LockClass;

/// Areas taken out of a space, and the range that tables may cover which go with them.
pub(crate) struct Detached<H: Tasks> {
    /// Ascending; they do not overlap.
    pub areas: Vec<Arc<Area<H>>>,
    /// End of the area before them.
    pub floor: u32,
    /// Start of the area after them.
    pub ceiling: u32,
}

/// `vpn` or the next multiple of `align` (a power of two).
const fn align_up(vpn: u32, align: u32) -> Option<u32> {
    match vpn.checked_add(align - 1) {
        Some(sum) => Some(sum & !(align - 1)),
        None => None,
    }
}

impl<H: Tasks> SpaceTables<H> {
    /// The lowest free range of `pages` pages that starts at a multiple of `align`.
    fn find_room(&mut self, pages: u32, align: u32, top: u32) -> Option<u32> {
        let fits = |hole: u32, end: u32| {
            align_up(hole, align).filter(|at| at.checked_add(pages).is_some_and(|e| e <= end))
        };
        let mut hole = self.area(self.next_free).map_or(self.next_free, |area| area.end);
        let mut first_hole = None;
        let mut found = None;
        for area in self.areas.range(hole..).map(|(_, area)| area) {
            found = fits(hole, area.start);
            if found.is_some() {
                break;
            }
            if hole < area.start {
                first_hole.get_or_insert(hole);
            }
            hole = area.end;
        }
        let at = found.or_else(|| fits(hole, top))?;
        self.next_free = match first_hole {
            Some(hole) => hole,
            None if at == hole => at + pages,
            None => hole,
        };
        Some(at)
    }
}

impl<H: Devices> Kernel<H> {
    /// Maps `pages` pages at a free address aligned to `align` pages (a power of two); the first
    /// virtual page. No page is allocated, unless the area is LOCKED: then all are, as far as
    /// memory goes.
    ///
    /// # Errors
    /// If the request makes no sense, if the space has no room, or if it asks for more private
    /// writable memory than memory and swap together (`vm.overcommit_memory` = 0).
    pub fn mmap(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        pages: u32,
        align: u32,
        flags: AreaFlags,
        backing: Backing<H>,
    ) -> Result<u32, Error> {
        cx.charge(Cost::Syscall, 1);
        self.enter_space(cx, space);
        self.check_mapping(pages, align, flags, &backing)?;
        let guard = space.mmap_lock.write(cx);
        let swap = Arc::new(cx.host.new_lock(LockClass::Table, VmaSwapState::default()));
        let area = {
            let mut tables = space.tables.lock(cx.cpu());
            let room = tables.find_room(pages, align, Space::<H>::TOP);
            let start = room.ok_or(Error::NoMemory)?;
            let area = Arc::new(Area { start, end: start + pages, flags, backing, swap });
            tables.areas.insert(start, Arc::clone(&area));
            area
        };
        self.list_mapping(cx, space, &area);
        drop(guard);
        if flags.contains(AreaFlags::LOCKED) {
            // As MAP_LOCKED: what cannot be populated is not an error.
            let _ = self.populate(cx, space, area.start, area.end);
        }
        Ok(area.start)
    }

    fn check_mapping(
        &self,
        pages: u32,
        align: u32,
        flags: AreaFlags,
        backing: &Backing<H>,
    ) -> Result<(), Error> {
        if pages == 0 || !align.is_power_of_two() {
            return Err(Error::Invalid);
        }
        match backing {
            Backing::Anon if flags.contains(AreaFlags::SHARED) => {
                return Err(Error::Limit("shared anonymous memory"));
            }
            Backing::File { page, .. } if page.checked_add(pages).is_none() => {
                return Err(Error::Invalid);
            }
            _ => {}
        }
        // Only what could have to be kept in memory or swap counts.
        let is_private = !flags.contains(AreaFlags::SHARED);
        if is_private && flags.contains(AreaFlags::WRITE) {
            let memory: u64 = self.mem.populated_zones().map(|zone| zone.info.managed()).sum();
            if u64::from(pages) > memory + self.swap.nr_total() {
                return Err(Error::NoMemory);
            }
        }
        Ok(())
    }

    /// The area around a virtual page.
    #[inline]
    pub(crate) fn find_area(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        vpn: u32,
    ) -> Option<Arc<Area<H>>> {
        space.area_of(cx.cpu(), vpn)
    }

    /// Takes the areas of `start..end` out of a space, cutting those that reach beyond it. Holes are
    /// fine. The caller holds `mmap_lock` for writing, unmaps what they mapped, and after that has
    /// their files forget them ([`Self::forget_detached`]): a truncation meanwhile has to find what
    /// is still mapped.
    pub(crate) fn detach_areas(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        end: u32,
    ) -> Detached<H> {
        let (areas, _) = self.replace_areas(cx, space, start, end, |_| None);
        let mut tables = space.tables.lock(cx.cpu());
        tables.next_free = tables.next_free.min(start.max(Space::<H>::BASE));
        let (floor, ceiling) = tables.room_around(start, end, Space::<H>::TOP);
        Detached { areas, floor, ceiling }
    }

    /// The files of areas that were taken out and unmapped do not know them any more.
    pub(crate) fn forget_detached(&self, cx: &Cx<'_, H>, space: &Space<H>, detached: &Detached<H>) {
        detached.areas.iter().for_each(|area| self.unlist_mapping(cx, space, area));
    }

    /// Changes the flags of `start..end`: `add` set, `remove` cleared. The caller holds `mmap_lock`
    /// for writing. The parts that changed, as they were; and an error if part of the range is not
    /// mapped (the rest is changed nonetheless, as Linux does).
    pub(crate) fn change_area_flags(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        (start, end): (u32, u32),
        add: AreaFlags,
        remove: AreaFlags,
    ) -> (Vec<Arc<Area<H>>>, Result<(), Error>) {
        let flags = |old: AreaFlags| Some((old - remove) | add);
        let (changed, covered) = self.replace_areas(cx, space, start, end, flags);
        let all = covered == end.saturating_sub(start);
        (changed, if all { Ok(()) } else { Err(Error::Fault) })
    }

    /// Puts parts with other flags (none: nothing) in the place of what lies in `start..end`; the
    /// parts that went, and how many pages of the range were mapped. Files still know the parts for
    /// which nothing came.
    fn replace_areas(
        &self,
        cx: &Cx<'_, H>,
        space: &Space<H>,
        start: u32,
        end: u32,
        flags: impl Fn(AreaFlags) -> Option<AreaFlags>,
    ) -> (Vec<Arc<Area<H>>>, u32) {
        let mut gone = Vec::new();
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let mut covered = 0;
        {
            let mut tables = space.tables.lock(cx.cpu());
            let old: Vec<_> = tables.areas_in(start, end).cloned().collect();
            for area in old {
                let (from, to) = (area.start.max(start), area.end.min(end));
                covered += to - from;
                let new = flags(area.flags);
                if new == Some(area.flags) {
                    continue;
                }
                tables.areas.remove(&area.start);
                let kept = [
                    (area.start, from, Some(area.flags)),
                    (from, to, new),
                    (to, area.end, Some(area.flags)),
                ];
                for (from, to, flags) in kept {
                    if let Some(flags) = flags
                        && from < to
                    {
                        let part = Arc::new(area.part(from, to, flags));
                        tables.areas.insert(from, Arc::clone(&part));
                        added.push(part);
                    }
                }
                let part = match (from, to) == (area.start, area.end) {
                    true => Arc::clone(&area),
                    false => Arc::new(area.part(from, to, area.flags)),
                };
                if new.is_none() {
                    added.push(Arc::clone(&part));
                }
                gone.push(part);
                removed.push(area);
            }
        }
        for area in &removed {
            let stays = |new: &Arc<Area<H>>| (new.start, new.end) == (area.start, area.end);
            if !added.iter().any(stays) {
                added.iter().for_each(|area| self.list_mapping(cx, space, area));
                self.unlist_mapping(cx, space, area);
            }
        }
        (gone, covered)
    }

    fn list_mapping(&self, cx: &Cx<'_, H>, space: &Space<H>, area: &Area<H>) {
        if let Some((open, range)) = area.map_range(space.id) {
            open.file.mappings.lock(cx.cpu()).insert(range, ());
        }
    }

    fn unlist_mapping(&self, cx: &Cx<'_, H>, space: &Space<H>, area: &Area<H>) {
        if let Some((open, range)) = area.map_range(space.id) {
            open.file.mappings.lock(cx.cpu()).remove(&range);
        }
    }
}
