//! Words of the field that depend on nothing: what everything above may speak of.

mod gfp;
mod lru;
mod throttle;

pub use gfp::Gfp;
pub use lru::{LruKind, PageType};
pub use throttle::ThrottleReason;
