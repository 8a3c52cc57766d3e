//! What operations cost on a machine: read from its TOML file ([`table`]), turned into what the
//! simulation adds up ([`model`]).

pub mod model;
pub mod table;

pub use model::CostModel;
pub use table::{CostTable, TableError};
