//! Slots alone; and pages swapped out and in, on a machine whose disks finish at once.

extern crate std;

mod pages;
mod shared;
mod slots;
