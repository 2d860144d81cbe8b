"""BatchNorm behind receptive fields, no gradient through the deviation (nl App. D).

torch's own BatchNorm, autograd, complex steps and enumeration meet
`clcore.theory.two_layer.two_layer`.
"""

from functools import partial

import numpy as np
import torch

from clcore import reference as ref
from clcore.checks.two_layer.fields.dynamics import activate, batch, hidden
from clcore.checks.two_layer.fields.latent import enumerated, inputs, net_of
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
from clcore.theory.two_layer import field_latent, two_layer


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
    Fails   for the unbiased deviation, inputs without gates, constant 1 for monomials, twice the
            variance.
    """
    output = t.part("Eqs. 164, 165", 1e-12, controls=typical)
    form = t.part("sigma^2 is w^T V w", 1e-11, controls=typical)
    x, x2, _, W, _ = batch(t.rng, t.draws, 2, 2, 3, n=16)
    points, w = _views(x, x2), torch.from_numpy(W)
    p = _masses(points)
    f = two_layer.hidden(points, w, "relu")
    ours, torchs = two_layer.batch_norm(f, p), _of_torch(f)
    size = points.shape[1]
    output.add(relative(ours, torchs))
    output.breaks("unbiased deviation", relative(ours * ((size - 1) / size) ** 0.5, torchs))
    _, deviation = two_layer.statistics(f, p)

    def off(g: torch.Tensor, deviation: torch.Tensor = deviation) -> Array:
        C = one_layer.covariance(one_layer.World(points, p), g.flatten(-3)).unflatten(-1, (4, 3))
        blocks = C.unflatten(-3, (4, 3)).diagonal(dim1=-4, dim2=-2)  # i, j, filter
        variance = torch.einsum("bqi,bijq,bqj->bq", w.flatten(1, 2), blocks, w.flatten(1, 2))
        return relative(variance, deviation**2)

    form.add(off(two_layer.gated(points, w)))
    form.breaks("inputs without gates", off(two_layer.gated(points, w, "linear")))
    powers = t.part("monomials", 1e-11, controls=typical, draws=len(DEGREES) * t.draws)
    for kind, degree in DEGREES.items():
        f = torch.from_numpy(hidden(points.numpy(), W, kind))
        _, own = two_layer.statistics(f, p)
        tilde = gated(points, w, kind)
        powers.add(off(tilde / degree, own)).breaks("constant 1", off(tilde, own))
    _large_batches(t)


def _large_batches(t: Trial) -> None:
    """Moments of many samples of the latent model, in standard errors from the exact ones."""
    count, size = min(t.draws, 6), 20_000
    model, W = net_of(t.rng, count, 2, 2, 1)
    law, f = inputs(model, W, "relu")[0], []
    for i in range(count):
        index = t.rng.choice(law.p.shape[1], size, p=law.p[i].numpy() / law.p[i].sum().item())
        f.append(two_layer.hidden(law.x[i, index], torch.from_numpy(W[i])))
    f = torch.stack(f)
    mean, deviation = two_layer.statistics(f, torch.ones_like(f[..., 0]))
    exact_mean, exact = two_layer.statistics(two_layer.hidden(law.x, torch.from_numpy(W)), law.p)
    fourth = (((f - exact_mean[:, None]) ** 4).mean(1) - exact**4).clamp(min=1e-9)
    error = (fourth / size).sqrt()
    away = (mean - exact_mean).abs() / (exact.clamp(min=1e-9) / size**0.5)
    part = t.part("large batches", 7.0, draws=count).says(size=size)
    part.add((deviation**2 - exact**2).abs() / error, away)
    # torch's median, the lower of two in the middle
    part.breaks("twice the variance", ((deviation**2 - 2 * exact**2).abs() / error).median())


def _jacobian(f, W: torch.Tensor) -> torch.Tensor:
    """Per-sample Jacobian of f(W) [draws, n, q] by autograd, [draws, n, q, *W.shape[1:]]."""
    rows = torch.autograd.functional.jacobian(lambda w: f(w).sum(0), W, vectorize=True)
    return rows.movedim(2, 0)


def _parts(draws: int, rng: np.random.Generator):
    """Views, W with M = 1, and the pieces of Eq. 170 from closed forms."""
    x, x2, alpha, W, V = batch(rng, draws, 2, 1, 3, n=8)
    points, w = _views(x, x2), torch.from_numpy(W)
    p = _masses(points)
    f = two_layer.hidden(points, w)
    tilde = two_layer.gated(points, w)[:, :, :, 0]  # draws, 2n, K, d
    mean, deviation = two_layer.statistics(f, p)
    slope_mean = tilde.mean(1)
    gap = f - mean[:, None]
    slope_deviation = (gap[..., None] * (tilde - slope_mean[:, None])).mean(1) / deviation[
        ..., None
    ]
    first = (tilde - slope_mean[:, None]) / deviation[:, None, :, None]
    last = (gap / deviation[:, None])[..., None] * (slope_deviation / deviation[..., None])[:, None]
    return points, w, p, f, tilde, first, last, alpha, torch.from_numpy(V)


def _own(jacobian: torch.Tensor) -> torch.Tensor:
    """Entries of field k's output by field k's filter: [draws, 2n, K, d]."""
    return jacobian[..., 0, :].diagonal(dim1=2, dim2=3).movedim(-1, 2)


@check("nl/def5")
def def5(t: Trial) -> None:
    """Mean-backprop BatchNorm: gradients through the mean only (Definition 5).

    Given   a ReLU layer with BatchNorm, gradients by autograd.
    Claim   Mean-backprop BatchNorm has the forward pass of BatchNorm and the gradient of Eq. 170
            without its last term: through mu alone.
    Fails   for an output that is not centred, and with the gradient through sigma too.
    """
    points, w, p, f, _, first, last, _, _ = _parts(t.draws, t.rng)
    ours, torchs = two_layer.batch_norm(f, p), _of_torch(f)
    output = t.part("output", 1e-12, controls=typical)
    output.add(relative(ours, torchs)).breaks("not centred", relative(ours + f, torchs))
    found = _own(_jacobian(lambda v: two_layer.batch_norm(two_layer.hidden(points, v), p), w))
    slope = t.part("gradient", 1e-10, controls=typical)
    slope.add(relative(first, found))
    slope.breaks("through the deviation too", relative(first - last, found))


@check("nl/eq170")
def eq170(t: Trial) -> None:
    """Derivative of a BatchNorm node; the mean drops out of the covariance (Eqs. 170-171).

    Given   batches of 2N views, any alpha; Jacobians by autograd.
    Claim   df^bn/dw = (df/dw - dmu/dw)/sigma - f^bn/sigma dsigma/dw; dmu/dw is the batch's mean of
            gated inputs; covariances with constants of the batch are 0, so whether gradients pass
            the mean makes no difference to the energy.
    Fails   for a plus before the last term, or without it; the mean of one view; gated inputs
            themselves; the gradient through sigma.
    """
    points, w, p, f, tilde, first, last, alpha, V = _parts(t.draws, t.rng)

    def full(v: torch.Tensor) -> torch.Tensor:
        return two_layer.batch_norm(two_layer.hidden(points, v), p, True, True)

    found = _own(_jacobian(full, w))
    whole = t.part("Eq. 170", 1e-10, controls=typical).add(relative(first - last, found))
    whole.breaks("last term with a plus", relative(first + last, found))
    whole.breaks("without it", relative(first, found))

    def mean_of(v: torch.Tensor) -> torch.Tensor:
        return two_layer.statistics(two_layer.hidden(points, v), p)[0][:, None]

    slope = _own(_jacobian(mean_of, w))[:, 0]
    mean = t.part("Eq. 171", 1e-11, controls=typical).add(relative(tilde.mean(1), slope))
    mean.breaks("one view", relative(tilde[:, :8].mean(1), slope))
    pairs = two_layer.of_views(torch.from_numpy(alpha), points[:, :8], points[:, 8:])
    constant = tilde.mean(1, keepdim=True).expand_as(tilde)
    ratio = two_layer.statistics(f, p)[0] / two_layer.statistics(f, p)[1]
    mixed = torch.cat([f, constant.flatten(2), ratio[:, None].expand_as(f)], -1)
    C = one_layer.covariance(pairs, mixed)[:, :, f.shape[-1] :]
    moving = one_layer.covariance(pairs, torch.cat([f, tilde.flatten(2)], -1))
    still = t.part("covariance with constants", 1e-13, controls=typical).add(C.abs())
    still.breaks("gated inputs themselves", moving[:, :2, 2:].abs().amax((1, 2)))

    def energy_slope(through_mean: bool, through_deviation: bool) -> torch.Tensor:
        v = w.clone().requires_grad_()
        z = two_layer.batch_norm(two_layer.hidden(points, v), p, through_mean, through_deviation)
        C = one_layer.covariance(pairs, z @ V.mT)
        return torch.autograd.grad(C.diagonal(dim1=-2, dim2=-1).sum(), v)[0]

    passed = energy_slope(True, False)
    same = t.part("consequence", 1e-11, controls=typical)
    same.add(relative(energy_slope(False, False), passed))
    same.breaks("through the deviation too", relative(energy_slope(True, True), passed))


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


def _loss_of_V(alpha: Array, points: Array, kind: str, sigma: Array, W: Array, V: Array) -> Array:
    return _loss(alpha, points, kind, sigma, V, W)


@check("nl/lem6")
def lem6(t: Trial) -> None:
    """Two-layer dynamics with mean-backprop BatchNorm (Lemma 6, Eqs. 166-174).

    Given   ReLU and leaky ReLU layers with BatchNorm, sigma held (Definition 5), any alpha; h
            = x^p with 1/p.
    Claim   dV/dt = V C_alpha[f^bn], dw/dt = [(S kron 1 1^T) o C_alpha[x~^bn]] w, not projected:
            the library's flow against complex steps of the energy.
    Fails   without BatchNorm, with the gradient through sigma, for constant 1 for monomials.
    """
    kinds = ("relu", "leaky_relu")
    top = t.part("V", 1e-10, controls=typical)
    filters = t.part("W", 1e-10, controls=typical)
    for kind in kinds:
        x, x2, alpha, W, V = batch(t.rng, t.share(len(kinds)), 2, 2, 3, n=8)
        points = np.concatenate([x, x2], 1)
        sigma = _outputs(W, points, kind, 1.0).std(1, keepdims=True)
        loss = partial(_loss, alpha, points, kind)
        held = ref.gradient(partial(loss, sigma, V), W)
        whole = ref.gradient(partial(loss, None, V), W)
        slope = ref.gradient(partial(_loss_of_V, alpha, points, kind, sigma, W), V)
        a, b, b2, w, v = tensors(alpha, x, x2, W, V)
        world = two_layer.of_views(a, b, b2)
        ours = two_layer.normalised_flow(world, w, v, kind)
        plain = two_layer.flow(world, w, v, kind)
        top.add(relative(ours.V, slope)).breaks("no BatchNorm", relative(plain.V, slope))
        filters.add(relative(ours.W, held)).breaks("no BatchNorm", relative(plain.W, held))
        filters.breaks("gradient through sigma", relative(ours.W, whole))
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
    return (
        pair._replace(
            d=pair.d / sigma**2,
            b=pair.b / sigma,
            L=pair.L / sigma[..., None, None] ** 2,
            delta=pair.delta / sigma[..., None],
        ),
        sigma,
    )


def _scaled(model: field_latent.Model, W: Array, deviation: Array):
    """The enumerated law of gated inputs over sigma."""
    law = enumerated(model, W, "relu")
    size = np.repeat(deviation, W.shape[-1], -1)
    covariance = law.covariance / (size[:, :, None] * size[:, None])
    return law._replace(covariance=covariance)


@check("nl/cor3")
def cor3(t: Trial) -> None:
    """Two-class dynamics with global modulation and BatchNorm (Corollary 3, Eqs. 175-179).

    Given   Assumption 2, C = 2, M = 1, 2..4 fields, mean-backprop BatchNorm; covariances
            enumerated, s by numpy.
    Claim   (1) lambda^bn >= max_k d_k^bn; (2) s^bn is b_k^bn/(lambda^bn - d_k^bn), normalised; (3)
            Lemma 6's velocity is [(s_k^bn)^2 A_k^bn + delta_k^bn Delta_k^bn Delta_k^bnT] w_k,
            delta_k^bn >= 0; 1/p of it for h = x^p.
    Fails   for minus the rank-one term, for d_k, Delta_k and A_k as without BatchNorm, delta = 0,
            the bottom eigenvector, constant 1.
    """
    above = t.part("(1) top eigenvalue", -1e-12, ">=", controls=pooled)
    eigenvector = t.part("(2) its eigenvector", 1e-7, controls=pooled)
    motion = t.part("(3) dynamics", 1e-7, controls=pooled)
    sign = t.part("(3) not negative", 0.0, ">=", controls=typical)
    for K in (2, 3, 4):
        model, W = net_of(t.rng, t.share(3), 2, K, 1)
        pair = pair_of(model, W, "relu")
        deviation = np.sqrt(np.diagonal(outputs(pair.law, W), axis1=1, axis2=2))
        law = _scaled(model, W, deviation)
        bn, _ = normalised(pair)
        values, vectors = np.linalg.eigh(outputs(law, W))
        s, most, level = vectors[..., -1], values[:, -1:], bn.d.numpy().max(-1)
        above.add(values[:, -1] - level)
        rank_one = bn.scale[:, None, None] * bn.b[:, :, None] * bn.b[:, None]
        less = np.linalg.eigvalsh((torch.diag_embed(bn.d) - rank_one).numpy())[:, -1]
        above.breaks("minus the rank-one term", less - level)
        plain = pair.b.numpy() / (most - pair.d.numpy())
        eigenvector.add(apart(bn.b.numpy() / (most - bn.d.numpy()), s))
        eigenvector.breaks(r"$d_k,\Delta_k$ as without BatchNorm", apart(plain, s))
        top = two_layer.top_of_rank_one(bn.d, bn.b, bn.scale)
        delta = two_layer.modulation(top, bn.b, bn.scale)
        w = torch.from_numpy(W)[:, :, 0]
        direct = velocity(law, W, s)  # Lemma 6 before any projection
        motion.add(relative(closed_form(bn, top, delta, w), direct))
        none, bare = closed_form(bn, top, 0 * delta, w), closed_form(pair, top, delta, w)
        motion.breaks(r"$\delta_k^{bn}=0$", relative(none, direct))
        motion.breaks(r"$A_k,\Delta_k$ as without BatchNorm", relative(bare, direct))
        pull = [pull_of(v, bn.b.numpy(), bn.scale.numpy()).min(-1) for v in (s, vectors[..., 0])]
        sign.add(pull[0]).breaks("the bottom eigenvector", pull[1])
    _monomials(t)


def _monomials(t: Trial) -> None:
    """(3) for h = x^p, against the gradient with sigma held: 1/p of Eq. 178. Control: no 1/p."""
    part = t.part("monomials", 1e-7, controls=pooled)
    for kind, degree in DEGREES.items():
        model, W = net_of(t.rng, t.share(len(DEGREES)), 2, 3, 1)
        V = spread(model, W, kind)
        sigma = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
        s = np.linalg.eigh(V / (sigma[:, :, None] * sigma[:, None]))[1][..., -1]
        bn = normalised(pair_of(model, W, kind), torch.from_numpy(sigma))[0]
        top = two_layer.top_of_rank_one(bn.d, bn.b, bn.scale)
        delta = two_layer.modulation(top, bn.b, bn.scale)
        ours = closed_form(bn, top, delta, torch.from_numpy(W)[:, :, 0])
        direct = climb(model, W, s, kind, sigma)
        part.add(relative(ours / degree, direct)).breaks("constant 1", relative(ours, direct))


def _of_torch(f: torch.Tensor) -> torch.Tensor:
    """torch's BatchNorm of every batch, in training, without its epsilon."""
    normal = partial(torch.nn.functional.batch_norm, training=True, eps=1e-30)
    return torch.stack([normal(v, None, None) for v in f])
