from . import (
    gaussian_tail as gaussian_tail,
    latent_tree as latent_tree,
    leaf_patterns as leaf_patterns,
    lucky_nodes as lucky_nodes,
    pattern_net as pattern_net,
    tree_nets as tree_nets,
    tree_statistics as tree_statistics,
)
