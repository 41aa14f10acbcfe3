//! Counters and histograms that the data plane writes and the control plane reads.
