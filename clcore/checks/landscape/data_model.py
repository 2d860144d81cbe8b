"""Checks of ncl Sec. 4: data, masks, encoders and the losses of Eqs. 4 to 8.

One function a claim, named after it, `check(draws, seed)`. Expectations over masks and latents are
sums over all of them, except where a sampler is what is tested.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from clcore import random as cr
from clcore import reference as ref
from clcore.ledger import Check
from clcore.losses import two_view as vl
from clcore.reference import Array, best, tensors, typical, worst
from clcore.theory.sparse import mask_landscape as ml
from clcore.theory.sparse import sparse_coding as sc

ROUNDING = 1e-12


def _moments(d: int, beta: float, signed: bool) -> Array:
    """E[z z^T] of i.i.d. sparse latents."""
    return beta * np.eye(d) if signed else beta**2 + beta * (1 - beta) * np.eye(d)


def eq1(draws: int, seed: int) -> Iterator[Check]:
    """E[x x^T] of enumerated latents and of drawn samples against the closed form; M^T M = I.

    Controls: latents of the other kind, noise of variance log d / d for log^2 d / d^2, M^T z.
    """
    check, rng = partial(Check, "ncl/eq1"), ref.generator("eq1", seed)
    exact, other = [], []
    for d, signed in product((2, 4, 6), (False, True)):
        beta = float(rng.uniform(0.05, 0.6))
        law = ml.sparse(d, beta, signed)
        second = np.einsum("ki,kj,k->ij", *(v.numpy() for v in (law.point, *law)))
        exact.append(np.abs(second - _moments(d, beta, signed)).max())
        other.append(np.abs(second - _moments(d, beta, not signed)).max())
    yield check(
        worst(np.hstack(exact)),
        ROUNDING,
        {"the other kind of latents": best(np.hstack(other))},
        len(exact),
        "latents",
    )
    scores, noisy, turned, n = [], [], [], 20_000
    columns, rough = [], []
    for kind, (p, d) in product(("binary", "iid-zeros"), ((12, 6), (8, 8))):
        for run in range(min(draws, 3)):
            keys = cr.split(cr.fold_in(cr.key(seed), run), 3)
            M = sc.dictionary(keys[0], p, d, torch.float64)
            z = sc.latents(keys[1], n, d, 0.3, kind, torch.float64)
            M_, x = M.numpy(), sc.samples(keys[2], M, z, sc.noise_std(d)).numpy()
            columns.append(np.abs(M_.T @ M_ - np.eye(d)).max())
            rough.append(np.abs(M_ @ M_.T - np.eye(p)).max() if p > d else 1.0)
            products = x[:, :, None] * x[:, None, :]
            mean, error = products.mean(0), products.std(0) / np.sqrt(n)
            inside = _moments(d, 0.3, kind != "binary")
            for found, place in (
                (M_ @ inside @ M_.T + (np.log(d) / d) ** 2 * np.eye(p), scores),
                (M_ @ inside @ M_.T + np.log(d) / d * np.eye(p), noisy),
            ):
                place.append(np.abs((mean - found) / error).max())
            if p == d and kind == "binary":
                wrong = M_.T @ inside @ M_ + (np.log(d) / d) ** 2 * np.eye(p)
                turned.append(np.abs((mean - wrong) / error).max())
    yield check(
        worst(np.hstack(scores)),
        6.0,
        {
            "log d / d as the variance": best(np.hstack(noisy)),
            "rows of M for its columns": best(np.hstack(turned)),
        },
        len(scores),
        "samples",
        note=r"Largest deviation of an entry of the mean of $xx^\top$, in standard errors. "
        r"$\sigma_0=\log d/d$, as Sec. 4.1 has it of all experiments. Sec. 4.2 draws noise from "
        r"$\mathcal N(0,\log d/d)$, by which $\sigma_0=\sqrt{\log d/d}$ is not "
        r"$\Theta(\log d/d)$.",
    )
    yield check(
        worst(np.hstack(columns)),
        1e-13,
        {"M M^T for M^T M": best(np.hstack(rough))},
        len(columns),
        "columns",
    )


def eq2(draws: int, seed: int) -> Iterator[Check]:
    """Dependent masks: disjoint, a_1 + a_2 = 2x exactly; means 2 alpha x and 2 (1 - alpha) x."""
    check, rng = partial(Check, "ncl/eq2"), ref.generator("eq2", seed)
    apart, controls, means, swapped = [], [], [], []
    for run in range(min(draws, 60)):
        key, alpha = cr.fold_in(cr.key(seed), run), float(rng.uniform(0.1, 0.45))
        x = rng.standard_normal((40, 50))
        for kind, place in (("dependent", apart), ("independent", controls)):
            a1, a2 = sc.views(*tensors(x), sc.masks(key, 40, 50, alpha, kind).double()).numpy()
            place.append(np.abs(a1 * a2).max() + np.abs(a1 + a2 - 2 * x).max())
        mask = ml.masks(6, alpha)
        D, q = mask.point.numpy(), mask.probability.numpy()
        v = x[0, :6]
        first, second = q @ (2 * D * v), q @ (2 * (1 - D) * v)
        means.append(np.abs(np.stack([first - 2 * alpha * v, second - 2 * (1 - alpha) * v])).max())
        swapped.append(np.abs(first - 2 * (1 - alpha) * v).max())
    control = {"independent masks": best(np.hstack(controls))}
    yield check(worst(np.hstack(apart)), 0.0, control, len(apart), "disjoint, and together 2x")
    control = {"1 - alpha for alpha": typical(np.array(swapped))}
    yield check(worst(np.hstack(means)), ROUNDING, control, len(means), "means of the views")


def eq3(draws: int, seed: int) -> Iterator[Check]:
    """E[D] = alpha I and E[D_1 A D_2] = alpha^2 A by a loop over all pairs of masks; the sampler.

    Controls: one mask for both views, 1 - alpha for alpha.
    """
    check, rng = partial(Check, "ncl/eq3"), ref.generator("eq3", seed)
    p, errors, one, dropped = 4, [], [], []
    for _ in range(min(draws, 20)):
        alpha, A = float(rng.uniform(0.1, 0.9)), rng.standard_normal((p, p))
        mask = ml.masks(p, alpha)
        first = (mask.probability[:, None] * mask.point).sum(0).numpy()
        total, single = np.zeros((p, p)), np.zeros((p, p))
        for D1 in product((0, 1), repeat=p):
            q1 = np.prod([alpha if b else 1 - alpha for b in D1])
            single += q1 * np.outer(D1, D1) * A
            for D2 in product((0, 1), repeat=p):
                q2 = np.prod([alpha if b else 1 - alpha for b in D2])
                total += q1 * q2 * np.outer(D1, D2) * A
        errors.append(max(np.abs(first - alpha).max(), np.abs(total - alpha**2 * A).max()))
        one.append(np.abs(single - alpha**2 * A).max())
        dropped.append(np.abs(first - (1 - alpha)).max())
    control = {"one mask for both": best(np.hstack(one)), "1 - alpha": typical(np.array(dropped))}
    yield check(worst(np.hstack(errors)), ROUNDING, control, len(errors), "all masks")
    scores, broken, n = [], [], 20_000
    for run in range(min(draws, 10)):
        alpha = float(rng.choice([0.1, 0.5, 0.75, 0.9]))
        D1, D2 = sc.masks(cr.fold_in(cr.key(seed), run), n, 4, alpha).double().numpy()
        found = np.concatenate([D1, D2, D1 * D2, D1[:, 1:] * D1[:, :-1]], -1).mean(0)
        for both, place in ((alpha**2, scores), (alpha, broken)):
            expected = np.repeat([alpha, both], [8, 7])
            error = np.sqrt(expected * (1 - expected) / n)
            place.append(np.abs((found - expected) / error).max())
    control = {"one mask for both": best(np.hstack(broken))}
    yield check(worst(np.hstack(scores)), 5.5, control, len(scores), "sampler, in standard errors")


def _layer(W: Array, x: Array, b: Array) -> Array:
    """ReLU(W x + b) by a loop over neurons."""
    return np.stack([np.maximum(x @ W[i] + b[i], 0) for i in range(len(W))], -1)


def def1(draws: int, seed: int) -> Iterator[Check]:
    """Encoder and prediction head against a loop over neurons. Controls: bias after it, no ReLU."""
    check, rng = partial(Check, "ncl/def1"), ref.generator("def1", seed)
    encoder, head, outside, linear, turned = [], [], [], [], []
    for _ in range(min(draws, 60)):
        m = 8
        W, Wp = rng.standard_normal((2, m, m))
        b, bp = rng.standard_normal((2, m))
        x = rng.standard_normal((30, m))
        h = vl.encode(*tensors(W, x, b))
        g = vl.predict(*tensors(Wp), h, *tensors(bp)).numpy()
        slow = _layer(W, x, b)
        encoder.append(np.abs(h.numpy() - slow).max())
        outside.append(np.abs(h.numpy() - (_layer(W, x, 0 * b) + b)).max())
        linear.append(np.abs(h.numpy() - x @ W.T - b).max())
        by_hand = np.array([[Wp[i] @ row + bp[i] for i in range(m)] for row in slow])
        head.append(np.abs(g - by_hand).max())
        turned.append(np.abs(g - (slow @ Wp + bp)).max())
    control = {"bias after the ReLU": best(np.hstack(outside)), "no ReLU": best(np.hstack(linear))}
    note = "A definition: nothing of the paper's can fail; tested is our code against a loop."
    yield check(worst(np.hstack(encoder)), ROUNDING, control, len(encoder), "encoder", note=note)
    yield check(
        worst(np.hstack(head)),
        ROUNDING,
        {"W_p transposed": best(np.hstack(turned))},
        len(head),
        "head",
        note=note,
    )


def def2(draws: int, seed: int) -> Iterator[Check]:
    """Members of U and U_>=: column norms and signs. Controls: rows normalised, signs kept."""
    check, rng = partial(Check, "ncl/def2"), ref.generator("def2", seed)
    norms, rows, negative, signed = [], [], [], []
    for m, p in ((2, 2), (5, 5), (20, 20), (7, 4)):
        (W,) = tensors(rng.standard_normal((draws, m, p)))
        U, positive = ml.unit_columns(W).numpy(), ml.positive_columns(W).numpy()
        for V in (U, positive):
            norms.append(np.abs(np.sqrt((V**2).sum(-2)) - 1).max(-1))
        R = W.numpy() / np.sqrt((W.numpy() ** 2).sum(-1, keepdims=True))
        rows.append(np.abs(np.sqrt((R**2).sum(-2)) - 1).max(-1))
        negative.append(-positive.min((-2, -1)))
        signed.append(-U.min((-2, -1)))
    yield check(
        worst(np.hstack(norms)),
        1e-14,
        {"unit rows": typical(*rows)},
        4 * draws,
        "unit columns",
        note="A definition: nothing of the paper's can fail; tested are our samplers.",
    )
    control = {"members of U": typical(*signed)}
    yield check(
        worst(np.hstack(negative)),
        0.0,
        control,
        4 * draws,
        "non-negative",
        note="With two columns or more the subset of orthogonal matrices with positive entries is "
        "empty; the one with non-negative entries is, for square matrices, the permutations.",
    )


def _unit(v: Array) -> Array:
    """Rows over their norms; works on complex arrays."""
    return v / np.sqrt((v * v).sum(-1, keepdims=True))


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


def eq4(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 4 as printed, as 2 - 2 mean cosine, and by complex-step slopes; scale is free, SG stops.

    Controls: without normalisation, without the stop gradient.
    """
    check, rng = partial(Check, "ncl/eq4"), ref.generator("eq4", seed)
    value, plain, slope, stopped, through = [], [], [], [], []
    for _ in range(min(draws, 60)):
        a1, a2, Wo, Wt = _batch(rng)

        def loss(wo, wt, a1=a1, a2=a2):
            x1, x2 = tensors(a1, a2)
            return vl.normalised_distance(vl.encode(wo, x1), vl.encode(wt, x2))

        def by_hand(wo, wt, a1=a1, a2=a2, unit=_unit):
            u, t = (unit(ref.rectified(a @ w.swapaxes(-1, -2))) for a, w in ((a1, wo), (a2, wt)))
            return ((u - t) ** 2).sum(-1).mean(-1)

        u, t = _unit(np.maximum(a1 @ Wo.T, 0)), _unit(np.maximum(a2 @ Wt.T, 0))
        found = float(loss(*tensors(Wo, Wt)))
        scaled = float(loss(*tensors(3.0 * Wo, 0.2 * Wt)))
        cosines = 2 - 2 * (u * t).sum(-1).mean()
        value.append(np.abs(found - np.array([by_hand(Wo, Wt), cosines, scaled])).max())
        plain.append(abs(found - by_hand(Wo, Wt, unit=lambda v: v)))
        online, target = _slopes(loss, Wo, Wt)
        wanted = ref.gradient(lambda w, Wt=Wt: by_hand(w, Wt), Wo[None])
        slope.append(ref.relative(online[None], wanted))
        stopped.append(np.abs(target).max())
        through.append(np.abs(ref.gradient(lambda w, Wo=Wo: by_hand(Wo, w), Wt[None])).max())
    n = len(value)
    yield check(
        worst(np.hstack(value)),
        ROUNDING,
        {"not normalised": typical(np.array(plain))},
        n,
        "value",
        note=r"$a\circ h$ for $a=\mathrm{ReLU}$ only, which changes nothing behind that of $h$.",
    )
    control = {"the target's slope, not stopped": typical(np.array(through))}
    yield check(worst(np.hstack(slope + stopped)), 1e-10, control, n, "slopes and stop gradient")


