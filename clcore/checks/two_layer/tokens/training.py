"""What the token runs of nl Sec. 5 minimise and record, once more by hand.

Loops over samples, fields and filters; what a gradient does not pass through is held at its real
part while the parameters take a complex step.
"""

from collections.abc import Callable

import numpy as np
import torch

from clcore.experiments import token_sequences as ts
from clcore.ledger import Trial, pooled
from clcore.reference import STEP, Array, tensors

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda u: u,
    "relu": lambda u: np.where(u.real > 0, u, 0),
    "leaky_relu": lambda u: np.where(u.real > 0, u, 0.05 * u),
    "sigmoid": lambda u: 1 / (1 + np.exp(-u)),
    "tanh": lambda u: 2 / (1 + np.exp(-2 * u)) - 1,
}
RUNS = (
    ("relu", "infonce", "paper", "none", 1.0),
    ("linear", "infonce", "released", "vanilla", 2.0),
    ("leaky_relu", "quadratic", "paper", "variance", 1.0),
    ("sigmoid", "infonce", "mean", "mean", 0.5),
    ("tanh", "quadratic", "released", "neither", 1.0),
    ("relu", "infonce", "raw", "vanilla", 1.0),
)
"""Activation, loss, protocol, BatchNorm, norm of the embeddings."""


def _loss(z: Array, kind: str, protocol: str, tau: float = 0.1) -> complex:
    """The loss of outputs [2, N, n], sample by sample."""
    if protocol != "raw":
        z = z / np.sqrt((z**2).sum(-1, keepdims=True))
    a, b, n, total = z[0], z[1], z.shape[1], 0.0
    for i in range(n):
        near = (a[i] * b[i]).sum() if protocol != "raw" else -((a[i] - b[i]) ** 2).sum() / 2
        far = [
            (a[i] * a[j]).sum() if protocol != "raw" else -((a[i] - a[j]) ** 2).sum() / 2
            for j in range(n)
            if j != i
        ]
        if kind == "infonce":
            scale = tau if protocol in ("paper", "raw") else 1 / n
            total = total + scale * np.log(1 + sum(np.exp((s - near) / tau) for s in far))
        elif protocol == "paper":  # d_i^2 - d_ij^2 of unit vectors, alpha = 1/N
            total = total + sum(s - near for s in far) / n
        else:
            total = total + ((sum(far) + near) / n**2 - (1 + 1 / n) * near / n) / tau
    return total


def _outputs(W: Array, V: Array, x: Array, run: tuple) -> Array:
    """Outputs of both views, x [2, N, K, T]; BatchNorm over both, or a view as released."""
    activation, _, protocol, norm, _ = run
    h = np.array([[[w @ v for w, v in zip(W, s, strict=True)] for s in view] for view in x])
    h = ACTIVATIONS[activation](h)  # 2 N K M
    if norm != "none":
        mean_moves, deviation_moves = ts.NORMALISATIONS[norm]
        parts = []
        for values in h if protocol == "released" else [h.reshape(-1, *h.shape[2:])]:
            mean = sum(values) / len(values)
            variance = sum((v - mean) ** 2 for v in values) / len(values)
            mean = mean if mean_moves else mean.real
            variance = variance if deviation_moves else variance.real
            parts.append((values - mean) / np.sqrt(variance + 1e-5))
        h = np.array(parts).reshape(h.shape)
    return np.array([[V @ s.ravel() for s in view] for view in h])


def _small(run: tuple, key: torch.Tensor, confined: bool = True) -> dict:
    activation, kind, protocol, norm, zeta = run
    sizes = {"fields": 3, "tokens": 5, "generators": 9, "fixed": 2, "batch": 6}
    c = ts.configuration(
        0, 2, 5, activation, kind, protocol, norm, zeta, confined=confined, **sizes
    )
    c["P"] = torch.tensor(c["P"])
    return c | ts.PROBLEM["setup"](key, c)


def _along(moved: list[Array], x: Array, run: tuple) -> Array:
    """The loss and its slope along the direction in which the parameters are moved."""
    found = _loss(_outputs(moved[0], moved[1], x, run), run[1], run[2])
    return np.array([found.real, found.imag / STEP])


