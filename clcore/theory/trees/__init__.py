"""Latent trees, nets of their shape, and lucky nodes (ddn Secs. 6, 7)."""

from clcore._front import attach

_HOMES = {
    "": (
        "gaussian_tail",
        "latent_tree",
        "leaf_patterns",
        "lucky_nodes",
        "pattern_net",
        "tree_nets",
        "tree_statistics",
    )
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
