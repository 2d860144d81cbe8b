"""The optima of one node, and what augmentation does to them (nl Figs. 1, 8, Sec. 3.3, B.5)."""
