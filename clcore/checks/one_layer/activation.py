"""One node: decoupling, gating and the gradient flow of nl Sec. 3 and App. B.2.

Complex steps through loops over pairs meet `clcore.theory.one_layer.one_layer`. Batches have two
views and random asymmetric alpha without a diagonal, so that both readings of Eq. 3 agree.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import kernel_importance as ki
from clcore.nets import networks
from clcore.reference import Array, best, relative, tensors, typical, worst
from clcore.theory.one_layer import one_layer

SLOPE = 0.05
ONE = ("linear", "relu", "leaky_relu")
MONOMIALS = ("quadratic", "cubic")

# h straight from the page; complex arguments allowed.
H: dict[str, Callable[[Array], Array]] = {
    "linear": lambda u: u,
    "relu": lambda u: np.where(np.real(u) > 0, u, 0),
    "leaky_relu": lambda u: np.where(np.real(u) > 0, u, SLOPE * u),
    "quadratic": lambda u: u**2,
    "cubic": lambda u: u**3,
}


def unit(rng: np.random.Generator, *shape: int) -> Array:
    w = rng.standard_normal(shape)
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


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
    return ref.random_weights(rng, draws, n, n), *ref.views(rng, draws, n, d), unit(rng, draws, d)


def eq5(draws: int, seed: int) -> Iterator[Check]:
    """tr C[h(W x)] against the sum of scalars; mixed second derivatives; maxima on a grid.

    Controls: all entries of the matrix in place of its trace.
    """
    check = partial(Check, "nl/eq5")
    rng, K = ref.generator("nl eq5", seed), 3
    sums, total, cross, mixed, joint, tied = [], [], [], [], [], []
    count = ref.share(draws, len(ONE))
    for kind in ONE:
        alpha, x, x2, _ = batches(rng, count, d=2)
        W = unit(rng, count, K, 2)
        f, f2 = (H[kind](v @ W.swapaxes(-1, -2)) for v in (x, x2))
        matrix = ki.batch_covariance(*tensors(alpha, f, f2, f, f2)).numpy()
        each = sum(objective(alpha, x, x2, W[:, k], kind) for k in range(K))
        sums.append(relative(np.trace(matrix, axis1=1, axis2=2), each))
        total.append(relative(matrix.sum((1, 2)), each))

        def energies(free: torch.Tensor, full: bool) -> torch.Tensor:
            g, g2 = (networks.activate(v @ free.mT, kind, SLOPE) for v in tensors(x, x2))  # noqa: B023
            C = ki.batch_covariance(*tensors(alpha), g, g2, g, g2)  # noqa: B023
            part = C.sum((-1, -2)) if full else C.diagonal(dim1=-2, dim2=-1).sum(-1)
            return part.sum() / 2

        for full, out in ((False, cross), (True, mixed)):
            (free,) = tensors(W)
            free.requires_grad_()
            (slope,) = torch.autograd.grad(energies(free, full), free, create_graph=True)
            (hessian,) = torch.autograd.grad(slope[:, 0].sum(), free, allow_unused=True)
            out.append(np.abs(hessian[:, 1:].numpy()).max((1, 2)))
        angle = np.linspace(-np.pi, np.pi, 25)[:-1] + 0.01
        grid = np.stack([np.cos(angle), np.sin(angle)], -1)
        both = grid[np.stack(np.triu_indices(len(grid)), -1)]
        g, g2 = (H[kind](np.einsum("bni,pki->pbnk", v, both)) for v in (x, x2))
        weights = np.broadcast_to(alpha, (len(both), *alpha.shape))
        C = ki.batch_covariance(*tensors(weights, g, g2, g, g2)).numpy()
        own = objective(alpha, x, x2, grid[:, None], kind).max(0)
        joint.append(relative(C.trace(axis1=-2, axis2=-1).max(0), 2 * own))
        tied.append(relative(C.sum((-1, -2)).max(0), 2 * own))
    tag = {"draws": count * len(ONE)}
    yield check(
        worst(*sums),
        1e-11,
        {"all entries": typical(np.concatenate(total))},
        part="trace",
        note="The later version's factor 1/2 stands on both sides.",
        **tag,
    )
    yield check(
        worst(*cross),
        1e-13,
        {"all entries": typical(np.concatenate(mixed))},
        part="nodes do not interact",
        note="Largest mixed second derivative of two different filters, by automatic "
        "differentiation.",
        **tag,
    )
    yield check(
        worst(*joint),
        1e-12,
        {"all entries": typical(np.concatenate(tied))},
        part="maximum of the sum",
        note="Two filters on a grid of 24 angles each: the covariance of every pair against one "
        "filter by itself.",
        **tag,
    )


def rem2(draws: int, seed: int) -> Iterator[Check]:
    """The linear flow against the top eigenvector of loops over pairs, from random starts; and how
    many of the fixed points attract.

    Whitened normal, binary and skewed inputs; alpha random. Controls: ReLU on the same data, starts
    at the other eigenvectors, whitened inputs of one variance under uniform alpha, where all starts
    stay; all fixed points, and ReLU on the categorical model.
    """
    check = partial(Check, "nl/rem2")
    rng, d, n, starts = ref.generator("nl rem2", seed), 4, 30, 8
    count = ref.share(min(draws, 30), 3)
    shape = (count, n, d)
    x = np.concatenate(
        [rng.standard_normal(shape), rng.choice([-1.0, 1.0], shape), rng.exponential(1.0, shape)]
    )
    # Whitened, then scaled: the gap of the top eigenvalue is never small.
    x = x - x.mean(1, keepdims=True)
    white = np.linalg.svd(x, full_matrices=False)[0] * np.sqrt(n)
    x = white * np.array([2.0, 1, 1, 0.7])
    total = 3 * count
    alpha = 0.5 + rng.random((total, n, n))
    values, vectors = np.linalg.eigh(ref.covariance(alpha, x, x, x, x) / (2 * n**2))
    every, scale = vectors.swapaxes(-1, -2), values[:, -1:]
    world = one_layer.samples(*tensors(x[:, None], alpha[:, None]))
    w = unit(rng, total, starts, d)

    def ends(start: Array, kind: str) -> Array:
        return one_layer.ascend(world, *tensors(start), kind, 1.0, 400).numpy()

    def rests(v: Array, of: one_layer.World = world) -> Array:
        flow = one_layer.flow(of, *tensors(v), "linear").numpy()
        return np.linalg.norm(flow, axis=-1) / scale < 1e-10

    far, bent = (
        1 - np.abs((ends(w, kind) * every[:, None, -1]).sum(-1)) for kind in ("linear", "relu")
    )
    # A start at rest ends where it is: steps would only multiply its rounding error.
    others = every[:, :-1]
    stay = np.where(rests(others)[..., None], others, ends(others, "linear"))
    missed = 1 - np.abs((stay * every[:, None, -1]).sum(-1))
    even = one_layer.samples(*tensors(white[:, None]))
    assert rests(w, even).all()  # with C = I every start is a fixed point
    tied = 1 - np.abs((w * every[:, None, -1]).sum(-1))
    pushed = every + 1e-3 * rng.standard_normal(every.shape)
    back = ends(pushed / np.linalg.norm(pushed, axis=-1, keepdims=True), "linear")
    attracted = (np.abs((back * every).sum(-1)) > 1 - 1e-8).sum(-1)
    (p,) = tensors(np.full(d, 1 / d))
    model = one_layer.categorical(p, torch.eye(d, dtype=torch.float64))
    bends = len(one_layer.search(model, tensors(unit(rng, 60, d))[0]).w)
    part = partial(check, part="every start", draws=total * starts)
    yield part(
        worst(far),
        1e-8,
        {
            "ReLU": typical(bent),
            "starts at the other eigenvectors": typical(missed),
            "a tied largest eigenvalue": typical(tied),
        },
        note="1 - |cosine| with the first principal direction, over random starts. Fails where the "
        r"start is orthogonal to $\phi_1$, with probability 0, or the largest eigenvalue of "
        r"$C_\alpha[x]$ is tied: $\mathrm{diag}(2,1)$ started at $e_2$, or $C_\alpha[x]=I$, where "
        "no start moves.",
    )
    part = partial(check, part="one fixed point", draws=total)
    bend = {"ReLU, categorical model": float(abs(bends - 1))}
    count = np.abs(rests(every).sum(-1) - 1)
    yield part(
        worst(np.abs(attracted - 1)),
        0.0,
        bend | {"saddles counted too": best(count)},
        note=r"Pairs $\pm w$ that attract, distance from 1. Fig. 1's caption means the one that "
        "training ends at; the other eigenvectors are fixed points, too, saddles or repelling.",
    )


def rem3(draws: int, seed: int) -> Iterator[Check]:
    """h'(x) x / h(x), h' by complex steps, is one constant. Controls: tanh, sigmoid, ELU."""
    check = partial(Check, "nl/rem3")
    rng = ref.generator("nl rem3", seed)
    x = rng.standard_normal((draws, 100))

    def ratio(h: Callable[[Array], Array]) -> Array:
        return ref.slope(h, x) * x / np.real(h(x))

    def ours(kind: str) -> Array:
        (u,) = tensors(x)
        return (one_layer.derivative(u, kind, SLOPE) * u).numpy()

    others = {
        "tanh": np.tanh,
        "sigmoid": lambda u: 1 / (1 + np.exp(-u)),
        "ELU": lambda u: np.where(np.real(u) > 0, u, np.exp(u) - 1),
    }
    spread = {name: typical(np.ptp(ratio(h), axis=-1)) for name, h in others.items()}
    x = np.where(np.abs(x) < 1e-3, 1.0, x)
    one = [relative(ours(kind), np.real(H[kind](x))) for kind in ONE]
    yield check(
        worst(*one, *(relative(ref.slope(H[k], x) * x, np.real(H[k](x))) for k in ONE)),
        1e-13,
        spread,
        part="linear, ReLU, leaky ReLU",
        draws=draws,
    )
    gaps = [np.abs(ratio(H[k]) - one_layer.DEGREES[k]).max(-1) for k in MONOMIALS]
    gaps += [relative(ours(k), one_layer.DEGREES[k] * H[k](x)) for k in MONOMIALS]
    yield check(
        worst(*gaps),
        1e-12,
        spread,
        part="monomials",
        draws=draws,
        note=r"The 'additional global constant' is the exponent: $h'(x)x=p\,h(x)$ for $h=x^p$. No "
        "constant inside h removes it.",
    )


def eq6(draws: int, seed: int) -> Iterator[Check]:
    """C[h(w^T x)] by loops against w^T A(w) w by the library; h(w^T x) = w^T gated x.

    Controls: no gate, the gate of another w.
    """
    check = partial(Check, "nl/eq6")
    rng = ref.generator("nl eq6", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for kind in ONE + MONOMIALS:
        alpha, x, x2, w = batches(rng, draws)
        degree = one_layer.DEGREES[kind]
        group = "one" if kind in ONE else "p"
        gated = one_layer.gated(*tensors(x, w), kind, SLOPE).numpy()
        found[group].append(relative(drive(gated, w), degree * H[kind](drive(x, w))))
        world = one_layer.of_views(*tensors(alpha, x, x2))
        left = objective(alpha, x, x2, w, kind)

        def form(v: Array, of: str) -> Array:
            A = one_layer.operator(world, *tensors(v), of, SLOPE).numpy()  # noqa: B023
            return np.einsum("bi,bij,bj->b", w, A, w)  # noqa: B023

        found[group].append(relative(form(w, kind), degree**2 * left))
        if kind != "linear":
            found["no gate"].append(relative(form(w, "linear"), degree**2 * left))
            found["other"].append(relative(form(unit(rng, draws, 4), kind), degree**2 * left))
        if degree > 1:
            found["no constant"].append(relative(form(w, kind), left))
    gates = {"no gate": typical(*found["no gate"]), "another w's": typical(*found["other"])}
    yield check(worst(*found["one"]), 1e-10, gates, part="degree one", draws=3 * draws)
    yield check(
        worst(*found["p"]),
        1e-10,
        {"constant 1": typical(*found["no constant"])},
        part="monomials",
        draws=2 * draws,
        note=r"With the constant that Assumption 1 allows: $w^\top A(w)w=p^2\,\mathbb C_\alpha"
        r"[h(w^\top x)]$.",
    )


def lem3(draws: int, seed: int) -> Iterator[Check]:
    """Complex steps through the loops, projected, against P A(w) w, for every activation.

    Controls: not projected, no gate, the other version's factor, degree left out.
    """
    check = partial(Check, "nl/lem3")
    rng = ref.generator("nl lem3", seed)
    found: dict[str, list[Array]] = defaultdict(list)
    for kind in ONE + MONOMIALS:
        alpha, x, x2, w = batches(rng, draws)
        degree = one_layer.DEGREES[kind]
        values = objective(alpha, x, x2, ref.stepped(w), kind)
        slope = np.moveaxis(values.imag / ref.STEP, 0, -1)
        along = slope - (w * slope).sum(-1, keepdims=True) * w
        world = one_layer.of_views(*tensors(alpha, x, x2))
        ours = one_layer.flow(world, *tensors(w), kind, SLOPE).numpy()
        A = one_layer.operator(world, *tensors(w), kind, SLOPE).numpy()
        image = np.einsum("bij,bj->bi", A, w)
        group = "one" if degree == 1 else "p"
        found[group].append(relative(ours, degree * along / 2))
        found[group].append(relative(image, degree * slope / 2))
        found["one-layer version"].append(relative(2 * ours, degree * along))
        found["without 1/2"].append(relative(ours, degree * along))
        if kind != "linear":
            straight = one_layer.flow(world, *tensors(w), "linear").numpy()
            found["no gate"].append(relative(straight, degree * along / 2))
        found["not projected"].append(relative(image, degree * along / 2))
        if degree > 1:
            found["degree"].append(relative(ours, along / 2))
    broken = {name: typical(*found[name]) for name in ("no gate", "not projected", "without 1/2")}
    yield check(
        worst(*found["one"]),
        1e-10,
        broken,
        part="later version",
        draws=3 * draws,
        note=r"$\dot w=P_w^\perp A(w)w$ is the projected gradient of $\frac12\mathbb C_\alpha[h("
        r"w^\top x)]$, constant 1: linear, ReLU, leaky ReLU. Also $A(w)w$ unprojected.",
    )
    yield check(
        worst(*found["p"]),
        1e-10,
        {"constant 1": typical(*found["degree"])},
        part="monomials",
        draws=2 * draws,
        note=r"With the constant that Assumption 1 allows: the gradient is $\frac1pP_w^\perp A(w)"
        r"w$, the same paths.",
    )
    yield check(
        worst(*found["one-layer version"]),
        1e-10,
        {"constant 1": typical(*found["without 1/2"])},
        part="one-layer version",
        draws=5 * draws,
        note="Eq. 5 of that version has no 1/2, though its proof does: its gradient is "
        r"$2P_w^\perp A(w)w$. The same paths, in half the time.",
    )


def rem4(draws: int, seed: int) -> Iterator[Check]:
    """Bilinear; vectors pass inside; scalars exchange. By loops on one side, asymmetric alpha.

    Controls: an affine map, another vector, the matrix case without a transpose.
    """
    check = partial(Check, "nl/rem4")
    rng, n = ref.generator("nl rem4", seed), 7
    alpha = 2 * rng.standard_normal((draws, n, n)) * ~np.eye(n, dtype=bool)
    x, x2, y, y2 = (*ref.views(rng, draws, n, 3), *ref.views(rng, draws, n, 3))
    t, s = rng.standard_normal((2, draws, 1, 1))
    v, v2 = ref.views(rng, draws, n, 3)

    def ours(a: Array, a2: Array, b: Array, b2: Array) -> Array:
        return ki.batch_covariance(*tensors(alpha, a, a2, b, b2)).numpy()

    def loops(a: Array, a2: Array, b: Array, b2: Array) -> Array:
        return ref.covariance(alpha, a, a2, b, b2) / (2 * n**2)

    whole = loops(t * x + s * v, t * x2 + s * v2, y, y2)
    split = t * ours(x, x2, y, y2) + s * ours(v, v2, y, y2)
    right = loops(y, y2, t * x + s * v, t * x2 + s * v2)
    other = t * ours(y, y2, x, x2) + s * ours(y, y2, v, v2)
    square = loops(t * x + s * v, t * x2 + s * v2, t * x + s * v, t * x2 + s * v2)
    naive = t * ours(x, x2, x, x2) + s * ours(v, v2, v, v2)
    tag = {"draws": draws}
    yield check(
        worst(relative(split, whole), relative(other, right)),
        1e-11,
        {"both slots at once": typical(relative(naive, square))},
        part="bilinear",
        **tag,
    )
    a, b = rng.standard_normal((2, draws, 3, 1))
    outside = (a.swapaxes(-1, -2) @ ours(x, x2, y, y2) @ b)[:, 0, 0]
    inside = loops(x @ a, x2 @ a, y @ b, y2 @ b)[:, 0, 0]
    exchanged = (b.swapaxes(-1, -2) @ ours(x, x2, y, y2) @ a)[:, 0, 0]
    scale = np.abs(ours(x, x2, y, y2)).sum((1, 2))
    yield check(
        worst(np.abs(outside - inside) / scale),
        1e-12,
        {"a and b exchanged": typical(np.abs(exchanged - inside) / scale)},
        part="vectors pass inside",
        **tag,
    )
    pair = ours(x @ a, x2 @ a, y @ b, y2 @ b), loops(y @ b, y2 @ b, x @ a, x2 @ a)
    matrix = relative(ours(x, x2, y, y2), loops(y, y2, x, x2))
    yield check(
        worst(np.abs(pair[0] - pair[1])[:, 0, 0] / scale),
        1e-12,
        {"matrices, not transposed": typical(matrix)},
        part="scalars exchange",
        **tag,
    )
