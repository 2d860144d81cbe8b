"""The one check of a device that was asked for."""

import pytest
import torch

from clcore import _device


def test_names_and_devices_of_torch_are_the_same():
    assert _device.usable("cpu") == _device.usable(torch.device("cpu")) == "cpu"
    assert _device.usable("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


def test_devices_are_counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [_device.usable(n) for n in ("cuda", "cuda:1")] == ["cuda", "cuda:1"]
    assert _device.usable(torch.device("cuda", 1)) == "cuda:1"
    with pytest.raises(_device.NoDevice, match=r"'cuda:2' was asked for, .* sees 2 CUDA.*cpu"):
        _device.usable("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda1", "mps", None, 0])
def test_unknown_names_are_told(name):
    with pytest.raises(_device.NoDevice, match="expected device in auto, cpu, cuda, cuda:N; got"):
        _device.usable(name)
