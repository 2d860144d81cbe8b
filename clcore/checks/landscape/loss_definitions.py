"""Checks of ncl Eqs. 4 to 8: the losses of the experiments and of the theory, as defined.

Expectations over masks and latents are sums over all of them.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import sympy
import torch

from clcore import reference as ref
from clcore.checks.landscape import symbols as sy
from clcore.checks.landscape.data_model import ROUNDING
from clcore.ledger import Part, Trial, check, exact, pooled, typical
from clcore.losses import two_view as vl
from clcore.reference import Array, tensors
from clcore.theory.sparse import mask_landscape as ml


def _unit(v: Array) -> Array:
    """Rows over their norms; works on complex arrays."""
    return v / np.sqrt((v * v).sum(-1, keepdims=True))


def _layer(a: Array, W: Array) -> Array:
    """ReLU(W a) of rows a [n, p]; W [..., m, p] may be complex."""
    return ref.rectified(a @ np.swapaxes(W, -1, -2))


def _batch(rng: np.random.Generator, n: int = 40, p: int = 6, m: int = 5) -> tuple[Array, ...]:
    """Two masked views and two encoders; views that are zero under either encoder are left out."""
    x, D = rng.standard_normal((n, p)), rng.random((2, n, p)) < 0.7
    Wo, Wt = rng.standard_normal((2, m, p))
    a1, a2 = D[0] * x, D[1] * x
    alive = ((a1 @ Wo.T > 0).any(-1)) & ((a2 @ Wt.T > 0).any(-1)) & ((a1 @ Wt.T > 0).any(-1))
    return a1[alive], a2[alive], Wo, Wt


def _slopes(loss, *weights: Array) -> list[Array]:
    """Gradients by autograd of `loss(*weights)`; zero for a weight that it does not use."""
    free = [w.clone().requires_grad_() for w in tensors(*weights)]
    found = torch.autograd.grad(loss(*free), free, allow_unused=True)
    return [
        np.zeros_like(w) if g is None else g.numpy() for w, g in zip(weights, found, strict=True)
    ]


def _proves_cosine(part: Part, scaled: Sequence[sympy.Expr | int] = (1, 1)) -> None:
    """The distance of two outputs over their norms is 2 - 2 cosine, at positive multiples `scaled`
    of them as well; without the norms it is not."""
    u, v = exact.vector("u", 3), exact.vector("v", 3)
    cosine = u.dot(v) / sympy.sqrt(sy.square(u)) / sympy.sqrt(sy.square(v))
    outputs = ((u, v), (scaled[0] * u, scaled[1] * v))
    units = [[x / sympy.sqrt(sy.square(x)) for x in pair] for pair in outputs]
    part.proves(
        exact.equal([sy.square(a - b) for a, b in units], [2 - 2 * cosine] * 2),
        breaks={"not normalised": exact.equal(sy.square(u - v), 2 - 2 * cosine)},
        at="m = 3",
    )


@check("ncl/eq4")
def eq4(t: Trial) -> None:
    """Non-contrastive loss of normalised outputs with stop gradient (Eq. 4).

    Given   random W^o, W^t; masked views with outputs that are not zero.
    Claim   The loss is 2 - 2 mean cosine and free of the scales of W^o, W^t; the library's slopes
            are those of complex steps, and 0 for W^t, behind SG.
    Fails   without the norms, and for the slope of W^t that SG stops.
    """
    value = t.part("value", ROUNDING, controls=pooled)
    _proves_cosine(value, sympy.symbols("s t", positive=True))
    slopes = t.defines("slopes and stop gradient", 1e-10, controls=pooled)
    for _ in range(min(t.draws, 60)):
        a1, a2, Wo, Wt = _batch(t.rng)

        def loss(wo, wt, views=(a1, a2)):
            x1, x2 = tensors(*views)
            return vl.normalised_distance(vl.encode(wo, x1), vl.encode(wt, x2))

        def by_hand(wo, wt, a1=a1, a2=a2, unit=_unit):
            return ((unit(_layer(a1, wo)) - unit(_layer(a2, wt))) ** 2).sum(-1).mean(-1)

        # The value, by hand in two ways; scales of the weights change nothing.
        found, scaled = (float(loss(*tensors(a * Wo, b * Wt))) for a, b in ((1, 1), (3.0, 0.2)))
        cosines = 2 - 2 * (_unit(_layer(a1, Wo)) * _unit(_layer(a2, Wt))).sum(-1).mean()
        value.add(np.abs(found - np.array([by_hand(Wo, Wt), cosines, scaled])).max())
        value.breaks("not normalised", abs(found - by_hand(Wo, Wt, unit=lambda v: v)))

        # The slope of W^o; that of W^t is stopped.
        online, target = _slopes(loss, Wo, Wt)
        wanted = ref.gradient(lambda w, f=by_hand, Wt=Wt: f(w, Wt), Wo[None])
        slopes.add(np.maximum(ref.relative(online[None], wanted), np.abs(target).max()))
        through = ref.gradient(lambda w, f=by_hand, Wo=Wo: f(Wo, w), Wt[None])
        slopes.breaks("the target's slope, not stopped", np.abs(through).max())


@check("ncl/eq5")
def eq5(t: Trial) -> None:
    """Normalised non-contrastive loss with a linear predictor (Eq. 5).

    Given   random W^o, W^t and a random linear head W^p; masked views with outputs that are not
            zero.
    Claim   With the head on W^o, as the definition of g and Eq. 7 have it, the loss is free of the
            scale of W^p and trains the online network.
    Fails   as typeset, with W^t in both branches, where the online network is not trained; without
            the norms; for W^t behind SG.
    """
    value = t.part("value", ROUNDING, controls=pooled)
    _proves_cosine(value, (2, 1))
    trains = t.defines("trains the online network", 1e-6, ">=")
    for _ in range(min(t.draws, 60)):
        a1, a2, Wo, Wt = _batch(t.rng)
        Wp = t.rng.standard_normal((5, 5))
        x1, x2 = tensors(a1, a2)

        def mended(wo, wt, wp, x1=x1, x2=x2):
            head = vl.predict(wp, vl.encode(wo, x1))
            return vl.normalised_distance(head, vl.encode(wt, x2))

        def as_printed(wo, wt, wp, loss=mended):
            return loss(wt, wt, wp)

        # The value by hand, and that W^p may be twice as large.
        g, h = _layer(a1, Wo) @ Wp.T, _layer(a2, Wt)
        found, twice = (float(mended(*tensors(Wo, Wt, c * Wp))) for c in (1.0, 2.0))
        by_hand = ((_unit(g) - _unit(h)) ** 2).sum(-1).mean()
        value.add(max(abs(found - by_hand), abs(twice - found)))
        value.breaks("not normalised", abs(found - ((g - h) ** 2).sum(-1).mean()))
        letters = abs(found - float(as_printed(*tensors(Wo, Wt, Wp))))
        value.breaks("as typeset, W^t in both branches", letters)

        # The slope of W^o is not 0, that of W^t is.
        online, target, _ = (np.abs(s).max() for s in _slopes(mended, Wo, Wt, Wp))
        trains.add(online).breaks("the target network, behind SG", target)
        letters = np.abs(_slopes(as_printed, Wo, Wt, Wp)[0]).max()
        trains.breaks("as typeset, W^t in both branches", letters)


def _every_pair(Wo: Array, Wt: Array, law: ml.Law, alpha: float, Wp: Array | None = None) -> float:
    """E<u, v> by a loop over points and pairs of masks."""
    inner = 0.0
    Wp = np.eye(len(Wo)) if Wp is None else Wp
    for x, chance in zip(law.point.numpy(), law.probability.numpy(), strict=True):
        for D1, D2 in product(product((0, 1), repeat=len(x)), repeat=2):
            u = Wp @ np.maximum(Wo @ (np.array(D1) * x), 0)
            v = np.maximum(Wt @ (np.array(D2) * x), 0)
            q1, q2 = (np.prod([alpha if b else 1 - alpha for b in D]) for D in (D1, D2))
            q = chance * q1 * q2
            inner += q * (u @ v)
    return inner


def _worlds(rng: np.random.Generator) -> Iterator[tuple[ml.Law, float]]:
    """One-hot and sparse laws, binary and signed, through random dictionaries."""
    for law in (ml.one_hot(3), ml.one_hot(2, True), ml.sparse(2, 0.4), ml.sparse(2, 0.3, True)):
        d = law.point.shape[-1]
        M = np.linalg.qr(rng.standard_normal((3, d)))[0]
        yield law.through(*tensors(M)), float(rng.uniform(0.2, 0.9))


@check("ncl/eq6")
def eq6(t: Trial) -> None:
    """Unnormalised non-contrastive loss, used in the theory (Eq. 6).

    Given   random W^o, W^t: all latents and pairs of masks enumerated; for the squared distance a
            batch of masked views, its outputs over their norms.
    Claim   The library's loss is the loop's; for unit outputs it is E|u - v|^2.
    Fails   for one mask for both views; the squared distance for outputs as they are.
    """
    value = t.defines("all masks", ROUNDING, controls=pooled)
    unit = t.part("squared distance of unit outputs", ROUNDING, controls=pooled)
    _proves_cosine(unit)
    for _ in range(min(t.draws, 4)):
        for law, alpha in _worlds(t.rng):
            Wo, Wt = t.rng.standard_normal((2, 4, 3))

            # The library's loss is 2 - 2 E<u, v> of the loop.
            found = float(ml.non_contrastive(*tensors(Wo, Wt), law, alpha))
            value.add(abs(found - (2 - 2 * _every_pair(Wo, Wt, law, alpha))))
            mask = ml.masks(3, alpha)
            u, v = (ml.represent(*tensors(w), law.point, mask.point).numpy() for w in (Wo, Wt))
            same = np.einsum("kqm,kqm,k,q->", u, v, law.probability, mask.probability)
            value.breaks("one mask for both", abs(found - (2 - 2 * same)))

        # The library's loss of a batch of outputs against their mean squared distance: of unit
        # outputs, and as they are.
        a1, a2, Wo, Wt = _batch(t.rng)
        raw = _layer(a1, Wo), _layer(a2, Wt)
        off_unit, off_raw = (
            abs(float(vl.inner_product(*tensors(u, v))) - ((u - v) ** 2).sum(-1).mean())
            for u, v in (tuple(map(_unit, raw)), raw)
        )
        unit.add(off_unit).breaks("outputs as they are", off_raw)


@check("ncl/eq7")
def eq7(t: Trial) -> None:
    """Unnormalised non-contrastive loss with a linear predictor (Eq. 7).

    Given   random W^o, W^t and a random linear head W^p; all latents and pairs of masks enumerated.
    Claim   The loss is the loop's, and at W^p = I that of Eq. 6; slopes by complex steps, 0 for
            W^t.
    Fails   for W^p transposed, W^p = I, the slope of W^t that SG stops.
    """
    value = t.defines("all masks", ROUNDING, controls=pooled)
    slopes = t.defines("slopes and stop gradient", 1e-10, controls=pooled)
    for _ in range(min(t.draws, 4)):
        # The loop over points and masks; at W^p = I Eq. 6.
        for law, alpha in _worlds(t.rng):
            Wo, Wt = t.rng.standard_normal((2, 4, 3))
            Wp = t.rng.standard_normal((4, 4))
            printed = 2 - 2 * _every_pair(Wo, Wt, law, alpha, Wp)
            ours, turned, plain = (
                float(ml.non_contrastive(*tensors(Wo, Wt), law, alpha, *tensors(w)))
                for w in (Wp, Wp.T, np.eye(4))
            )
            without = float(ml.non_contrastive(*tensors(Wo, Wt), law, alpha))
            value.add(abs(ours - printed), abs(plain - without))
            value.breaks("W^p transposed", abs(turned - printed))
            value.breaks("W^p = I", abs(plain - printed))

        # Slopes by all three weights; that of W^t is stopped.
        a1, a2, Wo, Wt = _batch(t.rng)
        Wp = t.rng.standard_normal((5, 5))

        def loss(wo, wt, wp, views=(a1, a2)):
            x1, x2 = tensors(*views)
            return vl.inner_product(vl.predict(wp, vl.encode(wo, x1)), vl.encode(wt, x2))

        def by_hand(wo, wt, wp, a1=a1, a2=a2):
            u = _layer(a1, wo) @ np.swapaxes(wp, -1, -2)
            return 2 - 2 * (u * _layer(a2, wt)).sum(-1).mean(-1)

        found = _slopes(loss, Wo, Wt, Wp)
        online, through, head = (
            ref.gradient(
                lambda w, k=k, f=by_hand, W=(Wo, Wt, Wp): f(*W[:k], w, *W[k + 1 :]),
                weight[None],
            )
            for k, weight in enumerate((Wo, Wt, Wp))
        )
        slopes.add(ref.relative(found[0][None], online), ref.relative(found[2][None], head))
        slopes.add(np.abs(found[1]).max())
        slopes.breaks("the target's slope, not stopped", np.abs(through).max())


def _softmax_loss(h1: Array, h2: Array, negatives: Array, tau: float, own: float = 1.0):
    """Eq. 8 by a double loop, naive exponentials; complex arrays allowed."""
    total = 0.0
    for i in range(h1.shape[-2]):
        near = np.exp(tau * (h1[..., i, :] * h2[..., i, :]).sum(-1))
        far = 0.0
        for k in range(negatives.shape[-2]):
            far = far + np.exp(tau * (h1[..., i, :] * negatives[..., i, k, :]).sum(-1))
        total = total - np.log(near / (own * near + far))
    return total / h1.shape[-2]


@check("ncl/eq8")
def eq8(t: Trial) -> None:
    """Contrastive loss of masked views against a batch of negatives (Eq. 8).

    Given   random W, tau, masked samples, four negatives for each of seven anchors.
    Claim   The library's loss is the double loop's, its slope that of complex steps; log(1 + |B|)
            at W = 0; negatives are other samples.
    Fails   if tau divides, without the positive in the denominator, for negatives from all
            samples.
    """
    value = t.defines("value, and log(1 + B) at 0", ROUNDING, controls=pooled)
    slope = t.defines("slope", 1e-10)
    others = t.defines("negatives are other samples", controls=typical)
    n, p, m, B = 7, 5, 4, 4

    # How many of the negatives' indices are their own anchor's.
    def repeats(index: Array):
        return (index == np.arange(n)[:, None]).sum((-2, -1))

    for key in t.keys(min(t.draws, 40), "other samples"):
        x, D = t.rng.standard_normal((n, p)), t.rng.random((3, n, p)) < 0.7
        W, tau = t.rng.standard_normal((m, p)) / 2, float(t.rng.uniform(0.5, 3))
        index = vl.other_samples(key, n, B).numpy()
        views = D[0] * x, D[1] * x, D[2][index] * x[index]
        # Negatives are none of the anchor, and no sample twice.
        others.add(repeats(index) + (np.diff(np.sort(index)) == 0).sum())

        def by_hand(W, tau=tau, own=1.0, views=views):
            T = np.swapaxes(W, -1, -2)
            h3 = ref.rectified(np.einsum("nkp,...pm->...nkm", views[2], T))
            return _softmax_loss(_layer(views[0], W), _layer(views[1], W), h3, tau, own)

        def loss(w, tau=tau, views=views):
            h1, h2 = (vl.encode(w, a) for a in tensors(*views[:2]))
            h3 = vl.encode(w, *tensors(views[2].reshape(n * B, p))).reshape(n, B, m)
            return vl.contrastive(h1, h2, h3, tau)

        # The value: the library's loss against the loop, and at W = 0.
        found, at_zero = (float(loss(*tensors(V))) for V in (W, 0 * W))
        value.add(max(abs(found - by_hand(W)), abs(at_zero - np.log(1 + B))))
        value.breaks("tau divides", abs(found - by_hand(W, 1 / tau)))
        value.breaks("the positive only on top", abs(found - by_hand(W, own=0.0)))
        # The slope: complex steps of the loop against autograd of the library.
        wanted = ref.gradient(by_hand, W[None])
        slope.add(ref.relative(_slopes(loss, W)[0][None], wanted))
        without = ref.gradient(lambda w, f=by_hand: f(w, own=0.0), W[None])
        slope.breaks("the positive only on top", ref.relative(without, wanted))
    anywhere = repeats(t.rng.integers(0, n, (200, n, B)))
    others.breaks("negatives drawn from all samples", anywhere)
