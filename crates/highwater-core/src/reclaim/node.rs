//! One pass over a node (spec 02 §9, §12).
