"""Frozen features: how they are taken, and both classifiers against independent ones."""

import dataclasses
import logging
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from clcore.images import evaluation, image_sets
from clcore.nets.resnet import ResNet


@pytest.fixture(scope="module")
def clouds():
    """Three overlapping classes in five dimensions of different scales."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    x = rng.normal(size=(600, 5)) + rng.normal(size=(3, 5))[labels]
    x = torch.from_numpy(x * [1, 10, 0.1, 1, 3] + 2)
    labels = torch.from_numpy(labels)
    return x[:400], labels[:400], x[400:], labels[400:]


def test_features_are_of_whole_images_in_evaluation_mode(one_thread):
    images = image_sets.load("digits", "test")
    net = ResNet("small", 4, 1).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = evaluation.features(net, images, batch=100)
    assert net.training and all(v.equal(before[n]) for n, v in net.state_dict().items())
    net.eval()
    with torch.no_grad():
        direct = net(torch.from_numpy(images.pixels / np.float32(255)))
    assert torch.allclose(found, direct, atol=1e-5) and not found.requires_grad
    assert found.shape == (len(images), 32)
    again = evaluation.features(net, images)  # in evaluation already, and left there
    assert not net.training and torch.allclose(again, direct, atol=1e-5)


@pytest.mark.parametrize("penalty", [1e-3, 0.1])
def test_linear_probe_is_logistic_regression(clouds, penalty):
    a, la, b, lb = (part.numpy() for part in clouds)
    mean, scale = a.mean(0), a.std(0, ddof=1)
    a, b = (a - mean) / scale, (b - mean) / scale
    other = LogisticRegression(C=1 / (penalty * len(a)), tol=1e-8, max_iter=10_000).fit(a, la)
    found = evaluation.linear_probe(*clouds, penalty=penalty)
    assert found.converged and found.steps > 3
    assert found.accuracy == other.score(b, lb)
    assert 0.4 < found.accuracy < 0.99


def test_a_constant_feature_changes_nothing_in_the_linear_probe(clouds):
    a, la, b, lb = clouds
    more = (torch.cat([part, torch.full_like(part[:, :1], 3)], 1) for part in (a, b))
    (a2, b2), found = more, evaluation.linear_probe(*clouds)
    assert evaluation.linear_probe(a2, la, b2, lb).accuracy == found.accuracy


def test_linear_probe_does_not_depend_on_scale_or_order(clouds):
    a, la, b, lb = clouds
    found = evaluation.linear_probe(a, la, b, lb)
    assert evaluation.linear_probe(1e4 * a - 7, la, 1e4 * b - 7, lb).accuracy == found.accuracy
    assert evaluation.linear_probe(a.flip(0), la.flip(0), b, lb).accuracy == found.accuracy


@pytest.mark.parametrize("block", [2, 3, 21, 600, 1197])
def test_linear_probe_in_blocks(clouds, monkeypatch, block):
    """The same function and slope, hence the same optimum; also with fewer numbers than classes."""
    ends, seen = [], []

    def watched(objective, start, **options):
        points = np.random.default_rng(1).normal(size=(3, len(start)))
        seen.append([objective(p) for p in points])
        found = minimize(objective, start, **options)
        ends.append(found.x)
        return found

    monkeypatch.setattr(evaluation, "minimize", watched)
    whole = evaluation.linear_probe(*clouds)
    monkeypatch.setattr(evaluation, "BLOCK", block)
    parts = evaluation.linear_probe(*clouds)
    assert parts.accuracy == whole.accuracy and parts.converged
    assert np.allclose(*ends, atol=1e-4)
    for (value, slope), (other, others) in zip(*seen, strict=True):
        assert value == pytest.approx(other, rel=1e-12)
        assert np.allclose(slope, others, rtol=1e-11, atol=1e-13)


def test_it_says_when_it_did_not_converge(clouds, caplog):
    with caplog.at_level(logging.WARNING):
        found = evaluation.linear_probe(*clouds, steps=2)
    assert not found.converged and found.steps == 2
    assert "not converged after 2 steps" in caplog.text


def test_separable_classes_are_found_in_float32():
    x = torch.eye(4).repeat(5, 1)
    labels = torch.arange(4).repeat(5)
    assert evaluation.linear_probe(x, labels, x, labels).accuracy == 1.0
    assert evaluation.knn(x, labels, x, labels, k=5) == 1.0


@pytest.mark.parametrize("k", [1, 7, evaluation.NEIGHBOURS])
def test_knn_by_loops(clouds, k):
    a, la, b, lb = clouds
    right = 0
    for x, truth in zip(b, lb, strict=True):
        cosines = [float(x @ y / (x.norm() * y.norm())) for y in a]
        nearest = sorted(range(len(a)), key=lambda j: -cosines[j])[:k]
        votes = [0.0, 0.0, 0.0]
        for j in nearest:
            votes[la[j]] += math.exp(cosines[j] / 0.07)
        right += votes.index(max(votes)) == int(truth)
    assert evaluation.knn(a, la, b, lb, k=k, batch=33) == right / len(b)
    assert evaluation.knn(a, la, b, lb, **({"k": k} if k < 20 else {})) == right / len(b)
    assert 0.4 < right / len(b) < 0.99


def test_errors(clouds):
    with pytest.raises(ValueError, match="penalty: expected a number above 0, got 0"):
        evaluation.linear_probe(*clouds, penalty=0)
    broken = clouds[0].clone()
    broken[3, 1] = torch.nan
    empty = (*clouds[:2], clouds[2][:0], clouds[3][:0])
    for judge in (evaluation.linear_probe, evaluation.knn):
        with pytest.raises(ValueError, match="expected finite numbers, got NaN"):
            judge(broken, *clouds[1:])
        with pytest.raises(ValueError, match="expected some to train and to test on, got 400"):
            judge(*empty)
    with pytest.raises(ValueError, match="k: expected 1 to 400 neighbours, as there are, got 401"):
        evaluation.knn(*clouds, k=401)


@pytest.mark.parametrize("wrong", [10, -2])
def test_labels_out_of_range(wrong):
    images = image_sets.load("digits", "test")
    labels = images.labels.copy()
    labels[[5, 8]] = wrong
    images = dataclasses.replace(images, labels=labels)
    message = rf"labels of 0 to 9 for 10 classes, got {wrong} for image 5 and 1 more such"
    with pytest.raises(ValueError, match=message):
        evaluation.require_labels(images)
    with pytest.raises(ValueError, match=rf"labels of -1 to 9 for 10 classes, got {wrong}"):
        evaluation.require_labels(images, unlabelled=True)
    labels[[5, 8]] = -1
    evaluation.require_labels(images, unlabelled=True)
    with pytest.raises(ValueError, match="labels of 0 to 9"):
        evaluation.require_labels(images)
    labels[[5, 8]] = 0, 9
    evaluation.require_labels(images)
