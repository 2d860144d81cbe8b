"""Losses whose descent is ascent on the energy of nl: its remark after Eq. 3."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import contrast
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, relative, tensors, typical, worst


def rem1(draws: int, seed: int) -> Iterator[Check]:
    """Descent on the loss, by complex steps through loops, goes where ascent on the energy at held
    alpha does, by autograd. Controls: another temperature in alpha, eps = 1 in the loss, i = j
    kept in Eq. 3.
    """
    check = partial(Check, "nl/rem1")
    rng, n = ref.generator("nl rem1", seed), 7
    errors: dict[str, list[Array]] = defaultdict(list)
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 2)

    def toward(alpha: Array, z: Array, own: bool = False) -> Array:
        """The gradient of the energy at held alpha; `own`: with i = j, as Eq. 3 prints the sum."""
        (free,) = tensors(z)
        free.requires_grad_()
        first, second = free[:, :n], free[:, n:]
        (weights,) = tensors(alpha)
        total = contrast.nl_energy(weights, first, second).sum()
        if own:
            matrix = ki.batch_covariance(weights, first, second, first, second)
            total = matrix.diagonal(dim1=-2, dim2=-1).sum() / 2
        return torch.autograd.grad(total, free)[0].numpy()

    for tau in (0.2, 0.7):
        z = np.concatenate(ref.views(rng, count, n, 3), 1)
        steps = ref.stepped(z)
        inter, _ = ref.distances(z[:, :n], z[:, n:])
        away = ref.distances(steps[..., :n, :], steps[..., n:, :])

        def slope(values: Array) -> Array:
            return np.moveaxis(values.imag / ref.STEP, 0, -1).reshape(z.shape)  # noqa: B023

        loss = slope(ref.infonce(*away, tau, 0.0))
        alpha = ref.softmax(inter, tau)
        errors["InfoNCE"].append(relative(-2 * n**2 * toward(alpha, z), loss))
        warm = toward(ref.softmax(inter, 1.3 * tau), z)
        broken["temperature"].append(relative(-2 * n**2 * warm, loss))
        kept = slope(ref.infonce(*away, tau, 1.0))
        broken["eps"].append(relative(-2 * n**2 * toward(alpha, z), kept))
        gaps = away[1][..., :, None] - away[0]
        quadratic = slope((gaps * ~np.eye(n, dtype=bool)).sum((-1, -2)))
        even = toward(np.ones_like(alpha), z)
        errors["quadratic"].append(relative(-2 * n**2 * even, quadratic))
        broken["uneven"].append(relative(-2 * n**2 * toward(1 + alpha, z), quadratic))
        # The printed ratio at j = i, d_ii = 0, over the same sum.
        own = 1 / (np.exp(-inter / tau) * ~np.eye(n, dtype=bool)).sum(-1)
        filled = alpha + own[..., None] * np.eye(n)
        broken["own, InfoNCE"].append(relative(-2 * n**2 * toward(filled, z, True), loss))
        whole = toward(np.ones_like(alpha), z, True)
        broken["own, quadratic"].append(relative(-2 * n**2 * whole, quadratic))
        errors["whole"].append(relative(-2 * n**2 * whole, slope(gaps.sum((-1, -2)))))
    note = (
        r"The constant is $-2N^2$ for the energy $\frac12\operatorname{tr}\mathbb C_\alpha$. Eq. 3 "
        r"as a sum over $j\ne i$, or $\alpha_{ii}=0$."
    )
    yield check(
        worst(*errors["InfoNCE"]),
        1e-10,
        {
            "1.3 tau in alpha": typical(*broken["temperature"]),
            "eps = 1 in the loss": typical(*broken["eps"]),
            "i = j kept in Eq. 3": typical(*broken["own, InfoNCE"]),
        },
        draws=2 * count,
        part="InfoNCE",
        note=note,
    )
    yield check(
        worst(*errors["quadratic"], *errors["whole"]),
        1e-10,
        {
            "alpha not constant": typical(*broken["uneven"]),
            "i = j kept in Eq. 3 alone": typical(*broken["own, quadratic"]),
        },
        draws=2 * count,
        part="quadratic loss",
        note=note + r" With $i=j$ in the loss too, $\alpha\equiv1$ fits Eq. 3 as printed.",
    )
