"""One node: decoupling, gating and the gradient flow of nl Sec. 3 and App. B.2.

Complex steps through loops over pairs meet `clcore.theory.one_layer.one_layer`. Batches have two
views and random asymmetric alpha without a diagonal, so that both readings of Eq. 3 agree.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.one_layer.landscape.clouds import angles, optima, push
from clcore.checks.one_layer.node import proofs
from clcore.ledger import Part, Trial, check, pooled, typical
from clcore.losses import kernel_importance as ki
from clcore.nets import networks
from clcore.reference import Array, relative, sphere, tangent, tensors, unit
from clcore.theory.one_layer import one_layer

SLOPE = 0.05
TAU = 0.05
ONE = ("linear", "relu", "leaky_relu")
MONOMIALS = ("quadratic", "cubic")

H: dict[str, Callable[[Array], Array]] = {
    "linear": lambda u: u,
    "relu": lambda u: np.where(np.real(u) > 0, u, 0),
    "leaky_relu": lambda u: np.where(np.real(u) > 0, u, SLOPE * u),
    "quadratic": lambda u: u**2,
    "cubic": lambda u: u**3,
}
"""The activations h by name, straight from the page; complex arguments allowed."""


def drive(x: Array, w: Array) -> Array:
    return (x * w[..., None, :]).sum(-1)


def variance(alpha: Array, u: Array, u2: Array) -> Array:
    """C_alpha of a scalar u `[..., n]` and its second view, 1/(2 N^2) included, by loops."""
    u, u2 = u[..., None], u2[..., None]
    return ref.covariance(alpha, u, u2, u, u2)[..., 0, 0] / (2 * u.shape[-2] ** 2)


def objective(alpha: Array, x: Array, x2: Array, w: Array, kind: str) -> Array:
    """C_alpha[h(w^T x)], no 1/2."""
    return variance(alpha, H[kind](drive(x, w)), H[kind](drive(x2, w)))


def batches(rng: np.random.Generator, draws: int, n: int = 7, d: int = 4) -> tuple[Array, ...]:
    """(alpha, x, x2, unit w)."""
    return ref.random_weights(rng, draws, n, n), *ref.views(rng, draws, n, d), sphere(rng, draws, d)


def _mixed(alpha: Array, x: Array, x2: Array, W: Array, kind: str, full: bool) -> Array:
    """[draws]: the largest mixed second derivative of filter 0 and another one, of half the trace
    of C[h(W x)], or of half the sum of all its entries."""
    (free,) = tensors(W)
    free.requires_grad_()
    g, g2 = (networks.activate(v @ free.mT, kind, SLOPE) for v in tensors(x, x2))
    C = ki.batch_covariance(*tensors(alpha), g, g2, g, g2)
    part = C.sum((-1, -2)) if full else C.diagonal(dim1=-2, dim2=-1).sum(-1)
    (slope,) = torch.autograd.grad(part.sum() / 2, free, create_graph=True)
    (hessian,) = torch.autograd.grad(slope[:, 0].sum(), free, allow_unused=True)
    return np.abs(hessian[:, 1:].numpy()).max((1, 2))


@check("nl/eq5")
def eq5(t: Trial) -> None:
    """One-layer objective decouples over filters of unit norm (Eq. 5).

    Given   f = h(W x), W of three unit filters, alpha fixed; linear, ReLU, leaky ReLU.
    Claim   tr C_alpha[f] = sum_k C_alpha[f_k]; mixed derivatives of two filters vanish; the
            maximum over pairs of filters is twice that of one, on a grid.
    Fails   for the sum of all entries in place of the trace, which couples the filters.
    """
    nodes, count = 3, t.share(len(ONE))
    trace = t.part("trace", 1e-11, controls=pooled)
    apart = t.part("nodes do not interact", 1e-13, controls=pooled)
    top = t.part("maximum of the sum", 1e-12, controls=pooled)
    angle = np.linspace(-np.pi, np.pi, 25)[:-1] + 0.01
    grid = np.stack([np.cos(angle), np.sin(angle)], -1)
    both = grid[np.stack(np.triu_indices(len(grid)), -1)]
    for kind in ONE:
        alpha, x, x2, _ = batches(t.rng, count, d=2)
        W = sphere(t.rng, count, nodes, 2)

        # tr C_alpha[f] by the library, and each node's C_alpha by loops.
        f, f2 = (H[kind](v @ W.swapaxes(-1, -2)) for v in (x, x2))
        C = ki.batch_covariance(*tensors(alpha, f, f2, f, f2)).numpy()
        each: Any = sum(objective(alpha, x, x2, W[:, k], kind) for k in range(nodes))
        trace.add(relative(np.trace(C, axis1=1, axis2=2), each))
        trace.breaks("all entries", relative(C.sum((1, 2)), each))

        # Mixed second derivatives of two filters.
        apart.add(_mixed(alpha, x, x2, W, kind, False))
        apart.breaks("all entries", _mixed(alpha, x, x2, W, kind, True))

        # The maximum over all pairs of filters of a grid, against twice that of one.
        g, g2 = (H[kind](np.einsum("bni,pki->pbnk", v, both)) for v in (x, x2))
        weights = np.broadcast_to(alpha, (len(both), *alpha.shape))
        C = ki.batch_covariance(*tensors(weights, g, g2, g, g2)).numpy()
        own = objective(alpha, x, x2, grid[:, None], kind).max(0)
        top.add(relative(C.trace(axis1=-2, axis2=-1).max(0), 2 * own))
        top.breaks("all entries", relative(C.sum((-1, -2)).max(0), 2 * own))
    proofs.eq5(trace, apart, top)


@check("nl/rem2")
def rem2(t: Trial) -> None:
    """A linear layer learns only the first principal direction (Sec. 3, after Eq. 5).

    Given   a linear node, alpha fixed; whitened normal, binary and skewed inputs, random starts.
    Claim   Every start ends at +-phi_1 of C_alpha[x], and only that pair attracts.
    Fails   for ReLU, for starts at other eigenvectors, for a tied largest eigenvalue; saddles
            counted too, ReLU on the categorical model. Where alpha follows w there may be more
            (said).
    """
    rng, d, n, starts = t.rng, 4, 30, 8
    shape = (ref.share(min(t.draws, 30), 3), n, d)
    x = np.concatenate(
        [rng.standard_normal(shape), rng.choice([-1.0, 1.0], shape), rng.exponential(1.0, shape)]
    )
    # Whitened, then scaled: the gap of the top eigenvalue is never small.
    x = x - x.mean(1, keepdims=True)
    white = np.linalg.svd(x, full_matrices=False)[0] * np.sqrt(n)
    x, total = white * np.array([2.0, 1, 1, 0.7]), len(x)
    alpha = 0.5 + rng.random((total, n, n))
    values, vectors = np.linalg.eigh(ref.covariance(alpha, x, x, x, x) / (2 * n**2))
    fixed, scale = vectors.swapaxes(-1, -2), values[:, -1:]
    world = one_layer.samples(*tensors(x[:, None], alpha[:, None]))
    w = sphere(rng, total, starts, d)

    # Where the flow ends, after 400 steps.
    def ends(start: Array, kind: str = "linear") -> Array:
        return one_layer.ascend(world, *tensors(start), kind, 1.0, 400).numpy()

    # Whether the flow of unit v is 0.
    def rests(v: Array, of: one_layer.World = world) -> Array:
        flow = one_layer.flow(of, *tensors(v), "linear").numpy()
        return np.linalg.norm(flow, axis=-1) / scale < 1e-10

    # 1 - |cosine| with phi_1.
    def off(v: Array) -> Array:
        return 1 - np.abs((v * fixed[:, None, -1]).sum(-1))

    # Where random starts end, against phi_1 by eigh.
    every = t.part("every start", 1e-8, controls=typical, draws=total * starts)
    every.add(off(ends(w))).breaks("ReLU", off(ends(w, "relu")))
    # A start at rest ends where it is: steps would only multiply its rounding error.
    others = fixed[:, :-1]
    stay = np.where(rests(others)[..., None], others, ends(others))
    every.breaks("starts at the other eigenvectors", off(stay))
    assert rests(w, one_layer.samples(*tensors(white[:, None]))).all()  # C = I: all are fixed
    every.breaks("a tied largest eigenvalue", off(w))
    # How many eigenvectors a start beside them returns to, less one; controls: all eigenvectors at
    # rest; the LMEs of a ReLU node.
    one = t.part("one fixed point")
    back = ends(unit(fixed + 1e-3 * rng.standard_normal(fixed.shape)))
    one.add(np.abs((np.abs((back * fixed).sum(-1)) > 1 - 1e-8).sum(-1) - 1))
    one.breaks("saddles counted too", np.abs(rests(fixed).sum(-1) - 1))
    (p,) = tensors(np.full(d, 1 / d))
    model = one_layer.categorical(p, torch.eye(d, dtype=torch.float64))
    bends = len(one_layer.search(model, *tensors(sphere(rng, 60, d))).w)
    one.breaks("ReLU, categorical model", abs(bends - 1))
    _following(t, every)


THREE = np.array([[-1.5, 2.0], [1.5, 1.5], [0.0, -1.0]])
"""Points at which InfoNCE has several optima of one linear filter."""


def _infonce_optima(x: Array, tau: float, count: int) -> int:
    """How many minima Eq. 1 without augmentation, epsilon = 0, has over linear unit filters on the
    half circle."""
    angle = (np.arange(count) + 0.5) * np.pi / count
    u, loss = np.stack([np.cos(angle), np.sin(angle)], -1) @ x.T, np.zeros(count)
    for i in range(len(x)):
        others = [j for j in range(len(x)) if j != i]
        near = np.exp(-((u[:, [i]] - u[:, others]) ** 2) / (2 * tau))
        loss += tau * np.log(near.sum(-1))
    return int(((loss < np.roll(loss, 1)) & (loss <= np.roll(loss, -1))).sum())


def _following(t: Trial, part: Part) -> None:
    """Statements on alpha that follows w: pairs +-w that attract a linear node, and optima of a
    ReLU node, on four clusters in the plane; and Eq. 1 itself on three points."""
    rng, angle, count = t.stream("alpha follows w"), angles(720), 12
    found: dict[str, list[float]] = {k: [] for k in ("linear", "one", "relu")}
    for _ in range(count):
        x = 1.5 * rng.standard_normal((4, 2))[rng.integers(0, 4, 60)]
        x = x + 0.3 * rng.standard_normal(x.shape)
        found["linear"].append(optima(push(x, angle, TAU, slope=1.0))[0] / 2)
        found["one"].append(optima(push(x, angle, slope=1.0))[0] / 2)
        found["relu"].append(optima(push(x, angle, TAU))[0])
    linear, one, relu = (float(np.mean(v)) for v in found.values())
    three = _infonce_optima(THREE, 0.5, 20_000)
    part.says(linear=linear, fixed=one, relu=relu, tau=TAU, three=three)


@check("nl/rem3")
def rem3(t: Trial) -> None:
    """Homogeneous activations: h(x) = h'(x) x (Assumption 1).

    Given   random inputs, none nearer to 0 than 0.001; h' by complex steps and by the library.
    Claim   h'(x) x is (1) h(x) for linear, ReLU, leaky ReLU, and (2) p h(x) for h = x^p, p = 2, 3.
    Fails   (1) for tanh, sigmoid and ELU; (2) for these, whatever constant p is; in the proof for
            the constant 1.
    """
    drawn = t.rng.standard_normal((t.draws, 100))
    x = np.where(np.abs(drawn) < 1e-3, 1.0, drawn)

    def steps(h: Callable[[Array], Array]) -> Array:
        """h'(x) x by complex steps."""
        return ref.slope(h, x) * x

    def ours(kind: str) -> Array:
        """h'(x) x by the library's derivative."""
        (u,) = tensors(x)
        return (one_layer.derivative(u, kind, SLOPE) * u).numpy()

    others = {
        "tanh": np.tanh,
        "sigmoid": lambda u: 1 / (1 + np.exp(-u)),
        "ELU": lambda u: np.where(np.real(u) > 0, u, np.exp(u) - 1),
    }

    # (1) h'(x) x, by complex steps and by the library's derivative, against h(x).
    one = t.part("linear, ReLU, leaky ReLU", 1e-13, controls=typical, draws=t.draws)
    for kind in ONE:
        exact = np.real(H[kind](x))
        one.add(relative(ours(kind), exact), relative(steps(H[kind]), exact))
    for name, h in others.items():
        one.breaks(name, relative(steps(h), np.real(h(x))))

    # (2) The same over h(x) against p; control: against the constant that comes nearest.
    powers = t.part("monomials", 1e-12, controls=typical, draws=t.draws)
    for kind in MONOMIALS:
        degree = one_layer.DEGREES[kind]
        powers.add(np.abs(steps(H[kind]) / np.real(H[kind](x)) - degree).max(-1))
        powers.add(relative(ours(kind), degree * H[kind](x)))
    for name, h in others.items():
        ratio = steps(h) / np.real(h(x))
        nearest = (ratio.max(-1, keepdims=True) + ratio.min(-1, keepdims=True)) / 2
        powers.breaks(name, np.abs(ratio - nearest).max(-1))

    proofs.rem3(one, powers)


