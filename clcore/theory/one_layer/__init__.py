"""One nonlinear layer: A(w), its fixed points and basins (nl Sec. 3)."""
