import pytest
import torch

from clcore import random as cr
from clcore.nets import networks as nw

K, M, D, N, OUT = 3, 2, 5, 7, 4
KINDS = list(nw.ACTIVATIONS)


def weights():
    return {n: t.double() for n, t in nw.receptive_field_init(cr.key(1), K, M, D, OUT).items()}


def by_loop(params, x, kind, slope):
    scalar = {
        "linear": lambda u: u,
        "relu": lambda u: max(u, 0.0),
        "leaky_relu": lambda u: u if u > 0 else slope * u,
        "quadratic": lambda u: u**2,
        "cubic": lambda u: u**3,
    }[kind]
    out = torch.zeros(len(x), OUT, dtype=torch.float64)
    for i in range(len(x)):
        for k in range(K):
            for m in range(M):
                u = sum(params["W"][k, m, j].item() * x[i, k, j].item() for j in range(D))
                out[i] += params["V"][:, k * M + m] * scalar(u)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_receptive_field_net_is_its_definition(kind):
    x = cr.normal(cr.key(2), (N, K, D), torch.float64)
    found = nw.receptive_field(weights(), x, kind, 0.2)
    torch.testing.assert_close(found, by_loop(weights(), x, kind, 0.2), rtol=1e-12, atol=1e-12)


def test_sizes_of_a_net_are_at_least_one():
    with pytest.raises(ValueError, match=r"sizes: expected each .* at least 1, got \[5, 0, 2\]"):
        nw.mlp_init(cr.key(0), (5, 0, 2))


def test_an_embedded_batch_lies_field_by_field():
    tokens = cr.randint(cr.key(3), (N, K), 0, 6)
    embedding = cr.normal(cr.key(4), (6, D), torch.float64)
    x = nw.embed(tokens, embedding)
    assert torch.equal(x, embedding[tokens])
    assert x.transpose(0, 1).is_contiguous()


@pytest.mark.parametrize(("kind", "degree"), [*((k, 1) for k in KINDS[:3]), ("quadratic", 2)])
def test_activations_are_homogeneous(kind, degree):
    u = cr.normal(cr.key(5), 100, torch.float64)
    torch.testing.assert_close(nw.activate(3 * u, kind), 3**degree * nw.activate(u, kind))
    slope = torch.func.vmap(torch.func.grad(lambda v: nw.activate(v, kind)))(u)
    torch.testing.assert_close(slope * u, degree * nw.activate(u, kind))


def test_the_inits_have_the_stated_law():
    p = nw.receptive_field_init(cr.key(0), 10, 15, 20, 50)
    assert p["W"].shape == (10, 15, 20) and p["V"].shape == (50, 150)
    for name, fan_in in (("W", 20), ("V", 150)):
        scaled = p[name] * fan_in**0.5
        assert scaled.abs().max() <= 1 and abs(scaled.var() - 1 / 3) < 0.02
    q = nw.mlp_init(cr.key(0), [40, 300, 50])
    assert [list(w.shape) for w in q.values()] == [[300, 40], [50, 300]]
    assert abs(q["W1"].var() * 40 - 1) < 0.05 and abs(q["W2"].var() * 300 - 1) < 0.05


def test_mlp_applies_the_activation_between_layers_only():
    p = {n: w.double() for n, w in nw.mlp_init(cr.key(1), [3, 4, 5, 2]).items()}
    x = cr.normal(cr.key(2), (6, 3), torch.float64)
    one = (p["W1"] @ x.T).clamp(min=0)
    two = (p["W2"] @ one).clamp(min=0)
    torch.testing.assert_close(nw.mlp(p, x, "relu"), (p["W3"] @ two).T)
    assert (nw.mlp({"W1": p["W1"]}, x, "relu") < 0).any()


def test_errors_say_what_is_expected():
    with pytest.raises(ValueError, match="expected one of linear, relu, leaky_relu, quadratic"):
        nw.activate(torch.ones(1), "sigmoid")
    with pytest.raises(ValueError, match="expected an input and an output size at least"):
        nw.mlp_init(cr.key(0), [3])
