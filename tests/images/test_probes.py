"""Linear evaluation and paired tests, against scikit-learn and SciPy."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from clcore.images import probes

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
