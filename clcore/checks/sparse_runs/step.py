"""A step of ncl's experiments by hand: minibatches, the loss of every model and its gradient, and
what is measured (Sec. 4.2, 5.2.2, App. A.2).

Loops over samples; a teacher, and SimSiam's targets, are held at their real part while the
parameters take a complex step.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch

from clcore import random as cr
from clcore.experiments import sparse_models as sm
from clcore.experiments import sparse_training as st
from clcore.ledger import Trial, pooled
from clcore.reference import STEP, Array

SIZES = {"m": 6, "p": 6, "d": 3, "n": 20, "batch": 8}
Net = Mapping[str, Array]


def _run(key: torch.Tensor, model: str, protocol: str, **changes: Any) -> dict[str, Any]:
    """A run's settings, its data drawn."""
    c = st.configuration(0, model, 0.5, protocol, **(SIZES | changes))
    return c | st.PROBLEM["setup"](key, c)


# ------------------------------------------------------------------------------------------- data


def _kept(words: Array, count: int, last: bool = False) -> Array:
    """The first bits of words of 64, the lowest first (`last`: the highest)."""
    texts = (format(int(w) % 2**64, "064b") for w in words)
    bits = "".join(text if last else text[::-1] for text in texts)
    return np.array([float(b) for b in bits[:count]])


def _data(t: Trial) -> None:
    """An epoch's minibatches, under masks that are read bit by bit: every sample once, but for a
    last incomplete batch, which only non-contrastive models take. Drawn ahead, and step by step."""
    part = t.defines("minibatches", 0.0, controls=pooled)
    settings = list(product(("NCL-basic", "CL-basic"), ("independent", "dependent"), (0.5, 0.375)))
    for key, (model, mask, keep) in zip(t.keys(len(settings), "data"), settings, strict=True):
        c, seen = _run(key, model, "paper", mask=mask, keep=keep), []
        epoch, turns = 3, st.PROBLEM["turns"](c)
        ahead = st.PROBLEM["ahead"](key, torch.tensor(epoch), c)
        for at, turn in enumerate(turns):
            own = {name: value[at] for name, value in ahead.items()}
            step, rows = torch.tensor(epoch * len(turns) + at), own["samples"][: turn["rows"]]
            found = st.PROBLEM["data"](cr.fold_in(key, step), step, c | turn | own).numpy()
            alone = st.PROBLEM["data"](cr.fold_in(key, step), step, c | turn).numpy()
            part.add(abs(found - alone).max())
            sides, x = 1 + (mask == "independent"), c["x"][rows].numpy()
            for last in (False, True):
                bits = _kept(own["words"].numpy(), sides * 8 * 6, last).reshape(sides, 8, 6)
                bits = np.concatenate([2 * bits, 2 - 2 * bits]) if sides == 1 else bits
                off = abs(found - bits[:, : len(x)] * x).max()
                part.breaks("the highest bit first", off) if last else part.add(off)
            seen += rows.tolist()
        whole = 20 if model == "NCL-basic" else 16
        part.add(abs(len(seen) - whole), abs(len(set(seen)) - whole))


# ------------------------------------------------------------------------------------------- loss


def _layer(net: Net, x: Array, kind: str | None, suffix: str = "") -> Array:
    """A layer of one network on the samples of a view, [N, p]."""
    b, u = net["b" + suffix], np.array([net["W" + suffix] @ row for row in x])
    if "gain" + suffix in net:
        mean = sum(u) / len(u)
        variance = sum((row - mean) ** 2 for row in u) / len(u)
        u = (u - mean) / np.sqrt(variance + 1e-5) * net["gain" + suffix] + net["shift" + suffix]
    elif kind != "paper":
        u = u + b

    def relu(v: Array) -> Array:
        return np.where(v.real > 0, v, 0)

    if kind is None:
        return u
    return relu(u - b) - relu(-u - b) if kind == "paper" else relu(u) - relu(2 * b - u)


def _encoded(net: Net, x: Array, kind: str | None) -> Array:
    h = _layer(net, x, kind)
    return _layer(net, h, kind, "2") if "W2" in net else h


