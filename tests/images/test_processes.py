"""BatchNorm over processes against torch's, in a group of one; who joins a group, on which GPU.
Two processes: test_pretraining_many."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn

from clcore import random
from clcore.images import processes


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def shared(norm):
    norm = copy.deepcopy(norm)
    norm.__class__ = processes.SharedBatchNorm
    return norm


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5, 2)])
def test_batch_norm_in_training_and_evaluation(group, shape):
    norm = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(3, momentum=0.3)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    found = []
    for each in (norm, shared(norm)):
        x = random.normal(random.key(1), shape).requires_grad_()
        y = each(2 * x + 1)
        y.pow(3).sum().backward()
        later = each.eval()(x)
        found.append([y, x.grad, each.weight.grad, each.bias.grad, later, *each.buffers()])
    for own, other in zip(*found, strict=True):
        assert torch.allclose(own, other, rtol=1e-4, atol=1e-5)


def test_batch_norm_under_autocast(group):
    norm = nn.BatchNorm1d(3)
    other = shared(norm)
    x = (random.normal(random.key(2), (200, 3)) + 8).to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        y, z = norm(x), other(x)
    assert y.dtype == z.dtype == torch.bfloat16
    assert torch.allclose(y.float(), z.float(), atol=0.05)
    assert torch.allclose(norm.running_mean, other.running_mean, rtol=1e-4)
    assert torch.allclose(norm.running_var, other.running_var, rtol=1e-3)


def test_every_process_works_on_the_gpu_of_its_turn(monkeypatch):
    chosen = []
    monkeypatch.setattr(processes, "usable", lambda device: device)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(processes, "join", lambda: (6, 8))  # the third process of a second machine
    assert processes.own("cpu") == torch.device("cpu") and chosen == []
    assert processes.own("cuda") == torch.device("cuda", 2) and chosen == [torch.device("cuda", 2)]
    monkeypatch.setattr(processes, "join", lambda: (0, 1))
    assert processes.own("cuda:1") == torch.device("cuda", 1) and len(chosen) == 1


def test_a_group_is_joined_under_torchrun_alone_and_once(monkeypatch):
    begun = []
    monkeypatch.setattr(dist, "init_process_group", begun.append)
    monkeypatch.setattr(dist, "get_rank", lambda: 2)
    monkeypatch.setattr(dist, "get_world_size", lambda: 3)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert processes.join() == (0, 1) and begun == []
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "made")
    for gpu, backend in ((False, "gloo"), (True, "cpu:gloo,cuda:nccl")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert processes.join() == (2, 3) and begun.pop() == backend
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    assert processes.join() == (2, 3) and begun == []
