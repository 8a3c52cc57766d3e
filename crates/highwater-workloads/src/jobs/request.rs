//! Requests: operations of several steps, whose latency is that of the whole.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use highwater_core::host::Devices;
use highwater_core::kernel::Error;
use highwater_core::lru::Refaults;

use super::act::{Counted, pattern};
use super::pick::Picker;
use super::run::Running;
use super::{Often, Pattern, Phase};
use crate::random::Random;

/// The next page or block of each step of a request. Continues from request to request; helpers
/// share it.
pub(super) type Steps = Rc<RefCell<Pickers>>;

pub(super) struct Pickers {
    random: Random,
    /// For each step: the number of pages or blocks, and its picker; `None`: no request so far.
    steps: Vec<Option<(u64, Picker)>>,
}

impl Pickers {
    pub(super) fn new(nr_steps: usize, seed: u64) -> Steps {
        let steps = (0..nr_steps).map(|_| None).collect();
        Rc::new(RefCell::new(Pickers { random: Random::new(seed), steps }))
    }

    /// One of `n` in a pattern; a file that has grown since then offers a larger choice.
    fn next(&mut self, step: usize, pattern: Pattern, n: u64) -> u64 {
        let Pickers { random, steps } = self;
        let (_, picker) = match &mut steps[step] {
            Some(known) if known.0 == n => known,
            other => other.insert((n, Picker::new(pattern, n, random.below(u64::MAX)))),
        };
        picker.next()
    }
}

impl<H: Devices> Running<'_, '_, H> {
    /// Runs the steps of a request.
    pub(super) fn request(&mut self, steps: &[Phase]) -> Result<Counted, Error> {
        let cx = self.cx;
        let refaulted = || cx.local::<Refaults>().0.each_ref().map(Cell::get);
        let mut all = Counted::default();
        for (number, step) in steps.iter().enumerate() {
            self.step = Some(number);
            let times = match step.often {
                Often::Times(times) => times,
                _ => 1,
            };
            let (from_ns, before) = (cx.host.now_ns(), refaulted());
            let (mut counted, mut nr_done) = (Counted::default(), 0);
            for _ in 0..times {
                let at = match self.units(&step.action) {
                    // A file or VMA without pages has nothing to touch.
                    Some(0) => break,
                    Some(n) => self.pickers.borrow_mut().next(number, pattern(&step.action), n),
                    None => 0,
                };
                counted.add(self.act(&step.action, at)?);
                nr_done += 1;
                if cx.is_dying() {
                    return Err(Error::Killed);
                }
                cx.host.user_point();
            }
            (self.ground.did)(self.at, nr_done > 0);
            // A step that found nothing to do is not an operation.
            if let Some((record, _)) = step.operation.as_ref().filter(|_| nr_done > 0) {
                let record = &mut self.records[*record];
                record.add(from_ns, cx.host.now_ns());
                record.tally(&counted, [before, refaulted()]);
            }
            all.add(counted);
        }
        self.step = None;
        Ok(all)
    }
}
