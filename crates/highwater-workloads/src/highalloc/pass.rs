//! The attempts of a pass (rules/benchmarks#highalloc-pass).

use highwater_core::host::{Cx, Devices, HZ};
use highwater_core::kernel::Kernel;
use highwater_core::page::Pfn;
use highwater_core::page_alloc::Gfp;

use super::HUGE_ORDER;

/// A pass.
pub struct Pass<'a, H: Devices> {
    /// The kernel.
    pub kernel: &'a Kernel<H>,
    /// Flags of the requests, besides NOWARN.
    pub gfp: Gfp,
    /// Number of attempts.
    pub attempts: u64,
    /// Ticks from the beginning of one attempt to that of the next.
    pub pace_jiffies: u64,
    /// Keeps a CPU busy for a moment, in the kernel, and gives way to others.
    pub spin: &'a dyn Fn(&Cx<'_, H>),
}

/// The result of a pass; the blocks are held until [`PassEnd::release`].
#[derive(Debug, Default)]
pub struct PassEnd {
    held: Vec<Pfn>,
    /// Time of each attempt, nanoseconds.
    pub attempts_ns: Vec<u64>,
}

impl<H: Devices> Pass<'_, H> {
    /// Requests one block after the other, each at its time. A slow attempt is followed by the next
    /// at once.
    pub fn run(&self, cx: &Cx<'_, H>) -> PassEnd {
        let mut end = PassEnd::default();
        let gfp = self.gfp | Gfp::NOWARN;
        let mut next = cx.host.jiffies();
        for _ in 0..self.attempts {
            // The thread never sleeps: it competes for a CPU.
            while cx.host.jiffies() < next {
                (self.spin)(cx);
            }
            next = cx.host.jiffies() + self.pace_jiffies;
            let begin_ns = cx.host.now_ns();
            let node = self.kernel.mem.cpu_node(cx.cpu());
            let block = self.kernel.mem.alloc(cx, self.kernel, gfp, HUGE_ORDER, node, None);
            end.attempts_ns.push(cx.host.now_ns().saturating_sub(begin_ns));
            end.held.extend(block);
        }
        end
    }
}

impl PassEnd {
    /// Number of blocks allocated.
    pub fn successes(&self) -> u64 {
        self.held.len() as u64
    }

    /// Frees them.
    pub fn release<H: Devices>(&mut self, kernel: &Kernel<H>, cx: &Cx<'_, H>) {
        for pfn in self.held.drain(..) {
            let freed = kernel.mem.free(cx, pfn, HUGE_ORDER);
            debug_assert!(freed.is_ok(), "a block of the pass: {freed:?}");
        }
    }
}

/// A pace in ticks, at least one: 125 ms are 31 ticks of 4 ms.
pub const fn pace_jiffies(ns: u64) -> u64 {
    let ticks = ns * HZ / 1_000_000_000;
    if ticks == 0 { 1 } else { ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_whole_ticks() {
        assert_eq!([125_000_000, 31_250_000, 1].map(pace_jiffies), [31, 7, 1]);
    }
}
