"""Two sentences of nl on normalisation: BatchNorm keeps the norm of a filter (Sec. 3), and a
Gaussian alpha with normalised rows is InfoNCE's (Sec. 2)."""

from collections.abc import Iterator

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.reference import Array, best, typical, worst

WHERE = ("before", "after", "mean-backprop", "none")


def _norm(f: torch.Tensor, through: bool = True) -> torch.Tensor:
    """BatchNorm over the first axis; `through`: gradients pass the deviation."""
    centred = f - f.mean(0)
    deviation = f.std(0, correction=0)
    return centred / (deviation if through else deviation.detach())


def _nodes(W: torch.Tensor, x: torch.Tensor, where: str) -> torch.Tensor:
    """ReLU nodes f [n, K] with BatchNorm before or after the activation, or none."""
    u = x @ W.T
    if where == "before":
        return torch.relu(_norm(u))
    f = torch.relu(u)
    return f if where == "none" else _norm(f, where == "after")


def _loss(f: torch.Tensor, tau: float = 0.5) -> torch.Tensor:
    """nl Eq. 1, epsilon = 1, of two views stacked, [2n, K]."""
    a, b = f.chunk(2)
    near = torch.exp(-((a - b) ** 2).sum(-1) / (2 * tau))
    far = torch.exp(-((a[:, None] - a) ** 2).sum(-1) / (2 * tau))
    others = far.sum(-1) - far.diagonal()
    return -tau * torch.log(near / (near + others)).sum()


def rem24(draws: int, seed: int) -> Iterator[Check]:
    """With BatchNorm, before or after the ReLU, w^T dw/dt = 0 for InfoNCE, and w's length does not
    matter. Controls: no BatchNorm, mean-backprop BatchNorm. And Eq. 5 of such nodes."""
    rng, draws = ref.generator("nl rem24", seed), min(draws, 40)
    along: dict[str, list[float]] = {w: [] for w in WHERE}
    scaled: dict[str, list[float]] = {w: [] for w in WHERE}
    flat, bumpy = [], []
    for _ in range(draws):
        x = torch.tensor(rng.standard_normal((24, 5)))
        W = torch.tensor(rng.standard_normal((3, 5)))
        size = torch.tensor(rng.uniform(0.5, 2, (3, 1)))
        for where in WHERE:
            free = W.clone().requires_grad_()
            value = _loss(_nodes(free, x, where))
            (slope,) = torch.autograd.grad(value, free)
            lengths = free.norm(dim=1) * slope.norm(dim=1)
            cosine = (free * slope).sum(1).abs() / lengths
            along[where].append(cosine.max().item())
            other = _loss(_nodes(size * W, x, where))
            scaled[where].append(abs((other / value).item() - 1))
        many = torch.tensor(rng.standard_normal((20, 5)))
        many = many / many.norm(dim=1, keepdim=True)
        f = _nodes(many, x, "after").numpy()
        flat.append(np.abs(f.var(0) - 1).max())
        bumpy.append(np.ptp(_nodes(many, x, "none").numpy().var(0)))
    note = (
        "ReLU nodes, InfoNCE on two views, no epsilon under the root. The flow keeps the norm it "
        "starts with; finite steps of descent lengthen w, weight decay shortens it."
    )
    yield Check(
        "nl/rem24",
        worst(np.array(along["before"] + along["after"])),
        1e-10,
        {
            "no BatchNorm": typical(np.array(along["none"])),
            "mean-backprop BatchNorm (Def. 5)": typical(np.array(along["mean-backprop"])),
        },
        draws=2 * draws,
        part="the flow keeps the norms",
        note=note,
    )
    yield Check(
        "nl/rem24",
        worst(np.array(scaled["before"] + scaled["after"])),
        1e-10,
        {"no BatchNorm": typical(np.array(scaled["none"]))},
        draws=2 * draws,
        part="norm 1 costs nothing",
        note="The loss at filters of other lengths. With mean-backprop BatchNorm, of Def. "
        "5, the loss does not see the length either, but the norms move.",
    )
    yield Check(
        "nl/rem24",
        worst(np.array(flat)),
        1e-10,
        {"range without BatchNorm": best(np.array(bumpy))},
        draws=20 * draws,
        part="C[f_k] of nodes with BatchNorm after the activation, alpha = 1, no augmentation",
        note="Fails where such nodes are put into Eq. 5 itself: their C[f_k] is 1 for every w, so "
        "that Eq. 5 is constant and nothing is learned from it. BatchNorm can stand for the "
        "constraint on w, not inside the objective.",
    )


