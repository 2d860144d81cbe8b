"""Settings outside their range are refused; a closed end is taken, an open one is not."""

import pytest
import torch

from clcore import random
from clcore.experiments.image_losses import near_weights
from clcore.losses import anchors, contrast, minplayer
from clcore.losses.infonce_family import infonce

Z, Z2 = random.normal(random.key(0), (2, 4, 3), torch.float64)
COSTS, INTER = minplayer.cost(Z, Z2), contrast.inter_distances(Z)
ONE = INTER[..., 0], INTER[..., 1:2]  # a positive and one negative

OPEN = {
    "infonce, tau": (lambda v: infonce(Z, Z2, v), 0.0),
    "entropy, tau": (lambda v: minplayer.entropy_weights(COSTS, v), 0.0),
    "entropy, mass": (lambda v: minplayer.entropy_weights(COSTS, 0.5, v), 0.0),
    "square, tau": (lambda v: minplayer.square_weights(COSTS, v), 0.0),
    "inverse, tau": (lambda v: minplayer.inverse_weights(COSTS, v), 0.0),
    "inverse, gamma": (lambda v: minplayer.inverse_weights(COSTS, 0.5, v), 1.0),
    "near, tau": (lambda v: near_weights(INTER, v), 0.0),
    "near, gamma": (lambda v: near_weights(INTER, 0.5, v), 0.0),
    "soft triplet, tau": (lambda v: anchors.soft_triplet(*ONE, v, 0.5), 0.0),
}
CLOSED = {
    "direct, p": (lambda v: minplayer.direct_weights(INTER, v), 1.0),
    "infonce, eps": (lambda v: contrast.infonce(Z, Z2, 0.5, v), 0.0),
    "soft triplet, margin": (lambda v: anchors.soft_triplet(*ONE, 0.5, v), 0.0),
}


@pytest.mark.parametrize("name", OPEN)
def test_open_ends(name):
    call, end = OPEN[name]
    assert call(end + 0.2).isfinite().all()
    for wrong in (end, end - 0.2):
        with pytest.raises(ValueError, match="expected"):
            call(wrong)


@pytest.mark.parametrize("name", CLOSED)
def test_closed_ends(name):
    call, end = CLOSED[name]
    assert call(end).isfinite().all() and call(end + 0.2).isfinite().all()
    with pytest.raises(ValueError, match="expected"):
        call(end - 0.2)
