"""A batch over two processes (gloo) against the same batch in one: values, gradients, steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clcore import losses
from clcore.losses import gather

N, D, OUT = 8, 5, 3
CRITERIA = {
    "nt-xent": lambda z, z2, labels: losses.InfoNCE(0.3)(z, z2),
    "sum": lambda z, z2, labels: losses.infonce(z, z2, 0.4),
    "lifted": lambda z, z2, labels: losses.ContrastiveLoss("Lifted Structured")(z, z2),
    "supcon": lambda z, z2, labels: losses.SupCon(0.3)(z, z2, labels),
}


def views():
    generator = torch.Generator().manual_seed(3)
    x, noise = torch.randn(2, N, D, dtype=torch.float64, generator=generator)
    return x, x + 0.3 * noise, torch.tensor([0, 1, 2, 0, 1, 1, 3, 0])


def net():
    torch.manual_seed(4)
    made = torch.nn.Sequential(torch.nn.Linear(D, 6), torch.nn.Tanh(), torch.nn.Linear(6, OUT))
    return made.double()


def trained(made, x, x2, labels, criterion):
    """Losses of five steps; they are the whole batch's where the net is spread over processes."""
    optimizer, found = torch.optim.SGD(made.parameters(), lr=0.1), []
    for _ in range(5):
        z, z2 = made(torch.cat([x, x2])).chunk(2)
        loss = criterion(gather(z), gather(z2), gather(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


PROCESS = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from test_gather import CRITERIA, N, gather, net, trained, views

rank, world, place = int(sys.argv[1]), 2, sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{place}/group", rank=rank, world_size=world)
share = slice(rank * N // world, (rank + 1) * N // world)
own, kept = [given[share] for given in views()], {}
for name, criterion in CRITERIA.items():
    z, z2 = (x[:, :3].clone().requires_grad_() for x in own[:2])
    criterion(gather(z), gather(z2), gather(own[2])).backward()
    made = DistributedDataParallel(net())
    steps = trained(made, *own, criterion)
    kept[name] = (z.grad, z2.grad, steps, made.module.state_dict())
kept["columns"] = gather(own[0].T.contiguous().T)  # not contiguous
for name, given in (("rows", own[0][rank:]), ("axes", own[0][0] if rank else own[0])):
    try:
        gather(given)
    except ValueError as error:
        kept[name] = str(error)
kept["after"] = gather(torch.tensor([rank]))
torch.save(kept, f"{place}/{rank}.pt")
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What each of two processes found."""
    place = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-c", PROCESS]
    kept = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen([*command, str(rank), str(place)], env=kept, stderr=subprocess.PIPE)
        for rank in (0, 1)
    ]
    for process in started:
        told = process.communicate()[1]
        assert process.returncode == 0, told.decode()
    return [torch.load(place / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", CRITERIA)
def test_the_gradient_of_a_row_is_that_of_the_whole_batch_once_for_each_process(two, name):
    x, x2, labels = views()
    z, z2 = (view[:, :3].clone().requires_grad_() for view in (x, x2))
    CRITERIA[name](z, z2, labels).backward()
    for place, whole in enumerate((z.grad, z2.grad)):
        found = torch.cat([kept[name][place] for kept in two])
        torch.testing.assert_close(found, 2 * whole)
        assert whole.abs().max() > 1e-3


@pytest.mark.parametrize("name", CRITERIA)
def test_steps_with_averaged_gradients_are_those_of_one_process(two, name):
    made = net()
    steps = trained(made, *views(), CRITERIA[name])
    assert steps[-1] < steps[0] - 1e-3
    for kept in two:
        assert kept[name][2] == pytest.approx(steps, rel=1e-12)
        for weight, own in made.state_dict().items():
            torch.testing.assert_close(kept[name][3][weight], own, rtol=1e-10, atol=1e-12)
    x, x2, labels = views()
    with torch.no_grad():
        z, z2 = net()(torch.cat([x, x2])[: N // 2]), net()(x2[: N // 2])
    assert CRITERIA[name](z, z2, labels[: N // 2]).item() != pytest.approx(steps[0], rel=1e-3)


def test_rows_come_in_order_of_rank(two):
    for kept in two:
        assert torch.equal(kept["columns"], views()[0])
        assert kept["after"].tolist() == [0, 1], "after an error the processes are still in step"


def test_shapes_that_differ_are_told_in_every_process(two):
    for kept in two:
        assert "one shape in all processes, got [4, 5], [3, 5] in order of rank" in kept["rows"]
        assert "one shape in all processes, got [4, 5], [5] in order of rank" in kept["axes"]
        assert "drop_last=True" in kept["rows"]


def test_in_one_process_it_is_the_tensor_itself(tmp_path):
    z = torch.randn(3, 2)
    assert gather(z) is z
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        assert gather(z) is z
    finally:
        torch.distributed.destroy_process_group()
