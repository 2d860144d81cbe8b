"""BatchNorm behind receptive fields, no gradient through the deviation (nl App. D).

torch's own BatchNorm, autograd, complex steps and enumeration meet
`clcore.theory.two_layer.two_layer`.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.fields.dynamics import activate, batch, hidden
from clcore.checks.two_layer.fields.latent import inputs, net_of
from clcore.checks.two_layer.fields.monomials import DEGREES, climb, gated, spread
from clcore.checks.two_layer.modulation.top import (
    Pair,
    apart,
    closed_form,
    outputs,
    pair_of,
    pull_of,
    velocity,
)
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, relative, tensors
from clcore.theory.one_layer import one_layer
from clcore.theory.two_layer import two_layer


def _views(x: Array, x2: Array) -> torch.Tensor:
    """Both views of a batch, [draws, 2n, K, d]."""
    return torch.from_numpy(np.concatenate([x, x2], 1))


def _masses(points: torch.Tensor) -> torch.Tensor:
    return torch.full(points.shape[:2], 1 / points.shape[1], dtype=points.dtype)


@check("nl/eq164")
def eq164(t: Trial) -> None:
    """BatchNorm statistics over all 2N views (Eqs. 164-165).

    Given   random batches of 2N views, ReLU filters; samples of the latent model for large N.
    Claim   f^bn = (f - mu)/sigma with mu, sigma over all 2N views: the library against torch's
            BatchNorm in training; sigma_k^2 = w^T V[gated x] w (p^-2 times that for h = x^p); at
            20000 samples mu and sigma^2 are within 7 standard errors of E[f] and V[f].
    Fails   for the unbiased deviation, inputs without gates, for x^p with 1 in place of p^-2, twice
            the variance.
    """
    x, x2, _, W, _ = batch(t.rng, t.draws, 2, 2, 3, n=16)
    points, w = _views(x, x2), torch.from_numpy(W)
    size, p = points.shape[1], _masses(points)

    # Eqs. 164, 165: the library and torch, over all 2N views.
    f = two_layer.hidden(points, w, "relu")
    ours, torchs = two_layer.batch_norm(f, p), _of_torch(f)
    output = t.part("Eqs. 164, 165", 1e-12, controls=typical).add(relative(ours, torchs))
    output.breaks("unbiased deviation", relative(ours * ((size - 1) / size) ** 0.5, torchs))

    def off(g: torch.Tensor, sigma: torch.Tensor) -> Array:
        """w_k^T V[g] w_k, of the blocks of each filter, against sigma_k^2."""
        C = one_layer.covariance(one_layer.World(points, p), g.flatten(-3)).unflatten(-1, (4, 3))
        blocks = C.unflatten(-3, (4, 3)).diagonal(dim1=-4, dim2=-2)  # i, j, filter
        variance = torch.einsum("bqi,bijq,bqj->bq", w.flatten(1, 2), blocks, w.flatten(1, 2))
        return relative(variance, sigma**2)

    # sigma_k^2 is w^T V[gated x] w.
    _, sigma = two_layer.statistics(f, p)
    form = t.part("sigma^2 is w^T V w", 1e-11, controls=typical)
    form.add(off(two_layer.gated(points, w), sigma))
    form.breaks("inputs without gates", off(two_layer.gated(points, w, "linear"), sigma))
    # It is p^-2 w^T V[gated x] w for h = x^p.
    powers = t.part("monomials", 1e-11, controls=typical, draws=len(DEGREES) * t.draws)
    for kind, degree in DEGREES.items():
        _, sigma = two_layer.statistics(torch.from_numpy(hidden(points.numpy(), W, kind)), p)
        tilde = gated(points, w, kind)
        powers.add(off(tilde / degree, sigma)).breaks("constant 1", off(tilde, sigma))

    # Moments of many samples of the latent model, in standard errors from the exact ones.
    count, size = min(t.draws, 6), 20_000
    model, W = net_of(t.rng, count, 2, 2, 1)
    law, sampled = inputs(model, W, "relu")[0], []
    for i in range(count):
        index = t.rng.choice(law.p.shape[1], size, p=law.p[i].numpy() / law.p[i].sum().item())
        sampled.append(two_layer.hidden(law.x[i, index], torch.from_numpy(W[i])))
    f = torch.stack(sampled)
    mean, sigma = two_layer.statistics(f, torch.ones_like(f[..., 0]))
    exact_mean, exact = two_layer.statistics(two_layer.hidden(law.x, torch.from_numpy(W)), law.p)
    fourth = (((f - exact_mean[:, None]) ** 4).mean(1) - exact**4).clamp(min=1e-9)
    error = (fourth / size).sqrt()
    away = (mean - exact_mean).abs() / (exact.clamp(min=1e-9) / size**0.5)
    large = t.part("large batches", 7.0, draws=count).says(size=size)
    large.add((sigma**2 - exact**2).abs() / error, away)
    # torch's median, the lower of two in the middle
    large.breaks("twice the variance", ((sigma**2 - 2 * exact**2).abs() / error).median())


def _slopes(f: Callable[[torch.Tensor], torch.Tensor], W: torch.Tensor) -> torch.Tensor:
    """Per sample, what field k's output f(W) [draws, 2n, K] gains by field k's only filter, by
    autograd: [draws, 2n, K, d]."""
    rows = torch.autograd.functional.jacobian(lambda w: f(w).sum(0), W, vectorize=True)
    return rows.movedim(2, 0)[..., 0, :].diagonal(dim1=2, dim2=3).movedim(-1, 2)


class Node(NamedTuple):
    """A batch of 2N views of one filter per field: points, masses p, w, outputs f, gated inputs
    tilde [draws, 2N, K, d]; df^bn/dw of Eq. 170, its terms through the mean, and its last one;
    alpha, V.
    """

    points: torch.Tensor
    p: torch.Tensor
    w: torch.Tensor
    f: torch.Tensor
    tilde: torch.Tensor
    through_mean: torch.Tensor
    last: torch.Tensor
    alpha: torch.Tensor
    V: torch.Tensor

    def normalised(self, w: torch.Tensor, *through: bool) -> torch.Tensor:
        """f^bn at filters w; through: the mean, the deviation."""
        return two_layer.batch_norm(two_layer.hidden(self.points, w), self.p, *through)


def _node(rng: np.random.Generator, draws: int) -> Node:
    """A random batch with random filters, and the terms of Eq. 170 in closed form: df/dw is the
    gated input, dmu/dw its mean, dsigma/dw the mean of (f - mu)/sigma times df/dw - dmu/dw.
    """
    x, x2, alpha, W, V = batch(rng, draws, 2, 1, 3, n=8)
    points, w = _views(x, x2), torch.from_numpy(W)
    p, f = _masses(points), two_layer.hidden(points, w)
    tilde = two_layer.gated(points, w)[:, :, :, 0]
    mu, sigma = two_layer.statistics(f, p)
    gap, centred = f - mu[:, None], tilde - tilde.mean(1)[:, None]
    slope = (gap[..., None] * centred).mean(1) / sigma[..., None]  # dsigma / dw
    through_mean = centred / sigma[:, None, :, None]
    last = (gap / sigma[:, None])[..., None] * (slope / sigma[..., None])[:, None]
    return Node(points, p, w, f, tilde, through_mean, last, *tensors(alpha, V))


@check("nl/def5")
def def5(t: Trial) -> None:
    """BatchNorm whose backpropagation passes through the mean only (Definition 5).

    Given   a ReLU layer with BatchNorm.
    Claim   Mean-backprop BatchNorm has the forward pass of BatchNorm and the gradient of Eq. 170
            without its last term: through mu alone. torch's BatchNorm has the output, autograd the
            gradient.
    Fails   for f/sigma, which is not centred, and with the gradient through sigma too.
    """
    node = _node(t.rng, t.draws)

    # The output is that of torch's BatchNorm.
    ours, torchs = two_layer.batch_norm(node.f, node.p), _of_torch(node.f)
    output = t.defines("output", 1e-12, controls=typical)
    mu, sigma = two_layer.statistics(node.f, node.p)
    uncentred = ours + (mu / sigma)[:, None]
    output.add(relative(ours, torchs)).breaks("not centred", relative(uncentred, torchs))

    # The gradient by autograd is Eq. 170 without its last term.
    found, first = _slopes(node.normalised, node.w), node.through_mean
    slope = t.defines("gradient", 1e-10, controls=typical).add(relative(first, found))
    slope.breaks("through the deviation too", relative(first - node.last, found))


@check("nl/eq170")
def eq170(t: Trial) -> None:
    """Derivative of a BatchNorm node; the mean drops out of the covariance (Eqs. 170-171).

    Given   batches of 2N views, any alpha, one ReLU filter per field.
    Claim   df^bn/dw = (df/dw - dmu/dw)/sigma - f^bn/sigma dsigma/dw, the terms in closed form,
            against autograd; dmu/dw by autograd is the batch's mean of gated inputs. Covariances
            with constants of the batch being 0, whether gradients pass the mean makes no difference
            to the energy.
    Fails   for a plus before the last term, or without it; the mean of one view; the gradient
            through sigma.
    """
    node = _node(t.rng, t.draws)
    w, first, last = node.w, node.through_mean, node.last

    # Eq. 170 by autograd, through the mean and the deviation.
    found = _slopes(lambda v: node.normalised(v, True, True), w)
    whole = t.part("Eq. 170", 1e-10, controls=typical).add(relative(first - last, found))
    whole.breaks("last term with a plus", relative(first + last, found))
    whole.breaks("without it", relative(first, found))

    def mu_of(v: torch.Tensor) -> torch.Tensor:
        return two_layer.statistics(two_layer.hidden(node.points, v), node.p)[0][:, None]

    # Eq. 171: the slope of mu is the mean of the gated inputs of all views.
    slope = _slopes(mu_of, w)[:, 0]
    mean = t.part("Eq. 171", 1e-11, controls=typical).add(relative(node.tilde.mean(1), slope))
    mean.breaks("one view", relative(node.tilde[:, :8].mean(1), slope))

    pairs = two_layer.of_views(node.alpha, node.points[:, :8], node.points[:, 8:])

    def energy_slope(*through: bool) -> torch.Tensor:
        """The gradient of tr C_alpha[V f^bn] in w."""
        v = w.clone().requires_grad_()
        C = one_layer.covariance(pairs, node.normalised(v, *through) @ node.V.mT)
        return torch.autograd.grad(C.diagonal(dim1=-2, dim2=-1).sum(), v)[0]

    # So the energy's gradient is the same whether it passes the mean or not.
    passed, kept, both = (energy_slope(*on) for on in ((True, False), (False, False), (True, True)))
    same = t.part("consequence", 1e-11, controls=typical).add(relative(kept, passed))
    same.breaks("through the deviation too", relative(both, passed))


def _outputs(W: Array, points: Array, kind: str, sigma: Array | float | None) -> Array:
    """(f - mu) / sigma, [..., 2n, K*M]; sigma of the batch itself where None."""
    u = np.einsum("...nkd,...kmd->...nkm", points, W)
    f = activate(u, kind).reshape(*u.shape[:-2], -1)
    gap = f - f.mean(-2, keepdims=True)
    return gap / (np.sqrt((gap * gap).mean(-2, keepdims=True)) if sigma is None else sigma)


def _loss(alpha: Array, points: Array, kind: str, sigma: Array | None, V: Array, W: Array) -> Array:
    """1/2 tr C_alpha[V f^bn] by loops over pairs."""
    z, n = _outputs(W, points, kind, sigma) @ np.swapaxes(V, -1, -2), alpha.shape[-1]
    a, a2 = z[..., :n, :], z[..., n:, :]
    return np.trace(ref.covariance(alpha, a, a2, a, a2), axis1=-2, axis2=-1) / (4 * n**2)


@check("nl/lem6")
def lem6(t: Trial) -> None:
    """Two-layer dynamics if BatchNorm backpropagates through the mean only (Lemma 6, Eqs. 166-174).

    Given   linear, ReLU and leaky ReLU layers with BatchNorm, sigma held (Definition 5), any alpha;
            for dw/dt also h = x^p, p = 2, 3.
    Claim   dV/dt = V C_alpha[f^bn], dw/dt = [(S kron 1 1^T) o C_alpha[x~^bn]] w, not projected, and
            1/p of it for h = x^p: the library's forms against complex steps of the energy.
    Fails   without BatchNorm, with the gradient through sigma; for x^p with 1 in place of 1/p.
    """
    kinds = ("linear", "relu", "leaky_relu")
    top = t.part("V", 1e-10, controls=typical)
    filters = t.part("W", 1e-10, controls=typical)
    for kind in kinds:
        x, x2, alpha, W, V = batch(t.rng, t.share(len(kinds)), 2, 2, 3, n=8)
        points = np.concatenate([x, x2], 1)
        sigma = _outputs(W, points, kind, 1.0).std(1, keepdims=True)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        world = two_layer.of_views(a, b, b2)
        ours = two_layer.normalised_flow(world, w, v, kind)
        plain = two_layer.flow(world, w, v, kind)
        energy = partial(_loss, alpha, points, kind)

        # The energy's gradient in V.
        slope = ref.gradient(partial(energy, sigma, W=W), V)
        top.add(relative(ours.V, slope)).breaks("no BatchNorm", relative(plain.V, slope))

        # Its gradient in W, sigma held.
        held, through = (ref.gradient(partial(energy, s, V), W) for s in (sigma, None))
        filters.add(relative(ours.W, held)).breaks("no BatchNorm", relative(plain.W, held))
        filters.breaks("gradient through sigma", relative(ours.W, through))

    # h = x^p: 1/p of it.
    powers = t.part("monomials", 1e-10, controls=typical)
    for kind, degree in DEGREES.items():
        x, x2, alpha, W, V = batch(t.rng, t.share(len(DEGREES)), 2, 2, 3, n=8)
        points = np.concatenate([x, x2], 1)
        sigma = _outputs(W, points, kind, 1.0).std(1, keepdims=True)
        held = ref.gradient(partial(_loss, alpha, points, kind, sigma, V), W)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        world, own = two_layer.of_views(a, b, b2), torch.from_numpy(sigma).unflatten(-1, (2, 2))
        scaled = gated(world.x, w, kind) / own[..., None]
        ours = two_layer.push(v.mT @ v, one_layer.covariance(world, scaled.flatten(-3)), w)
        powers.add(relative(ours / degree, held)).breaks("constant 1", relative(ours, held))


# -------------------------------------------------------------------------------- Corollary 3


def normalised(pair: Pair, sigma: torch.Tensor | None = None) -> tuple[Pair, torch.Tensor]:
    """The quantities of Corollary 3 in place of Theorem 5's, and sigma, by Lemma 5 if not given."""
    if sigma is None:
        sigma = (pair.d + pair.scale[:, None] * pair.b**2).sqrt()
    d, b, L = pair.d / sigma**2, pair.b / sigma, pair.L / sigma[..., None, None] ** 2
    return pair._replace(d=d, b=b, L=L, delta=pair.delta / sigma[..., None]), sigma


