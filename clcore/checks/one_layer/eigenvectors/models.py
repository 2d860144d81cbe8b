"""Locally maximal eigenvectors: two latent models, a threshold (nl Sec. 3).

Enumeration of all states in numpy, and root finding meet
`clcore.theory.one_layer.one_layer`. All here is for uniform alpha, large batches and no
augmentation, as in nl Sec. 3.1.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from scipy.optimize import brentq

from clcore import reference as ref
from clcore.checks.one_layer.eigenvectors import model_proofs as proofs
from clcore.checks.one_layer.power_iteration.steps import bases
from clcore.ledger import Trial, check, pooled, total, typical
from clcore.reference import Array, absolute, relative, sphere, tensors, unit
from clcore.theory.one_layer import one_layer


def _moments(p: Array, x: Array, w: Array, at_zero: float = 0.0, centred: bool = True) -> Array:
    """V[gated x], [draws, d, d], of laws p [draws, n] on x [draws, n, d], by a loop over points."""
    mean, square = np.zeros(()), np.zeros(())
    for k in range(p.shape[-1]):
        drive = (x[:, k] * w).sum(-1)
        gate = np.where(np.abs(drive) < 1e-12, at_zero, (drive > 0) * 1.0)
        point = x[:, k] * gate[:, None]
        mean = mean + p[:, k, None] * point
        square = square + p[:, k, None, None] * point[:, :, None] * point[:, None, :]
    return square - centred * mean[:, :, None] * mean[:, None, :]


def _states(q: Array) -> tuple[Array, Array]:
    """(P [draws, 2^M], y [draws, 2^M, M]) of the latent summation model, by a loop."""
    chances, values = [], []
    for bits in product((0, 1), repeat=q.shape[-1]):
        on = np.array(bits)
        chances.append(np.where(on, q, 1 - q).prod(-1))
        values.append(np.where(on, np.sqrt((1 - q) / q), -np.sqrt(q / (1 - q))))
    return np.stack(chances, 1), np.stack(values, 1)


def _pairs_only(p: Array, y: Array, m: int) -> Array:
    """The law p of `_states` with y_m, y_m+1, y_m+2 coupled as far as goes: any two of all bits
    stay independent."""
    triple = y[..., np.arange(m, m + 3) % y.shape[-1]].prod(-1)
    return p * (1 - triple / triple.min(-1, keepdims=True))


def _is_lme(A: Array, w: Array) -> Array:
    """[draws]: Def. 3 by numpy, on matrices A at w."""
    values, vectors = np.linalg.eigh(A)
    scale = np.abs(values).max(-1)
    along = np.abs((vectors[..., -1] * w).sum(-1)) > 1 - 1e-9
    return along & (values[:, -1] - values[:, -2] > 1e-8 * scale)


def _outer(u: Array) -> Array:
    return u[..., :, None] * u[..., None, :]


# ---------------------------------------------------------------------------------- definitions


@check("nl/def3")
def def3(t: Trial) -> None:
    """Locally maximal eigenvector (LME) (Definition 3).

    Given   patterns of the summation model, principal directions of a linear node, a repeated
            eigenvalue.
    Claim   w is an LME if A(w) w = lambda w with lambda the distinct largest eigenvalue of A(w):
            the library's decisions are those of numpy's eigenvectors, all of them.
    Fails   for each half of the definition left out: not maximal, not distinct.
    """
    rng, draws, d = t.rng, t.draws, 4
    q, U = rng.uniform(0.05, 0.6, (draws, d)), bases(rng, draws, d)
    p, y = _states(q)
    x = y @ U.swapaxes(-1, -2)
    world = one_layer.World(*tensors(x, p))
    # Patterns: the library's decisions and numpy's on enumerated states, [patterns, draws].
    said = np.stack([one_layer.locally_maximal(world, *tensors(w)) for w in np.moveaxis(U, -1, 0)])
    exact = np.stack([_is_lme(_moments(p, x, w), w) for w in np.moveaxis(U, -1, 0)])
    # Principal directions of a linear node: only the last is an LME.
    x = rng.standard_normal((draws, 20, d))
    linear = one_layer.samples(*tensors(x))
    _, vectors = np.linalg.eigh(np.stack([np.cov(v.T, bias=True) for v in x]))
    wrong = (said != exact).sum()
    for k in range(d):
        found = one_layer.locally_maximal(linear, *tensors(vectors[..., k]), "linear").numpy()
        wrong += (found != (k == d - 1)).sum()
    # The simplex: its largest eigenvalue is repeated, so that no w is an LME.
    simplex = one_layer.samples(torch.eye(d, dtype=torch.float64))
    w = unit(np.eye(d) - 1 / d)
    maximal = one_layer.maximality(simplex, *tensors(w), "linear")
    wrong += int(one_layer.locally_maximal(simplex, *tensors(w), "linear").sum())
    # How many decisions are wrong; controls: how many more would pass without this half.
    part = t.defines(draws=2 * draws * d + d).add(wrong)
    part.breaks("not maximal", (~said).sum())  # an eigenvector all the same
    tied = (maximal.residual < 1e-12) & (maximal.below < 1e-12)
    part.breaks("not distinct", int(tied.sum()))


def _slope(x: Array, w: Array) -> Array:
    """The projected gradient of V[h(w^T x)] / 2 over points x [n, d], by complex steps."""
    u = x @ ref.stepped(w[None])[:, 0].T
    h = np.where(u.real > 0, u, 0)
    half = (h**2).mean(0) / 2 - h.mean(0) ** 2 / 2
    gradient = half.imag / ref.STEP
    return gradient - (w @ gradient) * w


@check("nl/rem6")
def rem6(t: Trial) -> None:
    """Every locally maximal eigenvector is a critical point of training (After Definition 3).

    Given   LMEs that the library's search finds in 200 noisy samples of the summation model.
    Claim   The projected gradient of V[h(w^T x)] is 0 there, by complex steps.
    Fails   at eigenvectors of A(w) for another w, and at the LMEs of other data.
    """
    rng, part = t.rng, t.part("", 1e-10, controls=pooled)
    for _ in range(min(t.draws, 8)):
        q, U = rng.uniform(0.1, 0.25, (1, 4)), bases(rng, 1, 4)[0]
        p, y = _states(q)
        x = y[0, rng.choice(16, 200, p=p[0])] @ U.T + 0.05 * rng.standard_normal((200, 4))
        world = one_layer.samples(*tensors(x))
        starts = tensors(sphere(rng, 20, 4))[0]
        lmes = one_layer.search(world, starts, steps=100).w.numpy()
        jump = one_layer.top_eigenvector(world, starts[:3]).numpy()
        away, scale = rng.permuted(x, axis=0), np.trace(np.cov(x.T))
        # The projected gradient over the data's variance; other data: each coordinate shuffled.
        part.add(*(np.linalg.norm(_slope(x, w)) / scale for w in lmes))
        part.breaks("eigenvectors elsewhere", *(np.linalg.norm(_slope(x, w)) / scale for w in jump))
        part.breaks("other data", *(np.linalg.norm(_slope(away, w)) / scale for w in lmes))
    proofs.rem6(part)


@check("nl/eq43")
def eq43(t: Trial) -> None:
    """Variance of the gated input split by a binary latent (Eq. 43).

    Given   a binary z with two laws of eight atoms, any gate w.
    Claim   V[gated x] = p0 p1 Delta Delta^T + p0 Sigma_0 + p1 Sigma_1, of gated inputs: loops, the
            formula, the library.
    Fails   without p0 p1, for p0 and p1 exchanged, for a Delta of ungated inputs.
    """
    rng, draws, atoms, d = t.rng, t.draws, 8, 4
    x = rng.standard_normal((draws, 2, atoms, d)) + rng.standard_normal((draws, 2, 1, d))
    law = ref.normalised(rng.random((draws, 2, atoms)))  # given z
    p1 = rng.uniform(0.1, 0.9, draws)
    w, prior = sphere(rng, draws, d), np.stack([1 - p1, p1], 1)

    # V of the gated inputs: a loop over all atoms, and the library.
    joint, points = (prior[:, :, None] * law).reshape(draws, -1), x.reshape(draws, -1, d)
    exact = _moments(joint, points, w)
    library = one_layer.operator(one_layer.World(*tensors(points, joint)), *tensors(w))

    # Delta and Sigma_z of the gated inputs; p_0 p_1 Delta Delta^T and sum_z p_z Sigma_z.
    gated = x * ((x * w[:, None, None]).sum(-1) > 0)[..., None]
    mean, plain = ((law[..., None] * v).sum(2) for v in (gated, x))
    gap = gated - mean[:, :, None]
    sigma = np.einsum("bzi,bziq,bzir->bzqr", law, gap, gap)
    weight = (prior[:, 0] * prior[:, 1])[:, None, None]
    delta, ungated = (_outer(v[:, 1] - v[:, 0]) for v in (mean, plain))
    within, swapped = ((q[..., None, None] * sigma).sum(1) for q in (prior, prior[:, ::-1]))

    # Their sum is V.
    part = t.part("", 1e-12, controls=typical, draws=draws)
    part.add(relative(weight * delta + within, exact), relative(library, exact))
    part.breaks("no p0 p1", relative(delta + within, exact))
    part.breaks("p0 and p1 exchanged", relative(weight * delta + swapped, exact))
    part.breaks("Delta not gated", relative(weight * ungated + within, exact))
    proofs.eq43(part)


# --------------------------------------------------------------------------------- the two models


def _categorical(rng: np.random.Generator, draws: int, M: int, d: int) -> tuple[Array, Array]:
    """(p [draws, M], U [draws, d, M]); patterns are rotated in every second draw."""
    p = ref.normalised(0.15 + rng.random((draws, M)))
    U = bases(rng, draws, d, M)
    U[::2] = np.eye(d)[:, :M]
    return p, U


@check("nl/rem7")
def rem7(t: Trial) -> None:
    """The ReLU gate is closed at zero in the two example models (App. B.1).

    Given   the categorical model at w = u_m, where all other patterns lie on the edge of the gate.
    Claim   Eq. 8 needs h'(0) = 0: enumeration against the closed form.
    Fails   for h'(0) = 1/2 and 1, where the other patterns count.
    """
    p, U = _categorical(t.rng, t.draws, 4, 4)
    closed = one_layer.categorical_operator(*tensors(p, U)).numpy()
    part = t.part("", 1e-12, controls=pooled)
    for m in range(4):
        off = {
            at_zero: absolute(_moments(p, U.swapaxes(-1, -2), U[..., m], at_zero), closed[:, m])
            for at_zero in (0.0, 0.5, 1.0)
        }
        part.add(off[0.0]).breaks("h'(0) = 0.5", off[0.5]).breaks("h'(0) = 1", off[1.0])
    proofs.rem7(part)


@check("nl/ex1")
def ex1(t: Trial) -> None:
    """Every pattern of the categorical model is a locally maximal eigenvector (Eq. 8, Sec. 3.1).

    Given   the categorical model, orthonormal patterns, random chances p; alpha = 1, ReLU, h'(0)
            = 0.
    Claim   A(u_m) = p_m (1 - p_m) u_m u_m^T, by enumeration, so every u_m is an LME; the flow
            returns to it from close by (ours).
    Fails   for p in place of p (1 - p); with h'(0) = 1, where the other patterns count; the flow of
            a linear node, which leaves u_m.
    """
    rng, count = t.rng, t.share(2)
    eq8 = t.part("Eq. 8", 1e-13, controls=pooled, draws=9 * count)
    lme = t.part("every pattern is an LME", draws=9 * count, measured=total, controls=total)
    attractive = t.part("and attractive", 1e-6, controls=pooled)
    for M, d in ((5, 5), (4, 7)):
        p, U = _categorical(rng, count, M, d)
        closed = one_layer.categorical_operator(*tensors(p, U)).numpy()
        world = one_layer.categorical(*tensors(p, U))
        x = U.swapaxes(-1, -2)
        for m in range(M):
            w = U[..., m]
            exact = _moments(p, x, w)
            eq8.add(absolute(closed[:, m], exact))
            eq8.add(absolute(one_layer.operator(world, *tensors(w)), exact))
            eq8.breaks("p for p(1 - p)", absolute(p[:, m, None, None] * _outer(w), exact))
            # Is every pattern locally maximal, by the library and by our loops?
            lme.add(~one_layer.locally_maximal(world, *tensors(w)).numpy(), ~_is_lme(exact, w))
            lme.breaks("h'(0) = 1", ~_is_lme(_moments(p, x, w, 1.0), w))
        few = min(count, 8)
        batch = one_layer.World(*(v[:few, None] for v in world[:2]))
        # Within the basin: other patterns die out while w^T u_j < p_m, roughly.
        start = x[:few] + rng.uniform(-0.015, 0.015, x[:few].shape)

        def away(kind: str) -> Array:
            end = one_layer.ascend(batch, *tensors(start), kind, 1.0, 400).numpy()  # noqa: B023
            return 1 - (end * x[:few]).sum(-1).ravel()  # noqa: B023

        attractive.add(away("relu")).breaks("linear", away("linear"))


@check("nl/ex2")
def ex2(t: Trial) -> None:
    """Rare patterns of the summation model are locally maximal eigenvectors (Eq. 9, Sec. 3.1).

    Given   the summation model, random q_m in (0.05, 0.6), U a basis (M = d = 5), and M = 3 < d
            = 6.
    Claim   A(u_m) = (1 - q)^2 u u^T + q (I - u u^T), I being U U^T for M < d, by enumeration of
            2^M states; Delta, Sigma_0 and Sigma_1 as printed; u_m is an LME just for q_m < (3
            - sqrt 5)/2.
    Fails   for 1 - q in place of its square, for q I, for I where M < d, for Sigma_1 = I, for the
            threshold 1/2; for y_m that are independent in pairs only; in a proof, for 1 - q in
            place of q across u.
    """
    rng, draws, M = t.rng, min(t.draws, 200), 5
    q, U = rng.uniform(0.05, 0.6, (draws, M)), bases(rng, draws, M)
    p, y = _states(q)
    x = y @ U.swapaxes(-1, -2)
    world = one_layer.summation(*tensors(q, U))
    eq9 = t.part("Eq. 9", 1e-12, controls=pooled, draws=draws * M)
    pieces = t.part(r"$\Delta$ and $\Sigma$", 1e-11, controls=pooled, draws=draws * M)
    below = t.part("LME below the threshold", measured=total, controls=total)
    for m in range(M):
        w, Q = U[..., m], q[:, m, None, None]
        exact, outer = _moments(p, x, w), _outer(w)

        # Eq. 9, the library's operator and its closed form, by enumeration of all states.
        rest = Q * (np.eye(M) - outer)
        closed = one_layer.summation_operator(*tensors(q, U))[:, m]
        for A in ((1 - Q) ** 2 * outer + rest, one_layer.operator(world, *tensors(w)), closed):
            eq9.add(absolute(A, exact))
        eq9.breaks("1 - q for its square", absolute((1 - Q) * outer + rest, exact))
        eq9.breaks("q I", absolute((1 - Q) ** 2 * outer + Q * np.eye(M), exact))
        coupled = _moments(_pairs_only(p, y, m), x, w)
        eq9.breaks("independent in pairs only", absolute(closed, coupled))

        # Mean and variance of the gated inputs where y_m > 0; where it is not they are 0.
        on = y[..., m] > 0
        high = np.sqrt((1 - q[:, m]) / q[:, m])
        law, gated = p * on / q[:, m, None], x * on[..., None]
        mean = (law[..., None] * gated).sum(1)
        sigma = np.einsum("bi,biq,bir->bqr", law, gated, gated) - _outer(mean)
        off = (p * ~on)[..., None] * gated
        pieces.add(absolute(mean, high[:, None] * w), absolute(off, 0 * off))
        pieces.add(absolute(sigma, np.eye(M) - outer))
        pieces.breaks("Sigma_1 = I", absolute(sigma, np.broadcast_to(np.eye(M), sigma.shape)))

        # Whether u_m is an LME, and q_m below the threshold.
        said = one_layer.locally_maximal(world, *tensors(w)).numpy()
        below.add(said != (q[:, m] < one_layer.SUMMATION_THRESHOLD))
        below.breaks("threshold 1/2", said != (q[:, m] < 0.5))
        rare = q[:, m] < one_layer.SUMMATION_THRESHOLD
        below.breaks("independent in pairs only", _is_lme(coupled, w) != rare)

    # Three bits of q = 0.3: in pairs only, A(u_1) has 2 q above (1 - q)^2.
    few, z = _states(np.full((1, 3), 0.3))
    top = np.linalg.eigvalsh(_moments(_pairs_only(few, z, 0), z, np.eye(3)[:1]))[0, -2:]
    eq9.says(square=top[0], double=top[1]).confirms(square=0.7**2, double=2 * 0.3)

    # Eq. 9 for fewer patterns than dimensions.
    U, Q = bases(rng, draws, 6, 3), q[:, 0, None, None]
    few, z = _states(q[:, :3])
    wide = _moments(few, z @ U.swapaxes(-1, -2), U[..., 0])
    outer, span = _outer(U[..., 0]), U @ U.swapaxes(-1, -2)
    eq9.add(absolute((1 - Q) ** 2 * outer + Q * (span - outer), wide))
    eq9.breaks("I for M < d", absolute((1 - Q) ** 2 * outer + Q * (np.eye(6) - outer), wide))
    proofs.ex2(eq9, pieces, below)


def _bisect(up: Callable[[float], bool], low: float = 0.2, high: float = 0.6) -> float:
    """Where `up` turns from True to False."""
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if up(middle) else (low, middle)
    return (low + high) / 2


@check("nl/num1")
def num1(t: Trial) -> None:
    """Threshold of the latent summation model, about 0.382 (Below Eq. 9).

    Given   the summation model, M = 4, one q varied.
    Claim   The root of (1 - q)^2 = q is (3 - sqrt 5)/2, about 0.382; the LME test switches there,
            and so does the sign with which the flow pulls near u_m, both by bisection.
    Fails   for second moments in place of variances (1/2), and for a linear node, whose A is the
            identity for every q.
    """
    rng, M = t.rng, 4
    exact = (3 - np.sqrt(5)) / 2

    # The root of (1 - q)^2 = q, and the library's threshold, against (3 - sqrt 5)/2.
    root = brentq(lambda q: (1 - q) ** 2 - q, 0, 1, xtol=1e-15)
    raw = brentq(lambda q: (1 - q) - q, 0, 1, xtol=1e-15)
    found = t.part("root", 1e-14, draws=1)
    found.add(abs(root - exact), abs(one_layer.SUMMATION_THRESHOLD - exact))
    found.breaks("second moments", abs(raw - exact))
    # Its three digits.
    part = t.part("0.382", 1e-12).add(abs(round(root, 3) - 0.382))
    part.breaks("second moments", abs(round(raw, 3) - 0.382))

    # Where the LME test switches, and the sign of the flow beside u_m.
    test, flow = t.part("the LME test", 1e-12), t.part("the flow", 1e-6)
    for _ in range(min(t.draws, 12)):
        U, rest = bases(rng, 1, M), rng.uniform(0.1, 0.3, M - 1)
        w, u = U[0, :, :1].T, U[0, :, 1:2].T
        v = np.sqrt(1 - 1e-8) * w + 1e-4 * u

        def world(q: float) -> one_layer.World:
            return one_layer.summation(*tensors(np.array([q, *rest]), U[0]))  # noqa: B023

        def lme(q: float) -> bool:
            return bool(one_layer.locally_maximal(world(q), *tensors(w[0]), gap=1e-13))  # noqa: B023

        def returns(q: float, kind: str) -> bool:
            speed = one_layer.flow(world(q), *tensors(v[0]), kind).numpy()  # noqa: B023
            return bool(speed @ u[0] < -1e-12)  # noqa: B023

        def uncentred(q: float) -> bool:
            p, y = _states(np.array([[q, *rest]]))  # noqa: B023
            A = _moments(p, y @ U.swapaxes(-1, -2), w, centred=False)  # noqa: B023
            return bool(_is_lme(A, w)[0])  # noqa: B023

        test.add(abs(_bisect(lme) - exact))
        test.breaks("second moments", abs(_bisect(uncentred) - exact))
        flow.add(abs(_bisect(lambda q: returns(q, "relu")) - exact))
        flow.breaks("linear", abs(_bisect(lambda q: returns(q, "linear")) - exact))
    proofs.num1(found, part, test, flow)
