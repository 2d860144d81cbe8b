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
"""Readings of LayerNorm by name, and l2: x minus its mean, over |x| as printed, over its own norm,
or over its standard deviation."""

REVERSIBLE: dict[str, Callable[[Array], Array]] = {
    "linear": lambda u: u,
    "relu": lambda u: np.where(np.real(u) > 0, u, 0),
    "leaky": lambda u: np.where(np.real(u) > 0, u, 0.2 * u),
}
"""Reversible activations by name."""


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
            (1) y by the standard deviation; (2) P_1^perp for P_{x,1}^perp, I for P_x^perp; (3) the
            Jacobian with |x| below.
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
        J_layer, J_l2 = lemma7(x, True), lemma7(x, False)
        centre = np.eye(n) - 1 / n  # P_1^perp

        # (1) Forward: J x is 0; the projection P over |P x|, applied to x, is y.
        for J, P, typeset, goal in ((J_layer, centre, printed, centred), (J_l2, np.eye(n), l2, l2)):
            image, by_norm = times(J, x), x @ P / np.linalg.norm(x, axis=-1)[:, None]
            forward.add(absolute(image, typeset(x)))
            forward.fails_by(np.abs(by_norm).max(-1))
            whole = P / np.linalg.norm(x @ P, axis=-1)[:, None, None]
            mended.add(absolute(times(whole, x), goal(x)), absolute(by_norm, typeset(x)))
            mended.add(np.abs(image).max(-1))
        zero = times(J_layer, x)
        forward.breaks("mean and std", absolute(zero, std(x)))
        mended.breaks("$J(x)x=y$ as printed", absolute(zero, printed(x)))

        # (2) Backward, LayerNorm: its norm of 1 and its std of 1 differ by sqrt(n).
        layer.add(relative(jacobian(centred, x), J_layer))
        layer.add(relative(jacobian(std, x) / np.sqrt(n), J_layer))
        raw = jacobian(printed, x)
        layer.breaks(r"as typeset, $\|x\|_2$ below", relative(raw, J_layer))
        keeps_x = centre / np.linalg.norm(x @ centre, axis=-1)[:, None, None]
        kept = relative(jacobian(std, x), keeps_x)
        layer.breaks(r"$P_1^\perp$ for $P_{x,1}^\perp$", kept)

        # (2) Backward, l2.
        unit.add(relative(jacobian(l2, x), J_l2))
        scaled = np.eye(n) / np.linalg.norm(x, axis=-1)[:, None, None]
        unit.breaks(r"$I$ for $P_x^\perp$", relative(jacobian(l2, x), scaled))

        # (3) J against its transpose.
        for J in (J_layer, J_l2):
            symmetric.add(relative(J, J.swapaxes(-1, -2)))
        what = r"the Jacobian of $(x-\mathrm{mean})/\|x\|$"
        symmetric.breaks(what, relative(raw, raw.swapaxes(1, 2)))


@check("acl/def1")
def def1(t: Trial) -> None:
    """Reversible (homogeneous) activations (Definition 1).

    Given   random inputs; nets of three layers with linear, ReLU or leaky ReLU. h' is computed by
            complex steps.
    Claim   (1) h(x) = h'(x) x for linear, ReLU and leaky ReLU. (2) For x^2, x^3, x^5 the ratio h'
            x/h is one constant. (3) f_l = D_l W_l f_{l-1} with D_l = diag h', which is binary for
            ReLU: against the activations of the net.
    Fails   (1) for tanh; (2) for x^2 + x, which no constant repairs; (3) for D_l of another sample.
    """
    x = t.rng.standard_normal((t.draws, 40))

    def gap(h: Callable) -> Array:
        return absolute(ref.slope(h, x) * x, h(x))

    def spread(h: Callable) -> Array:
        ratio = ref.slope(h, x) * x / h(x)
        return np.quantile(ratio, 0.9, -1) - np.quantile(ratio, 0.1, -1)

    # (1) h' x against h.
    named = t.part("named activations", 1e-12, controls=typical, draws=t.draws)
    named.add(*(gap(h) for h in REVERSIBLE.values())).breaks("tanh", gap(np.tanh))

    # (2) How far the ratio spreads over inputs: its 90 per cent quantile minus its 10.
    powers = t.part("polynomials with a constant", 1e-8, controls=typical, draws=t.draws)
    powers.add(*(spread(lambda u, p=p: u**p) for p in (2, 3, 5)))
    powers.breaks("$x^2+x$", spread(lambda u: u**2 + u))

    # (3) Through the layers of a net, u = W_l f_{l-1}.
    weights = layers(t.rng, t.draws, (5, 6, 4, 3))
    diagonal = t.part("$f_l=D_lW_lf_{l-1}$", 1e-10, controls=pooled, draws=t.draws)
    inputs = t.rng.standard_normal((t.draws, 7, 5))
    for name, h in REVERSIBLE.items():
        f = inputs
        for w in weights[:-1]:
            u = f @ w.swapaxes(-1, -2)
            f, D = h(u), ref.slope(h, u)
            diagonal.add(absolute(D * u, f))
            if name != "linear":  # where D is the identity whatever the sample
                diagonal.breaks("$D_l$ of another sample", absolute(np.roll(D, 1, 1) * u, f))
            if name == "relu":
                diagonal.add(np.minimum(np.abs(D), np.abs(D - 1)).max((-1, -2)))


