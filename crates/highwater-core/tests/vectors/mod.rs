//! The allocator by the numbers of its rules, and the 12 reference machines, by topic.

mod buddy; // rules/buddy#lists
mod memory_policies; // rules/memory-policies#allocation
mod numa; // rules/zones#node-order
mod owned_blocks; // rules/per-cpu-lists#owned-blocks
mod pcp; // rules/per-cpu-lists#shape
mod pcp_auto; // rules/per-cpu-lists#auto
mod reference; // reference/linux-6.1/static
mod request; // rules/requests#gfp-masks
mod sizes; // rules/watermarks#marks
mod slow; // rules/slow-path#restart
mod slow_v43; // rules/slow-path#v43
mod slow_v72; // rules/slow-path#v72
mod study_002; // rules/per-cpu-lists#study-002
mod watermark; // rules/watermarks#exact-test
mod zonelist_cache; // rules/zonelist-cache#data
