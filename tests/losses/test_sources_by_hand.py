"""Losses of Table 1's sources, written out in numpy, with constants and factors; phi and psi."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from clcore import losses
from clcore import reference as ref
from clcore.checks.minmax import sources as hand
from clcore.reference import tensors

DRAWS, TAU, MARGIN, C = 5, 0.3, 0.7, 2.0
VIEWS = ref.views(np.random.default_rng(0), DRAWS, 5, 3)
UNIT = [v / np.linalg.norm(v, axis=-1, keepdims=True) for v in VIEWS]


def on_triplets(g, f=np.subtract):
    """Sum over anchors of g of f(near, far), both half squared distances."""
    return hand._on_triplets(*VIEWS, f, g)


def total(x):
    return x.sum(-1)


CASES = {
    "MINE": (losses.source_mine, lambda: hand.mine(*VIEWS)),
    "MINE, a sample": (
        losses.source_mine_per_sample,
        lambda: on_triplets(lambda x: np.log(np.exp(x).mean(-1))),
    ),
    "InfoNCE": (
        partial(losses.source_infonce, tau=TAU),
        lambda: on_triplets(lambda x: np.log(1 + np.exp(x / TAU).sum(-1))),
    ),
    "triplet": (
        partial(losses.source_triplet, margin=MARGIN),
        lambda: on_triplets(total, lambda near, far: ref.rectified(2 * near - 2 * far + MARGIN)),
    ),
    "soft triplet": (
        partial(losses.source_soft_triplet, tau=TAU, margin=MARGIN),
        lambda: on_triplets(
            total, lambda near, far: TAU * np.log(1 + np.exp((near - far + MARGIN) / TAU))
        ),
    ),
    "modified triplet": (
        partial(losses.source_modified_triplet, c=C),
        lambda: hand.modified_triplet(*VIEWS, C),
    ),
    "tuplet": (losses.source_tuplet, lambda: hand.tuplet(*VIEWS)),
    "linear": (losses.source_linear, lambda: hand.linear(*VIEWS)),
    "SimCLR": (partial(losses.source_simclr, tau=TAU), lambda: hand.simclr(*UNIT, TAU)),
}


@pytest.mark.parametrize("name", CASES)
def test_sources(name):
    ours, expected = CASES[name]
    np.testing.assert_allclose(ours(*tensors(*VIEWS)), expected(), rtol=1e-12, atol=1e-12)


def lifted(z, z2, margin, squared, both, second_views):
    """Its versions: distances squared and halved, the first member's negatives, of own views."""

    def distance(a, b):
        square = ((a - b) ** 2).sum(-1)
        return square / 2 if squared else np.sqrt(square)

    n, total = z.shape[-2], np.zeros(())
    for i in range(n):
        own = z[..., i, :], z2[..., i, :]
        others = [
            np.exp(margin - distance(a, view[..., j, :]))
            for a, same in zip(own if both else own[:1], (z, z2), strict=False)
            for view in ((z, z2) if second_views else (same,))
            for j in range(n)
            if j != i
        ]
        total = total + np.maximum(np.log(sum(others)) + distance(*own), 0) ** 2
    return total


@pytest.mark.parametrize(
    ("squared", "both", "second_views"), list(product((False, True), repeat=3))
)
def test_lifted_in_every_version(squared, both, second_views):
    how = {"margin": MARGIN, "squared": squared, "both": both, "second_views": second_views}
    ours = losses.source_lifted(*tensors(*VIEWS), **how)
    np.testing.assert_allclose(ours, lifted(*VIEWS, **how), rtol=1e-12)
    if both and second_views and not squared:
        np.testing.assert_allclose(ours, hand.lifted(*VIEWS, MARGIN), rtol=1e-12)


@pytest.mark.parametrize("k", range(8))
def test_functions_of_the_table_and_their_slopes_on_a_grid(k):
    """Those of the page by complex steps, kinks and shifts included."""
    (name, phi, psi), pair = ref.table1()[k], losses.table1()[k]
    assert name == pair.name
    x, grow = np.linspace(-3, 3, 201) + 1e-3, np.exp(np.linspace(-4, 4, 201) + 1e-3)
    for ours, theirs, at in (
        (pair.phi, phi, grow),
        (pair.psi, psi, x),
        (pair.dphi, partial(ref.slope, phi), grow),
        (pair.dpsi, partial(ref.slope, psi), x),
    ):
        found = ours(torch.from_numpy(at)).numpy()
        np.testing.assert_allclose(found, theirs(at), rtol=1e-12, atol=1e-12)
