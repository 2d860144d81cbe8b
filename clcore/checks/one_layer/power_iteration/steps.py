"""Power iteration, one step at a time: Eq. 101 and Lemmas 7 to 10 (nl Sec. 3.3, App. G).

Matrices are built from eigenvalues and a basis in numpy, so that correlations are known without a
decomposition; `clcore.theory.one_layer.power_iteration` decomposes. Tight draws nearly attain the
bounds.
"""

from typing import Any

import numpy as np
import torch

from clcore.checks.one_layer.power_iteration import proofs
from clcore.ledger import Trial, check, pooled, typical, worst
from clcore.reference import Array, tensors, unit
from clcore.theory.one_layer import power_iteration as pi

ROUNDING = 1e-12


def bases(rng: np.random.Generator, draws: int, d: int, m: int | None = None) -> Array:
    """Random orthonormal columns [draws, d, m], m = d where not given."""
    return np.linalg.qr(rng.standard_normal((draws, d, d)))[0][..., :m]


def start(rng: np.random.Generator, c: Array, d: int, plane: bool = False) -> Array:
    """Coordinates [draws, d] of a unit vector in the eigenbasis, the first one c."""
    rest = rng.standard_normal((len(c), d - 1))
    if plane:
        rest[:, 1:] = 0
    rest *= (np.sqrt(1 - c**2) / np.linalg.norm(rest, axis=-1))[:, None]
    return np.concatenate([c[:, None], rest], -1)


