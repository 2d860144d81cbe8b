"""The differential of A(w) and why it drops out of the flow (nl App. B.2, after Lemma 3).

Complex steps of A by loops over pairs, for smooth h, meet `clcore.losses.kernel_importance`; gates
that jump are taken over densities in the plane.
"""

from collections.abc import Callable

import numpy as np

from clcore import reference as ref
from clcore.checks.one_layer.node.activation import SLOPE, batches, drive, objective
from clcore.ledger import Trial, check, pooled, typical
from clcore.losses import kernel_importance as ki
from clcore.reference import Array, plane, relative, sphere, tensors
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


@check("nl/rem5")
def rem5(t: Trial) -> None:
    """Differentiating the gate adds nothing for ReLU and LeakyReLU (App. B.2, Eqs. 48-50).

    Given   smooth h (softplus, cubic, sine) on random batches; jumping gates over mixtures in the
            plane.
    Claim   C[h] = w^T A(w) w before Eq. 48, loops against the library, for ReLU and leaky ReLU.
            dA = C[h'' (dw^T x) x, h' x] + C[h' x, h'' (dw^T x) x], and w^T (dA) w is Eq. 50's term
            twice: complex steps of A. For ReLU and leaky ReLU w^T (dA) w = 0.
    Fails   for A without a gate, or at a datum in place of w (a misprint); one term of Eq. 49, x
            left out (a misprint), Eq. 50 without its 2; for x^2, and between another vector.
    """
    # The form before Eq. 48: w^T A w at w, and with A at a datum.
    before = t.part("the form before Eq. 48", 1e-10, controls=typical)
    for kind in ("relu", "leaky_relu"):
        alpha, x, x2, w = batches(t.rng, t.draws)
        world = one_layer.of_views(*tensors(alpha, x, x2))
        left = objective(alpha, x, x2, w, kind)
        own, straight, datum = (
            one_layer.operator(world, *tensors(v), of, SLOPE).numpy()
            for v, of in ((w, kind), (w, "linear"), (x[:, 0], kind))
        )
        quadratic = [np.einsum("bi,bij,bj->b", w, A, w) for A in (own, straight, datum)]
        before.add(relative(quadratic[0], left)).breaks("no gate", relative(quadratic[1], left))
        before.breaks("as typeset: A at the first datum", relative(quadratic[2], left))

    whole = t.part("Eqs. 48, 49", 1e-11, controls=pooled)
    eq50 = t.part("Eq. 50", 1e-11, controls=pooled)
    for rate, bend in SMOOTH.values():
        alpha, x, x2, w = batches(t.rng, t.draws)
        dw = sphere(t.rng, t.draws, 4)
        moved = w + 1j * ref.STEP * dw
        gates = [rate(drive(v, moved))[..., None] for v in (x, x2)]
        dA = differential(alpha, gates[0] * x, gates[1] * x2)

        # dA by complex steps is the sum of both terms.
        turned = [(drive(v, dw) * bend(drive(v, w)))[..., None] * v for v in (x, x2)]
        plain = [rate(drive(v, w))[..., None] * v for v in (x, x2)]
        left = slots(alpha, turned, plain)
        whole.add(relative(left + slots(alpha, plain, turned), dA))
        whole.breaks("first term of Eq. 49 only", relative(left, dA))
        bare = differential(alpha, *gates)[:, 0, 0]
        whole.breaks("as typeset: x left out", misread(bare, dA))

        # w^T (dA) w is the term of Eq. 50, twice.
        first = [(drive(v, dw) * bend(drive(v, w)) * drive(v, w))[..., None] for v in (x, x2)]
        second = [(rate(drive(v, w)) * drive(v, w))[..., None] for v in (x, x2)]
        form = np.einsum("bi,bij,bj->b", w, dA, w)
        term, scale = slots(alpha, first, second)[:, 0, 0], np.abs(dA).max((1, 2))
        eq50.add(np.abs(2 * term - form) / scale)
        eq50.breaks("without the 2", np.abs(term - form) / scale)

    # w^T (dA) w over densities in the plane: 0 for gates that jump, not for x^2.
    jump, step = t.part("ReLU and leaky ReLU", 1e-5, controls=pooled), 1e-4
    for _ in range(min(t.draws, 10)):
        law, angle = plane.draw(t.rng), t.rng.uniform(-np.pi, np.pi)
        w, u = plane.direction(angle), plane.direction(angle + np.pi / 2)
        for lower in (0.0, SLOPE):
            ahead, behind = (plane.operator(law, angle + s, lower) for s in (step, -step))
            dA = (ahead - behind) / (2 * step)
            jump.add(abs(w @ dA @ w))
            jump.breaks("between u for w", abs(u @ dA @ u) + abs(w @ dA @ u))
        x, p = plane.grid(law)
        forms = []
        for s in (step, -step):
            gated = 2 * (x @ plane.direction(angle + s))[:, None] * x
            mean = p @ gated
            forms.append(s * (w @ ((p[:, None] * gated).T @ gated - np.outer(mean, mean)) @ w))
        jump.breaks("h = x^2", np.abs(sum(forms)) / (2 * step**2))
