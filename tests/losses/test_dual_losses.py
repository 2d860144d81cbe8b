"""Losses of one anchor's distances, against the (phi, psi) family and by hand."""

import math

import pytest
import torch

from clcore import losses, random
from clcore.losses import anchors

F64 = torch.float64
POSITIVE = 5 * random.uniform(random.key(1), (20,), dtype=F64)
NEGATIVES = 5 * random.uniform(random.key(2), (20, 6), dtype=F64)


def family(pair, negatives=NEGATIVES):
    """phi(sum psi(d - d_k))."""
    return pair.phi(pair.psi(POSITIVE[:, None] - negatives).sum(-1))


@pytest.mark.parametrize("tau", [0.2, 1.0])
def test_members_of_the_family(tau):
    ours = anchors.infonce(POSITIVE, NEGATIVES, tau)
    assert torch.allclose(ours, family(losses.infonce_pair(tau)) / tau)
    one = NEGATIVES[:, :1]
    ours = anchors.soft_triplet(POSITIVE, one, tau, 0.3)
    assert torch.allclose(ours, family(losses.soft_triplet_pair(tau, 0.3 / tau), one))
    assert anchors.simple(POSITIVE, one).equal(POSITIVE - one[:, 0])
    for beta in (-0.5, 0.2, 0.5, 1.0):
        ours = anchors.simple(POSITIVE, one, beta)
        assert torch.allclose(ours, (1 + beta) * POSITIVE - one[:, 0], rtol=1e-14)


def test_no_overflow():
    far, near = torch.full((1,), 4000.0, dtype=F64), torch.zeros(1, 1, dtype=F64)
    assert anchors.infonce(far, near, 0.1).item() == 40000
    assert anchors.soft_triplet(far, near, 0.1, 1.0).item() == 4001
    assert anchors.infonce(far, far[:, None], 0.1).item() == pytest.approx(math.log(2))


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="expected one negative, got 6; only `infonce` takes"):
        anchors.simple(POSITIVE, NEGATIVES)
    with pytest.raises(ValueError, match="expected tau > 0, got tau=0"):
        anchors.infonce(POSITIVE, NEGATIVES, 0)
    with pytest.raises(ValueError, match="expected margin >= 0, got margin=-1"):
        anchors.soft_triplet(POSITIVE, NEGATIVES[:, :1], 1.0, -1)
