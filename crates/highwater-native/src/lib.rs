//! Real threads and real memory: a host for highwater-core.
