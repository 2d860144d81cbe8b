"""Linear evaluation and paired tests, against scikit-learn and SciPy."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from clcore.images import evaluation, probes

torch.manual_seed(0)
X, Y = torch.randn(2, 90, 6, dtype=torch.float64), torch.arange(90) % 4
TEST, LABELS = torch.randn(2, 50, 6, dtype=torch.float64), torch.randint(4, (50,))


def test_probe_is_ridge_regression_on_one_hot_labels():
    got = probes.ridge_probe(X, Y, TEST, LABELS, penalty=0.3)
    for b in range(2):
        mean, scale = X[b].mean(0), X[b].std(0)
        model = Ridge(alpha=0.3 * 90).fit((X[b] - mean) / scale, np.eye(4)[Y])
        expected = (model.predict((TEST[b] - mean) / scale).argmax(1) == LABELS.numpy()).mean()
        assert float(got[b]) == expected


def test_probe_finds_what_is_linear_and_survives_dead_features():
    labels = (X[0, :, 0] > 0).long()
    features = torch.cat([X[0], torch.zeros(90, 2)], 1)
    assert float(probes.ridge_probe(features, labels, features, labels)) > 0.95
    shuffled = labels[torch.randperm(90)]
    assert float(probes.ridge_probe(features, shuffled, features, labels)) < 0.8
    with pytest.raises(ValueError, match="expected penalty > 0"):
        probes.ridge_probe(X, Y, TEST, LABELS, penalty=0)


def test_probe_of_a_diverged_run_is_no_number():
    for part, at in ((X, (0, 3, 1)), (TEST, (0, 7, 2))):
        for value in (torch.nan, torch.inf):
            broken = part.clone()
            broken[at] = value
            both = (broken, TEST) if part is X else (X, broken)
            found = probes.ridge_probe(both[0], Y, both[1], LABELS)
            assert found[0].isnan() and found[1] == probes.ridge_probe(X, Y, TEST, LABELS)[1]
    with pytest.raises(ValueError, match="expected some features to test on, got none"):
        probes.ridge_probe(X, Y, TEST[:, :0], LABELS[:0])


def test_probe_ignores_scale_and_shift():
    moved = probes.ridge_probe(X * 100 - 7, Y, TEST * 100 - 7, LABELS)
    assert torch.equal(moved, probes.ridge_probe(X, Y, TEST, LABELS))


PROBES = {
    "ridge": lambda *parts: float(probes.ridge_probe(*parts)),
    "linear": lambda *parts: evaluation.linear_probe(*parts).accuracy,
    "knn": lambda *parts: evaluation.knn(*parts, k=5),
}
each = pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
A, B = X[0] + 1.5 * torch.eye(4, 6)[Y], TEST[0] + 1.5 * torch.eye(4, 6)[LABELS]


@each
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.uint16])
def test_labels_of_any_integer_type(probe, dtype):
    expected = probe(A, Y, B, LABELS)
    assert 0.5 < expected < 1
    assert probe(A, Y.to(dtype), B, LABELS.to(dtype)) == expected


@each
def test_class_numbers_may_have_gaps(probe):
    """With a table of all numbers up to the largest, these would take terabytes; a class of the
    test part that training lacks is never right."""
    numbers = torch.tensor([3, 70, 10**6, 2**40])
    expected = probe(A, Y, B, LABELS)
    assert probe(A, numbers[Y], B, numbers[LABELS]) == expected
    unknown = torch.where(LABELS == 2, 5, numbers[LABELS])
    assert probe(A, numbers[Y], B, unknown) < expected


def test_a_class_that_does_not_occur_has_no_part_in_the_optimum():
    """Its intercept would fall for ever, and so would the loss."""
    found = evaluation.linear_probe(A, Y, B, LABELS)
    gaps = evaluation.linear_probe(A, 10 * Y, B, 10 * LABELS)
    assert gaps == found and gaps.converged


@each
def test_features_that_are_none_are_refused(probe, unchecked_shapes):
    with pytest.raises(ValueError, match=r"train and test of one width, got shapes .*same net"):
        probe(A, Y, B[:, 1:], LABELS)
    for place, name in enumerate(("train", "train_labels", "test", "test_labels")):
        given = [A, Y, B, LABELS]
        given[place] = given[place].numpy()
        with pytest.raises(TypeError, match=f"^{name}: expected a tensor, got a ndarray; convert"):
            probe(*given)
    with pytest.raises(ValueError, match=r"expected some .*to train .*, got (none|0)"):
        probe(A[:0], Y[:0], B, LABELS)


@each
def test_labels_that_are_none_are_refused(probe, unchecked_shapes):
    hole = Y.clone()
    hole[[3, 7]] = -1
    with pytest.raises(ValueError, match=r"train_labels: .* from 0 on, got -1 and 1 more below"):
        probe(A, hole, B, LABELS)
    with pytest.raises(ValueError, match=r"test_labels: .* leave samples without a label out"):
        probe(A, Y, B, LABELS - 4)
    with pytest.raises(ValueError, match=r"test_labels: .* shape \[50\], got \[49\]"):
        probe(A, Y, B, LABELS[1:])
    for wrong in (Y.double(), Y > 1):
        with pytest.raises(TypeError, match=r"train_labels: expected .* integers, got torch\."):
            probe(A, wrong, B, LABELS)


@pytest.mark.parametrize("name", ["ridge", "linear"])
def test_a_feature_that_is_constant_in_training_does_not_outweigh_the_others(name):
    """0.1 ninety times over has a standard deviation of 1e-17."""
    rest = torch.linspace(-1, 1, 50)[:, None]
    a, b = torch.cat([A, torch.full((90, 1), 0.1)], 1), torch.cat([B, rest], 1)
    assert PROBES[name](a, Y, b, LABELS) == PROBES[name](A, Y, B, LABELS)
    assert PROBES[name](1e-20 * A, Y, 1e-20 * B, LABELS) == PROBES[name](A, Y, B, LABELS)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
def test_neighbours_in_half_precision(half):
    """Of rows of zeros and of rows whose squares overflow, too."""
    a, b = (200 * part.to(half) for part in (A, B))
    a[0], b[0] = 0, 0
    expected = evaluation.knn(a.float(), Y, b.float(), LABELS, k=5)
    assert evaluation.knn(a, Y, b, LABELS, k=5) == expected > 0.5
