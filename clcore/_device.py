"""The one check of a device that was asked for."""

import ctypes
import importlib.metadata
from typing import Any


class NoDevice(ValueError):
    """A device that is unknown, or that this machine does not have."""


def usable(name: Any) -> str:
    """The name of the device to run on, "auto" resolved to the best one present.

    name: "auto", "cpu", "cuda", "cuda:N" or a torch.device. Raises NoDevice for an unknown name and
    for a device that this machine does not have.
    """
    name = str(name)
    if name == "cpu" or (name == "auto" and no_cuda()):
        return "cpu"
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = name.partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise NoDevice(f"expected device in auto, cpu, cuda, cuda:N; got {name!r}")
    count = torch.cuda.device_count()
    if int(index or 0) >= count:
        raise NoDevice(
            f"device {name!r} was asked for, but PyTorch {torch.__version__} sees {count} CUDA "
            "device(s) here; use device=auto or device=cpu, or run `python -m clcore doctor`"
        )
    return name


def no_cuda() -> bool:
    """Whether PyTorch plainly sees no GPU: its build is for the CPU, or there is no driver.

    Told without its import, which takes most of the time of a build in which nothing changed.
    """
    build = importlib.metadata.version("torch").partition("+")[2]
    if build == "cpu":
        return True
    if build and not build.startswith("cu"):  # of another maker's GPUs, or made by the reader
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False
