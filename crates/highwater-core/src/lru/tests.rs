//! Tests of lists, batches, clocks on the [`Solo`] host.
