"""Checks of ddn Sec. 5.1: what survives augmentation, for one neuron on rings (Examples 2 to 4).

`translation`'s operator and closed forms against the enumerations of `rings`.
"""

from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog

from clcore import reference as ref
from clcore.checks.dual_networks import nets
from clcore.checks.dual_networks import symbols as sy
from clcore.checks.dual_networks.augmentation import rings
from clcore.checks.dual_networks.exact_pairs import Proof
from clcore.ledger import Trial, check, pooled, total, worst
from clcore.ledger import polynomials as poly
from clcore.reference import Array, absolute, relative
from clcore.theory.operator import connection as cn
from clcore.theory.operator import translation as tr

EXACT = 1e-12
SIZES = (4, 5, 6)
RINGS = "d = 4, 5, 6"
"""Of proofs in symbols."""


def _sizes(draws: int) -> range:
    return range(4, min(4 + max(draws, 6), 51))


def _images(d: int) -> Any:
    return rings.ring(d).astype(int).astype(object)


def _mean_in_symbols() -> Proof:
    """What a linear neuron with any weights sees of an object, over all its positions."""
    left, right = [], []
    for d in SIZES:
        (w,) = poly.arrays(w=(d,))
        drives = _images(d) @ w
        left += [place.sum(keepdims=True) for place in drives]
        right += 2 * [w.sum(keepdims=True) * 2]
    return {
        "shown": poly.equal(left, right),
        "breaks": {"1 / d": poly.unlike(left[0] * 2, right[0])},
        "at": RINGS,
    }


def _slopes(x: Any, w: Any, u: Any, p: Any) -> tuple[Any, Any]:
    """Derivatives of E[r_+] and of E[r_-] in the first tower, views x [o, v, k] of chances p."""
    near = far = p[0].ring.zero
    for a, i, b, j in np.ndindex(2, len(p), 2, len(p)):
        r = (x[a, i] @ u - x[b, j] @ w) ** 2 * sy.HALF * p[i] * p[j]
        near, far = near + (r * 2 if a == b else 0), far + r
    pull, push = (poly.put(poly.gradient(np.array(r), u), u, w) for r in (near, far))
    return pull, push


def _nothing_in_symbols(window: bool) -> Proof:
    """Positives pull as negatives push, E[r_+] and E[r_-] over the ring of 4; `window`: the neuron
    sees two places."""
    d = 4
    x = _images(d)[..., : 2 if window else d]
    k = x.shape[-1]
    w, u, p = poly.arrays(w=(k,), u=(k,), p=(d,))
    even = np.full(d, p[0].ring.one)
    pull, push = _slopes(x, w, u, even)
    return {
        "shown": poly.equal(pull, push),
        "breaks": {"positions not uniform": poly.unlike(*_slopes(x, w, u, p))},
        "at": "d = 4",
    }


@check("ddn/ex2")
def ex2(t: Trial) -> None:
    """A linear neuron cannot detect localised objects on a ring (Sec. 5.1, example 2, Eq. 11).

    Given   the two objects 11 and 101 at uniform positions on a ring of d = 4..50; views redraw
            the position; one linear neuron that sees the whole ring, K_1(x) = x, under L_simp.
    Claim   Kbar_1(z_0) = (2/d) 1 for both objects, so OP_1 = 0 and nothing is learned: the
            library's operator, and the gradient of the enumerated loss at random w. Both proved.
    Fails   the mean for 1/d; nothing learned for positions that are not uniform, and for a ReLU
            neuron.
    """
    sizes = _sizes(t.draws)
    means = t.part("mean connection", 1e-15, controls=pooled, draws=len(sizes))
    nothing = t.part("nothing is learned", 1e-14, controls=pooled, draws=len(sizes))
    for d in sizes:
        x, w = rings.ring(d), t.rng.standard_normal((1, d))
        see, v = tr.images(d), torch.from_numpy(w)

        # Kbar_1(z_0) = (2/d) 1 for both objects.
        mean = tr.connections(v, see, cn.LINEAR).mean(-2)[0].numpy()
        means.add(absolute(see, x), np.abs(mean - 2 / d).max())
        means.breaks("1 / d", np.abs(mean - 1 / d).min())

        # So OP_1 = 0, and the enumerated loss has no gradient.
        op = tr.operator(v, see, cn.LINEAR).numpy()
        nothing.add(np.abs(op).max(), np.abs(rings.descent(w, x, "linear")).max())
        uneven = rings.descent(w, x, "linear", t.rng.dirichlet(np.ones(d)))
        nothing.breaks("positions not uniform", np.abs(uneven).max())
        nothing.breaks("ReLU neuron", np.abs(rings.descent(w, x, "relu")).max())
    means.proves(**_mean_in_symbols())
    nothing.proves(**_nothing_in_symbols(window=False))


