//! A disk in memory: transfers are done before the submission returns.
//!
//! Its time is the copying, which the submitter's CPU does: the host charges it.

use super::{DiskModel, Service, Transfer};

/// A disk in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ram;

impl DiskModel for Ram {
    fn channels(&self) -> usize {
        usize::MAX
    }

    fn serve(&mut self, now_ns: u64, _: &Transfer) -> Service {
        Service { done_ns: now_ns, result: Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::host::IoDirection::Write;

    use super::*;

    #[test]
    fn takes_no_time_of_its_own() {
        let transfer = Transfer { direction: Write, start: 3, nr_pages: 200 };
        assert_eq!(Ram.serve(77, &transfer), Service { done_ns: 77, result: Ok(()) });
    }
}
