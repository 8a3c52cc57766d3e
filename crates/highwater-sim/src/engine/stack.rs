//! Coroutines with pooled stacks: the only module that switches stacks.
//!
//! Key types: `Coroutine` (a task's code, run by the executor with `Coroutine::resume`) and `Slot`
//! (the way back from the running code to the executor). A stack keeps its guard page. It costs
//! microseconds to make and nanoseconds to reuse, so finished tasks return theirs to a pool that
//! belongs to the OS thread and outlives simulations.
//!
//! Stacks consist of whole pages, so the hot tops of a thousand stacks would all compete for the
//! same few sets of the first-level cache. Each stack therefore starts a different number of cache
//! lines below its end (its *colour*).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{self, AssertUnwindSafe};

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{CoroutineResult, Yielder};
use highwater_core::sync::prefetch::prefetch_line;

/// Size of the stack that a task needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StackClass {
    /// 64 KiB: shallow device loops. Too little for a panic that prints a backtrace.
    Small,
    /// 256 KiB.
    #[default]
    Normal,
    /// 1 MiB: deep recursion, unoptimised builds.
    Large,
}

impl StackClass {
    const COUNT: usize = 3;

    /// Usable bytes.
    pub const fn bytes(self) -> usize {
        match self {
            StackClass::Small => 64 << 10,
            StackClass::Normal => 256 << 10,
            StackClass::Large => 1 << 20,
        }
    }
}

/// Stacks that a thread keeps per class for reuse; further stacks are unmapped.
const POOL_STACKS_MAX: usize = 4096;
const CACHE_LINE: usize = 64;
/// Colours go through one page, so that they cover every set of a page-indexed cache.
const NR_COLOURS: usize = 4096 / CACHE_LINE;

thread_local! {
    static POOL: RefCell<[Vec<DefaultStack>; StackClass::COUNT]> =
        const { RefCell::new([const { Vec::new() }; StackClass::COUNT]) };
    static NEXT_COLOUR: Cell<usize> = const { Cell::new(0) };
    /// The slot of the innermost running coroutine. Simulations may nest on one thread.
    static ACTIVE: Cell<*const Slot> = const { Cell::new(std::ptr::null()) };
}

/// A stack that returns to its thread's pool when dropped.
///
/// Two words, so that the table of coroutines stays small: a switch reads only `base`.
struct PooledStack {
    base: StackPointer,
    rest: Box<StackRest>,
}

struct StackRest {
    /// `Some` until dropped.
    stack: Option<DefaultStack>,
    limit: StackPointer,
    class: StackClass,
}

impl PooledStack {
    fn new(class: StackClass) -> io::Result<Self> {
        let pooled = POOL.with_borrow_mut(|pool| pool[class as usize].pop());
        let stack = match pooled {
            Some(stack) => stack,
            // One page more than the class's size leaves room for the colour.
            None => DefaultStack::new(class.bytes() + NR_COLOURS * CACHE_LINE)?,
        };
        let colour = NEXT_COLOUR.get();
        // 5 is coprime to the number of colours: neighbours in time are not neighbours in cache.
        NEXT_COLOUR.set((colour + 5) % NR_COLOURS);
        let base = StackPointer::new(stack.base().get() - colour * CACHE_LINE)
            .unwrap_or_else(|| stack.base());
        let rest = StackRest { limit: stack.limit(), stack: Some(stack), class };
        Ok(PooledStack { base, rest: Box::new(rest) })
    }
}

impl Drop for PooledStack {
    fn drop(&mut self) {
        let Some(stack) = self.rest.stack.take() else { return };
        // At thread exit the pool may be gone already; the stack is unmapped then.
        let _ = POOL.try_with(|pool| {
            let pool = &mut pool.borrow_mut()[self.rest.class as usize];
            if pool.len() < POOL_STACKS_MAX {
                pool.push(stack);
            }
        });
    }
}

// SAFETY: 1. `base` and `limit` are those of the stack in `rest`, an owned mapping with a guard
// page at its low end, which lives as long as `self`. 2. `base` is lowered by less than the page
// that `new` added to the class's size, so at least `class.bytes()` >= MIN_STACK_SIZE usable bytes
// remain. 3. It is lowered by a multiple of 64, which keeps STACK_ALIGNMENT (16).
unsafe impl Stack for PooledStack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.rest.limit
    }
}

/// The end of a resume.
pub(crate) enum Step {
    /// The code suspended itself and can be resumed.
    Suspended,
    /// The code returned.
    Finished,
    /// The code panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
}

/// The code of one task. Dropping a suspended one unwinds its stack.
pub(crate) struct Coroutine {
    inner: corosensei::Coroutine<*const Slot, (), (), PooledStack>,
    /// An address in the frame that suspended it; 0 before that.
    top: usize,
}