@check("acl/def2")
def def2(t: Trial) -> None:
    """Reversible layers, including normalisation layers (Definition 2).

    Given   random inputs of linear, ReLU, leaky ReLU, l2 and LayerNorm layers; Jacobians by
            complex steps.
    Claim   A layer is reversible: f_out = J f_in and g_in = J^T g_out. (1) Linear, ReLU and leaky
            ReLU obey both, with the J written down by hand. (2) Both rules together give <f_out,
            g_out> = <f_in, g_in> for any J; this is measured for l2 and LayerNorm.
    Fails   (2) as printed: the right side is 0. Corrected: these obey the backward rule with the J
            of Lemma 7 (l2: P_x^perp/|x|; LayerNorm: sqrt(n) P_{x,1}^perp/|P_1^perp x|), and J f_in
            = 0. Controls: tanh; J f_in = f_out of the normalisations.
    """
    x, w = t.rng.standard_normal((t.draws, 6)), t.rng.standard_normal((t.draws, 6, 6))
    maps = REVERSIBLE | {"linear": lambda v: np.einsum("bij,...bj->...bi", w, v)}
    by_hand = {
        "linear": w,
        "relu": np.where(x > 0, 1.0, 0.0)[..., None] * np.eye(6),
        "leaky": np.where(x > 0, 1.0, 0.2)[..., None] * np.eye(6),
    }

    def forward(f: Callable) -> Array:
        return absolute(times(jacobian(f, x), x), f(x))

    # (1) J f_in against f_out, and J against that by hand.
    named = t.part("linear, ReLU, leaky ReLU", 1e-10, controls=typical, draws=t.draws)
    for name, f in maps.items():
        named.add(forward(f), absolute(jacobian(f, x), by_hand[name]))
    named.breaks("tanh", forward(np.tanh))

    norms = [MAPS["l2"], MAPS["mean and std"]]
    g_out = t.rng.standard_normal((t.draws, 6))

    def pairing(f: Callable) -> Array:
        g_in = np.einsum("bji,bj->bi", jacobian(f, x), g_out)
        return np.abs((f(x) * g_out).sum(-1) - (x * g_in).sum(-1))

    more: Shared = {"controls": typical, "draws": t.draws}

    # (2) As printed: <f_out, g_out> against <f_in, J^T g_out>, which is 0 as J f_in is.
    printed = t.part("normalisations", 1e-10, **more)
    printed.add(*(pairing(f) for f in norms)).breaks("tanh", pairing(np.tanh))
    centred = x - x.mean(-1, keepdims=True)
    unit, scaled = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, centred))
    printed.fails_by(*(np.abs((f * g_out).sum(-1)) for f in (unit, np.sqrt(6) * scaled)))

    # (2) Corrected: the Jacobian is that of Lemma 7, and it sends f_in to 0.
    corrected = t.corrected("normalisations", 1e-10, **more)
    for f, J in zip(norms, (lemma7(x, False), np.sqrt(6) * lemma7(x, True)), strict=True):
        slope = jacobian(f, x)
        corrected.add(absolute(slope, J), np.abs(times(slope, x)).max(-1))
        corrected.breaks(r"$Jf_{in}=f_{out}$", forward(f))