def _means(x: Any, d: int) -> Any:
    """d Kbar of both objects [2, ...] for any vectors x [4, ...] that stand for 00, 01, 10, 11."""
    seen = (_images(d)[..., :2] @ [2, 1]).astype(int)
    return np.stack([sum(x[p] for p in places) for places in seen])


def _counts_in_symbols() -> Proof:
    """Kbar_1 of both objects as printed, over d."""
    (x,) = poly.arrays(x=(4,))
    left = [_means(x, d) for d in SIZES]
    right = [
        np.array([x[3] + x[1] + x[2] + x[0] * (d - 3), x[1] * 2 + x[2] * 2 + x[0] * (d - 4)])
        for d in SIZES
    ]
    return {
        "shown": poly.equal(left, right),
        "breaks": {"objects swapped": poly.unlike(left[0], right[0][::-1])},
        "at": RINGS,
    }


def _form_in_symbols() -> Proof:
    """d^2 V_{z_0}[Kbar] = u u^T / 4 for any vectors x_p."""
    (x,) = poly.arrays(x=(4, 2))
    u = x[3] + x[0] - x[1] - x[2]
    left = []
    for d in SIZES:
        means = _means(x, d)
        off = means - means.sum(0) * sy.HALF
        left.append((np.outer(off[0], off[0]) + np.outer(off[1], off[1])) * sy.HALF)
    right = np.outer(u, u) * sy.HALF * sy.HALF
    return {
        "shown": poly.equal(left, [right] * len(SIZES)),
        "breaks": {"1 / (2 d^2)": poly.unlike(left[0], right * 2)},
        "at": RINGS,
    }


@check("ddn/ex3")
def ex3(t: Trial) -> None:
    """A local receptive field alone does not help a linear neuron (Sec. 5.1, example 3, Eq. 12).

    Given   the model of example 2, d >= 4, a linear neuron behind a window of two.
    Claim   The patterns 00, 01, 10, 11 occur (d - 3, 1, 1, 1) times in object 11 and (d - 4, 2, 2,
            0) times in 101; OP_1 = u u^T/(4 d^2), u = x_11 + x_00 - x_01 - x_10, for any vectors
            x_p; of raw pixels u = 0, so OP_1 = 0. Counts by the windows, OP by the library; all
            proved.
    Fails   for the objects swapped, for 1/(2 d^2); u = 0 for a ReLU neuron (in the proof for
            positions that are not uniform).
    """
    sizes = _sizes(t.draws)
    counts = t.part("counts", 0, measured=total, controls=total, draws=len(sizes))
    form = t.part("Eq. 12, any $x_p$", EXACT, controls=pooled, draws=len(sizes))
    nothing = t.part("$u=0$", 1e-15, controls=pooled, draws=len(sizes))
    for d in sizes:
        # The patterns 00, 01, 10, 11 occur so often in both objects.
        seen, printed = rings.counts(d), np.array([[d - 3, 1, 1, 1], [d - 4, 2, 2, 0]])
        counts.add(seen != printed, tr.pattern_counts(d).numpy() != printed)
        counts.breaks("objects swapped", seen != printed[::-1])

        # OP_1 = u u^T/(4 d^2) for any vectors x_p.
        x_p = t.rng.standard_normal((4, 5))
        see = rings.windows(d, False)
        embedded = torch.from_numpy(x_p[(see @ [2, 1]).astype(int)])
        op = tr.operator(torch.zeros(1, 5, dtype=torch.float64), embedded, cn.LINEAR).numpy()
        u = x_p[3] + x_p[0] - x_p[1] - x_p[2]
        closed = (u[:, None] * u / (4 * d * d))[None]
        form.add(relative(op, closed)).breaks("1 / (2 d^2)", relative(op, 2 * closed))

        # Of raw pixels u = 0, so that nothing is learned.
        w = t.rng.standard_normal((20, 2))
        raw = tr.operator(torch.from_numpy(w), tr.window(tr.images(d)), cn.LINEAR)
        nothing.add(raw.abs(), np.abs(rings.descent(w, see, "linear")))
        nothing.breaks("ReLU neuron", np.abs(rings.descent(w, see, "relu")).max())
    counts.proves(**_counts_in_symbols())
    form.proves(**_form_in_symbols())
    nothing.proves(**_nothing_in_symbols(window=True))


