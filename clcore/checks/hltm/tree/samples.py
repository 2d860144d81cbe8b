"""Frequencies of pairs of nodes in latent trees, expected and sampled, in standard errors."""

import numpy as np

from clcore.reference import Array

SIGMAS = 7.0  # of the largest of some ten thousand errors
SAMPLES = 10_000


def pairs(chance: Array, z: Array) -> Array:
    """P(z_a = 1, z_b = 1) of all pairs of nodes, [draws, nodes, nodes]; chance [draws, J]."""
    return np.einsum("ds,sa,sb->dab", chance, z, z, optimize=True)


def standard_errors(found: Array, expected: Array, n: int) -> Array:
    """[draws]: the largest error of frequencies in standard errors (with a floor)."""
    error = np.sqrt(np.maximum(expected * (1 - expected), 0) / n) + 1e-4
    return (np.abs(found - expected) / error).reshape(len(found), -1).max(-1)
