"""The one check of a device that was asked for."""

import ctypes
import importlib.metadata
import logging
import warnings
from functools import cache
from typing import Any

log = logging.getLogger(__name__)


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

    why = refused()
    if name == "auto":
        if why:
            log.warning("everything runs on the CPU: %s", why)
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = name.partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise NoDevice(f"expected device in auto, cpu, cuda, cuda:N; got {name!r}")
    # NVML counts devices, too, that the driver cannot give to this PyTorch.
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(index or 0) >= count:
        raise NoDevice(
            f"device {name!r} was asked for, but PyTorch {torch.__version__} sees {count} CUDA "
            f"device(s) here{f' ({why})' if why else ''}; use device=auto or device=cpu, or run "
            "`python -m clcore doctor`"
        )
    return name


@cache
def refused() -> str:
    """Why PyTorch cannot use the GPU of this machine, such as an outdated driver, in PyTorch's
    words, which it prints once; empty if there is no GPU or PyTorch can use it."""
    import torch

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    return "" if available or not told else " ".join(str(told[0].message).split())


def require_bfloat16(device: Any) -> None:
    """Raise NoDevice for a GPU without native bfloat16 (compute capability below 8)."""
    import torch

    device = torch.device(device)
    if device.type == "cuda" and not bfloat16(device):
        major, minor = torch.cuda.get_device_capability(device)
        raise NoDevice(
            f"expected a GPU with bfloat16 (compute capability 8.0 or more) for mixed=True, got "
            f"{device} of {major}.{minor}; leave mixed off (in a chapter fast=no, or auto, which "
            "does so by itself)"
        )


def bfloat16(device: Any) -> bool:
    """Whether a CUDA device computes in bfloat16 itself, rather than emulate it."""
    import torch

    return torch.cuda.get_device_capability(device) >= (8, 0)


def no_cuda() -> bool:
    """Whether PyTorch plainly sees no GPU: its build is for the CPU, or there is no driver.

    Found without importing it, which takes most of the time of a build in which nothing changed.
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