impl Coroutine {
    /// A coroutine that will run `body` at its first resume.
    pub(crate) fn new(class: StackClass, body: impl FnOnce() + 'static) -> io::Result<Self> {
        let stack = PooledStack::new(class)?;
        let inner = corosensei::Coroutine::with_stack(stack, |yielder, slot: *const Slot| {
            // SAFETY: `resume` passes a pointer to its argument, which outlives the resume that
            // makes this first call.
            unsafe { (*slot).yielder.set(std::ptr::from_ref(yielder)) };
            body();
        });
        Ok(Coroutine { inner, top: 0 })
    }

    /// Runs the code until it suspends through `slot`, returns or panics. Every resume of one
    /// coroutine names the same slot.
    #[inline]
    pub(crate) fn resume(&mut self, slot: &Slot) -> Step {
        let outer = ACTIVE.replace(slot);
        let result =
            panic::catch_unwind(AssertUnwindSafe(|| self.inner.resume(std::ptr::from_ref(slot))));
        ACTIVE.set(outer);
        match result {
            Ok(CoroutineResult::Yield(())) => {
                self.top = slot.top.get();
                Step::Suspended
            }
            Ok(CoroutineResult::Return(())) => Step::Finished,
            Err(payload) => Step::Panicked(payload),
        }
    }

    /// Prefetches, on the real CPU, the part of the stack that resuming uses first. Without this,
    /// simulations of thousands of tasks spend much of their time waiting for these cache lines.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        if self.top != 0 {
            let from = self.top.wrapping_sub(STACK_LINES_BELOW * CACHE_LINE);
            for line in 0..STACK_LINES_BELOW + 1 + STACK_LINES_ABOVE {
                prefetch_line(from.wrapping_add(line * CACHE_LINE));
            }
        }
    }
}

/// The way out of the coroutine that an executor is running.
pub(crate) struct Slot {
    /// The running coroutine's; stale when none runs.
    yielder: Cell<*const Yielder<*const Slot, ()>>,
    /// An address in the frame that suspended last.
    top: Cell<usize>,
}

impl Slot {
    pub(crate) const fn new() -> Self {
        Slot { yielder: Cell::new(std::ptr::null()), top: Cell::new(0) }
    }

    /// Goes back to the [`Coroutine::resume`] that runs the caller; returns at the next resume.
    ///
    /// # Panics
    /// If the caller is not a coroutine that this slot's executor runs (code outside any task, or a
    /// task of another simulation).
    ///
    /// Inlined as far up as possible: the processor mispredicts a return from a frame that was
    /// entered on another stack.
    #[inline(always)]
    pub(crate) fn suspend(&self) {
        assert!(std::ptr::eq(ACTIVE.get(), self), "a task's wait was called outside that task");
        let yielder = self.yielder.get();
        self.top.set(std::ptr::from_ref(&yielder).addr());
        // SAFETY: 1. `ACTIVE` names this slot, so the innermost `resume` of this thread is one
        // with this slot, and the caller runs on the coroutine it resumed. 2. `yielder` is that
        // coroutine's: its first entry stored it, and each return from `suspend` below stores it
        // again. 3. A yielder lives on its coroutine's stack until the body ends, and the caller
        // is inside the body.
        unsafe { (*yielder).suspend(()) };
        self.yielder.set(yielder);
    }
}

/// Lines around an address in the frame that suspended a task: the registers saved below it, the
/// frames of the callers above.
const STACK_LINES_BELOW: usize = 1;
const STACK_LINES_ABOVE: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn stacks_are_reused_and_differ_in_colour() {
        let bases: Vec<usize> = (0..NR_COLOURS)
            .map(|_| PooledStack::new(StackClass::Small).expect("stack").base().get())
            .collect();
        // Dropped at once each time, so one mapping served them all, at every colour.
        let pages: std::collections::BTreeSet<usize> =
            bases.iter().map(|base| (base - 1) / 4096).collect();
        assert!(pages.len() <= 2, "{pages:?}");
        let colours: std::collections::BTreeSet<usize> =
            bases.iter().map(|base| base % 4096).collect();
        assert_eq!(colours.len(), NR_COLOURS);
    }

    #[test]
    fn dropping_a_suspended_coroutine_drops_its_locals() {
        let alive = Rc::new(());
        let inside = Rc::clone(&alive);
        let slot = Rc::new(Slot::new());
        let inner_slot = Rc::clone(&slot);
        let mut coroutine = Coroutine::new(StackClass::Normal, move || {
            let _inside = inside;
            inner_slot.suspend();
            unreachable!("never resumed");
        })
        .expect("stack");
        assert!(matches!(coroutine.resume(&slot), Step::Suspended));
        assert_eq!(Rc::strong_count(&alive), 2);
        drop(coroutine);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    #[test]
    fn a_panic_comes_out_as_its_payload() {
        let mut coroutine = Coroutine::new(StackClass::Normal, || {
            panic::resume_unwind(Box::new("payload"));
        })
        .expect("stack");
        let Step::Panicked(payload) = coroutine.resume(&Slot::new()) else { panic!("no panic") };
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"payload"));
    }

    #[test]
    #[should_panic(expected = "outside that task")]
    fn suspending_outside_a_coroutine_panics() {
        Slot::new().suspend();
    }
}