# ------------------------------------------------------------------------------ the ReLU neuron


def library(d: int, bias: bool) -> torch.Tensor:
    """What a receptive field sees in every image, by the library; a bias sees 1."""
    x = tr.window(tr.images(d))
    return tr.with_bias(x) if bias else x


@check("ddn/ex4")
def ex4(t: Trial) -> None:
    """A ReLU neuron with a local receptive field learns its pattern (Sec. 5.1, example 4).

    Given   the two objects on a ring, d = 4..30, a ReLU neuron with a window of two, without and
            with a bias; a pattern p of 00, 01, 10, 11 is open if w^T x_p > 0.
    Claim   (1) K_1 = psi'(w^T x) x, by complex steps. (2) If one p alone is open, OP_1 = c_p x_p
            x_p^T, c_p = 1/(4 d^2): against numpy's enumeration; with a bias each of the four can be
            the one, the others below 0, by linear programmes. (3) It works for several: OP_1 != 0.
            Corrected: if not all that can open the neuron do; then a step multiplies the gap
            between the objects' mean outputs by 1 + alpha |u_S|^2/(4 d^2), u_S the sum of +-x_p
            over open p, and it grows. (4) A quarter of Gaussian starts or more have OP_1 != 0 (our
            bound; the paper has "high").
    Fails   (1) as typeset, without x, and without the gate; (2) for c_p doubled and a linear
            neuron; without a bias none can, as 00 has drive 0; (3) for several that are all, and
            for a linear neuron, which has OP_1 = 0; (4) for a linear neuron.
    """
    # K_1 = psi'(w^T x) x.
    x, w = t.rng.standard_normal((2, 20 * t.draws, 2))
    slope = ref.gradient(lambda u: nets.act("relu", (u * x).sum(-1)), w)
    gates = ((w * x).sum(-1) > 0)[:, None] * np.ones((1, 2))
    connection = t.part("connection", EXACT, controls=worst, draws=t.draws)
    connection.add(absolute(gates * x, slope))
    connection.breaks("as typeset, without x", absolute(gates, slope))
    connection.breaks("no gate", relative(x, slope, 1e-3))

    _single(t)
    _several(t)

    # The share of Gaussian starts that have an operator.
    often = t.part("how often it learns", 0.25, ">=", draws=t.draws)
    for bias in (False, True):
        w = torch.from_numpy(rings.starts(t.rng, 2000, bias)[0])
        share, linear = (
            (tr.operator(w, library(8, bias), psi).abs().amax((1, 2)) > 1e-9).double().mean().item()
            for psi in (cn.RELU, cn.LINEAR)
        )
        often.add(share)
        often.breaks("linear neuron", linear)
        often.says(**{"bias" if bias else "bare": share})

    # Of a ReLU neuron that sees the whole ring.
    whole = []
    for d in (4, 8, 16):
        ops = rings.operator(t.rng.standard_normal((500, d)), rings.ring(d))
        whole.append(f"{(np.abs(ops).max((1, 2)) > 1e-9).mean():.2f} at $d={d}$")
    often.says(whole=", ".join(whole))


