//! The test vectors of spec 01 §16, and the 12 reference machines, by topic.

#[path = "../common/mod.rs"]
mod common;

mod buddy; // 16.11 to 16.19
mod numa; // 16.24, node statistics, 16.26
mod pcp; // 16.20 to 16.22
mod reference; // reference/linux-6.1/static
mod request; // flags of §4
mod sizes; // 16.1 to 16.8
mod slow; // §11
mod slow_v43; // §11.7
mod study_002; // 16.23
mod watermark; // 16.9, 16.10
mod zonelist_cache; // 16.25
