//! What was measured: samples, counters, histograms, and importers of captured data.
