"""The min player: Theorem 2, Lemma 6, Corollary 1 (acl Sec. 3, App. A.1).

Its closed forms in `clcore.losses` meet generic solvers that are given only costs and regulariser.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from clcore import losses
from clcore import reference as ref
from clcore.ledger import Trial, check, pooled, typical
from clcore.losses import contrast
from clcore.reference import Array, absolute, relative, tensors


def _spread(c: Array, weights: Array, tau: float) -> Array:
    """[draws]: spread over j of the slope c_ij + 2 tau (log alpha_ij + 1) of E - R_H."""
    force = c + 2 * tau * (np.log(weights) + 1)
    return (force.max(-1) - force.min(-1)).max(-1)


def _objective(c: Array, weights: Array, tau: float) -> Array:
    """E - R_H of each row: [..., n]."""
    return (c * weights + 2 * tau * weights * np.log(weights)).sum(-1)


def _excess(rng: np.random.Generator, c: Array, alpha: Array, tau: float) -> Array:
    """[draws]: the least E - R_H of 1000 competitors of alpha, [draws, n, n - 1], minus that of
    alpha, over the sum of all alpha.

    Competitors: alpha with entries changed at random by 0.1% to a factor e, and points anywhere;
    all at the row masses of alpha. Not below 0 where alpha is the minimiser.
    """
    mass = alpha.sum(-1, keepdims=True)
    near = [
        alpha * np.exp(s * rng.standard_normal((200, *alpha.shape))) for s in (1e-3, 1e-2, 0.1, 1)
    ]
    anywhere = rng.dirichlet(np.ones(alpha.shape[-1]), (200, *alpha.shape[:-1])) + 1e-12
    others = mass * ref.normalised(np.concatenate([*near, anywhere]))
    gain = (_objective(c, others, tau) - _objective(c, alpha, tau)).sum(-1)
    return gain.min(0) / mass.sum((-1, -2))


@check("acl/thm2")
def thm2(t: Trial) -> None:
    """The pairwise importance minimises energy minus entropy (Theorem 2).

    Given   psi = exp(x/tau), tau in {0.2, 0.5, 1}; phi in {tau log(1/2 + x), log(1 + x), x^2,
            sqrt(x)}; random views, N = 6.
    Claim   alpha of Eq. 4 = argmin over {alpha >= 0, row sums xi_i phi'(xi_i)/tau} of E_alpha
            - R_H, R_H = -2 tau sum alpha log alpha: Eq. 4 by complex steps against a Newton solver
            (all draws) and SLSQP (some rows); the slope c_ij + 2 tau (log alpha_ij + 1) is the
            same along a row; none of 1000 competitors of the same row sums is lower.
    Fails   for psi = sigmoid(x/tau), for R_H without its 2, for row sums without 1/tau, and for
            alpha off by 1 per cent.
    """
    n, taus = 6, (0.2, 0.5, 1.0)
    count = t.share(len(taus))
    few = min(count, 10)  # each meets a thousand competitors
    total = count * len(taus)
    minimiser = t.part("minimiser", 1e-5, controls=typical, draws=total)
    stationary = t.part("stationarity", 1e-8, controls=typical, draws=total)
    lowest = t.part("lowest", -1e-12, ">=", controls=typical, draws=few * len(taus))
    for tau in taus:
        z, z2 = ref.views(t.rng, count, n, 3)
        inter, intra = ref.distances(z, z2)
        c = ref.off(ref.costs(inter, intra))
        psis = (lambda x, t=tau: np.exp(x / t), lambda x, t=tau: 1 / (1 + np.exp(-x / t)))
        for phi in ref.phis(tau):
            alpha, wrong = (ref.off(ref.importance(inter, intra, phi, psi)) for psi in psis)
            xi = np.exp(-c / (2 * tau)).sum(-1)
            mass = xi * ref.slope(phi, xi) / tau
            start = t.rng.dirichlet(np.ones(n - 1), xi.shape) + 1e-3

            def solve(mass: Array, tau: float, c=c, start=start) -> Array:
                return ref.newton("entropy", c, mass, tau, start)

            # The Newton solver's minimiser at the row sums of Theorem 2 against Eq. 4.
            minimiser.add(relative(solve(mass, tau), alpha))
            minimiser.breaks("R_H halved", relative(solve(mass, tau / 2), alpha))
            if tau != 1:
                minimiser.breaks("row sums times tau", relative(solve(mass * tau, tau), alpha))
            # psi = sigmoid, given its own row sums: the best the entropy can do still differs.
            minimiser.breaks("psi = sigmoid", relative(solve(wrong.sum(-1), tau), wrong))
            # alpha is stationary: c + 2 tau log alpha is the same along a row.
            stationary.add(_spread(c, alpha, tau)).breaks("psi = sigmoid", _spread(c, wrong, tau))
            # And lowest: no competitor is below; the control's alpha is off by 1% per entry.
            rank = alpha.argsort(-1).argsort(-1)
            off = alpha * (1 + 0.01 * (-1.0) ** rank)  # the two heaviest move apart
            off = off * (mass / off.sum(-1))[..., None]
            lowest.add(_excess(t.rng, c[:few], alpha[:few], tau))
            lowest.breaks("1% off", _excess(t.rng, c[:few], off[:few], tau))
            lowest.breaks("psi = sigmoid", _excess(t.rng, c[:few], wrong[:few], tau))
            # The minimiser of one row by another solver.
            for k in range(min(count, 2)):
                row = ref.slsqp("entropy", c[k, 0], mass[k, 0], tau, t.rng.random(n - 1) + 0.1)
                minimiser.add(relative(row[None], alpha[k, :1]))


def _lagrangian(c: Array, tau: float, mu: Array, mass: Array, p: Array) -> Array:
    """Eq. 99 with mu as it is given: [draws]."""
    return (c * p + tau * p * np.log(p)).sum(-1) + mu * (p.sum(-1) - mass)


@check("acl/lem6")
def lem6(t: Trial) -> None:
    """Closed form of an entropy-regularised linear minimisation (Lemma 6).

    Given   random costs c, n = 2..10, tau in {0.2, 0.5, 1.7}; phi' in {tau/(0.3 + x), 1/(1 + x),
            2x}; p >= 0, as the entropy needs. For Theorem 2 random views, N = 6, tau = 0.7.
    Claim   min c.p - tau H(p) subject to sum p = x0 phi'(x0)/tau, x0 = sum_j exp(-c_j/tau), is
            attained at p_j = exp(-c_j/tau) phi'(x0)/tau: against a Newton solver on every draw,
            SLSQP on some. There Eq. 99, with -mu and the mu of Eq. 101, has slope 0 in p, by
            complex steps. Theorem 2 is the lemma at c_ij = 2 (d_ij - d_i), 2 tau for tau and 2 phi
            for phi.
    Fails   for 2 tau in the exponent, without 1/tau, for phi' at x0/2; Eq. 99 as typeset, with
            +mu; in the application for tau or phi that is not doubled.
    """
    # The lemma itself; the solver's r_H is 2 tau H, so it is given half of the lemma's tau.
    sizes = (2, 3, 5, 10)
    count = t.share(len(sizes))
    lemma = t.part("lemma", 1e-6, controls=pooled, draws=count * len(sizes))
    multiplier = t.part("Eqs. 99-101", 1e-12, controls=pooled, draws=count * len(sizes))
    for n in sizes:
        c = t.rng.standard_normal((count, n))
        for tau in (0.2, 0.5, 1.7):
            slopes = (lambda x, t=tau: t / (0.3 + x), lambda x: 1 / (1 + x), lambda x: 2 * x)
            for k, slope in enumerate(slopes):
                x0 = np.exp(-c / tau).sum(-1)
                mass = x0 * slope(x0) / tau
                closed = np.exp(-c / tau) * slope(x0)[:, None] / tau
                start = t.rng.dirichlet(np.ones(n), count) + 1e-3
                solved = ref.newton("entropy", c, mass, tau / 2, start)
                lemma.add(relative(solved, closed))
                wide = np.exp(-c / (2 * tau))
                wide = wide * slope(wide.sum(-1))[:, None] / tau
                elsewhere = np.exp(-c / tau) * slope(x0 / 2)[:, None] / tau
                lemma.breaks("2 tau in the exponent", relative(wide, solved))
                lemma.breaks("no 1/tau", relative(closed * tau, solved))
                lemma.breaks("phi' at x0/2", relative(elsewhere, solved))

                # The multiplier with exp(mu/tau - 1) = Z = phi'(x0)/tau, and the slope of Eq. 99.
                mu = tau * (1 + np.log(slope(x0) / tau))
                for sign in (-1, 1):
                    force = ref.gradient(partial(_lagrangian, c, tau, sign * mu, mass), closed)
                    if sign < 0:
                        multiplier.add(np.abs(force).max(-1))
                    else:
                        multiplier.breaks("as typeset, + mu in Eq. 99", np.abs(force).max(-1))
                if k == 0:
                    row = ref.slsqp("entropy", c[0], mass[0], tau / 2, start[0])
                    lemma.add(relative(row[None], closed[:1]))

    # With Theorem 2's costs: its weights against Eq. 4, its row sums against the set A. phi is
    # free in the lemma, so the 2 of 2 tau H can go into tau if phi takes one as well.
    z, z2 = ref.views(t.rng, t.draws, 6, 3)
    inter, intra = ref.distances(z, z2)
    c, tau = ref.off(ref.costs(inter, intra)), 0.7
    application = t.part("application", 1e-12, draws=t.draws)
    for phi in ref.phis(tau):
        alpha = ref.off(ref.importance(inter, intra, phi, lambda x: np.exp(x / tau)))
        xi = np.exp(ref.off(intra[..., None] - inter) / tau).sum(-1)
        mass = xi * ref.slope(phi, xi) / tau

        def error(tau: float, factor: float, phi=phi, alpha=alpha, mass=mass) -> Array:
            """Of Eqs. 97 and 98 as printed, at this tau and at factor * phi."""
            x0 = np.exp(-c / tau).sum(-1)
            slope = factor * ref.slope(phi, x0)
            weights = np.exp(-c / tau) * slope[..., None] / tau
            return np.maximum(relative(weights, alpha), relative(x0 * slope / tau, mass))

        application.add(error(2 * tau, 2))
        application.breaks("tau not doubled", error(tau, 2))
        application.breaks("phi not doubled", error(2 * tau, 1))


_WIDTHS, _TAU = (4, 5, 3), 0.5
_RATED: tuple[tuple[Callable, Callable, float], ...] = (
    (lambda x: _TAU * torch.log(0.5 + x), lambda x: _TAU / (0.5 + x), 0.01),
    (torch.log1p, lambda x: 1 / (1 + x), 0.01),
    (torch.square, lambda x: 2 * x, 1e-3),
    (torch.sqrt, lambda x: 0.5 / torch.sqrt(x), 0.01),
)
"""phi and phi' of `ref.phis` in torch, in its order, and P_g's rate eta for each; x^2 is steep."""
_PHIS: dict[str, tuple[Callable, Callable]] = {
    "InfoNCE, epsilon = 0": (lambda x: _TAU * np.log(x), lambda x: _TAU * torch.log(x)),
    "$\\phi=3\\log x$": (lambda x: 3 * np.log(x), lambda x: 3 * torch.log(x)),
    "InfoNCE, epsilon = 1": (lambda x: _TAU * np.log(1 + x), lambda x: _TAU * torch.log1p(x)),
    "$\\phi=x$": (lambda x: x, lambda x: x),
}
"""Functions phi by name, in numpy and in torch."""
_STILL = ("InfoNCE, epsilon = 0", "$\\phi=3\\log x$")
"""Those of _PHIS whose xi phi'(xi) is constant."""


