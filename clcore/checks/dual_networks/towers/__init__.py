"""A pair of towers: connections, gradients, reversible layers (ddn Sec. 3, App. A)."""
