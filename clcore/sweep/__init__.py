"""Many training runs as one tensor."""

from clcore.sweep.engine import (
    Result,
    Stopped,
    log,
    train,
)

__all__ = [
    "Result",
    "Stopped",
    "log",
    "train",
]
