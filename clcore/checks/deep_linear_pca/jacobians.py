"""Lemma 7 and Definitions 1 and 2: Jacobians of activations and normalisations (acl App. A.2.1).

Jacobians by complex steps.
"""

from collections.abc import Callable

import numpy as np

from clcore import reference as ref
from clcore.checks.deep_linear_pca.flow import layers
from clcore.ledger import Trial, check, pooled, typical
from clcore.ledger.judging import Shared
from clcore.reference import Array, absolute, relative


def lemma7(x: Array, ones: bool) -> Array:
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

REVERSIBLE: dict[str, Callable[[Array], Array]] = {
    "linear": lambda u: u,
    "relu": lambda u: np.where(np.real(u) > 0, u, 0),
    "leaky": lambda u: np.where(np.real(u) > 0, u, 0.2 * u),
}


def jacobian(f: Callable[[Array], Array], x: Array) -> Array:
    """dy_i/dx_j, [draws, n, n], by complex steps; x: [draws, n]."""
    return np.moveaxis(f(ref.stepped(x)).imag / ref.STEP, 0, -1)


def times(J: Array, x: Array) -> Array:
    """J x, [draws, n]."""
    return np.einsum("bij,bj->bi", J, x)


@check("acl/lem7")
def lem7(t: Trial) -> None:
    """Forward and backward rule of ℓ2 normalisation and LayerNorm (Lemma 7, Eq. 103).

    Given   random x in R^n, n = 3..20, mean not 0.
    Claim   J = P_{x,1}^perp/|P_1^perp x| (LayerNorm) or P_x^perp/|x| (l2). (1) Forward: y = J(x) x.
            (2) Backward: dy/dx, by complex steps, is J^T(x). (3) J is symmetric.
    Fails   (1) as printed: J(x) x = 0, not y. Corrected: y = P_1^perp x over its norm, or x/|x|,
            and J x = 0. (2) holds for the denominator |P_1^perp x|, not |x| as typeset. Controls:
            the other normalisers, P_1^perp for P_{x,1}^perp, I for P_x^perp.
    """
    sizes = (3, 4, 6, 9, 14, 20)
    count = t.share(len(sizes))
    more: Shared = {"controls": pooled, "draws": count * len(sizes)}
    forward = t.part("forward", 1e-10, **more)
    mended = t.corrected("forward", 1e-10, **more)
    layer = t.part("backward, LayerNorm", 1e-10, **more)
    unit = t.part("backward, l2", 1e-10, **more)
    symmetric = t.part("symmetric", 1e-12, **more)
    printed, centred, std, l2 = (
        MAPS[k] for k in ("as printed", "centred norm", "mean and std", "l2")
    )
    for n in sizes:
        x = t.rng.standard_normal((count, n)) + 0.7
        for ones, typeset, goal in ((True, printed, centred), (False, l2, l2)):
            J = lemma7(x, ones)
            image, whole = times(J, x), np.eye(n) - (1 / n if ones else 0)
            forward.add(absolute(image, typeset(x)))
            size = np.linalg.norm(x @ whole, axis=-1)[:, None, None]
            below = x @ whole / np.linalg.norm(x, axis=-1)[:, None]
            forward.fails_by(np.abs(below).max(-1))  # J x is 0
            mended.add(absolute(times(whole / size, x), goal(x)), absolute(below, typeset(x)))
            mended.add(np.abs(image).max(-1))
            symmetric.add(relative(J, J.swapaxes(-1, -2)))
            if ones:
                forward.breaks("mean and std", absolute(image, std(x)))
                mended.breaks("$J(x)x=y$ as printed", absolute(image, printed(x)))
                layer.add(relative(jacobian(centred, x), J))
                layer.add(relative(jacobian(std, x) / np.sqrt(n), J))
                raw = jacobian(printed, x)
                layer.breaks(r"as typeset, $\|x\|_2$ below", relative(raw, J))
                no_x = relative(jacobian(std, x), whole / size)
                layer.breaks(r"$P_1^\perp$ for $P_{x,1}^\perp$", no_x)
                what = r"the Jacobian of $(x-\mathrm{mean})/\|x\|$"
                symmetric.breaks(what, relative(raw, raw.swapaxes(1, 2)))
            else:
                unit.add(relative(jacobian(l2, x), J))
                unit.breaks(r"$I$ for $P_x^\perp$", relative(jacobian(l2, x), whole / size))


