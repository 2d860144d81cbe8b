"""What the dual linear network can reach: Corollary 1, and training by turns (ncl Sec. 4.1, 5.2.1).

The corollary speaks of W, Theorem 2 of W M. For p = d that is the same; for p > d a row also has a
part off the dictionary, which the dynamics shrinks and no combination of the start does.
"""

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore import reference as ref
from clcore.experiments import sparse_training as st
from clcore.ledger import Trial, check, pooled, worst
from clcore.reference import Array, relative, tensors
from clcore.theory.sparse import linear_noncontrastive as ln
from clcore.theory.sparse import sparse_coding as sc

F = torch.float64
SQUARE = ((20, 20, 20), (6, 6, 2))  # p, d, m
TALL = ((50, 10, 10), (50, 10, 50), (12, 10, 10))


def world(keys: Tensor, p: int, d: int, m: int) -> tuple[ln.Pair, Tensor]:
    """Random starts N(0, 1/(pd)), [b, m, p], and dictionaries [b, p, d]; keys: [b]."""
    start = torch.func.vmap(lambda key: sc.random_start(key, m, p, d, F))
    pair = ln.Pair(start(cr.fold_in(keys, 1)), start(cr.fold_in(keys, 2)))
    return pair, torch.stack([sc.dictionary(key, p, d, F) for key in cr.fold_in(keys, 3)])


def learned(
    start: ln.Pair, M: Tensor, noise: float, beta: float = 0.2, keep: float = 0.5, steps: int = 200
) -> Tensor:
    """[3, *b]: the best minimum, median and maximum max-cosine of both networks at every eighth of
    200 exact steps with c = 0.05 and lambda = 1 - c: neither explodes nor vanishes."""
    d = M.shape[-1]
    moment = ln.second_moment(M, ln.latent_moment(d, beta), noise)
    rates = torch.full((steps,), 0.05 / (2 * keep**2 * (beta + noise**2)), dtype=F)
    path = ln.trajectory(start, moment, keep, rates, torch.full((steps,), 0.95, dtype=F))
    seen = torch.cat([w[1::8] for w in path])
    return torch.stack(list(sc.summary(sc.max_cosine(seen, M)).values())).amax(1)


def stacked(scores: dict[str, Tensor]) -> Tensor:
    """[3, *b], in the order of `learned`."""
    return torch.stack(list(scores.values()))


