"""How runs of ddn Tables 4, 6 and Figs. 13, 14 are trained and measured, against enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
import torch
import tree_by_hand as hand

from clcore import random
from clcore.experiments import tree_contrast as tc
from clcore.reference import STEP, kolmogorov
from clcore.theory.trees import leaf_patterns, pattern_net

pytestmark = pytest.mark.usefixtures("one_thread")
STANDARD_ERRORS = 6.5
CASES = [(3, ("", "0", "11"), False), (3, ("", "1"), True), (5, ("101", "0111"), False)]
"""(depth, latents, whether leaves are -1 and 1): of the root's 32 leaves in a tree of depth 5 there
are too many patterns."""


def numpy_net(net):
    return {name: value.detach().numpy() for name, value in net.items()}


# --------------------------------------------------------------------------------------- measures


def recorded(net, rho, path, signed):
    """NC of a group as a run records it."""
    measure = tc.metrics((path,), (), 0)
    return float(measure(net, {"polarity": rho, "signed": signed})[f"nc_s{path}"])


@pytest.mark.parametrize(("depth", "paths", "signed"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_nc_is_the_largest_absolute_correlation(depth, paths, signed, seed):
    """Also with the group's weights negated, which turns every sign."""
    key = random.key(seed)
    rho = leaf_patterns.random_polarity(random.fold_in(key, 1), depth, 0.3, signs=True)
    net = pattern_net.init(key, depth, 3)
    for path, sign in product(paths, (1, -1)):
        turned = {n: sign * v if n[1:] == str(len(path)) else v for n, v in net.items()}
        expected = np.abs(hand.correlations(numpy_net(turned), rho.numpy(), path, signed)).max()
        assert recorded(turned, rho, path, signed) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("signed", [False, True])
