//! `highwater explain`: where the time of a run's operations went.
//!
//! Neighbours: a host's ledger is turned into rows here ([`ledger`]), `highwater-results` keeps them.

pub(crate) mod ledger;
