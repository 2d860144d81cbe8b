"""Token sequences against loops over samples, fields and filters."""

import math

import numpy as np
import pytest
import torch
from torch.func import grad, vmap

from clcore import random as cr
from clcore.experiments import token_sequences as ts
from clcore.losses import contrast
from clcore.nets.networks import receptive_field_init
from clcore.reference import frequency

pytestmark = pytest.mark.usefixtures("one_thread")
K, T, M, N, G = 4, 6, 3, 9, 7


def patterns(in_set=2, fixed=2, count=G, seed=0):
    return ts.generators(cr.key(seed), in_set, fields=K, tokens=T, count=count, fixed=fixed)


def params(seed=1, outputs=5):
    return {n: t.double() for n, t in receptive_field_init(cr.key(seed), K, M, T, outputs).items()}


def drawn(seed=2):
    return ts.views(cr.key(seed), patterns()[0], N, T)


# ------------------------------------------------------------------------------------------ data


def test_generators_take_their_tokens_from_the_field_s_set():
    found, in_set = ts.generators(cr.key(3), 3, fields=10, tokens=20, count=400, fixed=5)
    assert (in_set.sum(1) == 3).all() and ((found >= 0).sum(1) == 5).all()
    for row in found.tolist():
        assert all(a < 0 or in_set[k, a] for k, a in enumerate(row))
    # Every field and every token of its set about equally often.
    share = torch.stack([(found == a).float().mean(0) for a in range(20)], 1)
    assert torch.allclose(share, in_set * 0.5 / 3, atol=0.07)


def test_generators_of_other_sizes_and_how_often():
    """Frequencies in standard errors; two in seven fields fixed, four of nine tokens in a set."""
    fixed_of, K_, T_, P, count = 2, 7, 9, 4, 6000
    chosen, inside = ts.generators(cr.key(8), P, fields=K_, tokens=T_, count=count, fixed=fixed_of)
    fixed = (chosen >= 0).numpy()
    assert chosen.shape == (count, K_) and (fixed.sum(1) == fixed_of).all()
    for k in range(K_):
        assert frequency(fixed[:, k], fixed_of / K_) < 5
        taken = chosen[:, k].numpy()[fixed[:, k]]
        assert set(taken.tolist()) == set(inside[k].nonzero().flatten().tolist())
        assert all(frequency(taken == a, 1 / P) < 5 for a in inside[k].nonzero().flatten().tolist())
    _, inside = ts.generators(cr.key(9), P, fields=600, tokens=T_, count=1, fixed=fixed_of)
    assert all(frequency(inside[:, a].numpy(), P / T_) < 5 for a in range(T_))


def test_sets_of_tokens_are_uniform_and_differ_between_fields():
    _, in_set = ts.generators(cr.key(4), 3, fields=4000, tokens=6, count=1, fixed=1)
    assert torch.allclose(in_set.float().mean(0), torch.full((6,), 0.5), atol=0.03)
    assert len(torch.unique(in_set, dim=0)) == math.comb(6, 3)


def test_views_keep_the_generator_and_redraw_every_wildcard():
    fixed, _ = patterns(count=1)
    a, b = ts.views(cr.key(5), fixed, 4000, T)
    at = fixed[0] >= 0
    assert (a[:, at] == fixed[0, at]).all() and (b[:, at] == fixed[0, at]).all()
    same = (a[:, ~at] == b[:, ~at]).double().mean()
    assert abs(same - 1 / T) < 0.02
    counts = torch.bincount(torch.cat([a, b])[:, ~at].flatten(), minlength=T).double()
    expected = counts.sum() / T
    assert ((counts - expected) ** 2 / expected).sum() < 20.5  # chi^2, 5 dof, p = 1e-3


def test_a_view_s_generator_is_uniform():
    found = ts.views(cr.key(6), torch.arange(8)[:, None].expand(8, K).contiguous(), 8000, T)
    counts = torch.bincount(found[0, :, 0], minlength=8).double()
    assert (found == found[:, :, :1]).all() and ((counts - 1000) ** 2 / 1000).sum() < 24.4


def test_half_of_the_tokens_are_small():
    assert ts.norms(5.0, 5).tolist() == pytest.approx([0.2, 0.2, 5, 5, 5])
    assert ts.norms(1.0, 4).tolist() == [1, 1, 1, 1]


# ------------------------------------------------------------------------------------------- net