def _single(t: Trial) -> None:
    """Starts that one pattern alone opens."""
    operator = t.part(r"$OP_1=c_px_px_p^\top$", EXACT, controls=pooled, draws=t.draws)
    found = {False: set(), True: set()}
    for d in (4, 5, 8, 16, 30):
        for p, bias, some in rings.selective(t.rng, t.draws):
            found[bias].add(p)
            x_p = rings.vectors(bias)[p]
            printed = np.broadcast_to(x_p[:, None] * x_p / (4 * d * d), (len(some), *2 * x_p.shape))
            own, w = rings.operator(some, rings.windows(d, bias)), torch.from_numpy(some)
            operator.add(relative(own, printed), relative(tr.closed_operator(w, d), own))
            operator.add(relative(tr.operator(w, library(d, bias)), own))
            operator.breaks("c_p twice as large", relative(own, 2 * printed))
            linear = tr.operator(w, library(d, bias), cn.LINEAR)
            operator.breaks("linear neuron", relative(linear, printed))
    # Each of the four can be alone, the others below 0: the largest margin, by linear programmes.
    # Without a bias 00 has drive 0; with at most 0 for the others, 01 and 10 can be alone. Random
    # starts find the same patterns.
    starts = t.part("selective starts, with a bias", 0.1, ">=", draws=4)
    starts.add(_margins(True)).breaks("no bias", _margins(False))
    starts.says(found=len(found[True]), bare=len(found[False]))
    starts.confirms(found=(_margins(True, 0) > 0).sum(), bare=(_margins(False, 0) > 0).sum())


def _margins(bias: bool, below: float = 1.0) -> Array:
    """[4]: the largest m such that weights of size 1 at most give pattern p a drive of m or more
    and all others one of -below * m or less; by linear programmes."""
    x, margins = rings.vectors(bias), []
    for p in range(4):
        sign = np.where(np.arange(4) == p, -1.0, 1.0)[:, None]
        rows = np.concatenate([sign * x, np.where(sign < 0, 1.0, below)], 1)  # rows (w, m) <= 0
        bounds = [(-1, 1)] * x.shape[1] + [(None, None)]
        largest = linprog([0] * x.shape[1] + [-1], rows, np.zeros(4), bounds=bounds)
        margins.append(-largest.fun)
    return np.array(margins)


def _amplified(change: Array, open_: Array) -> Array:
    """[starts]: whether some open drive grows and none falls."""
    return (open_ & (change > 1e-12)).any(1) & ~(open_ & (change < -1e-12)).any(1)


def _several(t: Trial) -> None:
    """Starts that two or more patterns open. What is learned is the gap between the objects' mean
    outputs, u_S^T w / d, with u_S the sum of +-x_p over open patterns (signs of Eq. 12); nothing,
    where all patterns that can open the neuron do, so that u_S = 0. The change of the answers to
    single patterns is reported."""
    rate, d, name = 0.5, 6, "more than one pattern: something is learned"
    printed, mended = (form(name, 1e-9, ">=") for form in (t.part, t.corrected))
    factor = t.part("more than one pattern", 1e-12, controls=pooled, draws=t.draws)
    grows = t.part("more than one pattern: the gap grows", 1e-3, ">=", draws=t.draws)
    for bias, kind in ((False, "bare"), (True, "bias")):
        w, open_ = rings.starts(t.rng, 2000, bias)
        flat = open_.sum(1) == (4 if bias else 3)  # without a bias 00 has no drive
        printed.says(**{f"{kind}_flat": flat.mean()})
        x, X = rings.vectors(bias), rings.windows(d, bias)
        signed = np.array([1.0, -1.0, -1.0, 1.0])[:, None] * x

        # The operator's largest entry, of all such starts; of those that leave a pattern closed
        # which can open.
        many = np.flatnonzero(open_.sum(1) >= 2)[: 20 * t.draws]
        size = np.abs(rings.operator(w[many], X)).max((1, 2))
        printed.add(size).fails_by(np.abs(open_[many] @ signed).max(1) ** 2 / (4 * d * d))
        mended.add(size[~flat[many]])
        linear = tr.operator(torch.from_numpy(w[many]), library(d, bias), cn.LINEAR)
        for part in (printed, mended):
            part.breaks("linear neuron", linear.abs().amax((1, 2)))
        mended.breaks("all patterns open", size[flat[many]])

        # One step: the gap is multiplied by 1 + alpha |u_S|^2 / (4 d^2).
        many = many[~flat[many]]
        w, open_ = w[many], open_[many]
        step, linear = (rate * rings.descent(w, X, psi) for psi in ("relu", "linear"))
        u = open_ @ signed
        after, before, still = ((u * v).sum(-1) for v in (w + step, w, w + linear))
        means = np.maximum(np.einsum("bk,ovk->bov", w, X), 0).mean(-1)
        factor.add(np.abs(d * (means[:, 0] - means[:, 1]) - before))
        expected = (1 + rate * (u**2).sum(-1) / (4 * d * d)) * before
        factor.add(np.abs(after - expected), absolute(tr.axis(torch.from_numpy(open_), bias), u))
        some = np.abs(before) > 0.1
        factor.breaks("linear neuron", np.abs(still - expected)[some])
        # So it grows, where it is not close to 0.
        grows.add((after / before - 1)[some])
        grows.breaks("linear neuron", (still / before - 1)[some])
        factor.says(**{f"{kind}_single": _amplified(step @ x.T, open_).mean()})


