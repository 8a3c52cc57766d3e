//! Deterministic virtual-time machine: a host for highwater-core.
#![deny(unsafe_code)]
pub mod cpu;
pub mod digest;
pub mod engine;
pub mod lock;
pub mod rng;