def by_loops(p, tokens, norms, activation, kind, per_view):
    """The net sample by sample, with torch's own functions and gradients stopped by hand."""
    acts = {
        "linear": lambda u: u,
        "relu": torch.relu,
        "leaky_relu": lambda u: torch.nn.functional.leaky_relu(u, 0.05),
        "quadratic": lambda u: u**2,
        "cubic": lambda u: u**3,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
    }
    eye = torch.diag(norms)
    hidden = []
    for view in tokens:
        for sample in view.tolist():
            u = torch.cat([p["W"][k] @ eye[a] for k, a in enumerate(sample)])
            hidden.append(acts[activation](u))
    h = torch.stack(hidden).unflatten(0, (2, -1))
    if kind != "none":
        parts = [h[0], h[1]] if per_view else [h.flatten(0, 1)]
        done = []
        for f in parts:
            mean, var = f.mean(0), f.var(0, correction=0)
            if kind in ("variance", "neither"):
                mean = mean.detach()
            if kind in ("mean", "neither"):
                var = var.detach()
            done.append((f - mean) / (var + 1e-5).sqrt())
        h = torch.cat(done).unflatten(0, (2, -1))
    return h @ p["V"].T


@pytest.mark.parametrize("activation", [*ts.ACTIVATIONS, *ts.NON_HOMOGENEOUS])
@pytest.mark.parametrize("kind", list(ts.NORMALISATIONS))
@pytest.mark.parametrize("per_view", [False, True])
def test_outputs_and_gradients_are_those_of_the_net_sample_by_sample(activation, kind, per_view):
    tokens, norms = drawn(), ts.norms(2.0, T).double()
    settings = (tokens, norms, activation, kind, per_view)
    assert torch.allclose(ts.outputs(params(), *settings), by_loops(params(), *settings))

    def total(net):
        return lambda p: ts.loss(net(p, *settings))

    mine, theirs = grad(total(ts.outputs))(params()), grad(total(by_loops))(params())
    for name in ("W", "V"):
        assert torch.allclose(mine[name], theirs[name], atol=1e-12)


def test_the_four_variants_share_values_and_differ_in_gradient():
    tokens, norms = drawn(), ts.norms(3.0, T).double()
    kinds = ("vanilla", "variance", "mean", "neither")

    def total(p, kind):
        z = ts.outputs(p, tokens, norms, "relu", kind)
        return ts.loss(z), z

    found = {k: grad(total, has_aux=True)(params(), k) for k in kinds}
    for k in kinds[1:]:
        assert torch.allclose(found[k][1], found["vanilla"][1], rtol=0, atol=1e-14)
    for i, a in enumerate(kinds):
        for b in kinds[:i]:
            gap = (found[a][0]["W"] - found[b][0]["W"]).norm() / found[b][0]["W"].norm()
            assert gap > 1e-3, (a, b)


def test_under_vmap_as_alone():
    tokens, norms = drawn(), ts.norms(2.0, T).double()
    some = [params(s) for s in range(3)]
    both = {n: torch.stack([p[n] for p in some]) for n in some[0]}
    z = vmap(lambda p: ts.outputs(p, tokens, norms, "relu", "mean", True))(both)
    for i, p in enumerate(some):
        assert torch.allclose(z[i], ts.outputs(p, tokens, norms, "relu", "mean", True))


# ------------------------------------------------------------------------------------------ loss


