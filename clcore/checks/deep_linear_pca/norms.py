"""Normalisation layers keep the norms of the weights below them (acl Sec. 4.2, App. A.2.1, B).

Gradients by autograd of nets written here; Jacobians by complex steps.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import layers
from clcore.ledger import Check
from clcore.reference import Array, absolute, relative, tensors, worst

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda u: u,
    "relu": torch.relu,
    "leaky": lambda u: torch.where(u > 0, u, 0.2 * u),
    "tanh": torch.tanh,
}
REVERSIBLE = ("linear", "relu", "leaky")


def _standard(f: Tensor, dim: int, eps: float = 0.0) -> Tensor:
    f = f - f.mean(dim, keepdim=True)
    return f / (f.pow(2).mean(dim, keepdim=True) + eps).sqrt()


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "l2": lambda f: f / f.norm(dim=-1, keepdim=True),
    "LayerNorm": lambda f: _standard(f, -1),
    "LayerNorm, eps 0.1": lambda f: _standard(f, -1, 0.1),
    "BatchNorm": lambda f: _standard(f, -2),
    "none": lambda f: f,
}


def _loss_gradient(
    weights: list[Tensor],
    x: Tensor,
    acts: list[str],
    norm: str,
    at: int,
    bias: tuple[Tensor, ...] = (),
) -> tuple[Tensor, ...]:
    """dLoss/dW_l of a smooth random loss of the outputs; `norm` acts on layer `at` (1..L)."""
    theta = [w.clone().requires_grad_() for w in weights]
    f = x
    for layer, (w, act) in enumerate(zip(theta, acts, strict=True), 1):
        f = f @ w.mT
        if len(bias):
            f = f + bias[layer - 1]
        f = ACTIVATIONS[act](f)
        if layer == at:
            f = NORMS[norm](f)
    ripple = torch.arange(f[0].numel(), dtype=f.dtype).reshape(f.shape[1:]).cos()
    loss = (torch.sin(2 * f + ripple) * (1.5 + ripple)).sum() + (f.mean(-2) ** 3).sum()
    return torch.autograd.grad(loss, theta)


def _inner(weights: list[Tensor], slopes: tuple[Tensor, ...], rows: bool = False) -> list[Array]:
    """A layer: |<W_l, dLoss/dW_l>| over the gradient's norm, or the worst row's, [draws]."""
    out = []
    for w, g in zip(weights, slopes, strict=True):
        if rows:
            inner, size = (w * g).sum(-1).abs().amax(-1), g.norm(dim=-1).amax(-1)
        else:
            inner, size = (w * g).sum((-1, -2)).abs(), torch.linalg.matrix_norm(g)
        out.append((inner / (size + 1e-12)).numpy())
    return out


def _net(rng: np.random.Generator, count: int, widths: tuple[int, ...]) -> list[Tensor]:
    return list(tensors(*layers(rng, count, widths)))


def lem2(draws: int, seed: int) -> Iterator[Check]:
    """<W_l, dLoss/dW_l> = 0 for all layers below an l2 or LayerNorm layer.

    Controls: layers above it, biases, tanh, eps = 0.1, no normalisation.
    """
    rng, widths = ref.generator("lem2", seed), (5, 24, 24, 24, 4)
    errors: list[Array] = []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 6)
    for norm in ("l2", "LayerNorm"):
        for act in REVERSIBLE:
            for at in (3, 4):
                weights = _net(rng, count, widths)
                (x,) = tensors(rng.standard_normal((count, 12, 5)))
                acts = [act, act, "linear" if at == 3 else act, "linear"]

                def inner(norm=norm, acts=acts, weights=weights, x=x, at=at, **more):
                    return _inner(weights, _loss_gradient(weights, x, acts, norm, at, **more))

                found = inner()
                errors += found[:at]
                if at == 3:
                    broken["layer above"].append(found[3])
                bias = tensors(*(rng.standard_normal((count, 1, n)) for n in widths[1:]))
                broken["biases"].append(inner(bias=bias)[0])
                broken["tanh"].append(inner(acts=["tanh", "tanh", "linear", "linear"])[0])
                broken["no normalisation"].append(inner(norm="none")[0])
                if norm == "LayerNorm":
                    broken["eps 0.1"].append(inner(norm="LayerNorm, eps 0.1")[0])
    yield Check(
        "acl/lem2",
        worst(*errors),
        1e-10,
        ref.pooled(broken),
        draws=6 * count,
        part="conserved",
        note="Relative to the gradient; linear, ReLU and leaky ReLU nets, any layer below.",
    )
    yield _norm_path(rng, min(draws, 20))


def _norm_path(rng: np.random.Generator, count: int) -> Check:
    """Drift of the squared norms along Runge-Kutta paths of the gradient flow (smooth net).

    Many outputs: LayerNorm's slope has no bound where all outputs of a sample are nearly alike,
    which with few of them happens, and the integrator is then at fault.
    """
    (x,) = tensors(rng.standard_normal((count, 8, 4)))
    start = _net(rng, count, (4, 24, 24))
    drifts, travelled, h = {}, [], 1.25e-4
    paths = {
        "l2": ("linear", "l2"),
        "LayerNorm": ("linear", "LayerNorm"),
        "eps 0.1": ("linear", "LayerNorm, eps 0.1"),
        "tanh": ("tanh", "LayerNorm"),
    }
    for name, (act, norm) in paths.items():
        ws = start

        def speed(ws, act=act, norm=norm):
            return [-g for g in _loss_gradient(ws, x, [act, "linear"], norm, 2)]

        def moved(ws, h, k):
            return [w + h * v for w, v in zip(ws, k, strict=True)]

        for _ in range(160):
            k1 = speed(ws)
            k2 = speed(moved(ws, h / 2, k1))
            k3 = speed(moved(ws, h / 2, k2))
            k4 = speed(moved(ws, h, k3))
            ws = [
                w + h / 6 * (a + 2 * b + 2 * c + d)
                for w, a, b, c, d in zip(ws, k1, k2, k3, k4, strict=True)
            ]
        before, after = ([(w * w).sum((-1, -2)) for w in t] for t in (start, ws))
        pairs = zip(before, after, strict=True)
        drifts[name] = torch.stack([(a - b).abs() / b for b, a in pairs]).amax(0)
        if name in ("l2", "LayerNorm"):
            way = [torch.linalg.matrix_norm(a - b) for a, b in zip(ws, start, strict=True)]
            travelled.append(torch.stack(way) / torch.stack(before).sqrt())
    kept = torch.stack([drifts.pop("l2"), drifts.pop("LayerNorm")])
    return Check(
        "acl/lem2",
        float(kept.max()),
        1e-7,
        {name: float(drift.median()) for name, drift in drifts.items()},
        draws=2 * count,
        part="trajectory",
        note="Largest relative drift of a squared norm, over which the matrices themselves move by "
        f"{float(torch.stack(travelled).median()):.0%} of their norm (median).",
    )


def lem8(draws: int, seed: int) -> Iterator[Check]:
    """One to four reversible layers, of mixed kinds, between W_l and the normalisation; J f = 0.

    Controls: one tanh among them; the projection that leaves out x.
    """
    rng = ref.generator("lem8", seed)
    errors: list[Array] = []
    bent: list[Array] = []
    count = ref.share(draws, 8)
    for norm in ("l2", "LayerNorm"):
        for between in range(1, 5):
            depth = between + 1
            weights = _net(rng, count, (5, *(24 for _ in range(depth)), 3))
            (x,) = tensors(rng.standard_normal((count, 12, 5)))
            acts = [*rng.choice(REVERSIBLE, depth - 1), "linear", "linear"]
            slopes = _loss_gradient(weights, x, acts, norm, depth)
            errors += _inner(weights, slopes)[:depth]
            acts[0] = "tanh"
            bent.append(_inner(weights, _loss_gradient(weights, x, acts, norm, depth))[0])
    check = partial(Check, "acl/lem8", draws=8 * count)
    control = {"a tanh among them": ref.pooled({"": bent})[""]}
    yield check(worst(*errors), 1e-9, control, part="conserved")
    kills, keeps = [], []
    for n in range(3, 9):
        f = rng.standard_normal((count, n))
        for ones in (False, True):
            J = _lemma7(f, ones)
            kills.append(np.abs(np.einsum("bij,bj->bi", J, f)).max(-1))
        centre = np.eye(n) - 1 / n
        keeps.append(np.abs(f @ centre).max(-1))
    yield check(
        worst(*kills),
        1e-12,
        {r"$P_1^\perp$ in place of $P_{x,1}^\perp$": ref.typical(*keeps)},
        part="J f = 0",
    )


# ------------------------------------------------------------------------- Lemma 7 and Definition 2


def _lemma7(x: Array, ones: bool) -> Array:
    """J(x) as printed, [..., n, n]: P_x^perp / |x|, or with `ones` P_{x,1}^perp / |P_1^perp x|."""
    n = x.shape[-1]
    centre = np.eye(n) - (1 / n if ones else 0)
    y = x @ centre
    size = np.linalg.norm(y, axis=-1)[..., None, None]
    unit = y[..., :, None] / size
    return (centre - unit @ unit.swapaxes(-1, -2)) / size


def _root(s: Array) -> Array:
    return np.sqrt(s)[..., None]


def _mean(x: Array) -> Array:
    return x.mean(-1, keepdims=True)


MAPS: dict[str, Callable[[Array], Array]] = {
    "as printed": lambda x: (x - _mean(x)) / _root((x**2).sum(-1)),
    "centred norm": lambda x: (x - _mean(x)) / _root(((x - _mean(x)) ** 2).sum(-1)),
    "mean and std": lambda x: (x - _mean(x)) / _root(((x - _mean(x)) ** 2).mean(-1)),
    "l2": lambda x: x / _root((x**2).sum(-1)),
}


def _jacobian(f: Callable[[Array], Array], x: Array) -> Array:
    """dy_i/dx_j, [draws, n, n], by complex steps; x: [draws, n]."""
    return np.moveaxis(f(ref.stepped(x)).imag / ref.STEP, 0, -1)


def lem7(draws: int, seed: int) -> Iterator[Check]:
    """Forward and backward rule apart: J x is 0, not y; backward holds with |P_1^perp x|.

    Controls: each other normaliser, P_1^perp for P_{x,1}^perp.
    """
    rng = ref.generator("lem7", seed)
    out: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 6)
    for n in (3, 4, 6, 9, 14, 20):
        x = rng.standard_normal((count, n)) + 0.7
        for kind, ones in (("ln", True), ("l2", False)):
            J = _lemma7(x, ones)
            names = ("as printed", "centred norm", "mean and std") if ones else ("l2",)
            image = np.einsum("bij,bj->bi", J, x)
            for name in names:
                out[f"forward {name}"].append(absolute(image, MAPS[name](x)))
                out[f"backward {name}"].append(relative(_jacobian(MAPS[name], x), J))
            whole = np.eye(n) - (1 / n if ones else 0)
            size = np.linalg.norm(x @ whole, axis=-1)[:, None, None]
            forward = np.einsum("bij,bj->bi", whole / size, x)
            goal = MAPS["centred norm" if ones else "l2"](x)
            out[f"map {kind}"].append(absolute(forward, goal))
            printed = x @ whole / np.linalg.norm(x, axis=-1)[:, None]
            out[f"map {kind}"].append(absolute(printed, MAPS[names[0]](x)))
            out[f"zero {kind}"].append(np.abs(image).max(-1))
            out[f"no x {kind}"].append(relative(_jacobian(MAPS[names[-1]], x), whole / size))
            out["skew"].append(relative(J, J.swapaxes(-1, -2)))
            out["raw"].append(relative(*(m := _jacobian(MAPS["as printed"], x), m.swapaxes(1, 2))))
        std = _jacobian(MAPS["mean and std"], x) / np.sqrt(n)
        out["backward std"].append(relative(std, _lemma7(x, True)))
    check = partial(Check, "acl/lem7", draws=6 * count)

    def typical(name: str) -> float:
        return ref.pooled({"": out[name]})[""]

    x3 = r"$x=(1,0,-1)$: $J(x)x=0$, $y=(1,0,-1)/\sqrt2$."
    tag = {"part": "forward"}
    yield check(
        worst(*out["forward as printed"], *out["forward l2"]),
        1e-10,
        {"mean and std": typical("forward mean and std")},
        counterexample=x3 + r" A projection away from $x$ annihilates $x$.",
        **tag,
    )
    yield check(
        worst(*out["zero ln"], *out["zero l2"], *out["map ln"], *out["map l2"]),
        1e-10,
        {"$J(x)x=y$ as printed": typical("forward as printed")},
        form="corrected",
        correction=r"$J(x)x=0$; the forward map is $y=P_1^\perp x/\|P_1^\perp x\|_2$, or "
        r"$y=P_1^\perp x/\|x\|_2$ for the denominator as typeset, and $y=x/\|x\|_2$ for l2, "
        "without the projection away from $x$. Lemmas 2 and 8, which the rule serves, need only "
        "the backward rule and $J(x)x=0$, and stand.",
        **tag,
    )
    yield check(
        worst(*out["backward centred norm"], *out["backward std"]),
        1e-10,
        {
            r"as typeset, $\|x\|_2$ below": typical("backward as printed"),
            r"$P_1^\perp$ for $P_{x,1}^\perp$": typical("no x ln"),
        },
        part="backward, LayerNorm",
        misprint=r"$y=(x-\mathrm{mean}(x))/\|x\|_2$ -> "
        r"$y=(x-\mathrm{mean}(x))/\|x-\mathrm{mean}(x)\|_2$, as in its own $J$, which has "
        r"$\|P_1^\perp x\|_2$ below",
        note=r"The two denominators agree where $\mathrm{mean}(x)=0$. LayerNorm with mean and std "
        r"is $\sqrt n$ times the map.",
    )
    yield check(
        worst(*out["backward l2"]),
        1e-10,
        {r"$I$ for $P_x^\perp$": typical("no x l2")},
        part="backward, l2",
    )
    yield check(
        worst(*out["skew"]),
        1e-12,
        {r"the Jacobian of $(x-\mathrm{mean})/\|x\|$": typical("raw")},
        part="symmetric",
    )


def def1(draws: int, seed: int) -> Iterator[Check]:
    """h(x) = h'(x) x for linear, ReLU, leaky ReLU; a constant p for x^p. f_l = D_l W_l f_{l-1}.

    Controls: tanh; x^2 + x, which no constant repairs; D of another layer's input.
    """
    check, rng = partial(Check, "acl/def1", draws=draws), ref.generator("def1", seed)
    x = rng.standard_normal((draws, 40))
    h = {
        "linear": lambda u: u,
        "relu": lambda u: np.where(np.real(u) > 0, u, 0),
        "leaky": lambda u: np.where(np.real(u) > 0, u, 0.2 * u),
    }

    def gap(f) -> Array:
        return absolute(ref.slope(f, x) * x, f(x))

    yield check(
        worst(*(gap(f) for f in h.values())),
        1e-12,
        {"tanh": ref.typical(gap(np.tanh))},
        part="named activations",
    )

    def spread(f) -> Array:
        ratio = ref.slope(f, x) * x / f(x)
        return np.quantile(ratio, 0.9, -1) - np.quantile(ratio, 0.1, -1)

    yield check(
        worst(*(spread(lambda u, p=p: u**p) for p in (2, 3, 5))),
        1e-8,
        {"$x^2+x$": ref.typical(spread(lambda u: u**2 + u))},
        part="polynomials with a constant",
        note=r"$h'(x)x/h(x)$ is one constant for monomials only.",
    )
    weights = layers(rng, draws, (5, 6, 4, 3))
    errors, wrong, values = [], [], []
    f = rng.standard_normal((draws, 7, 5))
    for act in h.values():
        low = f
        for w in weights[:-1]:
            u = low @ w.swapaxes(-1, -2)
            high, d = act(u), ref.slope(act, u)
            errors.append(absolute(d * u, high))
            wrong.append(absolute(np.roll(d, 1, 1) * u, high))
            low = high
            if act is h["relu"]:
                values.append(np.minimum(np.abs(d), np.abs(d - 1)).max((-1, -2)))
    # For the linear net D is the identity whatever the sample: the median of the others.
    yield check(
        worst(*errors, *values),
        1e-10,
        {"$D_l$ of another sample": float(np.median(np.concatenate(wrong[2:])))},
        part="$f_l=D_lW_lf_{l-1}$",
        note=r"For $l\le L-1$; $D_l$ of ReLU is binary.",
    )


def def2(draws: int, seed: int) -> Iterator[Check]:
    """Reversible: f_out = J f_in and g_in = J^T g_out. True of linear, ReLU, leaky; not of norms.

    The rules together give <f_out, g_out> = <f_in, g_in> for any J, which norms break.
    """
    check, rng = partial(Check, "acl/def2", draws=draws), ref.generator("def2", seed)
    x, w = rng.standard_normal((draws, 6)), rng.standard_normal((draws, 6, 6))
    maps = {
        "linear": lambda v: np.einsum("bij,...bj->...bi", w, v),
        "relu": lambda v: np.where(np.real(v) > 0, v, 0),
        "leaky": lambda v: np.where(np.real(v) > 0, v, 0.2 * v),
    }

    def forward(f) -> Array:
        return absolute(np.einsum("bij,bj->bi", _jacobian(f, x), x), f(x))

    d = np.where(x > 0, 1.0, 0.0)[..., None] * np.eye(6)
    leak = np.where(x > 0, 1.0, 0.2)[..., None] * np.eye(6)
    named = {"linear": w, "relu": d, "leaky": leak}
    both = [absolute(_jacobian(maps[k], x), J) for k, J in named.items()]
    tanh = ref.typical(forward(np.tanh))
    yield check(
        worst(*(forward(f) for f in maps.values()), *both),
        1e-10,
        {"tanh": tanh},
        part="linear, ReLU, leaky ReLU",
    )
    norms = [MAPS["l2"], MAPS["mean and std"]]
    tag = {"part": "normalisations"}
    g = rng.standard_normal((draws, 6))

    def pairing(f) -> Array:
        back = np.einsum("bji,bj->bi", _jacobian(f, x), g)
        return np.abs((f(x) * g).sum(-1) - (x * back).sum(-1))

    yield check(
        worst(*(pairing(f) for f in norms)),
        1e-10,
        {"tanh": ref.typical(pairing(np.tanh))},
        counterexample=r"Both rules give $\langle f_{out},g_{out}\rangle=\langle f_{in},"
        r"g_{in}\rangle$ for any $J$. For $x/\|x\|_2$ the right side is always 0, the left is not: "
        "$x=g_{out}=(1,0)$ has 1.",
        **tag,
    )
    backward = [
        absolute(_jacobian(MAPS["l2"], x), _lemma7(x, False)),
        absolute(_jacobian(MAPS["mean and std"], x), np.sqrt(6) * _lemma7(x, True)),
    ]
    zero = [np.abs(np.einsum("bij,bj->bi", _jacobian(f, x), x)).max(-1) for f in norms]
    yield check(
        worst(*backward, *zero),
        1e-10,
        {r"$Jf_{in}=f_{out}$": ref.typical(*(forward(f) for f in norms))},
        form="corrected",
        correction="They obey the backward rule with $J$ the Jacobian, and $Jf_{in}=0$ in place of "
        "the forward rule; of the normalisation layer, Lemma 8 uses only these two, and stands.",
        **tag,
    )


def lem11(draws: int, seed: int) -> Iterator[Check]:
    """A row's norm is conserved under BatchNorm of its node; the rules of Eq. 119 apart.

    Controls: the same rows under l2 or LayerNorm, tanh before BatchNorm.
    """
    rng = ref.generator("lem11", seed)
    errors: list[Array] = []
    broken: dict[str, list[Array]] = defaultdict(list)
    count = ref.share(draws, 3)
    for act in REVERSIBLE:
        weights = _net(rng, count, (5, 24, 4))
        (x,) = tensors(rng.standard_normal((count, 32, 5)))

        def rows(norm, act=act, weights=weights, x=x):
            slopes = _loss_gradient(weights, x, [act, "linear"], norm, 1)
            return _inner(weights, slopes, rows=True)[0]

        errors.append(rows("BatchNorm"))
        broken["l2 instead"].append(rows("l2"))
        broken["LayerNorm instead"].append(rows("LayerNorm"))
        broken["tanh before it"].append(rows("BatchNorm", act="tanh"))
    check = partial(Check, "acl/lem11", draws=3 * count)
    yield check(worst(*errors), 1e-9, ref.pooled(broken), part="conserved")
    f = rng.standard_normal((count, 32))  # one node over the batch
    J, image = _lemma7(f, True), MAPS["centred norm"](f)
    backward = relative(_jacobian(MAPS["centred norm"], f), J)
    tag = {"part": "Eq. 119, backward"}
    raw = relative(_jacobian(MAPS["as printed"], f + 0.7), _lemma7(f + 0.7, True))
    yield check(worst(backward), 1e-10, {r"$\|f\|$ below": ref.typical(raw)}, **tag)
    tag = {"part": "Eq. 119, forward"}
    Jf = np.einsum("bij,bj->bi", J, f)
    forward = absolute(Jf, image)
    yield check(
        worst(forward),
        1e-10,
        {"with std for the norm": ref.typical(absolute(Jf, np.sqrt(32) * image))},
        counterexample=r"With $J_k$ the Jacobian $P^\perp_{f_k,1}/\|P_1^\perp f_k\|$ (its letters, "
        r"$P_1^\perp f_k$ over its norm, would be a vector): $f_k=(1,-1,0)$ gives $J_kf_k=0$ but "
        r"the output is $f_k/\|f_k\|$; no $J_k$ serves both halves.",
        **tag,
    )
    yield check(
        worst(np.abs(Jf).max(-1)),
        1e-10,
        {"$f^n_k=J_kf_k$ as printed": ref.typical(forward)},
        form="corrected",
        correction=r"$J_kf_k=0$, which is what Eq. 121 needs; the forward map is "
        r"$f_k^n=P_1^\perp f_k/\|P_1^\perp f_k\|_2$ (times $\sqrt N$ with std). The lemma stands.",
        **tag,
    )
