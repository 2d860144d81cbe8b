"""The energy of one node in the plane: nl Fig. 8."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from .. import one_layer
from ..ledger import Check
from .reference import tensors

# App. E.1: the nine points of Fig. 8 on the unit circle.
ANGLES = np.pi * np.array([-4 / 5, -1 / 2, -2 / 5, -1 / 6, 0, 1 / 5, 2 / 5, 3 / 5, 4 / 5])


def circle(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], -1)


def fig8_world() -> one_layer.World:
    return one_layer.samples(*tensors(circle(ANGLES)))


def fig8_curve(points: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(theta, energy over its maximum) at equally spaced angles of w."""
    theta = np.linspace(-np.pi, np.pi, points, endpoint=False) + 1e-4
    energy = one_layer.energy(fig8_world(), *tensors(circle(theta)), kind).numpy()
    return theta, energy / energy.max()


def maxima(values: np.ndarray) -> np.ndarray:
    """Where a periodic curve has local maxima."""
    return np.flatnonzero((values > np.roll(values, 1)) & (values >= np.roll(values, -1)))


def _variances(theta: np.ndarray, kind: str) -> np.ndarray:
    """The same curve once more, by double sums over pairs of points."""
    u = np.cos(theta[:, None] - ANGLES)
    h = np.maximum(u, 0) if kind == "relu" else u
    energy = ((h[:, :, None] - h[:, None]) ** 2).sum((1, 2)) / (4 * len(ANGLES) ** 2)
    return energy / energy.max()


def fig8(draws: int, seed: int) -> Iterator[Check]:
    """Local maxima on a grid of 20 000 angles and their distance; the linear ones by eigenvectors.

    Nothing is drawn. Controls: the linear curve for the ReLU's, and the reverse.
    """
    check = partial(Check, "nl/fig8", evidence="protocol")
    theta, bent = fig8_curve(20_000, "relu")
    _, straight = fig8_curve(20_000, "linear")
    pairs = np.abs(_variances(theta[::10], "relu") - bent[::10]).max()
    cross = np.abs(_variances(theta[::10], "linear") - bent[::10]).max()
    peaks, lines = maxima(bent), maxima(straight)
    edges = np.abs(np.cos(theta[peaks][:, None] - ANGLES)).min(-1) < 1e-3
    world = fig8_world()
    lme = int(one_layer.locally_maximal(world, *tensors(circle(theta[peaks])), residual=1e-3).sum())
    yield check(
        float(pairs),
        1e-5,
        {"linear": float(cross)},
        part="curve",
        note="Scaled to a maximum of 1, against the double sum over pairs.",
    )
    yield check(
        float(len(peaks)),
        8.0,
        {"linear": float(len(lines))},
        relation=">=",
        part="ReLU: local maxima",
        note=f"{int(edges.sum())} of them lie on a kink, $w^\\top x_i=0$; {lme} are LMEs.",
    )
    yield check(
        float(abs(len(lines) - 2)),
        0.0,
        {"ReLU": float(abs(len(peaks) - 2))},
        part="linear: local maxima",
    )
    _, vectors = torch.linalg.eigh(one_layer.covariance(world, world.x))
    top, low = vectors[:, 1].numpy(), vectors[:, 0].numpy()
    away = [1 - np.abs(circle(theta[lines]) @ v).min() for v in (top, low)]
    yield check(
        float(away[0]),
        1e-6,
        {"second direction": float(away[1])},
        part="linear: first principal direction",
    )
    inner = np.abs(circle(theta[peaks]) @ circle(theta[peaks]).T)
    axes = np.abs(np.eye(2))
    yield check(
        float(inner[inner < 0.999].max()),
        0.01,
        {"axes": float(axes[axes < 0.999].max())},
        relation=">=",
        part="not orthogonal",
        note="Largest |cosine| of two maxima that are not the same or opposite.",
    )