@check("acl/def1")
def def1(t: Trial) -> None:
    """Reversible (homogeneous) activations (Definition 1).

    Given   random inputs; nets of three layers.
    Claim   h(x) = h'(x) x for linear, ReLU and leaky ReLU; h' x/h is one constant for x^2, x^3,
            x^5; f_l = D_l W_l f_{l-1} with D_l = diag h', binary for ReLU. h' by complex steps.
    Fails   for tanh; for x^2 + x, which no constant repairs; for D_l of another sample.
    """
    x = t.rng.standard_normal((t.draws, 40))

    def gap(f: Callable) -> Array:
        return absolute(ref.slope(f, x) * x, f(x))

    def spread(f: Callable) -> Array:
        ratio = ref.slope(f, x) * x / f(x)
        return np.quantile(ratio, 0.9, -1) - np.quantile(ratio, 0.1, -1)

    named = t.part("named activations", 1e-12, controls=typical, draws=t.draws)
    named.add(*(gap(f) for f in REVERSIBLE.values())).breaks("tanh", gap(np.tanh))
    powers = t.part("polynomials with a constant", 1e-8, controls=typical, draws=t.draws)
    powers.add(*(spread(lambda u, p=p: u**p) for p in (2, 3, 5)))
    powers.breaks("$x^2+x$", spread(lambda u: u**2 + u))
    weights = layers(t.rng, t.draws, (5, 6, 4, 3))
    diagonal = t.part("$f_l=D_lW_lf_{l-1}$", 1e-10, controls=pooled, draws=t.draws)
    f = t.rng.standard_normal((t.draws, 7, 5))
    for name, act in REVERSIBLE.items():
        low = f
        for w in weights[:-1]:
            u = low @ w.swapaxes(-1, -2)
            low, d = act(u), ref.slope(act, u)
            diagonal.add(absolute(d * u, low))
            if name != "linear":  # where D is the identity whatever the sample
                diagonal.breaks("$D_l$ of another sample", absolute(np.roll(d, 1, 1) * u, low))
            if name == "relu":
                diagonal.add(np.minimum(np.abs(d), np.abs(d - 1)).max((-1, -2)))


@check("acl/def2")
def def2(t: Trial) -> None:
    """Reversible layers, including normalisation layers (Definition 2).

    Given   random inputs of linear, ReLU, leaky ReLU, l2 and LayerNorm layers; Jacobians by
            complex steps.
    Claim   A layer is reversible: f_out = J f_in and g_in = J^T g_out. True of the first three.
            Both rules together give <f_out, g_out> = <f_in, g_in> for any J, which is what is
            measured of the normalisations.
    Fails   for l2 and LayerNorm as printed: the right side is 0. Corrected: they obey the backward
            rule with their Jacobian, and J f_in = 0. Controls: tanh; J f_in = f_out of the
            normalisations.
    """
    x, w = t.rng.standard_normal((t.draws, 6)), t.rng.standard_normal((t.draws, 6, 6))
    maps = REVERSIBLE | {"linear": lambda v: np.einsum("bij,...bj->...bi", w, v)}
    slopes = {
        "linear": w,
        "relu": np.where(x > 0, 1.0, 0.0)[..., None] * np.eye(6),
        "leaky": np.where(x > 0, 1.0, 0.2)[..., None] * np.eye(6),
    }

    def forward(f: Callable) -> Array:
        return absolute(times(jacobian(f, x), x), f(x))

    named = t.part("linear, ReLU, leaky ReLU", 1e-10, controls=typical, draws=t.draws)
    for name, f in maps.items():
        named.add(forward(f), absolute(jacobian(f, x), slopes[name]))
    named.breaks("tanh", forward(np.tanh))
    norms = [MAPS["l2"], MAPS["mean and std"]]
    g = t.rng.standard_normal((t.draws, 6))

    def pairing(f: Callable) -> Array:
        back = np.einsum("bji,bj->bi", jacobian(f, x), g)
        return np.abs((f(x) * g).sum(-1) - (x * back).sum(-1))

    more: Shared = {"controls": typical, "draws": t.draws}
    printed = t.part("normalisations", 1e-10, **more)
    printed.add(*(pairing(f) for f in norms)).breaks("tanh", pairing(np.tanh))
    gap = x - x.mean(-1, keepdims=True)
    unit, scaled = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, gap))
    printed.fails_by(*(np.abs((v * g).sum(-1)) for v in (unit, np.sqrt(6) * scaled)))  # J x is 0
    corrected = t.corrected("normalisations", 1e-10, **more)
    for f, J in zip(norms, (lemma7(x, False), np.sqrt(6) * lemma7(x, True)), strict=True):
        slope = jacobian(f, x)
        corrected.add(absolute(slope, J), np.abs(times(slope, x)).max(-1))
        corrected.breaks(r"$Jf_{in}=f_{out}$", forward(f))
