"""What the dual linear network can reach: Corollary 1, and training by turns (ncl Sec. 4.1, 5.2.1).

The corollary speaks of W, Theorem 2 of W M. For p = d that is the same; for p > d a row also has a
part off the dictionary, which the dynamics shrinks and no combination of the start does.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from clcore import random as cr
from clcore import reference as ref
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
    start: ln.Pair, M: Tensor, noise: float, kind: str = "signed", beta: float = 0.2
) -> Tensor:
    """[3, *b]: the best minimum, median and maximum max-cosine of both networks at every eighth of
    200 exact steps with c = 0.05 and lambda = 1 - c: neither explodes nor vanishes. kind: of the
    latents, whose E[z z^T] is diagonal only for "signed"."""
    d, keep, steps = M.shape[-1], 0.5, 200
    moment = ln.second_moment(M, ln.latent_moment(d, beta, kind), noise)
    rates = torch.full((steps,), 0.05 / (2 * keep**2 * (beta + noise**2)), dtype=F)
    path = ln.trajectory(start, moment, keep, rates, torch.full((steps,), 0.95, dtype=F))
    seen = torch.cat([w[1::8] for w in path])
    return torch.stack(list(sc.summary(sc.max_cosine(seen, M)).values())).amax(1)


def stacked(scores: dict[str, Tensor]) -> Tensor:
    """Minimum, median and maximum max-cosine, stacked: [3, *b]."""
    return torch.stack(list(scores.values()))


@check("ncl/cor1")
def cor1(t: Trial) -> None:
    """Linear networks get no better max-cosines than combinations of their start (Corollary 1).

    Given   exact trajectories from random starts, signed latents, two noise levels, p = d and p
            > d; the best a W_0^o + b W_0^t by search.
    Claim   Minimum, median and maximum max-cosine of both networks never exceed the combination's.
    Fails   for p > d, by far. Corrected: combinations of the starts projected on the dictionary.
            Controls: the better start alone, which training exceeds; 0/1 latents at p = d;
            corrected, starts that are not projected, as printed.
    """
    # controls=worst: a control fails if training exceeds it at one net.
    square, tall = (t.part(name, 1e-8, controls=worst) for name in ("p = d", "p > d"))
    projected = t.corrected("p > d", 1e-8, controls=worst)
    alone, total = "the better start alone", {square.name: 0, tall.name: 0}
    neuron = []
    for part, sizes in ((square, SQUARE), (tall, TALL)):
        for p, d, m in sizes:
            many = max(12, min(t.draws // 5, 100))
            count = max(2, many // 6) if m == 50 else min(t.draws, many)
            start, M = world(t.keys(count, f"starts {p} {d} {m}"), p, d, m)
            combined = stacked(ln.best_combination(start, M))
            for kind in ("none", "std"):
                after = learned(start, M, sc.noise_std(d, kind))
                total[part.name] += count

                # No better than a combination of the start.
                part.add((after - combined).numpy())
                part.breaks(alone, gap_to_start(after, start, M))
                if p == d:
                    binary = learned(start, M, sc.noise_std(d, kind), "binary")
                    part.breaks("0/1 latents", (binary - combined).numpy())
                if p > d:
                    # The excess once more, in numpy; and over a combination of each neuron's own.
                    runs = zip(*(x.numpy() for x in (*start, M)), strict=True)
                    found = np.stack([again(*run, sc.noise_std(d, kind)) for run in runs])
                    tall.fails_by(found.T, within=2e-3)
                    neuron.append((after - stacked(ln.best_per_neuron(start, M))).max().item())

                    # No better than a combination of the start on the dictionary.
                    flat = ln.Pair(*(ln.on_dictionary(w, M) for w in start))
                    projected.add((after - stacked(ln.best_combination(flat, M))).numpy())
                    projected.breaks(alone, gap_to_start(after, flat, M))
                    projected.breaks("not projected", (after - combined).numpy())
    tall.says(neuron=max(neuron))
    for part in (square, tall, projected):
        part.draws = total[part.name]


def _metrics(W: Array, M: Array) -> Array:
    """Minimum, median, maximum over latents of Eq. 11, [3, *b], of nets [*b, m, p]."""
    best = np.abs(W @ M / np.linalg.norm(W, axis=-1, keepdims=True)).max(-2)
    return np.stack([best.min(-1), np.median(best, -1), best.max(-1)])


def again(one: Array, two: Array, M: Array, noise: float) -> Array:
    """The excess of a run from W_0^o, W_0^t over their combinations, [3].

    The run by Theorem 2's powers, on the dictionary and off it; combinations at 3000 angles.
    """
    t, path, on_M = np.arange(1, 200, 8)[:, None, None], 0.0, M @ M.T
    low = 0.05 * noise**2 / (0.2 + noise**2)
    for c, on in ((0.05, on_M), (low, np.eye(len(M)) - on_M)):
        plus, minus = ((0.95 + s * c) ** t * ((one + s * two) @ on) / 2 for s in (1, -1))
        path = path + np.stack([plus + minus, plus - minus])
    after = _metrics(path, M).max((1, 2))
    angle = np.linspace(0, np.pi, 3000)[:, None, None]
    return after - _metrics(np.cos(angle) * one + np.sin(angle) * two, M).max(1)


def gap_to_start(after: Tensor, start: ln.Pair, M: Tensor) -> Array:
    """[3, *b]: by how much `after` exceeds the better of the two starting networks."""
    both = [stacked(sc.summary(sc.max_cosine(w, M))) for w in start]
    return (after - torch.maximum(*both)).numpy()


@check("ncl/def8")
def def8(t: Trial) -> None:
    """Alternating updates of the online and the target network (Sec. 4.1, after Eq. 4).

    Given   random ReLU networks, nearly all entries positive, and two masked views; Eq. 4.
    Claim   (1) A round is two half-steps, each network against the other where it then is: the
            library against complex steps in numpy. (2) In a half-step the other network keeps every
            bit and gets no gradient.
    Fails   (1) for both gradients at the start, and for L(W^o, W^t) in both half-steps, where the
            network that moves should come first; (2) for the network whose turn it is.
    """
    rounds, rate = min(t.draws, 30), 0.5
    halves = t.defines("two half-steps", 1e-12, controls=pooled)
    other = t.defines("the other network", 0.0, draws=rounds)
    for _ in range(rounds):
        Wo, Wt, views = _networks_and_views(t.rng)
        start = ln.Pair(*tensors(Wo, Wt))
        seen: list[tuple[Tensor, Tensor]] = []
        after = ln.alternate(_eq4(torch.from_numpy(views), seen), start, rate)

        # (1) The online network takes a step against the target, the target against its end.
        online = Wo - rate * _slope(Wo, Wt, views)
        found = np.stack([w.numpy() for w in after])[None]
        halves.add(relative(found, np.stack([online, Wt - rate * _slope(Wt, online, views)])[None]))
        early = Wt - rate * _slope(Wt, Wo, views)
        halves.breaks(
            "both gradients at the start", relative(found, np.stack([online, early])[None])
        )
        one_loss = Wt - rate * _slope(Wt, online, views, own_first=False)
        halves.breaks("L(W^o, W^t) for both", relative(found, np.stack([online, one_loss])[None]))

        # (2) In a half-step the other network stays where it is, and gets no gradient.
        (first, held), (second, reached) = seen
        met = ((first, start.online), (held, start.target))
        met += ((second, start.target), (reached, after.online))
        other.add(*(float((a - b).abs().max()) for a, b in met))
        other.add(*(float(fixed.requires_grad) for _, fixed in seen))
        for before, moved in zip(start, after, strict=True):
            moving = float((before - moved).abs().max())
            other.breaks("the network whose turn it is", moving)


def _networks_and_views(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Two networks [4, 6], nearly all entries positive, and masked views [2, 8, 6], none zero."""
    Wo, Wt = rng.uniform(0.2, 1, (2, 4, 6)) + 0.2 * rng.standard_normal((2, 4, 6))
    views = rng.uniform(0.2, 1, (1, 8, 6)) * (rng.random((2, 8, 6)) < 0.8)
    views[..., 0] = 1.0
    return Wo, Wt, views


def _eq4(views: Tensor, seen: list[tuple[Tensor, Tensor]]) -> Callable[[Tensor, Tensor], Tensor]:
    """Eq. 4 of ReLU encoders in torch; `seen` gets the networks that it is called with."""

    def loss(own: Tensor, other: Tensor) -> Tensor:
        seen.append((own.detach(), other))
        a, b = (torch.relu(view @ W.mT) for view, W in zip(views, (own, other), strict=True))
        a, b = (torch.nn.functional.normalize(u, dim=-1) for u in (a, b))
        return ((a - b) ** 2).sum(-1).mean()

    return loss


def _slope(moved: Array, held: Array, views: Array, own_first: bool = True) -> Array:
    """The gradient of Eq. 4 with respect to the network that moves, by complex steps; it sees the
    first view, or the second."""

    def loss(W: Array) -> Array:
        pair = (W, held) if own_first else (held, W)
        each = zip(pair, views, strict=True)
        outputs = [ref.rectified(view @ np.swapaxes(net, -1, -2)) for net, view in each]
        a, b = (u / np.sqrt((u**2).sum(-1, keepdims=True)) for u in outputs)
        return ((a - b) ** 2).sum(-1).mean(-1)

    return ref.gradient(loss, moved[None])[0]
