//! Slots alone; pages that go out and come back, on a machine whose disks are done at once.

extern crate std;

mod pages;
mod shared;
mod slots;
