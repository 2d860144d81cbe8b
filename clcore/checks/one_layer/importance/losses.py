"""Losses whose descent is ascent on the energy of nl: its remark after Eq. 3."""

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.one_layer.importance import batch_proofs as proofs
from clcore.ledger import Trial, check, typical
from clcore.losses import contrast
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, relative, tensors


@check("nl/rem1")
def rem1(t: Trial) -> None:
    """Quadratic loss and InfoNCE as choices of the pairwise importance α (Sec. 2, after Eq. 3).

    Given   random views of 7 samples; InfoNCE at eps = 0 with its softmax alpha; the quadratic
            loss sum (d_i^2 - d_ij^2) with alpha = 1; i = j left out of Eq. 3 (for the quadratic
            loss also kept, in both).
    Claim   The gradient of the loss, by complex steps, is -2N^2 times that of E at alpha held, by
            autograd: one constant for all coordinates.
    Fails   for 1.3 tau in alpha, eps = 1 in the loss, i = j kept in Eq. 3 alone, alpha that is not
            constant.
    """
    n, count = 7, t.share(2)
    infonce = t.part("InfoNCE", 1e-10, controls=typical)
    quadratic = t.part("quadratic loss", 1e-10, controls=typical, draws=2 * count)

    def ascent(alpha: Array, z: Array, own: bool = False) -> Array:
        """-2 N^2 times the gradient of the energy at held alpha; `own`: with i = j, as Eq. 3 prints
        the sum."""
        free, weights = tensors(z, alpha)
        free.requires_grad_()
        first, second = free[:, :n], free[:, n:]
        total = contrast.nl_energy(weights, first, second).sum()
        if own:
            matrix = ki.batch_covariance(weights, first, second, first, second)
            total = matrix.diagonal(dim1=-2, dim2=-1).sum() / 2
        return -2 * n**2 * torch.autograd.grad(total, free)[0].numpy()

    for tau in (0.2, 0.7):
        z = np.concatenate(ref.views(t.rng, count, n, 3), 1)
        steps, others = ref.stepped(z), ~np.eye(n, dtype=bool)
        inter, _ = ref.distances(z[:, :n], z[:, n:])
        away = ref.distances(steps[..., :n, :], steps[..., n:, :])

        def slope(values: Array) -> Array:
            return np.moveaxis(values.imag / ref.STEP, 0, -1).reshape(z.shape)  # noqa: B023

        # InfoNCE: its gradient by complex steps, against the energy's at its softmax alpha.
        loss = slope(ref.infonce(*away, tau, 0.0))
        alpha = ref.softmax(inter, tau)
        ours = ascent(alpha, z)
        infonce.add(relative(ours, loss))
        warm = ascent(ref.softmax(inter, 1.3 * tau), z)
        infonce.breaks("1.3 tau in alpha", relative(warm, loss))
        kept = slope(ref.infonce(*away, tau, 1.0))
        infonce.breaks("eps = 1 in the loss", relative(ours, kept))
        # The printed ratio at j = i, d_ii = 0, over the same sum.
        own = 1 / (np.exp(-inter / tau) * others).sum(-1)
        filled = ascent(alpha + own[..., None] * np.eye(n), z, True)
        infonce.breaks("i = j kept in Eq. 3", relative(filled, loss))

        # The quadratic loss: the same at alpha = 1; and with i = j, in the loss as in Eq. 3.
        gaps, even = away[1][..., :, None] - away[0], np.ones_like(alpha)
        loss = slope((gaps * others).sum((-1, -2)))
        whole = ascent(even, z, True)
        quadratic.add(relative(ascent(even, z), loss))
        quadratic.add(relative(whole, slope(gaps.sum((-1, -2)))))
        quadratic.breaks("alpha not constant", relative(ascent(1 + alpha, z), loss))
        quadratic.breaks("i = j kept in Eq. 3 alone", relative(whole, loss))
    proofs.rem1(infonce, quadratic)