def eq5(draws: int, seed: int) -> Iterator[Check]:
    """The value with the head on W^o, as the definition of g and Eq. 7 have it, and which networks
    it trains. By the letters W^o appears nowhere.

    Controls: outputs not normalised; the letters as they are; W^t behind its stop gradient.
    """
    check, rng = partial(Check, "ncl/eq5"), ref.generator("eq5", seed)
    value, plain, letters, letters_slope, trained, blocked, free = ([] for _ in range(7))
    for _ in range(min(draws, 60)):
        a1, a2, Wo, Wt = _batch(rng)
        Wp = rng.standard_normal((5, 5))
        x1, x2 = tensors(a1, a2)

        def as_printed(wo, wt, wp, x1=x1, x2=x2):
            head = vl.predict(wp, vl.encode(wt, x1))
            return vl.normalised_distance(head, vl.encode(wt, x2))

        def mended(wo, wt, wp, x1=x1, x2=x2):
            head = vl.predict(wp, vl.encode(wo, x1))
            return vl.normalised_distance(head, vl.encode(wt, x2))

        g, t = np.maximum(a1 @ Wo.T, 0) @ Wp.T, np.maximum(a2 @ Wt.T, 0)
        found = float(mended(*tensors(Wo, Wt, Wp)))
        value.append(abs(found - ((_unit(g) - _unit(t)) ** 2).sum(-1).mean()))
        letters.append(abs(found - float(as_printed(*tensors(Wo, Wt, Wp)))))
        plain.append(abs(found - ((g - t) ** 2).sum(-1).mean()))
        letters_slope.append(np.abs(_slopes(as_printed, Wo, Wt, Wp)[0]).max())
        slopes = _slopes(mended, Wo, Wt, Wp)
        trained.append(np.abs(slopes[0]).max())
        blocked.append(np.abs(slopes[1]).max())
        once, twice = (float(mended(*tensors(Wo, Wt, c * Wp))) for c in (1.0, 2.0))
        free.append(abs(twice - once))
    n = len(value)
    slip = r"$g_{\mathbf W^t,\mathbf W^p}$ -> $g_{\mathbf W^p,\mathbf W^o}$, as $g$ is defined and "
    slip += r"as Eq. 7 has it"
    yield check(
        worst(np.hstack(value + free)),
        ROUNDING,
        {
            "not normalised": typical(np.array(plain)),
            "as typeset, W^t in both branches": typical(np.array(letters)),
        },
        n,
        "value",
        misprint=slip,
        note="Doubling $W^p$ changes nothing. The footnote on losses of unnormalised outputs says "
        "(5, 7) and means (6, 7), the two that carry its mark.",
    )
    yield check(
        best(np.hstack(trained)),
        1e-6,
        {
            "the target network, behind SG": worst(np.hstack(blocked)),
            "as typeset, W^t in both branches": worst(np.hstack(letters_slope)),
        },
        n,
        "trains the online network",
        relation=">=",
        misprint=slip,
        note=r"By the letters $\mathbf W^o$, the first argument of the loss, does not occur.",
    )


