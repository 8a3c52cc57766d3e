//! Task-local state: data that subsystems keep with the running task.
//!
//! A subsystem declares a type, implements [`TaskLocal`] for it and gets it with [`Cx::local`]; the
//! first call creates it. So the context of every function does not depend on the subsystems above
//! it, and a new subsystem needs no change here.
//!
//! Each implementation of [`TaskLocal`] documents its data.

use alloc::boxed::Box;
use core::any::Any;
use core::cell::OnceCell;

use super::{Cx, Host};

/// State of a subsystem that belongs to one task.
///
/// Reached by shared reference, as the context is: changes go through cells.
///
/// It is found by its type among the task's others, which takes some forty instructions: nothing to ask for
/// at every page.
pub trait TaskLocal: Any + Default {}

/// A task's values, one of each type at most; a chain in the order in which they were first asked for.
#[derive(Default)]
pub(super) struct Locals {
    first: OnceCell<Box<Link<dyn Any>>>,
}

struct Link<T: ?Sized> {
    next: OnceCell<Box<Link<dyn Any>>>,
    value: T,
}

impl Locals {
    #[inline]
    fn get<T: TaskLocal>(&self) -> &T {
        let mut at = &self.first;
        loop {
            let link =
                at.get_or_init(|| Box::new(Link { next: OnceCell::new(), value: T::default() }));
            if let Some(value) = link.value.downcast_ref() {
                return value;
            }
            at = &link.next;
        }
    }
}

impl<H: Host> Cx<'_, H> {
    /// The task's value of a type.
    #[inline]
    pub fn local<T: TaskLocal>(&self) -> &T {
        self.locals.get()
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use crate::host::Solo;
    use crate::units::CpuId;

    #[derive(Default)]
    struct Pages(Cell<u64>);
    #[derive(Default)]
    struct Name(Cell<&'static str>);
    impl TaskLocal for Pages {}
    impl TaskLocal for Name {}

    #[test]
    fn each_type_has_one_value_a_task() {
        let host = Solo::default();
        let (one, other) = (Cx::new(&host, CpuId(0)), Cx::new(&host, CpuId(0)));
        one.local::<Pages>().0.set(7);
        one.local::<Name>().0.set("one");
        assert_eq!((one.local::<Pages>().0.get(), one.local::<Name>().0.get()), (7, "one"));
        assert_eq!((other.local::<Name>().0.get(), other.local::<Pages>().0.get()), ("", 0));
    }
}
