"""The binary latent model: exact moments against enumeration, sampling against both."""

from itertools import product

import pytest
import torch

from clcore import random
from clcore.theory.relu import binary_latent as bl

KEYS = random.fold_in(random.key(5), torch.arange(3))


@pytest.fixture
def model():
    return bl.draw(KEYS, 2, 3)


def enumerated(model):
    """V[x] and Delta of the first model of a batch, by a loop over y and all states."""
    p1, table, values = (v[0] for v in model)
    K, S = table.shape[1:]
    mean, square = torch.zeros(2, K * values.shape[-1], dtype=torch.float64), 0.0
    for c, states in product((0, 1), product(range(S), repeat=K)):
        x = torch.cat([values[k, s] for k, s in enumerate(states)])
        p = p1 if c else 1 - p1
        for k, s in enumerate(states):
            p = p * table[c, k, s]
        mean[c] += p * x
        square = square + p * torch.outer(x, x)
    total = mean.sum(0)
    return square - torch.outer(total, total), mean[1] / p1 - mean[0] / (1 - p1)


def test_a_model_is_one_of_assumption_1(model):
    assert (model.values >= 0).all() and ((model.values > 0).sum(-1) <= 1).all()
    assert (model.values[..., :3, :] > 0).any(-2).all()
    assert (model.values[..., -1, :] == 0).all()
    assert torch.allclose(model.table.sum(-1), torch.ones(3, 2, 2, dtype=torch.float64))
    assert ((model.p1 > 0.05) & (model.p1 < 0.95)).all()


def test_closed_forms_against_enumeration(model):
    variance, delta = enumerated(model)
    assert torch.allclose(bl.covariance(model)[0], variance, atol=1e-14)
    assert torch.allclose(bl.difference(model)[0].flatten(), delta, atol=1e-14)
    p = model.p1[0] * (1 - model.p1[0])
    rest = variance - p * torch.outer(delta, delta)
    assert torch.allclose(bl.within(model)[0], rest, atol=1e-14)
    assert rest[:3, 3:].abs().max() < 1e-14 < rest[:3, :3].abs().min()


def test_joint_states_are_a_distribution_with_the_model_s_moments(model):
    chance, states = bl.joint(model)
    assert chance.shape == (3, 2, 25) and states.shape == (25, 2)
    assert torch.allclose(chance.sum(-1), bl.priors(model))
    x = bl.inputs(model, states.expand(3, -1, -1)).flatten(-2)
    weight = chance.sum(-2)[..., None]
    mean = (weight * x).sum(-2)
    square = (weight * x).transpose(-1, -2) @ x
    variance = square - mean[..., :, None] * mean[..., None, :]
    assert torch.allclose(variance, bl.covariance(model), atol=1e-13)
    assert torch.allclose((weight * x**2).sum(-2), bl.second_moments(model).flatten(-2))


def test_samples_have_the_model_s_moments(model):
    y, x = bl.sample(KEYS, model, 40_000)
    assert torch.allclose(y.double().mean(-1), model.p1, atol=0.01)
    for row in range(3):
        one, zero = (x[row][y[row] == c].mean(0) for c in (1, 0))
        assert torch.allclose(one - zero, bl.difference(model)[row], atol=0.05)
        assert torch.allclose(x[row].flatten(1).T.cov(), bl.covariance(model)[row], atol=0.02)


def test_a_draw_beyond_the_sum_of_a_law_is_its_last_value(model):
    short = model._replace(table=0.5 * model.table)
    _, x = bl.sample(KEYS, short, 2000)
    last = torch.full((3, 1, model.table.shape[-2]), model.table.shape[-1] - 1)
    every = (x == bl.inputs(short, last)).flatten(2).all(-1).double().mean(-1)
    assert (every > 0.5 ** model.table.shape[-2] - 0.05).all()


def test_a_model_s_samples_do_not_depend_on_its_batch(model):
    alone = bl.Model(*(v[1] for v in model))
    assert bl.sample(KEYS, model, 20)[1][1].equal(bl.sample(KEYS[1], alone, 20)[1])


@pytest.mark.parametrize("shared", [False, True])
def test_augmentation_has_the_variance_it_was_given(model, shared):
    _, x = bl.sample(KEYS, model, 40_000)
    variance = torch.tensor([0.0, 0.1, 2.0], dtype=torch.float64).expand(3, 2, 3)
    x2 = bl.scaled(KEYS + 1, x, variance, shared)
    gap = (x2 - x).flatten(-2)
    assert (x2 >= 0).all() and (gap.mean(-2).abs() < 0.03).all()
    D = gap.transpose(-1, -2) @ gap / 2 / 40_000
    expected = (0.7 if shared else variance) * bl.second_moments(model) / 2
    assert torch.allclose(D.diagonal(dim1=-2, dim2=-1), expected.flatten(-2), atol=0.03)
    across = D[..., :3, 3:].abs().amax((-1, -2))
    assert ((across > 0.03) if shared else (across < 0.02)).all()


def test_augmentations_of_theorem_6(model):
    delta = bl.difference(model).flatten(-2)
    weak = bl.weak_augmentation(model)
    X = bl.contrastive(model, weak)
    p = (model.p1 * (1 - model.p1))[:, None]
    assert torch.allclose(X.diagonal(dim1=-2, dim2=-1), p * delta**2)
    strong = bl.strong_augmentation(model, 0.25, 0.1)
    assert torch.allclose(strong - weak, 0.25 * (delta**2 + 0.1))
    eta, strength = 0.1 + delta.abs(), torch.tensor([0.2, 0.5, 0.7], dtype=torch.float64)
    own = bl.strong_augmentation(model, strength, eta)  # one a model, one a feature
    assert torch.allclose(own - weak, strength[:, None] * (delta**2 + eta))
    variance = bl.covariance(model).diagonal(dim1=-2, dim2=-1)
    assert torch.allclose(weak, variance - p * delta**2, atol=1e-14)
    each = bl.strong_augmentation(model, model.p1 * (1 - model.p1))
    X = bl.contrastive(model, each).diagonal(dim1=-2, dim2=-1)
    assert X.abs().max() < 1e-14
