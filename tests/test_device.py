"""The one check of a device that was asked for."""

import warnings

import pytest
import torch

from clcore import _device


def test_names_and_devices_of_torch_are_the_same():
    assert _device.usable("cpu") == _device.usable(torch.device("cpu")) == "cpu"
    assert _device.usable("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


def test_devices_are_counted(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [_device.usable(n) for n in ("cuda", "cuda:1")] == ["cuda", "cuda:1"]
    assert _device.usable(torch.device("cuda", 1)) == "cuda:1"
    with pytest.raises(_device.NoDevice, match=r"'cuda:2' was asked for, .* sees 2 CUDA.*cpu"):
        _device.usable("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda1", "mps", None, 0])
def test_unknown_names_are_told(name):
    with pytest.raises(_device.NoDevice, match="expected device in auto, cpu, cuda, cuda:N; got"):
        _device.usable(name)


@pytest.fixture
def old_driver(monkeypatch):
    """A driver that counts its GPU and cannot give it to this PyTorch, which warns of it once."""

    def available():
        warnings.warn(
            "CUDA initialization: The NVIDIA driver is too\n old (version 1)", stacklevel=1
        )
        return False

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", available)
    monkeypatch.setattr(_device, "no_cuda", lambda: False)
    _device.refused.cache_clear()
    yield
    _device.refused.cache_clear()


def test_a_driver_that_is_too_old_is_named(old_driver, caplog):
    told = r"sees 0 CUDA device\(s\) here \(.*The NVIDIA driver is too old \(version 1\)\); use dev"
    with pytest.warns(UserWarning), pytest.raises(_device.NoDevice, match=told):
        _device.usable("cuda")
    with pytest.warns(UserWarning):
        assert _device.usable("auto") == "cpu"
    assert "everything runs on the CPU: CUDA initialization: The NVIDIA driver" in caplog.text


def test_a_gpu_without_bfloat16_is_refused_for_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    for device in ("cpu", torch.device("cpu")):
        _device.require_bfloat16(device)
    with pytest.raises(
        _device.NoDevice, match=r"8\.0 or more\) for mixed=True, got cuda:1 of 7\.5"
    ):
        _device.require_bfloat16("cuda:1")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    _device.require_bfloat16("cuda:1")