def unit_outputs():
    z = torch.randn(2, N, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return z, z / z.norm(dim=-1, keepdim=True)


def test_infonce_is_the_family_s():
    z, unit = unit_outputs()
    expected = contrast.infonce(unit[0], unit[1], tau=0.1, eps=1.0)
    assert torch.allclose(ts.loss(z), expected, rtol=1e-12)
    entropy = ts.loss(z, protocol="released")
    assert torch.allclose(entropy * 0.1 * N, expected, rtol=1e-12)
    assert ts.loss(z, protocol="mean") == entropy
    assert torch.allclose(ts.loss(z, protocol="sum") * 0.1, expected, rtol=1e-12)
    for name, tau in ts.TEMPERATURES.items():
        tempered = contrast.infonce(unit[0], unit[1], tau=tau, eps=1.0)
        assert torch.allclose(ts.loss(z, protocol=name), tempered, rtol=1e-12), name
    raw = contrast.infonce(z[0], z[1], tau=0.7, eps=1.0)
    assert torch.allclose(ts.loss(z, protocol="raw", tau=0.7), raw, rtol=1e-12)
    assert abs(ts.loss(z, tau=0.5) - contrast.infonce(unit[0], unit[1], 0.5, 1.0)) < 1e-12


def test_quadratic_losses_are_their_sums():
    z, y = unit_outputs()
    sims = np.zeros((N, N))
    energy = 0.0
    for i in range(N):
        for j in range(N):
            sims[i, j] = y[0, i] @ (y[1, i] if i == j else y[0, j])
            if i != j:
                pair = (y[0, i] - y[0, j]).square().sum() / 2
                energy += float((y[0, i] - y[1, i]).square().sum() / 2 - pair) / N
    released = (-(1 + 1 / N) * np.diag(sims).mean() + sims.mean()) / 0.1
    assert abs(float(ts.loss(z, "quadratic")) - energy) < 1e-12
    assert abs(float(ts.loss(z, "quadratic", "released")) - released) < 1e-12


@pytest.mark.parametrize("kind", ts.LOSSES)
def test_a_dead_output_gives_finite_gradients(kind):
    z = torch.zeros(2, N, 5, dtype=torch.float64)
    assert torch.isfinite(grad(lambda z: ts.loss(z, kind))(z)).all()


# --------------------------------------------------------------------------------------- metrics


def test_matching_score_by_loops():
    W, chosen = params()["W"], patterns()[1]
    score = 0.0
    for k in range(K):
        inside = [a for a in range(T) if chosen[k, a]]
        for a in inside:
            score += max(float(w[a] / w.norm()) for w in W[k]) / len(inside) / K
    assert abs(float(ts.matching(ts.cosines(W), chosen)) - score) < 1e-14
    exact = torch.eye(T).expand(K, T, T)
    assert ts.matching(ts.cosines(exact), chosen) == 1
    assert ts.matching(ts.cosines(-exact), chosen) == 0


@pytest.mark.parametrize("linear", [False, True])
def test_the_program_s_score_by_loops(linear):
    W = params()["W"]
    found, _ = patterns(count=3)
    present = (found[:, :, None] == torch.arange(T)).any(0)
    assert not present.any(1).all() or (present.sum(1) == 1).any()
    means = []
    for k in range(K):
        each = []
        for a in sorted({int(g[k]) for g in found} - {-1}):
            ratio = W[k][:, a] / (W[k].norm(dim=1) + W[k].abs().max() / 1000)
            each.append(float((ratio.abs() if linear else ratio).max()))
        if each:
            means.append(np.mean(each))
    assert abs(float(ts.released_matching(W, present, linear)) - np.mean(means)) < 1e-14


def scores(W, inside, seen, linear):
    """What a run records of its filters [K, M, T], by loops; inside: R_k, seen: tokens that occur
    in a generator."""
    fields, tokens = inside.shape
    out = dict.fromkeys(ts.FOUND, 0.0)
    means = {name: [] for name in ("chi_plus", "chi_minus", "released_plus", "released_minus")}
    for k, filters in enumerate(W):
        floor = max(abs(filters).max() / 1000, 1e-6)
        norms = [np.sqrt(w @ w) for w in filters]
        pairs = list(zip(filters, norms, strict=True))
        best = [max(w[a] / s for w, s in pairs) for a in range(tokens)]
        program = [
            max((abs(w[a]) if linear else w[a]) / (s + floor) for w, s in pairs)
            for a in range(tokens)
        ]
        for name, mask, values in (
            ("chi_plus", inside[k], best),
            ("chi_minus", ~inside[k], best),
            ("released_plus", seen[k], program),
            ("released_minus", ~seen[k], program),
        ):
            if mask.any():
                means[name].append(np.mean([v for v, m in zip(values, mask, strict=True) if m]))
        hits = [v > 0.9 for v in best]
        out["all_found"] += all(h for h, m in zip(hits, inside[k], strict=True) if m) / fields
        out["any_found"] += any(h for h, m in zip(hits, inside[k], strict=True) if m) / fields
        out["other_found"] += any(h for h, m in zip(hits, inside[k], strict=True) if not m) / fields
    return out | {name: float(np.mean(values)) for name, values in means.items()}


@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("activation", ["linear", "relu"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_a_run_records_by_loops(seed, activation, confined):
    sizes = {"fields": 3, "tokens": 5, "generators": 9, "fixed": 2, "batch": 6}
    c = ts.configuration(0, 2, 5, activation, confined=confined, **sizes)
    c["P"] = torch.tensor(c["P"])
    c |= ts.PROBLEM["setup"](cr.key(seed), c)
    inside, chosen = c["in_set"].numpy(), c["patterns"].numpy()
    seen = np.array([[(chosen[:, k] == a).any() for a in range(5)] for k in range(3)])
    assert (c["present"].numpy() == seen).all()
    assert not (confined and (seen & ~inside).any())
    # Filters are near a token or its opposite, so that some tokens are found and some are not.
    rng = np.random.default_rng(seed)
    W = rng.choice([-1.0, 1.0, 1.0], (3, 6, 1)) * np.eye(5)[rng.integers(0, 5, (3, 6))]
    W = W + 0.15 * rng.standard_normal(W.shape)
    found = ts._metrics({"W": torch.from_numpy(W)}, c)
    right = scores(W, inside, seen, activation == "linear")
    assert {name: float(found[name]) for name in right} == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "least"), [("beta", 1), ("fields", 1), ("tokens", 1), ("generators", 1), ("batch", 2)]
)
def test_the_least_sizes_of_a_run(name, least):
    """A batch has two samples at least, as every sample needs another's."""
    for value in (least, least + 1):
        assert ts.configuration(0, 1, **({"beta": 1, "fixed": 0} | {name: value}))
    with pytest.raises(ValueError, match=name):
        ts.configuration(0, 1, **({"beta": 1, "fixed": 0} | {name: least - 1}))


# --------------------------------------------------------------------------------------- the runs

SMALL = {"fields": 3, "tokens": 4, "generators": 5, "fixed": 2, "batch": 16}


def test_runs_of_several_shapes_and_their_columns():
    configs = [
        ts.configuration(s, P, beta, norm=norm, **SMALL)
        for s in range(2)
        for P, beta in ((1, 2), (2, 1))
        for norm in ("none", "mean")
    ]
    result = ts.run(configs, steps=3, record=1, progress=False)
    assert len(result.table) == 8 * 4 and len(result.stacked) == 2
    alone = ts.run(configs[3:4], steps=3, progress=False)
    assert torch.allclose(result.params(3)["W"], alone.params(0)["W"], atol=1e-6)
    assert set(result.table.query("P == 1").filters) == {2}
    score = ts.matching(ts.cosines(alone.params(0)["W"]), alone.setup(0)["in_set"])
    assert alone.table.chi_plus.iloc[-1] == pytest.approx(float(score), abs=1e-6)


def test_all_tokens_in_the_set_leave_no_irrelevant_one():
    configs = [ts.configuration(0, 4, 1, **SMALL)]
    table = ts.run(configs, steps=1, progress=False).table
    assert table.chi_minus.isna().all() and table.chi_plus.notna().all()


def test_training_finds_the_tokens_of_the_generators():
    sizes = {"fields": 5, "tokens": 6, "generators": 12, "fixed": 3, "batch": 64}
    configs = [ts.configuration(s, 2, 5, protocol="released", norm="mean", **sizes) for s in (0, 1)]
    table = ts.run(configs, steps=600, progress=False).table
    first, last = table[table.step == 0], table[table.step == 600]
    gain = last.chi_plus.mean() - last.chi_minus.mean()
    assert last.chi_plus.mean() > 0.85 and gain > 0.3
    assert gain > first.chi_plus.mean() - first.chi_minus.mean() + 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": 21}, "P: expected 1 to 20 tokens in a field's set, got 21; there are 20 tokens"),
        ({"P": 0}, "P: expected 1 to 20"),
        ({"fixed": 11}, "fixed: expected 0 to 10 fixed positions, got 11; there are 10 fields"),
        ({"beta": 0}, "beta: expected an int >= 1, got 0"),
        ({"batch": 1}, "batch: expected an int >= 2, got 1"),
        ({"activation": "gelu"}, "activation: expected one of linear, relu, leaky_relu, quadratic"),
        ({"kind": "triplet"}, "kind: expected one of infonce, quadratic, got 'triplet'"),
        ({"protocol": "ours"}, "protocol: expected one of paper, released, mean, sum, raw, "),
        ({"norm": "layer"}, "norm: expected one of none, vanilla, variance, mean, neither"),
        ({"zeta": 0.0}, "zeta: expected a norm above 0, got 0.0"),
        ({"zeta": -2.0}, "zeta: expected a norm above 0, got -2.0"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError) as error:
        ts.configuration(**{"seed": 0, "P": 3, "beta": 2} | change)
    assert str(error.value).startswith(message)


def test_one_sample_has_no_negatives_and_no_slope():
    z, _ = unit_outputs()
    assert not torch.func.grad(ts.loss)(z[:, :1]).any()


def test_errors_of_the_loss():
    z, _ = unit_outputs()
    with pytest.raises(ValueError, match=r"tau: expected at least 0.025"):
        ts.loss(z, tau=0.0)
    with pytest.raises(ValueError, match="kind: expected one of infonce, quadratic"):
        ts.loss(z, "mine")
    with pytest.raises(ValueError, match="norm: expected one of"):
        ts.batch_norm(z, z, "batch")


@pytest.mark.parametrize("confined", [True, False])
def test_views_that_are_drawn_ahead_are_those_of_the_step(monkeypatch, confined):
    configs = [ts.configuration(s, 2, 1, "relu", confined=confined, batch=8) for s in (0, 1)]
    ahead = ts.run(configs, 20, record=10, progress=False)
    monkeypatch.delitem(ts.PROBLEM, "ahead")
    alone = ts.run(configs, 20, record=10, progress=False)
    assert ahead.table.equals(alone.table)
    changed = [torch.equal(ahead.params(r)["W"], alone.params(r)["W"]) for r in (0, 1)]
    assert all(changed) and ahead.table.chi_plus.nunique() > 2
