"""How the errors of a part, or of its control, become one number."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Reducer = Callable[[Sequence[np.ndarray], str], float]
"""(errors of each setting, relation) -> one number."""


def _extreme(errors: Sequence[Any], highest: bool) -> float:
    # unlike max and min, numpy's let no NaN through
    take = np.max if highest else np.min
    return float(take([take(e) for e in errors]))


def worst(errors: Sequence[np.ndarray], relation: str) -> float:
    """The value that comes nearest to failing: what a part measures."""
    return _extreme(errors, relation == "<=")


def strict(errors: Sequence[np.ndarray], relation: str) -> float:
    """The value that comes nearest to passing: a control's value unless stated otherwise.
    Every draw fails."""
    return _extreme(errors, relation == ">=")


def typical(errors: Sequence[np.ndarray], relation: str) -> float:
    """For a control that a rare draw lets through: the median over draws of the setting that comes
    nearest to passing."""
    return _extreme([float(np.median(e)) for e in errors], relation == ">=")


def pooled(errors: Sequence[np.ndarray], relation: str) -> float:
    """For a control that some settings or draws let through: the median over all of them."""
    return float(np.median(np.concatenate([np.ravel(e) for e in errors])))


def fraction(errors: Sequence[np.ndarray], relation: str) -> float:
    """For what a draw breaks or does not (True or False): the share of draws, over all settings."""
    return float(np.concatenate([np.ravel(e) for e in errors]).mean())


def total(errors: Sequence[np.ndarray], relation: str) -> float:
    """For parts that count what is wrong: how often in all."""
    return float(sum(np.sum(e) for e in errors))