def _alpha(a: Array, b: Array, tau: float, eps: float) -> Array:
    """InfoNCE's alpha_ij = -dL/d(d_ij^2) of nl Eq. 1, by automatic differentiation."""
    n = len(a)
    apart = torch.tensor(((a[:, None] - a) ** 2).sum(-1) / 2).requires_grad_()
    near = torch.exp(-torch.tensor(((a - b) ** 2).sum(-1) / 2) / tau)
    others = (torch.exp(-apart / tau) * (1 - torch.eye(n, dtype=torch.float64))).sum(-1)
    loss = -tau * torch.log(near / (eps * near + others)).sum()
    (slope,) = torch.autograd.grad(loss, apart)
    return -slope.numpy()


def _rows(a: Array, tau: float, diagonal: bool) -> Array:
    """Lemma 1's Gaussian with rows divided by their sums, by loops; with or without j = i."""
    n = len(a)
    K = [[np.exp(-sum((p - q) ** 2) / (2 * tau)) for q in a] for p in a]
    out = np.zeros((n, n))
    for i in range(n):
        total = sum(K[i][j] for j in range(n) if diagonal or j != i)
        for j in range(n):
            out[i, j] = 0.0 if i == j else K[i][j] / total
    return out


def rem25(draws: int, seed: int) -> Iterator[Check]:
    """Row-normalised Gaussian against InfoNCE's alpha, from Eq. 1 by automatic differentiation.
    Controls: no normalisation, by the whole sum, the other diagonal, augmented views."""
    rng, draws = ref.generator("nl rem25", seed), min(draws, 100)
    errors: dict[str, list[float]] = {k: [] for k in ("0", "1", "views 0", "views 1")}
    broken: dict[str, list[float]] = {k: [] for k in ("raw", "whole", "other 0", "other 1")}
    for _ in range(draws):
        a, tau = 0.8 * rng.standard_normal((6, 3)), float(rng.uniform(0.2, 1.5))
        b = a + 0.5 * rng.standard_normal(a.shape)
        bare, full = _rows(a, tau, False), _rows(a, tau, True)
        exact = {eps: _alpha(a, a, tau, eps) for eps in (0.0, 1.0)}
        errors["0"].append(ref.relative(bare, exact[0.0]))
        errors["1"].append(ref.relative(full, exact[1.0]))
        errors["views 0"].append(ref.relative(bare, _alpha(a, b, tau, 0.0)))
        errors["views 1"].append(ref.relative(full, _alpha(a, b, tau, 1.0)))
        raw = np.exp(-((a[:, None] - a) ** 2).sum(-1) / (2 * tau)) * (1 - np.eye(6))
        broken["raw"].append(ref.relative(raw, exact[0.0]))
        broken["whole"].append(ref.relative(6 * raw / raw.sum(), exact[0.0]))
        broken["other 0"].append(ref.relative(full, exact[0.0]))
        broken["other 1"].append(ref.relative(bare, exact[1.0]))
    found = {k: typical(np.array(v)) for k, v in broken.items()}
    yield Check(
        "nl/rem25",
        worst(np.array(errors["0"] + errors["views 0"])),
        1e-10,
        {
            "not normalised": found["raw"],
            "normalised by the whole sum": found["whole"],
            "j = i counted": found["other 0"],
        },
        draws=2 * draws,
        part="epsilon = 0, rows over j other than i",
        note="With augmented views too, but then alpha is a Gaussian of the views' outputs, and no "
        "kernel of the un-augmented samples as Def. 1 asks.",
    )
    yield Check(
        "nl/rem25",
        worst(np.array(errors["1"])),
        1e-10,
        {"not counted": found["other 1"], "two views": typical(np.array(errors["views 1"]))},
        draws=draws,
        part="epsilon = 1, rows over all j, no augmentation",
        note="Fails where views are augmented and epsilon = 1: the row's sum then has the distance "
        "to the positive in place of the 1 of j = i, which no kernel of one output gives.",
    )
