//! The reclaim algorithms, by name.

use super::table::policy;

/// Every reclaim algorithm, one line each: its description, its name in policies, its module in
/// `reclaim::algorithm`.
///
/// A new algorithm needs its file or folder there and its line here. Code that must handle every
/// algorithm passes the name of its own macro to this one: the type below, the modules and their
/// dispatch (`reclaim::algorithm`).
macro_rules! algorithms {
    ($then:ident) => {
        $then! {
            /// An active and an inactive list for each type, as in all kernels modelled here.
            TwoList = two_list,
            /// CLOCK: one queue for each type; a page that was used goes round once more.
            Clock = clock,
            /// First in, first out: one queue for each type; uses of a page do not count.
            Fifo = fifo,
            /// Generations: page tables are walked for uses, and the oldest generation goes (the
            /// multi-generational LRU, 6.1 on; rules/mglru).
            Mglru = mglru,
        }
    };
}
pub(crate) use algorithms;

macro_rules! names {
    ($($(#[doc = $about:literal])* $name:ident = $module:ident,)*) => {
        policy!(
            @choice
            [#[doc = "How reclaim picks the pages to evict."]]
            Algorithm = TwoList
            { $($(#[doc = $about])* $name,)* }
        );

        impl Algorithm {
            /// Every algorithm.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$name),*];
        }
    };
}
algorithms!(names);
