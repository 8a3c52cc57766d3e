//! Experiments = machine + policy + workload + seeds; the highwater command.