@check("nl/eq6")
def eq6(t: Trial) -> None:
    """Gated input makes the objective a quadratic form wᵀA(w)w (Eq. 6).

    Given   random batches, any alpha; linear, ReLU, leaky ReLU, and x^2, x^3 with their constant
            p.
    Claim   With gated input x~ = h'(w^T x) x and A(w) = C_alpha[x~], loops against the library: (1)
            h(w^T x) = w^T x~ and C_alpha[h(w^T x)] = w^T A(w) w for linear, ReLU, leaky ReLU; (2)
            p h = w^T x~ and p^2 C_alpha[h] = w^T A(w) w for h = x^p, p = 2, 3.
    Fails   (1) without the gate, for the gate of another w; (2) without the degree.
    """
    draws = t.draws
    one = t.part("degree one", 1e-10, controls=typical, draws=3 * draws)
    powers = t.part("monomials", 1e-10, controls=typical, draws=2 * draws)
    for kind in ONE + MONOMIALS:
        alpha, x, x2, w = batches(t.rng, draws)
        degree = one_layer.DEGREES[kind]
        gated = one_layer.gated(*tensors(x, w), kind, SLOPE).numpy()
        world = one_layer.of_views(*tensors(alpha, x, x2))
        by_loops = objective(alpha, x, x2, w, kind)

        def form(v: Array, of: str) -> Array:
            A = one_layer.operator(world, *tensors(v), of, SLOPE).numpy()  # noqa: B023
            return np.einsum("bi,bij,bj->b", w, A, w)  # noqa: B023

        # (1) or (2), by the kind of h: output against gated input, then objective against form.
        part = one if kind in ONE else powers
        part.add(relative(drive(gated, w), degree * H[kind](drive(x, w))))
        part.add(relative(form(w, kind), degree**2 * by_loops))

        # (1) Other gates than that of w, for all h that have one.
        if kind != "linear":
            one.breaks("no gate", relative(form(w, "linear"), degree**2 * by_loops))
            other = form(sphere(t.rng, draws, 4), kind)
            one.breaks("another w's", relative(other, degree**2 * by_loops))

        # (2) No p^2.
        if degree > 1:
            powers.breaks("constant 1", relative(form(w, kind), by_loops))

    proofs.eq6(one, powers)


