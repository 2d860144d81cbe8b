"""Waiting in tests: for what happens, however busy the machine is."""

import time
from collections.abc import Callable

LONGEST = 600
"""Seconds for what takes some on an idle machine; who needs more hangs."""


def eventually(true: Callable[[], object]) -> None:
    """Wait until something is so. Raises TimeoutError."""
    end = time.monotonic() + LONGEST
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not so after {LONGEST} s")
        time.sleep(0.05)
