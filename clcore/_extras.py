"""Packages that only an extra of clcore brings."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def extra(name: str) -> Generator[None, None, None]:
    """Import packages of an extra inside: if one is missing, the error explains how to install it.

    Examples:
        >>> with extra("images"):
        ...     import absent
        Traceback (most recent call last):
        ModuleNotFoundError: absent is not installed; `pip install "clcore[images]"` brings it
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed; `pip install "clcore[{name}]"` brings it',
            name=error.name,
        ) from error
