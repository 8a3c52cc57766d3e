//! What a running Linux did, and the model beside it.
//!
//! | module | holds |
//! |---|---|
//! | [`capture`] | `/proc`, `/sys` and logs of a computer, as machine, policy and job |
//! | [`replay`] | traces of page allocations, replayed on the model |
//! | [`check`] | captured runs, counter by counter beside the model's |

pub mod capture;
pub mod check;
pub mod replay;
