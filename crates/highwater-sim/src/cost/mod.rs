//! Costs of operations on a machine: [`table`] reads them from its TOML file, and [`model`] turns
//! them into the form that the simulation adds up.

pub mod model;
pub mod table;

pub use model::CostModel;
pub use table::{CostTable, TableError};