def _every_pair(Wo: Array, Wt: Array, law: ml.Law, alpha: float, Wp: Array | None = None):
    """(E<u, v>, E|u - v|^2, E|u|^2 + E|v|^2) by a loop over points and pairs of masks."""
    inner = distance = squares = 0.0
    Wp = np.eye(len(Wo)) if Wp is None else Wp
    for x, chance in zip(law.point.numpy(), law.probability.numpy(), strict=True):
        for D1 in product((0, 1), repeat=len(x)):
            u = Wp @ np.maximum(Wo @ (np.array(D1) * x), 0)
            q1 = np.prod([alpha if b else 1 - alpha for b in D1])
            for D2 in product((0, 1), repeat=len(x)):
                v = np.maximum(Wt @ (np.array(D2) * x), 0)
                q = chance * q1 * np.prod([alpha if b else 1 - alpha for b in D2])
                inner, distance = inner + q * (u @ v), distance + q * ((u - v) @ (u - v))
                squares += q * (u @ u + v @ v)
    return inner, distance, squares


def _worlds(rng: np.random.Generator) -> Iterator[tuple[ml.Law, float]]:
    """One-hot and sparse laws, binary and signed, through random dictionaries."""
    for law in (ml.one_hot(3), ml.one_hot(2, True), ml.sparse(2, 0.4), ml.sparse(2, 0.3, True)):
        d = law.point.shape[-1]
        M = np.linalg.qr(rng.standard_normal((3, d)))[0]
        yield law.through(*tensors(M)), float(rng.uniform(0.2, 0.9))


