"""Two layers with disjoint receptive fields (nl Sec. 4)."""