@check("nl/lem3")
def lem3(t: Trial) -> None:
    """Training dynamics of a one-layer homogeneous network (Lemma 3, Eq. 7).

    Given   random batches, alpha held, |w| = 1; linear, ReLU, leaky ReLU, x^2, x^3.
    Claim   The projected gradient of C_alpha[h(w^T x)]/2, by complex steps through loops, is
            P_w A(w) w of the library times a constant: 1; 1/p for monomials; twice that for the
            one-layer version, which has no 1/2.
    Fails   without the 1/2, without the gate, unprojected, for constant 1 in the other versions.
    """
    draws = t.draws
    later = t.part("later version", 1e-10, controls=typical, draws=3 * draws)
    powers = t.part("monomials", 1e-10, controls=typical, draws=2 * draws)
    older = t.part("one-layer version", 1e-10, controls=typical)
    for kind in ONE + MONOMIALS:
        alpha, x, x2, w = batches(t.rng, draws)
        degree = one_layer.DEGREES[kind]
        values = objective(alpha, x, x2, ref.stepped(w), kind)
        slope = np.moveaxis(values.imag / ref.STEP, 0, -1)
        along = tangent(w, slope)
        world = one_layer.of_views(*tensors(alpha, x, x2))
        ours = one_layer.flow(world, *tensors(w), kind, SLOPE).numpy()
        A = one_layer.operator(world, *tensors(w), kind, SLOPE).numpy()
        image = np.einsum("bij,bj->bi", A, w)

        # P A w against p times the projected gradient of C_alpha/2 (p = 1 but for monomials), and
        # A w against p times the gradient that is not projected.
        part = later if degree == 1 else powers
        part.add(relative(ours, degree * along / 2), relative(image, degree * slope / 2))
        later.breaks("without 1/2", relative(ours, degree * along))
        if kind != "linear":
            straight = one_layer.flow(world, *tensors(w), "linear").numpy()
            later.breaks("no gate", relative(straight, degree * along / 2))
        later.breaks("not projected", relative(image, degree * along / 2))
        if degree > 1:
            powers.breaks("constant 1", relative(ours, along / 2))

        # The one-layer version: 2 P A w against p times the projected gradient of C_alpha.
        older.add(relative(2 * ours, degree * along))
        older.breaks("constant 1", relative(ours, degree * along))
    proofs.lem3(later, powers, older)


