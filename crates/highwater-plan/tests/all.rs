//! All tests of plans that run whole jobs, in one program: they link once and run in parallel.

mod jobs;
mod swarm;
mod watching;