def eq6(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 6 against a loop over all pairs of masks; the squared distance only at unit norms.

    Controls: the two views share a mask, outputs that are not of unit norm.
    """
    check, rng = partial(Check, "ncl/eq6"), ref.generator("eq6", seed)
    value, shared, unit, free = [], [], [], []
    for _ in range(min(draws, 4)):
        for law, alpha in _worlds(rng):
            Wo, Wt = rng.standard_normal((2, 4, 3))
            inner, distance, _ = _every_pair(Wo, Wt, law, alpha)
            found = float(ml.non_contrastive(*tensors(Wo, Wt), law, alpha))
            value.append(abs(found - (2 - 2 * inner)))
            mask = ml.masks(3, alpha)
            u, v = (ml.represent(*tensors(w), law.point, mask.point).numpy() for w in (Wo, Wt))
            same = np.einsum("kqm,kqm,k,q->", u, v, law.probability, mask.probability)
            shared.append(abs(found - (2 - 2 * same)))
            free.append(abs(distance - (2 - 2 * inner)))
        a1, a2, Wo, Wt = _batch(rng)
        u, t = (_unit(np.maximum(a @ w.T, 0)) for a, w in ((a1, Wo), (a2, Wt)))
        unit.append(abs(float(vl.inner_product(*tensors(u, t))) - ((u - t) ** 2).sum(-1).mean()))
    control = {"one mask for both": typical(np.array(shared))}
    yield check(worst(np.hstack(value)), ROUNDING, control, len(value), "all masks")
    control = {"outputs as they are": typical(np.array(free))}
    yield check(
        worst(np.hstack(unit)), ROUNDING, control, len(unit), "squared distance of unit outputs"
    )


def eq7(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 7 against the loop, at W^p = I Eq. 6, slopes by complex steps. Controls: other W^p."""
    check, rng = partial(Check, "ncl/eq7"), ref.generator("eq7", seed)
    value, turned, plain, slope, through = [], [], [], [], []
    for _ in range(min(draws, 4)):
        for law, alpha in _worlds(rng):
            Wo, Wt = rng.standard_normal((2, 4, 3))
            Wp = rng.standard_normal((4, 4))
            inner = _every_pair(Wo, Wt, law, alpha, Wp)[0]
            found, other, six = (
                float(ml.non_contrastive(*tensors(Wo, Wt), law, alpha, *tensors(w)))
                for w in (Wp, Wp.T, np.eye(4))
            )
            value.append(abs(found - (2 - 2 * inner)))
            value.append(abs(six - float(ml.non_contrastive(*tensors(Wo, Wt), law, alpha))))
            turned.append(abs(other - (2 - 2 * inner)))
            plain.append(abs(six - (2 - 2 * inner)))
        a1, a2, Wo, Wt = _batch(rng)
        Wp = rng.standard_normal((5, 5))

        def loss(wo, wt, wp, a1=a1, a2=a2):
            x1, x2 = tensors(a1, a2)
            return vl.inner_product(vl.predict(wp, vl.encode(wo, x1)), vl.encode(wt, x2))

        def by_hand(wo, wt, wp, a1=a1, a2=a2):
            u = ref.rectified(a1 @ np.swapaxes(wo, -1, -2)) @ np.swapaxes(wp, -1, -2)
            return 2 - 2 * (u * ref.rectified(a2 @ np.swapaxes(wt, -1, -2))).sum(-1).mean(-1)

        found = _slopes(loss, Wo, Wt, Wp)
        for k, weight in ((0, Wo), (2, Wp)):
            rest = [Wo, Wt, Wp]

            def along(w, k=k, rest=rest):
                return by_hand(*[w if i == k else r for i, r in enumerate(rest)])

            slope.append(ref.relative(found[k][None], ref.gradient(along, weight[None])))
        slope.append(np.abs(found[1]).max())
        wanted = ref.gradient(lambda w, a=Wo, b=Wp: by_hand(a, w, b), Wt[None])
        through.append(np.abs(wanted).max())
    control = {"W^p transposed": typical(np.array(turned)), "W^p = I": typical(np.array(plain))}
    yield check(worst(np.hstack(value)), ROUNDING, control, len(value), "all masks")
    control = {"the target's slope, not stopped": typical(np.array(through))}
    yield check(worst(np.hstack(slope)), 1e-10, control, len(slope), "slopes and stop gradient")


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


def eq8(draws: int, seed: int) -> Iterator[Check]:
    """Eq. 8 against a double loop and complex-step slopes; log(1 + |B|) at W = 0; x' != x.

    Controls: tau divides, the positive left out of the denominator.
    """
    check, rng = partial(Check, "ncl/eq8"), ref.generator("eq8", seed)
    value, divided, without, slope, wrong_slope, repeats, zero = ([] for _ in range(7))
    n, p, m, B = 7, 5, 4, 4
    for run in range(min(draws, 40)):
        x, D = rng.standard_normal((n, p)), rng.random((3, n, p)) < 0.7
        W, tau = rng.standard_normal((m, p)) / 2, float(rng.uniform(0.5, 3))
        index = vl.other_samples(cr.fold_in(cr.key(seed), run), n, B).numpy()
        repeats.append(
            (index == np.arange(n)[:, None]).sum() + (np.diff(np.sort(index)) == 0).sum()
        )
        third = D[2][index] * x[index]

        def by_hand(W, tau=tau, own=1.0, x=x, D=D, third=third):
            T = np.swapaxes(W, -1, -2)
            h3 = ref.rectified(np.einsum("nkp,...pm->...nkm", third, T))
            h1, h2 = ref.rectified(D[0] * x @ T), ref.rectified(D[1] * x @ T)
            return _softmax_loss(h1, h2, h3, tau, own)

        def loss(w, tau=tau, x=x, D=D, third=third):
            h1, h2 = (vl.encode(w, a) for a in tensors(D[0] * x, D[1] * x))
            h3 = vl.encode(w, *tensors(third.reshape(n * B, p))).reshape(n, B, m)
            return vl.contrastive(h1, h2, h3, tau)

        found = float(loss(*tensors(W)))
        value.append(abs(found - by_hand(W)))
        divided.append(abs(found - by_hand(W, 1 / tau)))
        without.append(abs(found - by_hand(W, own=0.0)))
        zero.append(abs(float(loss(*tensors(0 * W))) - np.log(1 + B)))
        wanted = ref.gradient(by_hand, W[None])
        slope.append(ref.relative(_slopes(loss, W)[0][None], wanted))
        other = ref.gradient(lambda w, f=by_hand: f(w, own=0.0), W[None])
        wrong_slope.append(ref.relative(other, wanted))
    control = {
        "tau divides": typical(np.array(divided)),
        "the positive only on top": typical(np.array(without)),
    }
    yield check(
        worst(np.hstack(value + zero)), ROUNDING, control, len(value), "value, and log(1 + B) at 0"
    )
    control = {"the positive only on top": typical(*wrong_slope)}
    yield check(worst(np.hstack(slope)), 1e-10, control, len(slope), "slope")
    index = rng.integers(0, n, (200, n, B))
    drawn = (index == np.arange(n)[:, None]).sum((-2, -1))
    control = {"negatives drawn from all samples": typical(drawn)}
    yield check(
        worst(np.hstack(repeats)), 0.0, control, len(repeats), "negatives are other samples"
    )
