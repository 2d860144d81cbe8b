"""The differential of A(w) and why it drops out of the flow (nl App. B.2, after Lemma 3).

Complex steps of A by loops over pairs, for smooth h, meet `clcore.losses.kernel_importance`; gates
that jump are taken over densities in the plane.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from clcore import reference as ref
from clcore.checks.one_layer.activation import SLOPE, batches, drive, objective, unit
from clcore.ledger import Check
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, plane, relative, tensors, typical, worst
from clcore.theory.one_layer import one_layer

# h' and h'' of smooth activations; Eqs. 48 to 50 ask for no homogeneity.
SMOOTH: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "softplus": (lambda u: 1 / (1 + np.exp(-3 * u)), lambda u: 0.75 / np.cosh(1.5 * u) ** 2),
    "cubic": (lambda u: 3 * u**2, lambda u: 6 * u),
    "sine": (np.cos, lambda u: -np.sin(u)),
}


def differential(alpha: Array, g: Array, g2: Array) -> Array:
    """The step's part of C_alpha[g], by loops, of features g, g2 that carry a complex step."""
    return ref.covariance(alpha, g, g2, g, g2).imag / ref.STEP / (2 * g.shape[-2] ** 2)


def slots(alpha: Array, first: list[Array], second: list[Array]) -> Array:
    """C_alpha[first, second] of both views of each, by the library."""
    return ki.batch_covariance(*tensors(alpha, *first, *second)).numpy()


def misread(scalar: Array, dA: Array) -> Array:
    """[draws]: how far a scalar is from a matrix, as a multiple of the unit matrix or as its trace,
    whichever is nearer."""
    multiple = scalar[:, None, None] * np.eye(dA.shape[-1])
    trace = np.trace(dA, axis1=1, axis2=2)
    return np.minimum(relative(multiple, dA), relative(scalar, trace))


def rem5(draws: int, seed: int) -> Iterator[Check]:
    """dA and w^T (dA) w by complex steps of A for smooth h against Eqs. 48, 49 and 50; then with
    jumping gates, over densities in the plane. Controls: a term of Eq. 49 alone, half of Eq. 50;
    x^2, and A between another vector.
    """
    check = partial(Check, "nl/rem5")
    rng = ref.generator("nl rem5", seed)
    yield from _stray_x(check, rng, draws)
    errors, halves, both, alone, bare = [], [], [], [], []
    for rate, bend in SMOOTH.values():
        alpha, x, x2, w = batches(rng, draws)
        dw = unit(rng, draws, 4)
        moved = w + 1j * ref.STEP * dw
        gates = [rate(drive(v, moved))[..., None] for v in (x, x2)]
        dA = differential(alpha, gates[0] * x, gates[1] * x2)
        turned, plain, first, second = [], [], [], []
        for v in (x, x2):
            u = drive(v, w)
            turned.append((drive(v, dw) * bend(u))[..., None] * v)
            plain.append(rate(u)[..., None] * v)
            first.append((drive(v, dw) * bend(u) * u)[..., None])
            second.append((rate(u) * u)[..., None])
        left = slots(alpha, turned, plain)
        both.append(relative(left + slots(alpha, plain, turned), dA))
        alone.append(relative(left, dA))
        bare.append(misread(differential(alpha, *gates)[:, 0, 0], dA))
        form = np.einsum("bi,bij,bj->b", w, dA, w)
        term, scale = slots(alpha, first, second)[:, 0, 0], np.abs(dA).max((1, 2))
        errors.append(np.abs(2 * term - form) / scale)
        halves.append(np.abs(term - form) / scale)
    tag = {"part": "Eqs. 48, 49", "draws": 3 * draws}
    control = {"first term of Eq. 49 only": typical(np.concatenate(alone))}
    yield check(
        worst(*both),
        1e-11,
        control | {"as typeset: x left out": typical(np.concatenate(bare))},
        misprint=r"$dA=d\,\mathbb C_\alpha[h'(w^\top x)]$ -> "
        r"$dA=d\,\mathbb C_\alpha[h'(w^\top x)\,x]$",
        note="The two terms that follow in Eq. 49 have the x. As typeset a number stands for a "
        "matrix; the control reads it as a multiple of $I$, or for the trace, whichever is nearer.",
        **tag,
    )
    yield check(
        worst(*errors),
        1e-11,
        {"without the 2": typical(np.concatenate(halves))},
        part="Eq. 50",
        draws=3 * draws,
        note=r"With $h'(w^\top x)w^\top x$ in the second slot, which is $h(w^\top x)$ under "
        "Assumption 1; smooth h (softplus, cubic, sine).",
    )
    yield from _jumping(check, rng, min(draws, 10))


def _stray_x(check: Callable[..., Check], rng: np.random.Generator, draws: int) -> Iterator[Check]:
    """C_alpha[h(w^T x)] by loops against w^T A w, with A at a datum x and at w."""
    at_x, at_w, ungated = [], [], []
    for kind in ("relu", "leaky_relu"):
        alpha, x, x2, w = batches(rng, draws)
        world = one_layer.of_views(*tensors(alpha, x, x2))
        left = objective(alpha, x, x2, w, kind)
        for v, of, out in ((x[:, 0], kind, at_x), (w, kind, at_w), (w, "linear", ungated)):
            A = one_layer.operator(world, *tensors(v), of, SLOPE).numpy()
            out.append(relative(np.einsum("bi,bij,bj->b", w, A, w), left))
    tag = {"part": "the form before Eq. 48", "draws": 2 * draws}
    control = {"no gate": typical(*ungated)}
    yield check(
        worst(*at_w),
        1e-10,
        control | {"as typeset: A at the first datum": typical(*at_x)},
        misprint=r"$\mathbb C_\alpha[h(w^\top x)]=w^\top A(x)\,w$ -> $w^\top A(w)\,w$",
        **tag,
    )


def _jumping(check: Callable[..., Check], rng: np.random.Generator, count: int) -> Iterator[Check]:
    """w^T (dA) w over densities in the plane: 0 for gates that jump, not for x^2."""
    zero, other, quadratic = [], [], []
    for _ in range(count):
        law, angle = plane.draw(rng), rng.uniform(-np.pi, np.pi)
        w, u = plane.direction(angle), plane.direction(angle + np.pi / 2)
        step = 1e-4
        for lower in (0.0, SLOPE):
            ahead, behind = (plane.operator(law, angle + s, lower) for s in (step, -step))
            dA = (ahead - behind) / (2 * step)
            zero.append(abs(w @ dA @ w))
            other.append(abs(u @ dA @ u) + abs(w @ dA @ u))
        x, p = plane.grid(law)
        for s in (step, -step):
            gated = 2 * (x @ plane.direction(angle + s))[:, None] * x
            mean = p @ gated
            A = (p[:, None] * gated).T @ gated - np.outer(mean, mean)
            quadratic.append(s * (w @ A @ w))
    curved = np.abs(np.add(quadratic[::2], quadratic[1::2])) / (2 * step**2)
    yield check(
        float(max(zero)),
        1e-5,
        {"h = x^2": typical(curved), "between u for w": float(np.median(other))},
        part="ReLU and leaky ReLU",
        draws=2 * count,
        note=r"$w^\top(dA)w$ over mixtures of Gaussians in the plane: 0, although $dA\ne0$.",
    )
