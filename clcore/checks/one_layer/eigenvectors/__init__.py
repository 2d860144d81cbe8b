"""Locally maximal eigenvectors: models, stability, jumps (nl Secs. 3.1, 3.2, App. B.1, B.3)."""
