"""Two sentences of nl on normalisation: BatchNorm keeps the norm of a filter (Sec. 3), and a
Gaussian alpha with normalised rows is InfoNCE's (Sec. 2)."""

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.one_layer.importance import batch_proofs
from clcore.checks.one_layer.node import proofs as node_proofs
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array

WHERE = ("before", "after", "mean-backprop", "none")


def _norm(f: torch.Tensor, through: bool = True) -> torch.Tensor:
    """BatchNorm over the first axis; `through`: gradients pass the deviation."""
    centred = f - f.mean(0)
    deviation = f.std(0, correction=0)
    return centred / (deviation if through else deviation.detach())


def _nodes(W: torch.Tensor, x: torch.Tensor, where: str) -> torch.Tensor:
    """ReLU nodes f [n, K] with BatchNorm before or after the activation (after it, too, where it is
    mean-backprop: no slope of the deviation), or none."""
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


@check("nl/rem24")
def rem24(t: Trial) -> None:
    """BatchNorm at every node keeps the filters at unit norm (Sec. 3, before Eq. 5).

    Given   ReLU nodes with BatchNorm before or after the activation, no epsilon under the root.
    Claim   the flow of InfoNCE keeps every |w_k|, and norm 1 costs nothing; "in this case" the
            filters decouple into Eq. 5. Corrected: they do for nodes of w_k / |w_k|, and behind
            BatchNorm before the activation where inputs are centred and white.
    Fails   for the flow without BatchNorm and with mean-backprop BatchNorm; for Eq. 5 with
            BatchNorm: after the activation C_alpha[f_k] = 1 for every w (alpha = 1, no
            augmentation), so that nothing is climbed; before it another function is, unless inputs
            are white. Control: without BatchNorm C[f_k] differs from node to node.
    """
    flow = t.part("the flow keeps the norms", 1e-10, controls=pooled)
    length = t.part("norm 1 costs nothing", 1e-10, controls=pooled)
    name, draws = "Eq. 5 is what such nodes maximise", min(t.draws, 40)
    eq5 = t.both(name, 1e-10, controls=typical)
    white = t.part("BatchNorm before the activation, centred white inputs", 1e-10, controls=pooled)
    constant = t.part("behind BatchNorm C[f_k] = 1, alpha = 1, no augmentation", 1e-10)
    climbed: dict[str, list[Array]] = {"after": [], "before": []}
    for _ in range(draws):
        x = torch.tensor(t.rng.standard_normal((24, 5)))
        W = torch.tensor(t.rng.standard_normal((3, 5)))
        size = torch.tensor(t.rng.uniform(0.5, 2, (3, 1)))

        # w^T dw/dt = 0, and the loss at filters of other lengths.
        along, scaled = {}, {}
        for where in WHERE:
            free = W.clone().requires_grad_()
            value = _loss(_nodes(free, x, where))
            (slope,) = torch.autograd.grad(value, free)
            lengths = free.norm(dim=1) * slope.norm(dim=1)
            along[where] = ((free * slope).sum(1).abs() / lengths).max().item()
            other = _loss(_nodes(size * W, x, where))
            scaled[where] = abs((other / value).item() - 1)
        flow.add(along["before"], along["after"]).breaks("no BatchNorm", along["none"])
        flow.breaks("mean-backprop BatchNorm (Def. 5)", along["mean-backprop"])
        length.add(scaled["before"], scaled["after"]).breaks("no BatchNorm", scaled["none"])

        # What the nodes climb, alpha = 1, no augmentation: |w| times the slope of C[f_k] / 2 is
        # P A(w) w of Eq. 7 for nodes of w / |w|.
        for where in ("after", "before"):
            climbed[where].append(ref.relative(_slope(W, x, where), _eq7(W, x)))
        eq5.printed.add(climbed["after"][-1]).fails_by(np.ones(3))  # C[f_k] is 1, its slope 0
        eq5.corrected.add(ref.relative(_slope(W, x, "none"), _eq7(W, x)))

        # Of white inputs w^T x has the deviation |w|, by which BatchNorm divides.
        even = torch.linalg.svd(x - x.mean(0), full_matrices=False)[0] * len(x) ** 0.5
        white.add(ref.relative(_slope(W, even, "before"), _eq7(W, even)))
        white.breaks("inputs as drawn, not white", climbed["before"][-1])

        # Behind the activation C[f_k] is 1.
        constant.add(np.abs(_nodes(W, x, "after").numpy().var(0) - 1))
        constant.breaks("range without BatchNorm", np.ptp(_nodes(W, x, "none").numpy().var(0)))
    eq5.breaks("BatchNorm before the activation", *climbed["before"])
    eq5.corrected.breaks("BatchNorm after the activation", *climbed["after"])
    node_proofs.rem24(flow, length, constant)