def test_correlations_of_every_node_with_their_signs(signed):
    """With `each`, in the order of a group's nodes; without, none of them."""
    key, paths = random.key(3), ("0", "11")
    rho = leaf_patterns.random_polarity(random.fold_in(key, 1), 3, 0.3, signs=True)
    net, c = pattern_net.init(key, 3, 3), {"polarity": rho, "signed": signed}
    found = tc.metrics(paths, (), 0, each=True)(net, c)
    assert {n[:2] for n in tc.metrics(paths, (), 0)(net, c)} == {"nc"}
    for path in paths:
        expected = hand.correlations(numpy_net(net), rho.numpy(), path, signed)
        ours = [float(found[f"c_s{path}_{k}"]) for k in range(3)]
        assert ours == pytest.approx(list(expected), abs=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize(("depth", "paths", "signed"), CASES[:2])
def test_a_node_without_weights_knows_nothing_at_any_scale(depth, paths, signed, scale):
    key = random.key(4)
    rho = leaf_patterns.random_polarity(random.fold_in(key, 1), depth, 0.3, signs=True)
    for path in paths:
        d, net = len(path), dict(pattern_net.init(key, depth, 3))
        net[f"w{d}"] = net[f"w{d}"].clone()
        net[f"w{d}"][int(path or "0", 2), 0] = 0.0
        net |= {f"{n}{d}": scale * net[f"{n}{d}"] for n in "wb"}
        others = numpy_net(net)
        others |= {f"{n}{d}": others[f"{n}{d}"][:, 1:] for n in "wb"}
        best = np.abs(hand.correlations(others, rho.numpy(), path, signed)).max()
        assert recorded(net, rho, path, signed) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("path", ["0", "1", "01", "10", "11"])
def test_norms_of_operators_by_loops_and_complex_steps(path, signed):
    """Of a net that was trained some way, and of the same rescaled to its first norms."""
    samples, depth, key = 24, 3, random.key(5 + signed)
    c = tc.configuration(0, 0.6, 3, depth, signed=signed)
    c |= tc.PROBLEM["setup"](key, c)
    first = tc.PROBLEM["init"](key, c)
    net = {n: w * (1 + 0.5 * k) for k, (n, w) in enumerate(first.items())}
    net["w0"] = net["w0"] + pattern_net.init(key + 1, depth, 3)["w0"]
    found = tc.metrics((), (path,), samples)(net, c)
    roots = torch.tensor([0, 1]).repeat_interleave(samples)
    leaves = hand.spelled(leaf_patterns.draw(c["probe"], c, roots).numpy(), depth, signed)
    start, now = numpy_net(pattern_net.init(c["net"], depth, 3)), numpy_net(net)
    for suffix, of in (("", now), ("_rescaled", hand.rescaled(now, start))):
        for what, values in hand.features(of, path, leaves).items():
            size = 1e-3 * (values**2).mean()  # a norm may be 0 but for rounding
            expected = hand.norm(values)
            ours = float(found[f"{what}{suffix}_s{path}"])
            assert abs(ours - expected) <= 1e-10 * max(expected, size, 1e-300), what


# ------------------------------------------------------------------------------------------ views


def drawn_law(table):
    """The law from which one of Walker's tables draws: an entry stays below its threshold."""
    out = np.zeros(len(table))
    for place, entry in enumerate(table.tolist()):
        stay, alias = entry % 2**25 / 2**24, entry >> 25
        out[place] += stay / len(table)
        out[alias] += (1 - stay) / len(table)
    return out


def off(patterns, rho, depth):
    """How far the signs of views x_1, x_+, x_- are from `hand.pairs`, in standard errors."""
    first, plus, minus = np.split(hand.spelled(patterns, depth, True), 3)
    own, shared = hand.pairs(rho, depth)
    expected = ((first, own), (plus, shared), (minus, 0 * shared))
    return max(
        float(np.abs(first.T @ x / len(first) - mean).max()) * len(first) ** 0.5
        for x, mean in expected
    )


@pytest.mark.parametrize("seed", range(2))
def test_views_have_the_law_of_the_tree(seed):
    key = random.key(seed)
    c = tc.configuration(0, 0.7, 2, signs=True)
    c |= tc.PROBLEM["setup"](key, c)
    rho, depth, top = c["polarity"].numpy(), c["depth"], pattern_net.block_depth(c["depth"])
    blocks = ["".join(path) for path in product("01", repeat=top)]
    for found, expected in (
        (c["states"], hand.law(rho[: 2 ** (top + 1) - 2], "", top)),
        (c["patterns"], np.concatenate([hand.law(rho, path, depth) for path in blocks])),
    ):
        rows = np.array([drawn_law(row) for row in found.flatten(0, -2).numpy()])
        np.testing.assert_allclose(rows, expected, atol=1e-7)
    assert off(tc.views(key, c, 2000).numpy(), rho, depth) < STANDARD_ERRORS
    apart = tc.views(key, c, 2000, shuffled=True).numpy()
    assert off(apart, rho, depth) > STANDARD_ERRORS  # each view has a root of its own
    roots = torch.arange(4000) % 2
    single = hand.spelled(leaf_patterns.draw(key, c, roots).numpy(), depth, True)
    told = hand.down(rho, depth) - (2 * roots.numpy() - 1) @ single / len(single)
    assert np.abs(told).max() * len(single) ** 0.5 < STANDARD_ERRORS


@pytest.mark.parametrize("depth", [4, 5])
def test_views_where_blocks_know_next_to_nothing_of_one_another(depth):
    """And leaves a good deal of their block's latent: numbers drawn for two blocks at once show."""
    rng, top = np.random.default_rng(depth), 2 ** (pattern_net.block_depth(depth) + 1) - 2
    low, high = np.repeat([[0.0, 0.5], [0.1, 0.8]], [top, 2 ** (depth + 1) - 2 - top], 1)
    rho = rng.uniform(low, high)
    tables = leaf_patterns.sampler(torch.from_numpy(rho))
    patterns = tc.views(random.key(depth), tables, 8000).numpy()
    assert off(patterns, rho, depth) < STANDARD_ERRORS
    assert off(patterns[[0] * len(patterns)], rho, depth) > STANDARD_ERRORS


@pytest.mark.parametrize("depth", [2, 4, 5])
def test_leaves_that_patterns_spell(depth):
    c, key = tc.configuration(0, 0.7, 2, depth), random.key(depth)
    patterns = tc.views(key, c | tc.PROBLEM["setup"](key, c), 50)
    expected = hand.spelled(patterns.numpy(), depth)
    assert (leaf_patterns.leaves(patterns, depth).numpy() == expected).all()


# ------------------------------------------------------------------------------------ loss, starts


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", tc.LOSSES)
@pytest.mark.parametrize("depth", [5, 2])
def test_loss_of_a_batch_and_its_gradient(depth, kind, signed):
    """The gradient along a random direction."""
    key, rng = random.key(depth), np.random.default_rng(depth)
    c = tc.configuration(0, 0.7, 3, depth, kind, signed=signed)
    c |= tc.PROBLEM["setup"](key, c)
    params = {n: w.requires_grad_() for n, w in tc.PROBLEM["init"](key, c).items()}
    patterns = tc.PROBLEM["data"](key, torch.tensor(0), c)
    value = tc.PROBLEM["loss"](params, patterns, c)
    grads = torch.autograd.grad(value, list(params.values()))
    along = {n: rng.standard_normal(w.shape) for n, w in params.items()}
    slope = sum((g.numpy() * v).sum() for g, v in zip(grads, along.values(), strict=True))
    moved = {n: w + 1j * STEP * along[n] for n, w in numpy_net(params).items()}
    f = hand.group(moved, "", hand.spelled(patterns.numpy(), depth, signed))
    expected = hand.loss(f.reshape(3, -1, f.shape[-1]), kind, tc.TEMPERATURE)
    assert value.item() == pytest.approx(expected.real, abs=1e-10)
    assert slope == pytest.approx(expected.imag / STEP, abs=1e-10)


def test_starts_are_uniform_within_the_root_of_the_fan_in_and_apart():
    nets = [pattern_net.init(key, 3, 24) for key in random.split(random.key(1), 8)]
    values = {n: torch.stack([net[n] for net in nets]).flatten().numpy() for n in nets[0]}
    for name, x in values.items():
        bound = (2 if name[1:] == "2" else 2 * 24) ** -0.5
        assert kolmogorov(x, -bound, bound) < 3
    for a, b in combinations(values.values(), 2):
        n = min(len(a), len(b))
        assert np.sqrt(n) * abs(np.corrcoef(a[:n], b[:n])[0, 1]) < 5
    nets = [pattern_net.init(key, 3, 4) for key in random.split(random.key(2), 40)]
    rows = [torch.stack([net[n].flatten()[:4] for net in nets]).flatten().numpy() for n in nets[0]]
    for a, b in combinations(rows, 2):  # the first values of a kind and depth
        assert np.sqrt(len(a)) * abs(np.corrcoef(a, b)[0, 1]) < 5
