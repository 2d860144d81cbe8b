"""Inside and between: EV and VE, and what training does to them (ddn Sec. 4.1, 4.2, Corollary 1).

Gradients by complex steps through enumerated losses, as in `population`; paths of training by
the library, and for Theorem 3's remark by numpy alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore.checks.dual_networks import worlds as dw
from clcore.checks.dual_networks.layers import TIGHT, Layer, descent, layers, residue, weighted
from clcore.checks.dual_networks.operator import each_step, exact_worlds
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import Array, relative
from clcore.theory.operator import covariance_operator as co

# ------------------------------------------------------------------------------ inside and between


@check("ddn/cor1")
def cor1(t: Trial) -> None:
    """Weight β on positive pairs: operators within and across samples (Corollary 1, Eqs. 8-10).

    Given   finite worlds, ReLU nets of 1..3 layers, tied weights; L = (1 + beta) r_+ - r_-, beta
            in {-0.5, 0, 0.2, 1}.
    Claim   -dL/dW_l by the first tower's weights is (-beta EV_l + VE_l) vec(W_l), EV the variance
            of views within samples, VE that of view means: against complex steps of the enumerated
            loss. Through both towers (at beta = 1) it is exactly twice that. Both proved.
    Fails   for EV and VE exchanged, the sign of beta, one tower's operator for both.
    """
    count = t.share(3)
    one = t.part("one tower", TIGHT, controls=pooled, draws=3 * count)
    two = t.part("both tied towers", TIGHT, controls=pooled, draws=3 * count)
    for at in layers(t.rng, count, (1, 2, 3)):
        VE, EV = at.between, at.within
        for beta in (-0.5, 0.0, 0.2, 1.0):
            # -dL/dW_l by one tower is (-beta EV + VE) vec(W_l).
            g, ours = descent(at, dw.simple(beta)), at.times(VE - beta * EV)
            one.add(relative(ours, g, 1e-6))
            if beta:
                one.breaks("EV and VE exchanged", relative(at.times(EV - beta * VE), g, 1e-6))
                one.breaks("sign of beta", relative(at.times(VE + beta * EV), g, 1e-6))

        # By both, at the last beta, it is twice that.
        both = descent(at, dw.simple(beta), tied=True)
        one.breaks("both towers", relative(ours, both, 1e-6))
        two.add(relative(both, 2 * g, 1e-6))
        two.breaks("not doubled", relative(ours, both, 1e-6))
    for part, proof in zip((one, two), exact_worlds.corollary1(), strict=True):
        part.proves(**proof)


@check("ddn/eq86")
def eq86(t: Trial) -> None:
    """Mean gradient of the positive distance: covariance of views (Eqs. 84-86).

    Given   finite worlds, ReLU nets of 1..4 layers; x_1, x_+ independent views of one sample.
    Claim   E[dr_+/dW_l] by the first tower's weights is EV_l vec(W_l): complex steps of the
            enumerated E[r_+]. Through both towers exactly twice that. Both proved.
    Fails   for VE in place of EV, and one tower's for both.
    """
    count = t.share(4)
    one = t.part("one tower", TIGHT, controls=pooled, draws=4 * count)
    two = t.part("both tied towers", TIGHT, controls=pooled, draws=4 * count)
    for at in layers(t.rng, count):
        positive = partial(dw.mean_loss, lambda plus, minus: plus, w=at.world)
        g, both = (-descent(at, positive, tied) for tied in (False, True))
        ours = at.times(at.within)

        # E[dr_+/dW_l] by one tower is EV_l vec(W_l).
        one.add(relative(ours, g, 1e-6))
        one.breaks("VE for EV", relative(at.times(at.between), g, 1e-6))
        one.breaks("both towers", relative(ours, both, 1e-6))

        # By both it is twice that.
        two.add(relative(2 * ours, both, 1e-6))
        two.breaks("not doubled", relative(ours, both, 1e-6))
    for part, proof in zip((one, two), exact_worlds.positives(), strict=True):
        part.proves(**proof)


@check("ddn/rem5")
def rem5(t: Trial) -> None:
    """For β < 0 the operator stays positive semi-definite (Secs. 4.2, 7).

    Given   ReLU nets in finite worlds (the large batch limit), plain outputs; L_simp^beta, beta in
            {-1, -0.5, -0.1}; InfoNCE and the soft triplet loss with beta r_+ added, beta = -0.2.
    Claim   For beta < 0 -beta EV_l + VE_l is positive semi-definite, and so is the operator of the
            other losses, so that updates have a positive cosine with the weights.
    Fails   for beta > 0; for InfoNCE and the triplet loss with Theorem 4's residue theta left in.
            Corrected: for these with theta taken off.
    """
    count = t.share(3)
    psd = t.part("", 1e-10, controls=pooled, draws=9 * count)
    for at in layers(t.rng, count, (1, 2, 3), co.KINDS):
        for beta in (-1.0, -0.5, -0.1, 0.2, 1.0):
            values = torch.linalg.eigvalsh(at.between - beta * at.within)
            size = values.abs().amax(-1)
            ratio = -(values[:, 0] / size.clamp(min=1e-300))
            psd.add(ratio) if beta < 0 else psd.breaks(f"beta = {beta:g}", ratio)
    psd.proves(**exact_worlds.extended_psd())
    _other_losses(t)


def _other_losses(t: Trial) -> None:
    """The losses of Theorem 4 with beta r_+ added: the cosine of their updates with the weights,
    with theta (as printed) and without it (corrected)."""
    count, below, exact = t.share(2), [], 0.0
    name = "soft triplet and InfoNCE with beta r_+"
    printed, mended = (form(name, each_step.NEVER, ">=") for form in (t.part, t.corrected))
    for strength, case in product((0.6, 1.5), each_step.LOSSES.values()):
        world = dw.world(t.rng, count, dw.DEPTHS[2][0], "additive", strength)
        net = dw.weights(t.rng, count, dw.DEPTHS[2])
        for at, beta in product((Layer(world, net, n) for n in (1, 2)), (-0.2, 2.0)):

            def extended(a: Array, b: Array, case: dw.Case = case, beta: float = beta) -> Array:
                return case.page(a, b) + beta * a

            move = descent(at, partial(dw.mean_loss, extended, w=world))
            xi = each_step.weight(at, case)
            rest = move - at.times(residue(at, case, xi))
            if beta > 0:
                printed.breaks("beta = 2", each_step.cosine(move, at), by=worst)
                mended.breaks("beta = 2", each_step.cosine(rest, at), by=worst)
                continue

            # As printed, with theta; a second time by the operators.
            whole = each_step.cosine(move, at)
            operator = weighted(at, xi) - beta * at.within
            again = at.times(operator + residue(at, case, xi))
            printed.add(whole).fails_by(each_step.cosine(again, at), within=1e-6)
            below.append(whole < 0)

            # Corrected, without it.
            mended.add(each_step.cosine(rest, at)).breaks("theta left in", whole, by=worst)
            exact = max(exact, relative(at.times(operator), rest, 1e-6).max())
    mended.says(exact=exact)
    printed.says(below=np.concatenate(below).mean())

    # One weight that such a step turns around.
    smallest = each_step.smallest
    printed.says(one=smallest(False, -0.2), both=smallest(True, -0.2))
    printed.says(far=smallest(False, -0.5, 2.0))


# ---------------------------------------------------------------------------------------- training


def simple_loss(world: co.World):
    """E[r_+ - r_-] as one sum over pairs of views, for complex arguments."""
    _, p, _, q = dw.parts(world)
    both = (p[..., None] * q).reshape(len(p), -1)
    same = np.repeat(np.repeat(np.eye(p.shape[1]), q.shape[2], 0), q.shape[2], 1)
    chance = q.reshape(len(p), -1)
    mass = same * both[:, :, None] * chance[:, None] - both[:, :, None] * both[:, None]

    def objective(near: Array, far: Array) -> Array:
        a, b = (v.reshape(*v.shape[:-3], -1, v.shape[-1]) for v in (near, far))
        return (mass * dw.half(a[..., :, None, :], b[..., None, :, :])).sum((-1, -2))

    return objective


@dataclass(frozen=True)
class Step:
    """A layer before a step of training, its operator's eigenvalues [draws, w] and eigenvectors,
    and its weights after the step, whose rate is 0.02 over the largest eigenvalue."""

    at: Layer
    values: Array
    vectors: Array
    rate: Array
    after: Array

    def negative(self, beta: float = 0.0) -> Array:
        """Minus the least eigenvalue of VE - beta EV over the largest, [draws]."""
        if not beta:
            return -self.values[:, 0] / self.values[:, -1]
        values = np.linalg.eigvalsh(self.at.between.numpy() - beta * self.at.within.numpy())
        return -values[:, 0] / np.abs(values).max(-1)


def training(rng: np.random.Generator, count: int, steps: int) -> Iterator[list[Step]]:
    """Three layers under L_simp in numpy, at each of `steps` + 1 steps."""
    widths = dw.DEPTHS[3]
    world, net = dw.world(rng, count, widths[0]), dw.weights(rng, count, widths)
    objective = simple_loss(world)
    for _ in range(steps + 1):
        now = []
        for number, w in enumerate(net, 1):
            at = Layer(world, net, number)
            values, vectors = np.linalg.eigh(at.between.numpy())
            rate = 0.02 / values[:, -1]
            after = w - rate[:, None, None] * dw.gradient(objective, net, number, at.x)
            now.append(Step(at, values, vectors, rate, after))
        yield now
        net = [step.after for step in now]


def _mean_spread(at: Layer) -> Array:
    """The variance over samples of the mean outputs of views, [draws]."""
    _, p, _, q = dw.parts(at.world)
    mean = (q[..., None] * dw.output(at.net, at.x)).sum(2)
    centred = mean - (p[..., None] * mean).sum(1, keepdims=True)
    return (p[..., None] * centred**2).sum((1, 2))


@check("ddn/rem2")
def rem2(t: Trial) -> None:
    """The covariance operator is positive semi-definite and amplifies leading modes (Sec. 4, after
    Theorem 3).

    Given   a three-layer ReLU net, 200 steps under L_simp, gradients by complex steps of the
            enumerated loss; nets whose connections vary and whose mean outputs do not.
    Claim   The operator is positive semi-definite at every step; the component of the weights along
            eigenvector i is multiplied by 1 + alpha lambda_i; vec(W_l)^T OP_l vec(W_l) is the
            variance of mean outputs, so |W_l| never falls; where mean outputs do not vary nothing
            grows.
    Fails   positive semi-definite for the operator of beta = 1, VE - EV; the modes for both towers'
            gradient, twice as long; the variance for K of all views in place of their means; no
            fall for ascent; no growth for output weights of opposite signs.
    """
    psd = t.part("positive semi-definite at every step", 1e-12, controls=pooled)
    modes = t.part("growth of each mode", 1e-11, controls=pooled)
    norm = t.part("growth of the norm", 1e-10, controls=pooled)
    never = t.part("weights never shrink", -1.0, controls=pooled)
    for now in training(t.rng, min(t.draws, 6), 200):
        spread = _mean_spread(now[0].at)
        for step in now:
            psd.add(step.negative()).breaks("beta = 1", step.negative(1.0))

            # The component along eigenvector i is multiplied by 1 + alpha lambda_i.
            at, w = step.at, dw.vec(step.at.net[step.at.number - 1])
            size = np.linalg.norm(w, axis=-1)[:, None]
            before, after = (
                np.einsum("bji,bj->bi", step.vectors, v) for v in (w, dw.vec(step.after))
            )
            grown = (1 + step.rate[:, None] * step.values) * before
            modes.add(np.abs(after - grown) / size)
            doubled = np.abs(2 * (after - before) - (grown - before)).max(-1)
            modes.breaks("both towers", doubled / size[:, 0])

            # vec(W_l)^T OP_l vec(W_l) is the variance of mean outputs.
            of_means, of_views = (
                np.abs(np.einsum("bi,bij,bj->b", w, A.numpy(), w) / spread - 1)
                for A in (at.between, at.between + at.within)
            )
            norm.add(of_means).breaks("all views", of_views)

            # So |W_l| never falls; the opposite step (ascent) makes it fall.
            start = (before**2).sum(-1)
            never.add(-(after**2).sum(-1) / start)
            never.breaks("shrinks", -((2 * before - after) ** 2).sum(-1) / start)
    _alike(t)


def _alike(t: Trial) -> None:
    """Samples x and -x, hidden units w and -w: f = v (relu(w.x) + relu(-w.x)) is the same at both.
    Over the operator's norm: the update by complex steps, and the operator times the weights.
    The first draw is f = relu(x) + relu(-x) on x = 1 and -1."""
    part = t.part("no growth where mean outputs do not vary", 1e-12, controls=pooled)
    least = np.inf
    for d in (1, 3):
        x, w, v = t.rng.standard_normal((3, t.draws, 1, d))
        v = v[..., :1]
        x[0] = w[0] = v[0] = 1
        samples = torch.from_numpy(np.concatenate([x, -x], 1))
        half = torch.full((t.draws, 2), 0.5, dtype=torch.float64)
        world = co.World(samples, half, samples[:, :, None], torch.ones_like(half)[..., None])
        for sign in (1, -1):
            net = [np.concatenate([w, -w], 1), np.concatenate([v, sign * v], 2)]
            for at in (Layer(world, net, number) for number in (1, 2)):
                size = torch.linalg.matrix_norm(at.between).numpy()
                moves = descent(at, dw.simple()), at.times(at.between)
                errors = [np.linalg.norm(m, axis=-1) / size for m in moves]
                if sign > 0:
                    part.add(*errors)
                    least = min(least, size[0])
                else:
                    part.breaks("output weights of opposite signs", *errors)
    part.says(size=least)