def _slope(W: torch.Tensor, x: torch.Tensor, where: str) -> Array:
    """|w_k| times the gradient of C[f_k] / 2, alpha = 1, no augmentation; without BatchNorm
    (`where` "none"), of nodes of w_k / |w_k|."""
    raw = W.clone().requires_grad_()
    lengths = raw.norm(dim=1, keepdim=True)
    f = _nodes(raw / lengths if where == "none" else raw, x, where)
    (slope,) = torch.autograd.grad(f.var(0, correction=0).sum() / 2, raw)
    return (lengths.detach() * slope).numpy()


def _eq7(W: torch.Tensor, x: torch.Tensor) -> Array:
    """P A(w) w of Eq. 7 at w_k / |w_k|, A the covariance of gated inputs, by numpy."""
    found = []
    for w in W.numpy():
        w = w / np.linalg.norm(w)
        A = np.cov((x.numpy() * (x.numpy() @ w > 0)[:, None]).T, bias=True)
        found.append(A @ w - (w @ A @ w) * w)
    return np.array(found)


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


@check("nl/rem25")
def rem25(t: Trial) -> None:
    """Normalised Gaussian α gives InfoNCE (Sec. 2; Sec. 3.2).

    Given   random views; InfoNCE's alpha = -dL/dd_ij^2 by autograd of Eq. 1, eps = 0 and 1.
    Claim   It is the Gaussian of the outputs with rows divided by their sums: over j != i at eps
            = 0, over all j at eps = 1 without augmentation.
    Fails   for rows that are not normalised, normalised by the whole sum, or by the other sum; eps
            = 1 with augmented views.
    """
    draws = min(t.draws, 100)
    zero = t.part("epsilon = 0, rows over j other than i", 1e-10, controls=pooled, draws=2 * draws)
    one = t.part(
        "epsilon = 1, rows over all j, no augmentation", 1e-10, controls=pooled, draws=draws
    )
    for _ in range(draws):
        a, tau = 0.8 * t.rng.standard_normal((6, 3)), float(t.rng.uniform(0.2, 1.5))
        b = a + 0.5 * t.rng.standard_normal(a.shape)
        bare, full = _rows(a, tau, False), _rows(a, tau, True)

        # epsilon = 0, without and with augmentation: sums over j other than i.
        exact = _alpha(a, a, tau, 0.0)
        zero.add(ref.relative(bare, exact), ref.relative(bare, _alpha(a, b, tau, 0.0)))
        raw = np.exp(-((a[:, None] - a) ** 2).sum(-1) / (2 * tau)) * (1 - np.eye(6))
        zero.breaks("not normalised", ref.relative(raw, exact))
        zero.breaks("normalised by the whole sum", ref.relative(6 * raw / raw.sum(), exact))
        zero.breaks("j = i counted", ref.relative(full, exact))

        # epsilon = 1, one view: sums over all j.
        exact = _alpha(a, a, tau, 1.0)
        one.add(ref.relative(full, exact)).breaks("not counted", ref.relative(bare, exact))
        one.breaks("two views", ref.relative(full, _alpha(a, b, tau, 1.0)))
    batch_proofs.rem25(zero, one)