def _batch(t: Trial) -> None:
    part = t.defines("loss and gradient of a minibatch", 1e-6, controls=pooled)
    for i, (run, key) in enumerate(zip(RUNS, t.keys(len(RUNS), "runs"), strict=True)):
        c = _small(run, key)
        tokens = ts.PROBLEM["data"](key, torch.tensor(0), c)
        params = {n: p.double().requires_grad_() for n, p in ts.PROBLEM["init"](key, c).items()}
        c["norms"] = c["norms"].double()
        value = ts.PROBLEM["loss"](params, tokens, c)
        grads = torch.autograd.grad(value, list(params.values()))
        rng = t.stream(f"along {i}")
        to = [rng.standard_normal(p.shape) for p in params.values()]
        slope = sum((g.numpy() * v).sum() for g, v in zip(grads, to, strict=True))
        moved = [
            p.detach().numpy() + 1j * STEP * v for p, v in zip(params.values(), to, strict=True)
        ]
        low = run[4] ** -1.0
        x = np.eye(5)[tokens.numpy()] * np.array([low, low, run[4], run[4], run[4]])

        ours, kind = np.array([value.item(), slope]), "tanh" if run[0] == "linear" else "linear"
        other = {"paper": "mean", "mean": "paper", "raw": "mean", "released": "paper"}[run[2]]
        size = np.maximum(np.abs(ours), 1)
        part.add(np.abs(_along(moved, x, run) - ours) / size)
        for what, found in (
            ("another activation", _along(moved, x, (kind, *run[1:]))),
            ("another protocol", _along(moved, x, (*run[:2], other, *run[3:]))),
            ("fields in another order", _along(moved, np.roll(x, 1, 2), run)),
        ):
            part.breaks(what, np.abs(found - ours) / size)


def _scores(W: Array, inside: Array, seen: Array, linear: bool) -> dict[str, float]:
    """What a run records of its filters [K, M, T], by loops; inside: R_k, seen: tokens that occur
    in a generator."""
    out = dict.fromkeys(ts.FOUND, 0.0)
    scores: dict[str, list] = {"chi_plus": [], "chi_minus": []}
    scores |= {"released_plus": [], "released_minus": []}
    for k, filters in enumerate(W):
        floor = max(abs(filters).max() / 1000, 1e-6)
        norms = [np.sqrt(w @ w) for w in filters]
        best = [max(w[a] / s for w, s in zip(filters, norms, strict=True)) for a in range(5)]
        signed = [abs(w) if linear else w for w in filters]
        program = [
            max(w[a] / (s + floor) for w, s in zip(signed, norms, strict=True)) for a in range(5)
        ]
        for name, mask, values in (
            ("chi_plus", inside[k], best),
            ("chi_minus", ~inside[k], best),
            ("released_plus", seen[k], program),
            ("released_minus", ~seen[k], program),
        ):
            if mask.any():
                scores[name].append(np.mean([v for v, m in zip(values, mask, strict=True) if m]))
        hits = [v > 0.9 for v in best]
        out["all_found"] += all(h for h, m in zip(hits, inside[k], strict=True) if m) / 3
        out["any_found"] += any(h for h, m in zip(hits, inside[k], strict=True) if m) / 3
        out["other_found"] += any(h for h, m in zip(hits, inside[k], strict=True) if not m) / 3
    return out | {name: float(np.mean(values)) for name, values in scores.items()}


def _recorded(t: Trial) -> None:
    part = t.defines("what a run records", 1e-12, controls=pooled)
    rng, count = t.stream("filters"), min(t.draws, 10)
    for i, key in enumerate(t.keys(count, "filters")):
        c = _small((("linear", "relu")[i % 2], "infonce", "paper", "none", 1.0), key, i % 3 > 0)
        inside, patterns = c["in_set"].numpy(), c["patterns"].numpy()
        seen = np.array([[(patterns[:, k] == a).any() for a in range(5)] for k in range(3)])
        part.add(float((c["present"].numpy() != seen).sum()))
        if c["confined"]:
            part.add(float((seen & ~inside).sum()))
        # Filters are near a token or its opposite, so that some tokens are found and some are not.
        W = rng.choice([-1.0, 1.0, 1.0], (3, 6, 1)) * np.eye(5)[rng.integers(0, 5, (3, 6))]
        W = W + 0.15 * rng.standard_normal(W.shape)
        found = ts._metrics(dict(zip("W", tensors(W), strict=True)), c)
        for linear in (True, False):
            scores = _scores(W, inside, seen, linear)
            off = [abs(float(found[name]) - value) for name, value in scores.items()]
            right = linear == (c["activation"] == "linear")
            part.add(*off) if right else part.breaks("the sign of cosines", max(off))
        other = _scores(W[[1, 2, 0]], inside, seen, i % 2 == 0)
        part.breaks("the next field's", max(abs(float(found[n]) - v) for n, v in other.items()))


def by_hand(t: Trial) -> None:
    """A minibatch's loss and its gradient along a random direction, in every protocol, and what is
    recorded of a run."""
    _batch(t)
    _recorded(t)
