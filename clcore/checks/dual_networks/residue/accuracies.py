"""What a frozen encoder is measured by (ddn Sec. 7): its features, votes of nearest neighbours and
a linear classifier on them, in numpy."""

import numpy as np
import torch
from torch import nn

from clcore.images import evaluation
from clcore.images.image_sets import ImageSet
from clcore.ledger import Trial, pooled
from clcore.reference import Array, tensors

CLASSES, TESTS = 3, 600
TWO_IMAGES = 2.5 / TESTS  # near a border, which of them may still be decided otherwise


def by_hand(t: Trial) -> None:
    """Accuracies on classes that overlap. Controls: one vote a neighbour, distances for cosines, no
    penalty to speak of, features as they are."""
    _features(t)
    _labels(t)
    _neighbours(t)
    _classifier(t)


def _data(rng: np.random.Generator, n: int, d: int) -> tuple[Array, Array, Array, Array]:
    """Training features and labels, and those to test on: classes that overlap, features of unequal
    size and not centred."""
    centres = rng.standard_normal((CLASSES, d))
    labels = [rng.permutation(np.arange(size) % CLASSES) for size in (n, TESTS)]
    scale = rng.permutation(np.geomspace(0.1, 10.0, d))
    shift = scale * rng.standard_normal(d)
    x = [scale * (centres[k] + 1.5 * rng.standard_normal((len(k), d))) + shift for k in labels]
    return x[0], labels[0], x[1], labels[1]


def _features(t: Trial) -> None:
    """Pixels as parts of 255, a net as it is in evaluation, and left as it was."""
    part, rng = t.defines("direct test: features by hand", 1e-5), t.stream("features")
    pixels = rng.integers(0, 256, (11, 3, 4, 4)).astype(np.uint8)
    images = ImageSet(
        "small", "train", "small images", pixels, np.arange(11) % CLASSES, ("a", "b", "c")
    )
    weight = rng.standard_normal((5, 48))
    linear = nn.Linear(48, 5, bias=False)
    linear.weight.data = torch.from_numpy(weight).float()
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), linear)
    hand = pixels.reshape(11, -1) / 255 @ weight.T
    for training in (True, False):
        net.train(training)
        for batch in (4, 500):
            found = evaluation.features(net, images, batch=batch).numpy()
            part.add(np.abs(found - hand).max(), float(net.training != training))
            part.breaks("the next image's", np.abs(found - np.roll(hand, 1, 0)).max())


def _labels(t: Trial) -> None:
    part = t.defines("direct test: labels of no class are refused", 0.0)
    pixels = np.zeros((3, 1, 2, 2), np.uint8)
    for labels, unlabelled, fits in (
        ([0, 1, 2], False, True),
        ([0, 1, 3], False, False),
        ([0, -1, 2], False, False),
        ([0, -1, 2], True, True),
        ([0, -2, 2], True, False),
    ):
        images = ImageSet(
            "small", "train", "small images", pixels, np.array(labels), ("a", "b", "c")
        )
        try:
            evaluation.require_labels(images, unlabelled)
            taken = True
        except ValueError:
            taken = False
        part.add(float(taken != fits)).breaks("the other way round", float(taken == fits))


def _votes(data: tuple, k: int, sharpness: float, cosine: bool = True) -> float:
    x, labels, tests, truth = data
    right = 0
    for v, own in zip(tests, truth, strict=True):
        along, apart = x @ v / np.sqrt((x**2).sum(1) * (v @ v)), ((x - v) ** 2).sum(1)
        near = along if cosine else -apart
        votes = np.zeros(CLASSES)
        for j in np.argsort(-near)[:k]:
            votes[labels[j]] += np.exp(near[j] * sharpness)
        right += votes.argmax() == own
    return right / len(tests)


def _neighbours(t: Trial) -> None:
    part = t.defines("direct test: nearest neighbours by hand", 1e-12, controls=pooled)
    rng = t.stream("neighbours")
    for k, batch in ((1, 1000), (7, 40), (20, 1000), (12, 500)):
        data = _data(rng, 60, 4)
        ours = evaluation.knn(*tensors(*data), k=k, batch=batch)
        part.add(abs(ours - _votes(data, k, 1 / 0.07)))
        part.breaks("distances for cosines", abs(ours - _votes(data, k, 0.0, False)))
        if k > 1:
            part.breaks("one vote a neighbour", abs(ours - _votes(data, k, 0.0)))


def _solved(x: Array, labels: Array, penalty: float) -> Array:
    """Weights and intercepts [classes, d + 1] of logistic regression, by Newton's steps."""
    x = np.concatenate([x, np.ones((len(x), 1))], 1)
    n, d = x.shape
    held = penalty * np.append(np.ones(d - 1), 0.0)
    w, wanted = np.zeros((CLASSES, d)), np.eye(CLASSES)[labels]
    for _ in range(30):
        p = np.exp(x @ w.T)
        p /= p.sum(1, keepdims=True)
        slope = (p - wanted).T @ x / n + held * w
        bends = np.einsum("nk,kl->nkl", p, np.eye(CLASSES)) - p[:, :, None] * p[:, None, :]
        H = np.einsum("nkl,ni,nj->kilj", bends, x, x).reshape(CLASSES * d, -1) / n
        H = H + np.diag(np.tile(held, CLASSES))
        w = w - np.linalg.lstsq(H, slope.ravel(), rcond=1e-12)[0].reshape(w.shape)
    return w


def _accuracy(data: tuple, penalty: float, scaled: bool = True) -> float:
    x, labels, tests, truth = data
    if scaled:
        mean, size = x.mean(0), x.std(0, ddof=1)
        x, tests = (x - mean) / size, (tests - mean) / size
    w = _solved(x, labels, penalty)
    return float(((tests @ w[:, :-1].T + w[:, -1]).argmax(1) == truth).mean())


def _classifier(t: Trial) -> None:
    part = t.defines("direct test: linear classifier by hand", TWO_IMAGES, controls=pooled)
    rng = t.stream("classifier")
    for penalty in (0.3, 1.0, 3.0, 0.3, 1.0):
        data = _data(rng, 40, 6)
        probe = evaluation.linear_probe(*tensors(*data), penalty=penalty)
        part.add(abs(probe.accuracy - _accuracy(data, penalty)), float(not probe.converged))
        part.breaks("features as they are", abs(probe.accuracy - _accuracy(data, penalty, False)))
        part.breaks("little penalty", abs(probe.accuracy - _accuracy(data, 1e-3)))
