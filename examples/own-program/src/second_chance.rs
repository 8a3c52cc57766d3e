//! A custom policy, with rules that no switch provides.
//!
//! ```text
//! cargo run --release -- compare 001 --quick --policy 6.1 --policy second-chance
//! cargo run --release -- explain 001 --quick --policy second-chance --worst 1
//! cargo run --release -- show policy second-chance --against 6.1
//! ```
//!
//! Linux 6.1 treats a page that was active once, or that came back after reclaim, like any other
//! page that was not used lately. This policy spares such a page three times out of four when
//! reclaim meets it. A reclaimer that got any page at all never waits for the others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use highwater::core::config::{AfterPass, Answers, PageUses, Progress, References};
use highwater::policy_file::OwnPolicy;

/// State of one machine.
#[derive(Default)]
struct SecondChance {
    /// Number of pages met that had been active or had come back.
    met: AtomicU64,
}

impl Answers for SecondChance {
    fn page(&self, page: &PageUses, usual: References) -> References {
        let would_go = matches!(usual, References::Reclaim | References::ReclaimClean);
        if !would_go || !page.is_workingset {
            return usual;
        }
        // Every fourth page goes: if nothing else is left, memory must come from these pages.
        match self.met.fetch_add(1, Relaxed) % 4 {
            3 => usual,
            _ => References::Keep,
        }
    }

    fn after_pass(&self, progress: &Progress, usual: AfterPass) -> AfterPass {
        match usual {
            AfterPass::Wait if progress.reclaimed > 0 => AfterPass::GoOn,
            usual => usual,
        }
    }
}

/// The policy: 6.1 with these implementations.
pub const SECOND_CHANCE: OwnPolicy = OwnPolicy {
    name: "second-chance",
    about: "6.1 that spares pages which were active once or came back",
    base: "6.1",
    // No switches change: only the code differs.
    set: |_| {},
    answers: Some(|| Box::new(SecondChance::default())),
};