@check("ncl/cor1")
def cor1(t: Trial) -> None:
    """Linear networks get no better max-cosines than combinations of their start (Corollary 1).

    Given   exact trajectories from random starts, signed latents, two noise levels, p = d and p
            > d; the best a W_0^o + b W_0^t by search.
    Claim   Minimum, median and maximum max-cosine of both networks never exceed the combination's.
    Fails   for p > d, by far. Corrected: combinations of the starts projected on the dictionary.
            Controls: the better start alone, not projected.
    """
    # One net that combining makes better refutes a control.
    square, tall = (t.part(name, 1e-8, controls=worst) for name in ("p = d", "p > d"))
    projected = t.corrected("p > d", 1e-8, controls=worst)
    alone, total = "the better start alone", {square.name: 0, tall.name: 0}
    neuron, second = [], []
    for part, sizes in ((square, SQUARE), (tall, TALL)):
        for p, d, m in sizes:
            many = max(12, min(t.draws // 5, 100))
            count = max(2, many // 6) if m == 50 else min(t.draws, many)
            start, M = world(t.keys(count, f"starts {p} {d} {m}"), p, d, m)
            combined = stacked(ln.best_combination(start, M))
            for kind in ("none", "std"):
                after = learned(start, M, sc.noise_std(d, kind))
                part.add((after - combined).numpy())
                part.breaks(alone, gap_to_start(after, start, M))
                if p > d:
                    runs = zip(*(x.numpy() for x in (*start, M)), strict=True)
                    found = np.stack([again(*run, sc.noise_std(d, kind)) for run in runs])
                    tall.fails_by(found[:, 0].T, within=2e-3)
                    second.append(found[:, 1].max())
                    neuron.append((after - stacked(ln.best_per_neuron(start, M))).max().item())
                    flat = ln.Pair(*(ln.on_dictionary(w, M) for w in start))
                    projected.add((after - stacked(ln.best_combination(flat, M))).numpy())
                    projected.breaks(alone, gap_to_start(after, flat, M))
                    projected.breaks("not projected", (after - combined).numpy())
                total[part.name] += count
    tall.says(neuron=max(neuron)).confirms(neuron=max(second))
    _searched(t)
    _any_length(t)
    for part in (square, tall, projected):
        part.draws = total[part.name]


def _searched(t: Trial) -> None:
    """The best combinations by another search: from a grid of angles, each of whose five highest
    tops is narrowed by the golden section. Control: the grid alone."""
    part = t.defines("the best combination", 1e-8, controls=pooled)
    for p, d, m in ((3, 3, 4), (6, 3, 5)):
        start, M = world(t.keys(min(t.draws, 5), f"searched {p} {d} {m}"), p, d, m)
        found = stacked(ln.best_combination(start, M)).numpy().T
        runs = zip(*(x.numpy() for x in (*start, M)), strict=True)
        for run, values in zip(runs, found, strict=True):
            for k, value in enumerate(values):
                narrowed, grid = _highest(run, k)
                part.add(abs(value - narrowed)).breaks("the grid alone", abs(value - grid))


def _highest(run: tuple[Array, Array, Array], k: int, grid: int = 2000) -> tuple[float, float]:
    """The k-th metric of the best combination of two nets: narrowed, and on the grid."""
    one, two, M = run

    def metric(angle: Array) -> Array:
        a = np.asarray(angle)[..., None, None]
        return _metrics(np.cos(a) * one + np.sin(a) * two, M)[k]

    step = np.pi / grid
    values = metric(step * np.arange(grid))
    tops = np.flatnonzero((values >= np.roll(values, 1)) & (values >= np.roll(values, -1)))
    middle = step * tops[np.argsort(-values[tops])[:5]]
    low, high, golden = middle - step, middle + step, (5**0.5 - 1) / 2
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        rises = metric(left) < metric(right)
        low, high = np.where(rises, left, low), np.where(rises, high, right)
    return float(metric((low + high) / 2).max()), float(values.max())


def _any_length(t: Trial) -> None:
    """Columns of M count by their directions: combinations of both nets, and of each neuron's two
    rows, whose best cosine is the one of the angle to their plane. Control: columns as they are."""
    same = t.defines("columns of any length", 1e-8, controls=pooled)
    plane = t.defines("the best of a neuron", 1e-12, controls=pooled)
    part = t.defines("what lies in the span", 1e-12, controls=pooled)
    rng = t.stream("lengths")
    for p, d, m in ((3, 3, 4), (6, 3, 5)):
        start, M = world(t.keys(min(t.draws, 5), f"lengths {p} {d} {m}"), p, d, m)
        longer = M * torch.from_numpy(rng.uniform(0.3, 3, (len(M), 1, d)))
        found = stacked(ln.best_combination(start, longer)).numpy().T
        best, ends = ln.reach(start, longer), stacked(ln.best_per_neuron(start, longer)).numpy().T
        for k, (one, two, D) in enumerate(zip(*(x.numpy() for x in (*start, M)), strict=True)):
            same.add(*(abs(found[k, j] - _highest((one, two, D), j)[0]) for j in range(3)))
            off = [abs(found[k, j] - _highest((one, two, longer[k].numpy()), j)[0]) for j in (0, 2)]
            same.breaks("columns as they are", *off)
            rows = np.linalg.svd(np.stack([one, two], 1), full_matrices=False)[2]  # m 2 p
            seen, long = (np.sqrt(((rows @ A) ** 2).sum(1)) for A in (D, longer[k].numpy()))
            top = seen.max(0)
            plane.add(np.abs(best[k].numpy() - seen))
            plane.add(np.abs(ends[k] - [top.min(), np.median(top), top.max()]))
            plane.breaks("columns as they are", np.abs(best[k].numpy() - long))
            inside = D @ np.linalg.lstsq(D, one.T, rcond=None)[0]
            part.add(np.abs(ln.on_dictionary(start.online, M)[k].numpy() - inside.T))
            if p > d:
                part.breaks("all of it", np.abs(one - inside.T))


def _metrics(W: Array, M: Array) -> Array:
    """Minimum, median, maximum over latents of Eq. 11, [3, *b], of nets [*b, m, p]."""
    best = np.abs(W @ M / np.linalg.norm(W, axis=-1, keepdims=True)).max(-2)
    return np.stack([best.min(-1), np.median(best, -1), best.max(-1)])


def again(one: Array, two: Array, M: Array, noise: float) -> tuple[Array, Array]:
    """The excess of a run from W_0^o, W_0^t over their combinations, and over those that differ
    from neuron to neuron: [3] each.

    By Theorem 2's powers, on the dictionary and off it; by 3000 angles; by a Gram matrix a neuron.
    """
    t, path, on_M = np.arange(1, 200, 8)[:, None, None], 0.0, M @ M.T
    low = 0.05 * noise**2 / (0.2 + noise**2)
    for c, on in ((0.05, on_M), (low, np.eye(len(M)) - on_M)):
        plus, minus = ((0.95 + s * c) ** t * ((one + s * two) @ on) / 2 for s in (1, -1))
        path = path + np.stack([plus + minus, plus - minus])
    after = _metrics(path, M).max((1, 2))
    angle = np.linspace(0, np.pi, 3000)[:, None, None]
    best = _metrics(np.cos(angle) * one + np.sin(angle) * two, M).max(1)
    rows = np.stack([one, two], -2)  # m 2 p
    seen = rows @ M
    square = seen * np.linalg.solve(rows @ rows.swapaxes(1, 2), seen)
    reach = np.sqrt(square.sum(1).max(0))
    return after - best, after - [reach.min(), np.median(reach), reach.max()]


def gap_to_start(after: Tensor, start: ln.Pair, M: Tensor) -> Array:
    """[3, *b]: by how much `after` exceeds the better of the two starting networks."""
    both = [stacked(sc.summary(sc.max_cosine(w, M))) for w in start]
    return (after - torch.maximum(*both)).numpy()


def normalised_distance(
    first: Array, second: Array, views: Array, act: str | None = "relu"
) -> Array:
    """Eq. 4 for ReLU encoders, or linear ones, [...]: W [..., m, p], views [2, n, p]."""
    outputs = []
    for W, view in ((first, views[0]), (second, views[1])):
        u = view @ np.swapaxes(W, -1, -2)
        u = np.where(np.real(u) > 0, u, 0) if act == "relu" else u
        outputs.append(u / np.sqrt((u**2).sum(-1, keepdims=True)))
    return ((outputs[0] - outputs[1]) ** 2).sum(-1).mean(-1)


@check("ncl/def8")
def def8(t: Trial) -> None:
    """Alternating updates of the online and the target network (Sec. 4.1, after Eq. 4).

    Given   random positive networks and masked views, Eq. 4; a linear encoder under the losses and
            batches of the trained runs.
    Claim   A round is two half-steps, each network against the other where it then is: complex
            steps in numpy; the other network keeps every bit and gets no gradient.
    Fails   for both gradients at the start, one loss for both, the target first.
    """
    n, rate = min(t.draws, 30), 0.5
    halves = t.defines("two half-steps", 1e-12, controls=pooled)
    other = t.defines("the other network", 0.0, draws=n)
    for _ in range(n):
        Wo, Wt = t.rng.uniform(0.2, 1, (2, 4, 6)) + 0.2 * t.rng.standard_normal((2, 4, 6))
        x = t.rng.uniform(0.2, 1, (1, 8, 6)) * (t.rng.random((2, 8, 6)) < 0.8)
        x[..., 0] = 1.0  # so that no view is zero
        views, seen = torch.from_numpy(x), []

        def eq4(first: Tensor, second: Tensor, views: Tensor = views, seen: list = seen) -> Tensor:
            seen.append((first.detach(), second, float(second.requires_grad)))
            a, b = (torch.relu(v @ w.mT) for v, w in zip(views, (first, second), strict=True))
            a, b = (torch.nn.functional.normalize(u, dim=-1) for u in (a, b))
            return ((a - b) ** 2).sum(-1).mean()

        def moved(own: Array, other: Array, x: Array = x) -> Array:
            slope = ref.gradient(lambda W: normalised_distance(W, other, x), own[None])[0]
            return own - rate * slope

        pair = ln.Pair(*tensors(Wo, Wt))
        after = ln.alternate(eq4, pair, rate)
        (first, fixed, _), (second, reached, _) = seen
        steady = ((first, pair.online), (fixed, pair.target), (second, pair.target))
        for a, b in (*steady, (reached, after.online)):
            other.add(float((a - b).abs().max()))
        other.add(*(call[2] for call in seen))  # stop gradient
        for a, b in zip(pair, after, strict=True):
            moving = float((a - b).abs().max())
            other.breaks("the network whose turn it is", moving)
        online, found = moved(Wo, Wt), np.stack([w.numpy() for w in after])[None]
        once = ref.gradient(lambda W, o=online, x=x: normalised_distance(o, W, x), Wt[None])[0]
        halves.add(relative(found, np.stack([online, moved(Wt, online)])[None]))
        early = np.stack([online, moved(Wt, Wo)])[None]
        same = np.stack([online, Wt - rate * once])[None]
        halves.breaks("both gradients at the start", relative(found, early))
        halves.breaks("L(W^o, W^t) for both", relative(found, same))
    _turns_of_the_runs(t, n)
    _apart_from_the_start(t)


def _apart_from_the_start(t: Trial) -> None:
    """Where the start itself requires gradients, a half-round does not differentiate through it:
    the loss gets the other network without one, and the result requires none. Control: the network
    that moves."""
    part, rng = t.defines("apart from the start", 0.0), t.stream("apart")
    start = ln.Pair(*(w.requires_grad_() for w in tensors(*rng.standard_normal((2, 3, 4)))))
    given: list[tuple[bool, bool]] = []

    def loss(own: Tensor, other: Tensor) -> Tensor:
        given.append((own.requires_grad, other.requires_grad))
        return (own * other).sum() + (own**2).sum()

    after = ln.alternate(loss, start, 0.1)
    part.add(*(float(w.requires_grad) for w in after), *(float(other) for _, other in given))
    plain = ln.Pair(*tensors(*rng.standard_normal((2, 3, 4))))
    ln.alternate(loss, plain, 0.1)
    part.add(*(float(w.requires_grad) for w in plain))
    part.breaks("the network that moves", *(float(own) for own, _ in given))


def _turns_of_the_runs(t: Trial, n: int) -> None:
    """Two updates with the loss and the batches of `sparse_training`, a linear encoder, against
    complex steps in numpy; [online, target] by turns. Controls: both from the start; the target
    first."""
    size = {"p": 8, "d": 3, "m": 4, "n": 12, "batch": 6, "keep": 0.9}
    part = t.defines("the trained runs", 1e-11, controls=pooled)
    for run in range(n):
        config = st.configuration(run, "NCL-linear", 0.3, lr=0.5, **size)
        keys = cr.split(t.keys(n, "trained runs")[run], 4)
        c = config | st.PROBLEM["setup"](keys[0], config)
        W, views = st.PROBLEM["init"](keys[1], c)["W"].to(F), []
        start, bias = W.numpy(), torch.zeros(2, 4, dtype=F)
        for step in (0, 1):
            own = c | st.turns(config)[step]
            batch = st.PROBLEM["data"](keys[2 + step], torch.tensor(step), own).to(F)
            views.append(batch.numpy())
            free = W.clone().requires_grad_()
            value = st.PROBLEM["loss"]({"W": free, "b": bias}, batch, own)
            W = (free - 0.5 * torch.autograd.grad(value, free)[0]).detach()

        def moved(own: Array, other: Array, x: Array) -> Array:
            slope = ref.gradient(lambda V: normalised_distance(V, other, x, act=None), own[None])
            return own - 0.5 * slope[0]

        def gap(online: Array, target: Array, found: Tensor = W) -> Array:
            return relative(found.numpy()[None], np.stack([online, target])[None])

        online, target = moved(*start, views[0]), moved(*start[::-1], views[0])
        part.add(gap(online, moved(start[1], online, views[1])))
        part.breaks("both gradients at the start", gap(online, moved(*start[::-1], views[1])))
        part.breaks("the target first", gap(moved(start[0], target, views[1]), target))
