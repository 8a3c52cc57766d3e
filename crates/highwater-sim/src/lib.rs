//! Deterministic virtual-time machine: a host for highwater-core.
