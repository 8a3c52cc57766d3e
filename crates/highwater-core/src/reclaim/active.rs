//! Active lists: taking pages down (spec 02 §10).