@check("nl/rem4")
def rem4(t: Trial) -> None:
    """Contrastive covariance is bilinear for fixed α (App. B.2).

    Given   random asymmetric alpha of both signs; loops on one side, the library on the other.
    Claim   (1) C_alpha[x, y] is linear in x, and in y. (2) a^T C_alpha[x, y] b = C_alpha[a^T x, b^T
            y]. (3) Scalars exchange: C_alpha[u, v] = C_alpha[v, u].
    Fails   (1) for both slots at once; (2) with a and b exchanged; (3) for vectors, whose matrix is
            not transposed.
    """
    rng, draws, n = t.rng, t.draws, 7
    alpha = 2 * rng.standard_normal((draws, n, n)) * ~np.eye(n, dtype=bool)
    (x, x2), (y, y2) = (ref.views(rng, draws, n, 3) for _ in range(2))
    r, s = rng.standard_normal((2, draws, 1, 1))
    v, v2 = ref.views(rng, draws, n, 3)

    def ours(a: Array, a2: Array, b: Array, b2: Array) -> Array:
        return ki.batch_covariance(*tensors(alpha, a, a2, b, b2)).numpy()

    def loops(a: Array, a2: Array, b: Array, b2: Array) -> Array:
        return ref.covariance(alpha, a, a2, b, b2) / (2 * n**2)

    # (1) x mixed with another vector v, in either slot; x and its second view alike.
    mixed = r * x + s * v, r * x2 + s * v2
    bilinear = t.part("bilinear", 1e-11, controls=typical, draws=draws)
    first = r * ours(x, x2, y, y2) + s * ours(v, v2, y, y2)
    second = r * ours(y, y2, x, x2) + s * ours(y, y2, v, v2)
    bilinear.add(relative(first, loops(*mixed, y, y2)), relative(second, loops(y, y2, *mixed)))
    naive = r * ours(x, x2, x, x2) + s * ours(v, v2, v, v2)
    bilinear.breaks("both slots at once", relative(naive, loops(*mixed, *mixed)))

    # (2) Vectors a and b outside, by the library, and inside, by loops.
    a, b = rng.standard_normal((2, draws, 3, 1))
    C, turn = ours(x, x2, y, y2), (0, 2, 1)
    scale = np.abs(C).sum((1, 2))
    vectors = t.part("vectors pass inside", 1e-12, controls=typical)
    inside = loops(x @ a, x2 @ a, y @ b, y2 @ b)[:, 0, 0]
    vectors.add(np.abs((a.transpose(turn) @ C @ b)[:, 0, 0] - inside) / scale)
    exchanged = (b.transpose(turn) @ C @ a)[:, 0, 0]
    vectors.breaks("a and b exchanged", np.abs(exchanged - inside) / scale)

    # (3) u = a^T x, v = b^T y in both orders; relative to the size of C, as above.
    scalars = t.part("scalars exchange", 1e-12, controls=typical)
    left, right = ours(x @ a, x2 @ a, y @ b, y2 @ b), loops(y @ b, y2 @ b, x @ a, x2 @ a)
    scalars.add(np.abs(left - right)[:, 0, 0] / scale)
    scalars.breaks("matrices, not transposed", relative(C, loops(y, y2, x, x2)))

    proofs.rem4(bilinear, vectors, scalars)
