//! Inactive lists: the tail (spec 02 §10).
