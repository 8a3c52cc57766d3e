//! Whole logs, made up for these tests in the dialects of real kernels.
