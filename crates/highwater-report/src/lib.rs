//! Statistics, comparison tables and renderers.