def draw(rng: np.random.Generator, draws: int, kind: str) -> tuple[Array, Array, Array]:
    """Eigenvalues (falling) [draws, d], coordinates of w, and the basis Q (columns)."""
    d = int(rng.integers(2, 8))
    c = rng.uniform(0.02, 1, draws)
    values = -np.sort(-rng.random((draws, d)), -1) + 1e-3
    if kind == "tight":
        c = 1 - 10.0 ** rng.uniform(-5, -2, draws)
        values[:, 0], values[:, 1] = 1, rng.uniform(0.3, 0.95, draws)
        values[:, 2:] = values[:, 1:2] * rng.uniform(0.8, 1, (draws, d - 2))
    if kind == "semidefinite":
        values[:, d // 2 + 1 :] = 0
    if kind == "indefinite":
        values[:, -1] = -rng.uniform(0.5, 1.5, draws) * values[:, 0]
    return values, start(rng, c, d, kind == "tight"), bases(rng, draws, d)


def matrix(values: Array, Q: Array) -> Array:
    return np.einsum("bij,bj,bkj->bik", Q, values, Q)


def mu_of(values: Array, c: Array) -> Array:
    return (1 + c) / (2 * c**2) * (values[:, 1] / values[:, 0]) ** 2


def middle(values: Array, c: Array) -> Array:
    """The middle of Eq. 188."""
    top, second = values[:, 0] * c, values[:, 1] * np.sqrt(1 - c**2)
    return top * c / np.hypot(top, second)


@check("nl/lem7")
def lem7(t: Trial) -> None:
    """One step of power iteration raises the correlation with the top eigenvector (Lemma 7).

    Given   c_t > 0 and lambda_1(t) > 0; w(t + 1) = A w(t) / |A w(t)|.
    Claim   1 - d_t <= mu_t (1 - c_t), by Eqs. 184 to 186. Corrected: where |lambda_i| <= lambda_2
            for i > 1, as for positive semi-definite A.
    Fails   for indefinite A with a large negative eigenvalue. In the reason for Eq. 184 the sum has
            no lambda_i^2 (a misprint). Controls: half of mu; where s = r^2 (1/c_t^2 - 1), r
            = lambda_2/lambda_1, s/2 for s in Eq. 184, and s/4 for s/2 in Eq. 186; in the proof that
            s/2 = mu_t (1 - c_t), mu_t without 1 + c_t.

    mu by eigh of A; c and d from the coordinates that A was built from. Tight draws nearly attain
    the bounds.
    """
    names = ("", "Eq. 184")
    printed, mended = (
        [form(name, ROUNDING, controls=pooled) for name in names] for form in (t.part, t.corrected)
    )
    reason = t.part("the reason for Eq. 184", ROUNDING, controls=pooled)
    last = t.part("Eq. 186", ROUNDING, controls=pooled)
    for kind in ("generic", "tight", "semidefinite", "indefinite"):
        for _ in range(5):
            values, a, Q = draw(t.rng, 3 * t.draws, kind)
            A, w = matrix(values, Q), np.einsum("bij,bj->bi", Q, a)
            m = pi.mu(pi.local(*tensors(A, w))).numpy()
            c, d = a[:, 0], unit(values * a)[:, 0]
            square = (values[:, 1] / values[:, 0]) ** 2 * (1 / c**2 - 1)
            lower = (1 + square) ** -0.5

            # The lemma and Eq. 184; they need that no other eigenvalue is larger than the second.
            # `less`: with half of mu, and with half of s; s is `square`.
            excess = (1 - d - m * (1 - c), lower - d)
            less = (1 - d - m / 2 * (1 - c), (1 + square / 2) ** -0.5 - d)
            for whole, part, over, half in zip(printed, mended, excess, less, strict=True):
                (whole if kind == "indefinite" else part).add(over)
                if kind == "indefinite":
                    part.breaks("A indefinite", over, by=worst)
                if kind == "tight":
                    for one in (whole, part):
                        one.breaks("half of mu", half)

            # Parseval's identity: the squares of w beside phi_1 add up to 1 - c^2.
            rest = np.einsum("bji,bj->bi", Q, w)[:, 1:]
            reason.add(np.abs((rest**2).sum(-1) - (1 - c**2)))
            stray = np.abs(((values[:, 1:] * rest) ** 2).sum(-1) - (1 - c**2))
            reason.breaks(r"as typeset: $\lambda_i^2$ in the sum", stray)
            # 1 / sqrt(1 + s) >= 1 - s / 2.
            last.add(1 - square / 2 - lower)
            if kind == "tight":
                last.breaks("a quarter of the square", 1 - square / 4 - lower)
    for whole in printed:
        whole.proves(**proofs.indefinite("one step"))
    proofs.lem7(*mended, reason, last)


@check("nl/lem8")
def lem8(t: Trial) -> None:
    """Length of one step of power iteration (Lemma 8, Eqs. 187-189).

    Given   random PD A, unit w with c > 0; generic, tight and nearly rank-one ones.
    Claim   |w(t + 1) - w(t)| <= sqrt(2 (1 + mu c)(1 - c)), and each link of w(t + 1)^T w(t) >= [1
            - mu (1 - c)] c.
    Fails   for 1 in place of 2 under the root, c in place of its square, half of mu.
    """
    length = t.part("", ROUNDING, controls=typical)
    first = t.part("Eq. 187 to the middle of Eq. 188", ROUNDING, controls=typical)
    second = t.part("last step of Eq. 188", ROUNDING, controls=typical)
    for kind in ("generic", "tight", "flat"):
        for _ in range(5):
            values, a, Q = draw(t.rng, 2 * t.draws, "tight" if kind == "flat" else kind)
            if kind == "flat":
                values[:, 1:] *= 1e-3
            A, w = matrix(values, Q), np.einsum("bij,bj->bi", Q, a)
            after = pi.step(*tensors(A, w)).numpy()
            c, mu = a[:, 0], mu_of(values, a[:, 0])
            between, inner = middle(values, c), (after * w).sum(-1)

            # The length of the step.
            moved = np.linalg.norm(after - w, axis=-1)
            length.add(moved - np.sqrt(2 * (1 + mu * c) * (1 - c)))
            if kind == "flat":
                one = np.sqrt((1 + mu * c) * (1 - c))
                length.breaks("1 for 2 under the root", moved - one)

            # w(t + 1)^T w(t) is at least the middle of Eq. 188, and that its right side.
            first.add(between - inner)
            second.add((1 - mu * (1 - c)) * c - between)
            if kind == "flat":
                first.breaks("c_t for c_t^2 in the numerator", between / c - inner)
            if kind == "tight":
                second.breaks("half of mu", (1 - mu / 2 * (1 - c)) * c - between)
    proofs.lem8(length, first, second)


def _perturbed(A: Array, values: Array, Q: Array, change: Array) -> tuple[Array, Array]:
    """(phi_1' - phi_1 - Delta phi_1, phi_1' - phi_1) as [draws, d], by numpy."""
    after = np.linalg.eigh(A + change)[1][..., -1]
    top = Q[..., 0]
    after = after * np.sign((after * top).sum(-1, keepdims=True))
    pull = np.einsum("bij,bik,bk->bj", Q, change, top)[:, 1:]
    first = np.einsum("bij,bj->bi", Q[..., 1:], pull / (values[:, :1] - values[:, 1:]))
    return after - top - first, after - top


@check("nl/lem9")
def lem9(t: Trial) -> None:
    """Perturbation of the top eigenvector to first order (Lemma 9, Eqs. 190-191).

    Given   random symmetric A with gaps 0.05, 0.2, 1; changes of 0.0001 to 10 gaps.
    Claim   phi_1' minus its first-order expansion is of second order (slope 2), and at most kappa
            |dA|^2 with kappa = 8/gap^2.
    Fails   without the first-order term; for one kappa for all A.
    """
    rng, d, sizes = t.rng, 6, 10.0 ** np.arange(-4.0, 1.5, 0.5)
    order = t.part("order", 0.1, controls=typical)
    constant = t.part("a constant", 1.0, controls=typical, draws=9 * t.draws)
    for gap in (0.05, 0.2, 1.0):
        values = -np.sort(-rng.standard_normal((3 * t.draws, d)), -1)
        values[:, 0] = values[:, 1] + gap
        Q = bases(rng, len(values), d)
        A, change = matrix(values, Q), rng.standard_normal((len(values), d, d))
        change = change + change.swapaxes(-1, -2)
        change /= np.linalg.norm(change, 2, axis=(-2, -1))[:, None, None]
        pairs = [_perturbed(A, values, Q, s * gap * change) for s in sizes]
        rest, whole = np.linalg.norm(np.swapaxes(pairs, 0, 1), axis=-1)

        # What is left at each size of the change, over kappa |dA|^2.
        kappa = pi.kappa(pi.local(*tensors(A, Q[..., 0])).gap).numpy()
        scale = kappa * (sizes[:, None] * gap) ** 2
        constant.add(rest / scale)
        constant.breaks("without the first-order term", whole[0] / scale[0])
        one = rest / (8 * (sizes[:, None] * gap) ** 2)
        constant.breaks(r"one $\kappa$ for all A, 8", one, by=worst)

        # Its slope between two sizes.
        order.add(np.abs(np.log10(rest[2] / rest[0]) - 2))
        order.breaks("without the first-order term", np.abs(np.log10(whole[2] / whole[0]) - 2))


def moving_family(
    rng: np.random.Generator, draws: int, d: int, values: Array, c0: Array, L: Array
) -> tuple[pi.Family, torch.Tensor, torch.Tensor]:
    """A(w) = A_0 + sum_k (a_k.w) B_k, two terms, with these eigenvalues at w(0) and constant <= L.

    Returns the family, w(0) and the analytic Lipschitz constant.
    """
    Q = bases(rng, draws, d)
    w = np.einsum("bij,bj->bi", Q, start(rng, c0, d))
    a = rng.standard_normal((draws, 2, d))
    B = rng.standard_normal((draws, 2, d, d))
    B = B + B.swapaxes(-1, -2)
    a, B = tensors(a, B)
    B = B * (torch.as_tensor(L) / pi.affine_lipschitz(a, B))[:, None, None, None]
    A0, w = tensors(matrix(values, Q), w)
    base = A0 - torch.einsum("bkd,bd,bkij->bij", a, w, B)
    return pi.affine(base, a, B), w, pi.affine_lipschitz(a, B)


def _turning(family: pi.Family, w: torch.Tensor, L: Array) -> tuple[pi.Family, torch.Tensor]:
    """One term that moves A along the step, across its eigenvectors; and its constant."""
    A = family(w)
    direction = pi.step(A, w) - w
    direction = direction / direction.norm(dim=-1, keepdim=True)
    vectors = torch.linalg.eigh(A)[1]
    turn = vectors[..., :, :1] * vectors[..., None, :, 1]
    turn = (turn + turn.mT) * torch.as_tensor(L)[:, None, None]
    base = A - (direction * w).sum(-1)[:, None, None] * turn
    terms = direction[:, None], turn[:, None]
    return pi.affine(base, *terms), pi.affine_lipschitz(*terms)


@check("nl/lem10")
def lem10(t: Trial) -> None:
    """Turn of the top eigenvector during one step of power iteration (Lemma 10, Eqs. 192-203).

    Given   PD families of known Lipschitz constant L, trajectories of power iteration: d = 5; and
            d = 2, where the first step attains Eq. 200.
    Claim   At every step, dphi_1 being the first-order change of phi_1 from A(w(t)) to A(w(t + 1)):
            |dphi_1^T w(t + 1)| <= (L/gap) |dw| sqrt(1 - d_t^2) (Eq. 200), sqrt(1 - d_t^2)
            <= sqrt(2 mu_t (1 - c_t)) (Eq. 201), and |d_t - c_{t+1}| <= nu_t (1 - c_t), kappa
            = 8/gap^2 for the least gap of the trajectory.
    Fails   at that first step, for half of L, half of mu under the root, nu without its second
            term; in the proof of Eq. 200, for lambda_1 - lambda_3 in place of the gap.
    """
    rng = t.rng
    more: dict[str, Any] = {"controls": typical, "draws": 40 * t.draws}
    first = t.part("Eq. 200", 1e-7, **more)
    second = t.part("Eq. 201", 1e-7, **more)
    bound = t.part("", ROUNDING, **more)
    for tight in (False, True):
        # A family, a start, and the trajectory; tight: A turns along the step, as far as L allows.
        d, count = (2, 10 * t.draws) if tight else (5, 3 * t.draws)
        values = -np.sort(-rng.uniform(0.4, 1, (count, d)), -1)
        values[:, 0] = values[:, 1] + rng.uniform(0.1, 1, count)
        bounds = 10.0 ** rng.uniform(-5, -2, count) * (1 if not tight else 0.1)
        c0 = 1 - 10.0 ** rng.uniform(-4, -1 if tight else -0.5, count)
        family, start_at, lipschitz = moving_family(rng, count, d, values, c0, bounds)
        if tight:
            family, lipschitz = _turning(family, start_at, bounds)
        path = pi.iterate(family, start_at, 2 if tight else 9)
        matrices = torch.stack([family(v) for v in path])
        at = pi.local(matrices, path)
        least_gap = at.gap.amin(0)
        assert bool((at.least > 0).all() & (least_gap > 0).all())
        kappa = pi.kappa(least_gap)
        nu = pi.nu(at, lipschitz, kappa).numpy()
        M, W, L = matrices.numpy(), path.numpy(), lipschitz.numpy()
        for k, (A, A2, w, w2) in enumerate(zip(M[:-1], M[1:], W[:-1], W[1:], strict=True)):
            # Eigenvectors of A(w(t)), and the top one of A(w(t + 1)), on the side of w.
            values, Q = (x[..., ::-1] for x in np.linalg.eigh(A))
            Q = Q * np.sign(np.einsum("bij,bi->bj", Q, w))[:, None]
            top = Q[..., 0]
            after = np.linalg.eigh(A2)[1][..., -1]
            after = after * np.sign((after * top).sum(-1, keepdims=True))
            c, mu = (top * w).sum(-1), mu_of(values, (top * w).sum(-1))
            near, first_step = np.maximum(1 - c, 0), tight and k == 0

            # Eq. 200: w(t + 1) along the first-order change of phi_1.
            pull = np.einsum("bij,bik,bk->bj", Q, A2 - A, top)[:, 1:]
            along = np.einsum("bij,bi->bj", Q, w2)[:, 1:]
            turned = np.abs((pull / (values[:, :1] - values[:, 1:]) * along).sum(-1))
            sine = np.linalg.norm(along, axis=-1)
            most = L / (values[:, 0] - values[:, 1]) * np.linalg.norm(w2 - w, axis=-1)
            scale = np.maximum(1 - c, 1e-12)
            first.add((turned - most * sine) / scale)
            if first_step:
                first.breaks("half of L", (turned - most / 2 * sine) / scale)

            # Eq. 201: sqrt(1 - d_t^2).
            second.add(sine - np.sqrt(2 * mu * near))
            if first_step:
                second.breaks("half of mu", sine - np.sqrt(mu * near))

            # |d_t - c_(t+1)| against nu_t (1 - c_t).
            gap = np.abs((top * w2).sum(-1) - (after * w2).sum(-1))
            bound.add(gap - nu[k] * near)
            if first_step:
                bare = 2 * kappa.numpy() * L**2 * (1 + mu * c)
                bound.breaks("second term of nu dropped", gap - bare * near)
    proofs.lem10(first, second, bound)


@check("nl/eq101")
def eq101(t: Trial) -> None:
    """Power iteration with a weight-dependent matrix (Eq. 101).

    Given   matrices A(w) that move with w, and constant positive definite A.
    Claim   (1) Limits of w <- A(w) w/|A(w) w| are eigenvectors with positive eigenvalue. (2) For
            constant A errors fall as (lambda_2/lambda_1)^t, within 1 per cent.
    Fails   (1) for the start, and in the proof for a negative eigenvalue; (2) for the rate of the
            third eigenvalue.
    """
    rng, draws, d = t.rng, t.draws, 5
    values = np.tile([1.0, 0.4, 0.3, 0.2, 0.1], (draws, 1))
    family, w, _ = moving_family(
        rng, draws, d, values, rng.uniform(0.6, 1, draws), np.full(draws, 0.05)
    )
    end = pi.iterate(family, w, 200)[-1]

    def error(w: torch.Tensor) -> Array:
        A, v = family(w).numpy(), w.numpy()
        step = unit(np.einsum("bij,bj->bi", A, v))
        return np.abs(step - v).max(-1)  # zero only if A v = +|A v| v

    # (1) After 200 steps a further one moves w no more.
    fixed = t.part("fixed points", 1e-12, controls=typical)
    fixed.add(error(end)).breaks("the start", error(w))

    # (2) Distance from the first eigenvector, a step's factor between steps 14 and 24, over 0.4/1;
    # the third eigenvalue is 0.15.
    values[:, 2:] /= 2
    Q = bases(rng, draws, d)
    inside = start(rng, rng.uniform(0.3, 0.8, draws), d)  # coordinates in the basis Q
    A, w = tensors(matrix(values, Q), np.einsum("bij,bj->bi", Q, inside))
    path = pi.iterate(lambda _: A, w, 60).numpy()
    off = np.linalg.norm(np.einsum("bij,tbi->tbj", Q, path)[..., 1:], axis=-1)
    rate = (off[24] / off[14]) ** 0.1
    constant = t.part("constant A", 0.01, controls=typical).add(np.abs(rate / 0.4 - 1))
    constant.breaks("rate of the third eigenvalue", np.abs(rate / 0.15 - 1))

    proofs.eq101(fixed, constant)