@check("nl/cor3")
def cor3(t: Trial) -> None:
    """Two-class dynamics with global modulation and BatchNorm (Corollary 3, Eqs. 175-179).

    Given   Assumption 2, C = 2, M = 1, 2..4 fields, linear, ReLU and leaky ReLU (for (3) also h
            = x^p), mean-backprop BatchNorm; w_k^T Delta_k != 0; covariances enumerated, s by numpy.
    Claim   (1) lambda^bn >= max_k d_k^bn; (2) s^bn is b_k^bn/(lambda^bn - d_k^bn), normalised; (3)
            Lemma 6's velocity is [(s_k^bn)^2 A_k^bn + delta_k^bn Delta_k^bn Delta_k^bnT] w_k,
            delta_k^bn >= 0; 1/p of it for h = x^p.
    Fails   (1) for minus the rank-one term; (2), (3) for d_k, Delta_k, A_k as without BatchNorm;
            (3) for delta = 0, for the bottom eigenvector, for x^p with 1 in place of 1/p.
    """
    above = t.part("(1) top eigenvalue", -1e-12, ">=", controls=pooled)
    eigenvector = t.part("(2) its eigenvector", 1e-7, controls=pooled)
    motion = t.part("(3) dynamics", 1e-7, controls=pooled)
    sign = t.part("(3) not negative", 0.0, ">=", controls=typical)
    cases = tuple(product((2, 3, 4), ("linear", "relu", "leaky_relu")))
    for K, kind in cases:
        model, W = net_of(t.rng, t.share(len(cases)), 2, K, 1)
        pair, w = pair_of(model, W, kind), torch.from_numpy(W)[:, :, 0]
        bn, _ = normalised(pair)

        # The enumerated law of gated inputs over sigma, and numpy's eigenvectors of V[f^bn].
        sigma = np.sqrt(np.diagonal(outputs(pair.law, W), axis1=1, axis2=2))
        size = np.repeat(sigma, W.shape[-1], -1)
        law = pair.law._replace(covariance=pair.law.covariance / (size[:, :, None] * size[:, None]))
        values, vectors = np.linalg.eigh(outputs(law, W))
        top, s, bottom = values[:, -1:], vectors[..., -1], vectors[..., 0]

        # (1) lambda^bn and the largest d_k^bn.
        rank_one = bn.scale[:, None, None] * bn.b[:, :, None] * bn.b[:, None]
        less = np.linalg.eigvalsh((torch.diag_embed(bn.d) - rank_one).numpy())[:, -1]
        level = bn.d.numpy().max(-1)
        above.add(values[:, -1] - level).breaks("minus the rank-one term", less - level)

        # (2) b_k / (lambda - d_k) is along s.
        of_bn, plain = (q.b.numpy() / (top - q.d.numpy()) for q in (bn, pair))
        eigenvector.add(apart(of_bn, s))
        eigenvector.breaks(r"$d_k,\Delta_k$ as without BatchNorm", apart(plain, s))

        # (3) Lemma 6's velocity, before any projection.
        direct, level_bn = velocity(law, W, s), bn.top()
        delta = two_layer.modulation(level_bn, bn.b, bn.scale)
        ours, none, bare = (
            closed_form(q, level_bn, strength, w)
            for q, strength in ((bn, delta), (bn, 0 * delta), (pair, delta))
        )
        motion.add(relative(ours, direct)).breaks(r"$\delta_k^{bn}=0$", relative(none, direct))
        motion.breaks(r"$A_k,\Delta_k$ as without BatchNorm", relative(bare, direct))
        # (3) The strength, by the pull of the other fields.
        pull, of_bottom = (pull_of(v, bn.b.numpy(), bn.scale.numpy()) for v in (s, bottom))
        sign.add(pull.min(-1)).breaks("the bottom eigenvector", of_bottom.min(-1))

    # (3) for h = x^p, against the gradient with sigma held: 1/p of Eq. 178.
    powers = t.part("monomials", 1e-7, controls=pooled)
    for kind, degree in DEGREES.items():
        model, W = net_of(t.rng, t.share(len(DEGREES)), 2, 3, 1)
        V, w = spread(model, W, kind), torch.from_numpy(W)[:, :, 0]
        sigma = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
        s = np.linalg.eigh(V / (sigma[:, :, None] * sigma[:, None]))[1][..., -1]
        bn, _ = normalised(pair_of(model, W, kind), torch.from_numpy(sigma))
        level_bn = bn.top()
        ours = closed_form(bn, level_bn, two_layer.modulation(level_bn, bn.b, bn.scale), w)
        direct = climb(model, W, s, kind, sigma)
        powers.add(relative(ours / degree, direct)).breaks("constant 1", relative(ours, direct))


def _of_torch(f: torch.Tensor) -> torch.Tensor:
    """torch's BatchNorm of every batch, in training, without its epsilon."""
    normal = partial(torch.nn.functional.batch_norm, training=True, eps=1e-30)
    return torch.stack([normal(v, None, None) for v in f])
