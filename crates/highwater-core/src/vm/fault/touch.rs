//! The processor's side: accesses (rules/faults#access).

use core::ops::Range;

use super::{Access, Fault, Touched};
use crate::host::{Cost, Cx, Devices, Lock, Probe};
use crate::kernel::Kernel;
use crate::units::Error;
use crate::vm::tables::MmTables;
use crate::vm::{Mm, PTES};

/// The first page behind the table of a page.
#[inline(always)]
const fn end_of_table(vpn: u32) -> u32 {
    (vpn | (PTES as u32 - 1)).saturating_add(1)
}

impl<H: Devices> Kernel<H> {
    /// One access of a program to a virtual page: sets the entry's bits, or faults until it can.
    ///
    /// # Errors
    /// No such VMA or access, or beyond the end of the file ([`Error::Fault`]); a page that could
    /// not be read ([`Error::Io`]); no memory and nobody to kill ([`Error::NoMemory`]); or the task
    /// is to die ([`Error::Killed`]).
    #[inline]
    pub fn touch(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        vpn: u32,
        access: Access,
    ) -> Result<Fault, Error> {
        let mut went = Fault::None;
        loop {
            if cx.is_dying() {
                return Err(Error::Killed);
            }
            self.enter_mm(cx, mm);
            let is_write = access == Access::Write;
            let tables = mm.tables.lock(cx.cpu());
            let is_hit = tables.table(vpn).is_some_and(|table| table.access(vpn, is_write));
            drop(tables);
            if is_hit {
                cx.charge(Cost::UserTouch, 1);
                cx.host.user_point();
                return Ok(went);
            }
            went = went.max(self.fault(cx, mm, vpn, access)?);
        }
    }

    /// Accesses `pages` pages in order, each as [`Kernel::touch`] does.
    ///
    /// # Errors
    /// As [`Kernel::touch`]; the pages before were accessed.
    #[inline]
    pub fn touch_range(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        pages: u32,
        access: Access,
    ) -> Result<Touched, Error> {
        let end = start.checked_add(pages).ok_or(Error::Fault)?;
        if start == end {
            return Ok(Touched::default());
        }
        // Most calls cover one table that is already mapped; this fast path serves them.
        let at = self.touch_table(cx, mm, start..end, access)?;
        if at == end {
            return Ok(Touched::default());
        }
        self.touch_on(cx, mm, start, at..end, access)
    }

    /// Accesses `pages` pages in order, one page table's worth at a time, as
    /// [`Kernel::touch_range`] does. It calls `goes_on` before each, unless no other task can have
    /// run since. The result of `goes_on` may depend on other tasks, but not on the clock. Returns
    /// the number of accessed pages.
    ///
    /// # Errors
    /// As [`Kernel::touch`].
    pub fn touch_while(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        start: u32,
        pages: u32,
        access: Access,
        goes_on: impl Fn() -> bool,
    ) -> Result<u32, Error> {
        let end = start.checked_add(pages).ok_or(Error::Fault)?;
        let mut at = start;
        while at < end && goes_on() {
            // Nobody can come in while these are passed, so `goes_on` need not be asked again.
            at += self.touch_again(cx, mm, at..end);
            let piece = (PTES as u32).min(end - at);
            self.touch_range(cx, mm, at, piece, access)?;
            at += piece;
        }
        Ok(at - start)
    }

    /// Accesses whole tables that no access changes, as many as possible while no other task can
    /// run in between. Returns their pages.
    #[inline(always)]
    fn touch_again(&self, cx: &Cx<'_, H>, mm: &Mm<H>, range: Range<u32>) -> u32 {
        let is_table = range.start.is_multiple_of(PTES as u32);
        if H::THREADED || !is_table || cx.is_dying() || !self.is_entered(cx, mm) {
            return 0;
        }
        let hot_tables = |tables: &MmTables<H>, most: u32| {
            let starts = (0..most).map(|nr| range.start.saturating_add(nr * PTES as u32));
            let is_hot = |&at: &u32| {
                range.end.saturating_sub(at) >= PTES as u32
                    && tables.table(at).is_some_and(|table| table.is_all_hot())
            };
            starts.take_while(is_hot).count() as u32
        };
        let work = (Cost::UserTouch, PTES as u32);
        cx.host.again(&mm.tables, work, hot_tables) * PTES as u32
    }

    /// Accesses pages of one table, the first of a range, until one would fault; the page after
    /// them.
    #[inline(always)]
    fn touch_table(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        range: Range<u32>,
        access: Access,
    ) -> Result<u32, Error> {
        if cx.is_dying() {
            return Err(Error::Killed);
        }
        self.enter_mm(cx, mm);
        let stop = range.end.min(end_of_table(range.start));
        let hits = Self::access_run(cx, mm, range.start..stop, access);
        if hits > 0 {
            cx.charge(Cost::UserTouch, hits);
            cx.host.user_point();
        }
        Ok(range.start + hits)
    }

    /// Accesses the rest of a range; `asked` is the first page of the last table lookup.
    #[inline(never)]
    fn touch_on(
        &self,
        cx: &Cx<'_, H>,
        mm: &Mm<H>,
        mut asked: u32,
        range: Range<u32>,
        access: Access,
    ) -> Result<Touched, Error> {
        let Range { start: mut at, end } = range;
        let mut touched = Touched::default();
        loop {
            if at < end.min(end_of_table(asked)) {
                match self.fault(cx, mm, at, access)? {
                    Fault::Major => touched.major += 1,
                    Fault::Minor | Fault::None => touched.minor += 1,
                }
            }
            at += self.touch_again(cx, mm, at..end);
            if at == end {
                return Ok(touched);
            }
            asked = at;
            at = self.touch_table(cx, mm, at..end, access)?;
        }
    }

    /// Accesses pages of one table until one would fault; returns the number accessed.
    #[inline(always)]
    fn access_run(cx: &Cx<'_, H>, mm: &Mm<H>, range: Range<u32>, access: Access) -> u32 {
        let tables = mm.tables.lock(cx.cpu());
        let Some(table) = tables.table(range.start) else { return 0 };
        // A sweep goes on with the next one: its line comes while others run.
        if !H::THREADED
            && let Some(next) = tables.table(range.end)
        {
            next.access_soon();
        }
        table.access_run(range, access == Access::Write)
    }
}
