//! A running Linux and the model, side by side.
//!
//! | module | holds |
//! |---|---|
//! | `figure` | a figure of a real kernel beside the model's |
//! | [`capture`] | `/proc`, `/sys` and logs of a computer, as machine, policy and job |
//! | [`calibrate`] | what operations cost on this computer, as a file of costs |
//! | [`predict`] | composite works on the model and on this computer |
//! | [`replay`] | traces of page allocations, replayed on the model |
//! | [`diagnose`] | kernel logs, `/proc` texts, samples over time and traces: what is short, and why |
//! | [`check`] | captured runs, counter by counter beside the model's |

// Lowest first: a module uses those before it.
mod figure;

pub mod capture;

pub mod calibrate;

pub mod predict;

pub mod replay;

pub mod diagnose;

pub mod check;
