//! A policy of one's own, with rules that no switch has.
//!
//! ```text
//! cargo run --release -- compare 001 --quick --policy 6.1 --policy second-chance
//! cargo run --release -- explain 001 --quick --policy second-chance --worst 1
//! cargo run --release -- show policy second-chance --against 6.1
//! ```
//!
//! Linux 6.1 reclaims a page that was active once, or was reclaimed and came back, like any other that nobody used lately.
//! Here such a page is spared whenever reclaim meets it, three times of four; and a reclaimer that got anything at all
//! never waits for the others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use highwater::core::config::{AfterPass, Answers, PageUses, Progress, References};
use highwater::policy_file::OwnPolicy;

/// What one machine keeps.
#[derive(Default)]
struct SecondChance {
    /// Pages met that had been active, or had come back.
    met: AtomicU64,
}

impl Answers for SecondChance {
    fn page(&self, page: &PageUses, usual: References) -> References {
        let would_go = matches!(usual, References::Reclaim | References::ReclaimClean);
        if !would_go || !page.is_workingset {
            return usual;
        }
        // The fourth goes: where nothing else is left, memory must come from these.
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

/// The policy: 6.1, and these answers.
pub const SECOND_CHANCE: OwnPolicy = OwnPolicy {
    name: "second-chance",
    about: "6.1 that spares pages which were active once or came back",
    base: "6.1",
    // No switch besides: what differs is the code.
    set: |_| {},
    answers: Some(|| Box::new(SecondChance::default())),
};
