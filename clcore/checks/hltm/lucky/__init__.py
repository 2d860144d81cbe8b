"""Lucky nodes: Theorem 5 and the lemmas of its proof (ddn App. C.1, C.4)."""