@dataclass(frozen=True)
class _Game:
    """Nets [runs, parameters] on batches x, x2 [runs, n, 4], and the two ways they are trained."""

    x: Array
    x2: Array
    start: Array

    def outputs(self, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(ref.net(theta, v, "tanh", _WIDTHS) for v in tensors(self.x, self.x2))

    def descend(self, objective: Callable, rates: list[float], steps: int) -> Array:
        """Gradient descent by autograd: paths [rates, runs, steps, parameters]."""
        slope = torch.func.grad(lambda theta: objective(*self.outputs(theta)).sum())
        rate = torch.tensor(rates, dtype=torch.float64)[:, None, None]
        theta, path = torch.from_numpy(self.start).expand(len(rates), -1, -1), []
        for _ in range(steps):
            theta = theta - rate * slope(theta)
            path.append(theta.numpy())
        return np.stack(path, 2)

    def play(self, phi: Callable, eta: float, steps: int, refresh: bool = True) -> Array:
        """P_g: paths [runs, steps, parameters]. alpha by Newton, ascent by backprop by hand."""
        x, x2, theta, path, alpha = self.x, self.x2, self.start, [], None
        runs, n = x.shape[:2]
        full, cut = np.zeros((runs, n, n)), _WIDTHS[0] * _WIDTHS[1]
        for _ in range(steps):
            w1 = theta[:, :cut].reshape(-1, *_WIDTHS[:2])
            w2 = theta[:, cut:].reshape(-1, *_WIDTHS[1:])
            h, h2 = np.tanh(x @ w1), np.tanh(x2 @ w1)
            z, z2 = h @ w2, h2 @ w2
            if refresh or alpha is None:
                c = ref.off(ref.costs(*ref.distances(z, z2)))
                xi = np.exp(-c / (2 * _TAU)).sum(-1)
                alpha = ref.newton("entropy", c, xi * ref.slope(phi, xi) / _TAU, _TAU, alpha)
                full[:, ~np.eye(n, dtype=bool)] = alpha.reshape(runs, -1)
            # dE/dz[i] = 2 sum_j (alpha_ij + alpha_ji)(z[i] - z[j]) - 2 beta_i (z[i] - z[i'])
            both = full + full.swapaxes(-1, -2)
            pull = 2 * full.sum(-1, keepdims=True) * (z - z2)
            up = 2 * (both.sum(-1, keepdims=True) * z - both @ z) - pull
            ups = ((up, h, x), (pull, h2, x2))
            g2 = sum(a.swapaxes(-1, -2) @ u for u, a, _ in ups)
            g1 = sum(
                v.swapaxes(-1, -2) @ ((u @ w2.swapaxes(-1, -2)) * (1 - a**2)) for u, a, v in ups
            )
            theta = theta + eta * np.concatenate([g1.reshape(runs, -1), g2.reshape(runs, -1)], -1)
            path.append(theta)
        return np.stack(path, 1)

    def value(self, theta: Array, phi: Callable) -> Array:
        """min of E_alpha - R_H over A(theta), [...], by the Newton solver; theta [..., runs, p]."""
        z, z2 = (ref.net(theta, v, "tanh", _WIDTHS) for v in (self.x, self.x2))
        c = ref.off(ref.costs(*ref.distances(z, z2)))
        xi = np.exp(-c / (2 * _TAU)).sum(-1)
        alpha = ref.newton("entropy", c, xi * ref.slope(phi, xi) / _TAU, _TAU)
        return _objective(c, alpha, _TAU).sum(-1)

    def sums(self, theta: torch.Tensor) -> torch.Tensor:
        """xi, [runs, n]."""
        z, z2 = self.outputs(theta)
        off = ~torch.eye(z.shape[-2], dtype=torch.bool)
        d = (z[..., None, :] - z[..., None, :, :]).square().sum(-1) / 2
        gaps = (z - z2).square().sum(-1, keepdim=True) / 2 - d
        return torch.where(off, torch.exp(gaps / _TAU), 0.0).sum(-1)

    def climbs(self, phi: Callable, torch_phi: Callable, sign: float = 1.0) -> tuple[Array, Array]:
        """Cosines of the gradient of V and minus that of L, [runs]: V by `value`, A moving with
        theta, in central differences; and in closed form by autograd."""
        slope = torch.func.grad(lambda u: torch_phi(u).sum())

        def loss(theta: torch.Tensor) -> torch.Tensor:
            return sign * torch_phi(self.sums(theta)).sum()

        def closed(theta: torch.Tensor) -> torch.Tensor:
            xi = self.sums(theta)
            return (2 * xi * slope(xi) * torch.log(slope(xi) / _TAU)).sum()

        start = torch.from_numpy(self.start)
        down, up = (torch.func.grad(f)(start).numpy() for f in (loss, closed))

        def cosine(a: Array) -> Array:
            sizes = np.linalg.norm(a, axis=-1) * np.linalg.norm(down, axis=-1)
            return -(a * down).sum(-1) / sizes

        h = 1e-4
        step = h * np.eye(self.start.shape[1])[:, None]
        above, under = (self.value(self.start + s * step, phi) for s in (1, -1))
        return cosine(np.moveaxis((above - under) / (2 * h), 0, -1)), cosine(up)


@check("acl/cor1")
def cor1(t: Trial) -> None:
    """Contrastive learning as a max-min game between θ and α (Corollary 1, Eq. 7).

    Given   psi = exp(x/tau), tau = 1/2; several phi of Eq. 1; small tanh nets, batches of 6 and 8.
    Claim   Minimising L is coordinate-wise optimisation of max_theta V, V = min_A E - R_H: (1) its
            steps are those of P_g (alpha minimises over A of theta_t, then theta ascends E):
            gradient descent on L with step 2 eta follows P_g with step eta, alpha by a solver, for
            60 steps; (2) so they raise V: -dL/dtheta is along dV/dtheta.
    Fails   (1) for the steps eta and 4 eta, for weights that are not renewed, for a gradient
            through alpha; (2) where the row sums xi phi'(xi)/tau of A move with theta: for phi
            = x, V = 2 log(1/tau) L falls with L. Corrected: for constant xi phi'(xi), as InfoNCE
            at eps = 0. Controls of (2): ascent on L; in the corrected form the phi of moving sums.
    """
    # (1) Descent on L with step 2 eta follows P_g with step eta.
    runs, steps, short = min(t.draws, 4), 60, 20
    x, x2 = ref.views(t.rng, runs, 8, 4)
    x2 = x + (x2 - x) / 4  # keeps xi moderate, and with it the slope of phi = x^2
    game = _Game(x, x2, ref.net_parameters(t.rng, runs, _WIDTHS))
    follows = t.part("", 1e-6, draws=runs).says(steps=steps)
    psis: dict[str, Any] = {
        "psi": lambda x: torch.exp(x / _TAU),
        "dpsi": lambda x: torch.exp(x / _TAU) / _TAU,
    }
    for phi, (torch_phi, dphi, eta) in zip(ref.phis(_TAU), _RATED, strict=True):
        pair = losses.Pair("", phi=torch_phi, dphi=dphi, **psis)

        def through_alpha(z: torch.Tensor, z2: torch.Tensor, pair=pair) -> torch.Tensor:
            return -contrast.energy(contrast.pairwise_importance(z, z2, pair), z, z2) / 2

        ours = game.play(phi, eta, steps)
        loss = partial(contrast.family_loss, pair=pair)
        half, exact, double = game.descend(loss, [eta, 2 * eta, 4 * eta], steps)
        follows.add(absolute(ours, exact))
        follows.breaks("descent with eta", absolute(ours, half))
        follows.breaks("descent with 4 eta", absolute(ours, double))
        frozen = game.play(phi, eta, short, refresh=False)
        follows.breaks("alpha never refreshed", absolute(frozen, exact[:, :short]))
        (wrong,) = game.descend(through_alpha, [2 * eta], short)
        follows.breaks("through alpha", absolute(ours[:, :short], wrong))

    # (2) One minus the cosine of dV and -dL: 0 if descent on L is the steepest climb of V. V by the
    # Newton solver, and in closed form, 2 sum_i xi phi' log(phi'/tau).
    rng, runs = t.stream("value"), min(t.draws, 20)
    x, x2 = ref.views(rng, runs, 6, 4)
    game = _Game(x, x + (x2 - x) / 4, ref.net_parameters(rng, runs, _WIDTHS))
    value = t.part("the max-min value", 1e-7, draws=4 * runs)
    still = t.corrected("the max-min value", 1e-7, controls=typical)
    value.breaks("ascent on L", 1 - game.climbs(*_PHIS["$\\phi=3\\log x$"], sign=-1.0)[0])
    for name, (phi, torch_phi) in _PHIS.items():
        solved, closed = game.climbs(phi, torch_phi)
        value.add(1 - solved).fails_by(1 - closed, within=1e-5)
        if name in _STILL:
            still.add(1 - solved)
        else:
            still.breaks(name, 1 - solved)
    infonce = game.climbs(*_PHIS["InfoNCE, epsilon = 1"])[1]
    linear = game.climbs(*_PHIS["$\\phi=x$"])[1]
    value.says(infonce=infonce.min(), along=np.median(linear), tau=_TAU)