def _cosine(u: Array, v: Array) -> complex:
    """0 where either is zero."""
    sizes = [(w * w).sum() for w in (u, v)]
    if min(s.real for s in sizes) <= 1e-24:
        return 0.0
    return (u * v).sum() / np.sqrt(sizes[0] * sizes[1])


def _non_contrastive(params: Net, views: Array, c: dict, kind: str | None) -> complex:
    turn, nets = c["turn"], {n: w for n, w in params.items() if n not in "Pq"}
    learner = {n: w[turn] for n, w in nets.items()}
    teacher = {n: w[1 - turn].real for n, w in nets.items()}
    own = turn if c["mask"] == "dependent" else 0
    u, v = _encoded(learner, views[own], kind), _encoded(teacher, views[1 - own], kind)
    if c["head"]:
        u = np.array([params["P"] @ row + params["q"] for row in u])
    pairs = list(zip(u, v, strict=True))
    if c["unit"]:
        return sum(2 - 2 * _cosine(a, b) for a, b in pairs) / len(pairs)
    return sum(((a - b) ** 2).sum() for a, b in pairs) / len(pairs)


def _loss(params: Net, views: Array, c: dict) -> complex:
    """Eq. 4 to 6 and 8 on directions, sample by sample."""
    kind = c["protocol"] if c["relu"] else None
    if c["loss_kind"] == "non-contrastive":
        return _non_contrastive(params, views, c, kind)
    between = {"W": "R", "b": "r", "gain": "gainR", "shift": "shiftR"}
    net = {n: w[0] for n, w in params.items() if n not in (*"PqRr", "gainR", "shiftR")}
    h = [_encoded(net, view, kind) for view in views]
    if "R" in params:
        h = [_layer({n: params[o] for n, o in between.items()}, v, kind) for v in h]
    p = [np.array([params["P"] @ r + params["q"] for r in v]) for v in h] if c["head"] else h
    n, tau = len(h[0]), c["temperature"]
    if c["loss_kind"] == "simsiam":
        sides = [_cosine(p[k][i], h[1 - k][i].real) for k in (0, 1) for i in range(n)]
        return -sum(sides) / len(sides)
    every, total = [(k, i) for k in (0, 1) for i in range(n)], 0.0
    both = c["loss_kind"] == "nt-xent"
    anchors = every if both else every[:n]
    for k, i in anchors:
        # ncl Eq. 8 has negatives of the other view only, NT-Xent of both
        far = [p[s][j] for s, j in every if (s, j) != (k, i) and (both or s != k)]
        near = np.exp(_cosine(p[k][i], p[1 - k][i]) / tau)
        total = total - np.log(near / sum(np.exp(_cosine(p[k][i], v) / tau) for v in far))
    return total / len(anchors)


