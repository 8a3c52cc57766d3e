//! Pages to be freed once their translations are flushed (spec 04 §3.3).

/// Unmapped pages and what has to be flushed before they are freed. The helper that owns this file
/// completes it.
#[derive(Debug, Default)]
pub struct Gather {}
