"""What a chapter and the build both say of where a result comes from; needs no PyTorch."""

import math
import subprocess
from typing import Any

from clcore import _paths

PROVENANCE_MIME = "application/vnd.clcore.provenance+json"


def encode(value: Any) -> Any:
    """JSON has no NaN and no infinity: write such numbers as the strings that float() reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    return value


def commit() -> str:
    """The commit of the code, marked when the working tree differs from it."""
    try:
        run = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=_paths.root(),
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return run.stdout.strip() or "unknown"
