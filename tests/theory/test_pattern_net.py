"""Tree-shaped nets and their data against enumeration, sampling and plain loops."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.func import grad

from clcore import random as cr
from clcore.theory.trees import leaf_patterns, pattern_net, tree_statistics

pytestmark = pytest.mark.usefixtures("one_thread")


def polarity(depth, seed=0, low=0.3):
    return leaf_patterns.random_polarity(cr.key(seed), depth, low, signs=True)


def enumerate_tree(rho, depth):
    """All assignments of a small tree: (latents {path: value}, leaves, probability), z_0 fair."""
    paths = [""] + ["".join(p) for d in range(1, depth + 1) for p in product("01", repeat=d)]
    edge = {path: float(rho[2 ** len(path) - 2 + int(path, 2)]) for path in paths[1:]}
    for values in product((0, 1), repeat=len(paths)):
        z = dict(zip(paths, values, strict=True))
        chance = 0.5
        for path, r in edge.items():
            chance *= (1 + r) / 2 if z[path] == z[path[:-1]] else (1 - r) / 2
        yield z, [z[p] for p in paths if len(p) == depth], chance


def plain_net(params, leaves):
    """Pre-activations {path: [N]} by a loop over the tree, in numpy."""
    depth, below = len(params) // 2, [np.array([float(x)]) for x in leaves]
    out = {}
    for d in range(depth - 1, -1, -1):
        here = []
        for g in range(2**d):
            inputs = np.concatenate(below[2 * g : 2 * g + 2])
            values = params[f"w{d}"][g].numpy() @ inputs + params[f"b{d}"][g].numpy()
            out[format(g, f"0{d}b") if d else ""] = values
            here.append(np.maximum(values, 0))
        below = here
    return out


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_laws_of_patterns_are_those_of_enumeration(depth):
    rho = polarity(depth)
    found = leaf_patterns.pattern_law(rho, 0)[0]
    expected = torch.zeros_like(found)
    for z, leaves, chance in enumerate_tree(rho, depth):
        expected[z[""], int("".join(map(str, leaves)), 2)] += 2 * chance
    assert torch.allclose(found, expected, atol=1e-14)


def test_law_of_the_blocks():
    rho = polarity(5)
    found = leaf_patterns.block_law(rho)
    expected = torch.zeros_like(found)
    for z, blocks, chance in enumerate_tree(rho[:6], 2):
        expected[z[""], int("".join(map(str, blocks)), 2)] += 2 * chance
    assert torch.allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 16, 256])
def test_alias_tables_keep_the_law(n):
    law = cr.uniform(cr.key(1), (3, n), dtype=torch.float64) ** 6 + 1e-12
    law[0, 0] = 0.0 if n > 1 else 1.0
    law = law / law.sum(-1, keepdim=True)
    table = leaf_patterns.alias_table(law)
    stay = (table & (2**25 - 1)).double() / 2**24
    found = (stay / n).scatter_add(-1, table >> 25, (1 - stay) / n)
    assert (found - law).abs().max() <= 2.0**-25
    assert torch.equal(leaf_patterns.alias_table(3 * law), table)


@pytest.mark.parametrize("depth", [3, 5, 6])
def test_views_have_the_law_of_the_tree(depth):
    rho, n = polarity(depth, seed=2), 40_000
    roots = torch.arange(n) % 2
    patterns = leaf_patterns.draw(cr.key(7), leaf_patterns.sampler(rho), roots)
    law = leaf_patterns.pattern_law(rho)
    climb = rho.new_ones(1)
    for d in range(1, depth + 1):  # products of polarities along the paths
        climb = climb.repeat_interleave(2) * rho[2**d - 2 : 2 ** (d + 1) - 2]
        if d == pattern_net.block_depth(depth) or depth == pattern_net.HEIGHT:
            path = climb.clone() if depth != pattern_net.HEIGHT else rho.new_ones(1)
    leaf = leaf_patterns.leaves(patterns, depth).double()
    signs = 2.0 * roots[:, None] - 1
    assert ((2 * leaf - 1) * signs).mean(0).sub(climb).abs().max() < 5 / n**0.5
    given = torch.stack([1 - path, 1 + path]).T / 2  # P(block latent | root = 1)
    for block in range(len(law)):
        counts = torch.bincount(patterns[block][roots == 1], minlength=256) / (n / 2)
        assert (counts - given[block] @ law[block]).abs().max() < 5 / n**0.5
    # Two leaves of different blocks meet through the root only where their paths do.
    both = ((2 * leaf[:, 0] - 1) * (2 * leaf[:, -1] - 1)).mean()
    assert abs(both - climb[0] * climb[-1]) < 5 / n**0.5


@pytest.mark.parametrize(("depth", "width", "signed"), [(1, 3, False), (3, 2, True), (5, 4, False)])
def test_the_tabulated_net_is_the_net(depth, width, signed):
    params = pattern_net.init(cr.key(3), depth, width)
    blocks = 2 ** pattern_net.block_depth(depth)
    size = 2 ** (2**depth // blocks)
    patterns = cr.randint(cr.key(4), (blocks, 20), 0, size)
    leaves = leaf_patterns.leaves(patterns, depth)
    inputs = (2 * leaves - 1 if signed else leaves).double()
    tabulated = pattern_net.forward(params, patterns, signed)
    by_sample = pattern_net.by_sample(params, inputs)
    for row in range(20):
        plain = plain_net(params, inputs[row].tolist())
        assert np.allclose(plain[""], tabulated[row], atol=1e-13)
        for d, values in enumerate(by_sample):
            for g in range(2**d):
                name = format(g, f"0{d}b") if d else ""
                assert np.allclose(plain[name], values[g, row], atol=1e-13)


def test_the_tabulated_gradient_is_the_gradient():
    params = pattern_net.init(cr.key(5), 5, 3)
    patterns = cr.randint(cr.key(6), (4, 30), 0, 256)
    leaves = leaf_patterns.leaves(patterns, 5).double()
    mix = cr.normal(cr.key(7), (30, 3), torch.float64)
    ours = grad(lambda p: (pattern_net.forward(p, patterns) * mix).sum())(params)
    plain = grad(lambda p: (pattern_net.by_sample(p, leaves)[0][0] * mix).sum())(params)
    for name in params:
        assert torch.allclose(ours[name], plain[name], atol=1e-12)


@pytest.mark.parametrize("signed", [False, True])
def test_correlations_are_those_of_enumeration(signed):
    depth, rho = 3, polarity(3, seed=4)
    params = pattern_net.init(cr.key(8), depth, 4)
    nets = {
        leaves: plain_net(params, [2 * x - 1 if signed else x for x in leaves])
        for leaves in product((0, 1), repeat=8)
    }
    states = [(z, nets[tuple(leaves)], p) for z, leaves, p in enumerate_tree(rho, depth)]
    p = [chance for _, _, chance in states]
    for path in ("", "0", "1", "10"):
        table = np.array([[z[path], *f[path]] for z, f, _ in states]).T
        cov = np.cov(table, aweights=p)
        expected = cov[0, 1:] / np.sqrt(cov[0, 0] * np.diag(cov)[1:])
        found = tree_statistics.correlations(params, rho, path, signed)
        assert np.allclose(found, expected, atol=1e-12)


def test_correlations_at_the_top_of_the_paper_s_tree():
    rho, n = polarity(5, seed=5, low=0.7), 100_000
    params = pattern_net.init(cr.key(9), 5, 6)
    roots = torch.arange(n) % 2
    patterns = leaf_patterns.draw(cr.key(10), leaf_patterns.sampler(rho), roots)
    f = pattern_net.forward(params, patterns)
    sampled = np.corrcoef(torch.cat([roots[:, None], f], 1).T.numpy())[0, 1:]
    assert np.allclose(tree_statistics.correlations(params, rho), sampled, atol=0.015)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("path", ["", "10"])
def test_a_constant_node_knows_nothing_at_any_scale(path, scale):
    rho, params = polarity(3, seed=4), pattern_net.init(cr.key(8), 3, 2)
    d, g = len(path), int(path or "0", 2)
    other = float(tree_statistics.correlations(params, rho, path)[1])
    params[f"w{d}"][g, 0] = 0.0
    params |= {n: scale * params[n] for n in (f"w{d}", f"b{d}")}
    found = tree_statistics.correlations(params, rho, path)
    assert found[0] == 0 and float(found[1]) == pytest.approx(other, rel=1e-9)


def test_operator_norms_are_those_of_the_definition():
    """Against enumeration of all leaves and autograd's Jacobians, of the output and of the
    normalised one."""
    depth, rho = 3, polarity(3, seed=6, low=0.6)
    params = pattern_net.init(cr.key(11), depth, 2)
    paths, mean = ("0", "10"), {}
    features = {path: [0.0, 0.0] for path in paths}
    own = {}
    laws = leaf_patterns.pattern_law(rho, 0)[0]
    leaves = leaf_patterns.leaves(torch.arange(256)[None], 3).double()
    for path in paths:
        d, g = len(path), int(path, 2)
        bias = f"b{d}"

        def output(shift, leaf, d=d, g=g, bias=bias):
            moved = dict(params)
            moved[bias] = params[bias].index_add(0, torch.tensor([g]), shift[None])
            return pattern_net.by_sample(moved, leaf[None])[0][0, 0]

        def unit(shift, leaf, output=output):
            f = output(shift, leaf)
            return f / f.norm()

        zero = torch.zeros(2, dtype=torch.float64)
        if d == depth - 1:
            below = leaves[:, 2 * g : 2 * g + 2]
        else:
            values = torch.relu(pattern_net.by_sample(params, leaves)[d + 1])
            below = torch.cat([values[2 * g], values[2 * g + 1]], -1)
        for name, f in (("op", output), ("unit", unit)):
            jac = torch.func.vmap(torch.func.jacrev(f), (None, 0))(zero, leaves)
            K = torch.einsum("bi,bon->bino", below, jac).flatten(1, 2)
            mean[path, name] = [torch.einsum("b,bko->ko", law, K) for law in laws]
        features[path] = [law @ below for law in laws]
        group = torch.relu(pattern_net.by_sample(params, leaves)[d][g])
        own[path] = laws[1] @ group - laws[0] @ group
    found = tree_statistics.operator_norms(
        params, leaf_patterns.sampler(rho), cr.key(12), paths, 200_000
    )
    for path in paths:
        a = features[path][1] - features[path][0]
        assert float(found[path]["cov"]) == pytest.approx(float(a @ a) / 4, rel=0.05)
        size = float(own[path] @ own[path]) / 4
        assert float(found[path]["own"]) == pytest.approx(size, rel=0.05)
        for name in ("op", "unit"):
            D = mean[path, name][1] - mean[path, name][0]
            assert float(found[path][name]) == pytest.approx(float((D @ D.T).norm()) / 4, rel=0.1)


def test_norms_for_signed_leaves_are_those_of_another_net():
    """w (2 x - 1) + b = 2 w x + (b - sum of w), with leaves x of 0 and 1; what the leaves keep
    themselves is four times as much."""
    signed = pattern_net.init(cr.key(15), 3, 4)
    other = signed | {"w2": 2 * signed["w2"], "b2": signed["b2"] - signed["w2"].sum(-1)}
    given = leaf_patterns.sampler(polarity(3, 5)), cr.key(16), ("0", "1", "01", "10"), 40
    found = tree_statistics.operator_norms(signed, *given, signed=True)
    plain = tree_statistics.operator_norms(other, *given)
    for path in ("0", "1"):
        assert {n: float(v) for n, v in found[path].items()} == pytest.approx(
            {n: float(v) for n, v in plain[path].items()}
        )
    for path in ("01", "10"):
        assert float(found[path]["own"]) == pytest.approx(float(plain[path]["own"]))
        assert float(found[path]["cov"]) == pytest.approx(4 * float(plain[path]["cov"]))


def test_rescaled_layers_have_their_old_norm():
    old, new = (pattern_net.init(cr.key(s), 3, 4) for s in (1, 2))
    found = pattern_net.rescaled({n: 3 * t for n, t in new.items()}, old)
    for d in range(3):
        size = [sum(p[f"{n}{d}"].square().sum() for n in "wb") for p in (found, old)]
        assert size[0] == pytest.approx(size[1])
        assert torch.allclose(
            found[f"w{d}"] / new[f"w{d}"], found[f"b{d}"][0, 0] / new[f"b{d}"][0, 0]
        )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pattern_net.check_sizes(0, 2), "at least one layer of edges, got 0"),
        (lambda: pattern_net.check_sizes(3, 0), "at least one node per latent, got 0"),
        (lambda: leaf_patterns.depth_of(torch.ones(5)), "2, 6, 14, 30, ... polarities"),
        (lambda: leaf_patterns.alias_table(torch.ones(3)), "got 3"),
        (lambda: leaf_patterns.random_polarity(cr.key(0), 2, 1.5), "least polarity in"),
        (lambda: tree_statistics.place("s01", 5), "'s101' of the paper is '101'"),
        (lambda: tree_statistics.place("01010", 5), "at most 4 characters"),
    ],
)
def test_errors(call, words):
    with pytest.raises(ValueError, match=words):
        call()