STEPS = 800  # of updates, enough for each start to open another pattern


@check("ddn/eq13")
def eq13(t: Trial) -> None:
    """An update multiplies the response to the selected pattern (Eq. 13).

    Given   a ReLU neuron behind a window of two on the ring (example 4): starts that one pattern p
            alone opens, without and with a bias; d in {4, 8, 16}, alpha in {0.1, 1}.
    Claim   An update multiplies x_p^T w by 1 + alpha c_p |x_p|^2, c_p = 1/(4 d^2), and so it
            grows: one step by numpy's gradient of the enumerated loss, up to 100 by the library
            while p alone is open.
    Fails   for c_p = 1/d^2; growth for a linear neuron, which does not move (OP_1 = 0). Once
            another pattern opens, growth may stop (the share of such starts is reported).
    """
    factor = t.part("factor", 1e-9, controls=pooled, draws=t.draws)
    growth = t.part("growth", 1e-6, ">=", draws=t.draws)
    for d, rate in product((4, 8, 16), (0.1, 1.0)):
        for p, bias, w in rings.selective(t.rng, min(t.draws, 40)):
            x_p, X = rings.vectors(bias)[p], rings.windows(d, bias)
            ratio, off = (1 + rate * (x_p @ x_p) / (c * d * d) for c in (4, 1))

            # One step, by the gradient of the enumerated loss.
            once = (w + rate * rings.descent(w, X, "relu")) @ x_p / (w @ x_p)
            factor.add(np.abs(once / ratio - 1))
            factor.breaks("c_p = 1/d^2", np.abs(once / off - 1))

            # Up to 100 steps by the library, while p alone is open.
            path = tr.path(torch.from_numpy(w), library(d, bias), rate, 100)
            alone = tr.selected(path)[:-1].numpy().sum(-1) == 1
            drive = path.numpy() @ x_p
            steps = (drive[1:] / drive[:-1])[np.logical_and.accumulate(alone)]
            factor.add(np.abs(steps / ratio - 1))
            # The response grows in each of these steps.
            growth.add(steps - 1)
            linear = tr.path(torch.from_numpy(w), library(d, bias), rate, 1, cn.LINEAR).numpy()
            growth.breaks("linear neuron", (linear[1] @ x_p) / (linear[0] @ x_p) - 1)
    count, share = stopped(t.rng, min(t.draws, 20))
    growth.says(count=count, share=share)


def stopped(rng: np.random.Generator, count: int) -> tuple[int, float]:
    """(how many selective starts, the share of them that meet an update which does not raise
    x_p^T w within STEPS, at d = 4, alpha = 1)."""
    found = []
    for bias in (False, True):
        chosen = [(p, w) for p, also, w in rings.selective(rng, count) if also == bias]
        w = np.concatenate([some for _, some in chosen])
        x_p = np.concatenate([[rings.vectors(bias)[p]] * len(some) for p, some in chosen])
        path = tr.path(torch.from_numpy(w), library(4, bias), 1.0, STEPS).numpy()
        drive = (path * x_p).sum(-1)
        found.append((drive[1:] <= drive[:-1] * (1 + 1e-9)).any(0))
    share = np.concatenate(found)
    return len(share), float(share.mean())
