"""Waits that report once a minute, and end."""

import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

log = logging.getLogger(__name__)
_T = TypeVar("_T")

PATIENCE, PAUSE = 60.0, 1.0
"""Seconds for which a file of a shared disk is looked for, and between two looks."""
MINUTE = 60.0
"""Seconds between two lines of who waits."""


def patiently(look: Callable[[], _T | None], folder: Path) -> _T | None:
    """What `look` finds, as soon as it does; None after PATIENCE.

    A shared disk may show a file some time after it was written. Listing its folder makes NFS ask
    the server.
    """
    end = time.monotonic() + PATIENCE
    while (found := look()) is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            [*folder.iterdir()]
        time.sleep(PAUSE)
    return found


class Teller:
    """Prints something at most once per minute, from the first minute on."""

    def __init__(self) -> None:
        self.began = self.told = time.monotonic()

    def tell(self, words: str, *parts: object) -> None:
        """Log the words, with the minutes that passed, if a minute went by since the last line."""
        now = time.monotonic()
        if now - self.told >= MINUTE:
            self.told = now
            log.warning("%.0f min: " + words, (now - self.began) / 60, *parts)