def _gradients(t: Trial) -> None:
    """Of every model under both protocols: the loss that defines it by autograd, and the one of all
    runs at once with its gradient written out. Biases, gains and shifts are drawn as well."""
    part = t.defines("loss and gradient of a step", 1e-8, controls=pooled)
    settings = [(m, p, k) for m in st.MODELS for p in st.PROTOCOLS for k in (0, 1)]
    settings = [s for s in settings if s[2] == 0 or st.MODELS[s[0]]["loss"] == "non-contrastive"]
    rng = t.stream("along")
    for i, (key, (model, protocol, turn)) in enumerate(
        zip(t.keys(len(settings), "step"), settings, strict=True)
    ):
        mask = ("independent", "dependent")[i // 2 % 2]
        unit = model != "NCL-srelu" or protocol == "paper"
        c = _run(key, model, protocol, mask=mask, unit=unit, temperature=0.3)
        step = st.PROBLEM["turns"](c)[turn % c["per_epoch"]] | {"turn": turn}
        views = st.PROBLEM["data"](key, torch.tensor(turn), c | step).double()
        views[:, 0] = 0  # all masked: of some models the output has no direction
        start = st.PROBLEM["init"](key, c)
        params = {
            n: w.double() + 0.2 * torch.from_numpy(rng.standard_normal(w.shape))
            for n, w in start.items()
        }
        leaves = {n: w.clone().requires_grad_() for n, w in params.items()}
        value = st.PROBLEM["loss"](leaves, views, c | step)
        slopes = torch.autograd.grad(value, list(leaves.values()), materialize_grads=True)
        stacked = {n: w[None] for n, w in params.items()}
        values, written = st.PROBLEM["gradient"](stacked, views[None], c | step)
        to = {n: rng.standard_normal(w.shape) for n, w in params.items()}
        moved = {n: w.numpy() + 1j * STEP * to[n] for n, w in params.items()}

        found = [_loss(moved, views.numpy(), c | step)]
        found.append(_loss(moved, views.numpy()[::-1, ::-1], c | step))
        found.append(
            _loss({n: w * (1 + (n[0] == "b")) for n, w in moved.items()}, views.numpy(), c | step)
        )
        right, mixed, bias = (np.array([v.real, v.imag / STEP]) for v in found)
        along = sum((g.numpy() * v).sum() for g, v in zip(slopes, to.values(), strict=True))
        other = sum((written[n][0].numpy() * v).sum() for n, v in to.items())
        for ours in ([value.item(), along], [values.item(), other]):
            part.add(np.abs(right - ours))
        if mask == "dependent" and c["loss_kind"] == "non-contrastive":
            part.breaks("views exchanged", np.abs(mixed - ours))
        if c["relu"]:
            part.breaks("twice the bias", np.abs(bias - ours))


def _together(t: Trial) -> None:
    """Which network learns in which minibatch; and where both do, each from the other as it was,
    the loss is the sum of theirs. Control: the online network's alone."""
    part = t.defines("both networks in a minibatch", 1e-8, controls=pooled)
    rng = t.stream("together")
    models = [m for m, kind in st.MODELS.items() if kind["loss"] == "non-contrastive"]
    for at, (key, model) in enumerate(zip(t.keys(len(models), "together"), models, strict=True)):
        mask = ("independent", "dependent")[at % 2]
        c = _run(key, model, "paper", mask=mask, updates="together")
        step = st.PROBLEM["turns"](c)[0]
        views = st.PROBLEM["data"](key, torch.tensor(0), c | step).double()
        params = {
            n: w.double() + 0.2 * torch.from_numpy(rng.standard_normal(w.shape))
            for n, w in st.PROBLEM["init"](key, c).items()
        }
        to = {n: rng.standard_normal(w.shape) for n, w in params.items()}
        moved = {n: w.numpy() + 1j * STEP * to[n] for n, w in params.items()}
        own, kind = c | {"mask": "dependent"}, c["protocol"] if c["relu"] else None
        # The online network has the first view, the target the second.
        each = [_non_contrastive(moved, views.numpy(), own | {"turn": i}, kind) for i in (0, 1)]
        right, alone = (np.array([v.real, v.imag / STEP]) for v in (sum(each), each[0]))
        stacked = {n: w[None] for n, w in params.items()}
        values, written = st.PROBLEM["gradient"](stacked, views[None], c | step)
        along = sum((written[n][0].numpy() * v).sum() for n, v in to.items())
        value = st.PROBLEM["loss"](params, views, c | step).item()
        part.add(np.abs(right - [values.item(), along]), abs(right[0] - value))
        part.breaks("the online network's alone", np.abs(alone - [values.item(), along]))
    orders = {"by turns": [0, 1, 0], "target first": [1, 0, 1], "together": [2, 2, 2]}
    for updates, wanted in orders.items():
        c = st.configuration(0, "NCL-basic", n=11, batch=4, m=5, p=5, d=3, updates=updates)
        part.add(float([one["turn"] for one in st.turns(c)] != wanted))


def _held(t: Trial) -> None:
    """A teacher, and SimSiam's targets, get no gradient. Control: the other argument."""
    part = t.defines("teachers get no gradient", 0.0)
    rng = t.stream("teachers")
    for loss in (sm.non_contrastive, partial(sm.non_contrastive, unit=False), sm.sim_siam):
        shape = (2, 8, 6) if loss is sm.sim_siam else (8, 6)
        both = [torch.from_numpy(rng.standard_normal(shape)).requires_grad_() for _ in range(2)]
        found = torch.autograd.grad(loss(*both), both, materialize_grads=True)
        learner, teacher = (float(g.abs().max()) for g in found)
        part.add(teacher).breaks("the learner", learner)


def _one_of_two(t: Trial) -> None:
    """BatchNorm is of a layer, and of a view: encoders of two layers with one in the second, or in
    both. Controls: the layers exchanged, one statistic for both views."""
    part, rng = t.defines("BatchNorm of a layer", 1e-12), t.stream("one of two")
    x = rng.standard_normal((2, 5, 4)) * np.array([1, 3])[:, None, None]
    for kind, names in product(("paper", "released"), (("2",), ("", "2"))):
        net = {f"{n}{k}": rng.standard_normal(4) for n in ("b", "gain", "shift") for k in ("", "2")}
        net |= {f"W{k}": rng.standard_normal((4, 4)) for k in ("", "2")}
        net = {n: v for n, v in net.items() if n[0] in "Wb" or n.strip("gainshft") in names}
        swapped = {(n[:-1] if n[-1] == "2" else n + "2"): v for n, v in net.items()}
        found = sm.encode(
            {n: torch.from_numpy(v) for n, v in net.items()}, torch.from_numpy(x), kind
        )
        for ours, view in zip(found.numpy(), x, strict=True):
            part.add(np.abs(ours - _encoded(net, view, kind)).max())
            part.breaks("layers exchanged", np.abs(ours - _encoded(swapped, view, kind)).max())
        whole = _encoded(net, np.concatenate(x), kind).reshape(found.shape)
        part.breaks("one statistic", np.abs(found.numpy() - whole).max())


# --------------------------------------------------------------------------------------- measures


def _measures(t: Trial) -> None:
    """Max-cosines of the first layer and of the product of both, norm and effective rank."""
    part = t.defines("what is measured of an encoder", 1e-5, controls=pooled)
    models, kinds = ("NCL-basic-2L", "CL-basic"), ("rows", "columns")
    for i, key in enumerate(t.keys(min(t.draws, 8), "measures")):
        warm = (None, 0.1)[i // 2 % 2]
        c = _run(
            key, models[i % 2], "paper", normalise=kinds[i % 2], warm=warm, warm_kind=kinds[i % 2]
        )
        params = st.PROBLEM["init"](key, c)
        found = st.metrics(params, c)
        W, M = params["W"][0].double().numpy(), c["dictionary"].double().numpy()
        layers = {"": W} | (
            {"product_": params["W2"][0].double().numpy() @ W} if "W2" in params else {}
        )
        for name, w in layers.items():
            best = sorted(
                max(abs(row @ atom) / np.sqrt((row @ row) * (atom @ atom)) for row in w)
                for atom in M.T
            )
            for which, value in zip(("minimum", "median", "maximum"), best, strict=True):
                part.add(abs(float(found[name + which]) - value))
            part.breaks("the greatest for the least", abs(float(found[name + "minimum"]) - best[2]))
        values = np.linalg.svd(W, compute_uv=False) ** 2
        part.add(abs(float(found["norm"]) - np.sqrt(values.sum())))
        part.add(abs(float(found["rank"]) - values.sum() ** 2 / (values**2).sum()))
        part.breaks("its number of values", abs(float(found["rank"]) - len(values)))
        after = st.PROBLEM["project"](params, c)["W"].double().numpy()
        axis = -1 if c["normalise"] == "rows" else -2
        raw = params["W"].double().numpy()
        part.add(abs(after - raw / np.sqrt((raw**2).sum(axis, keepdims=True))).max())
        part.breaks("not normalised", abs(after - raw).max())


def by_hand(t: Trial) -> None:
    """Minibatches, losses and gradients of all models, and what is measured."""
    _data(t)
    _gradients(t)
    _together(t)
    _measures(t)
    _held(t)
    _one_of_two(t)
