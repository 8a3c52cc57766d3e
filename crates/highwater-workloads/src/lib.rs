//! Benchmarks as tasks on a Highwater kernel.
