"""One training run over several processes, each with its share of every batch (torchrun).

Where there is one process, all functions are the identity."""

import inspect
import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from clcore._device import usable


def join() -> tuple[int, int]:
    """(rank, number of processes); joins the group that torchrun's variables describe, once."""
    if not dist.is_initialized():
        if not dist.is_torchelastic_launched():
            return 0, 1
        # One that is left to torch serves the GPU alone where there is one.
        gpu = torch.cuda.is_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo")
    return dist.get_rank(), dist.get_world_size()


def own(device: torch.device | str) -> torch.device:
    """The device of this process: of all GPUs the one that is its turn, else what was given."""
    device = torch.device(usable(device))
    if join()[1] > 1 and device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    return device


class _Sum(torch.autograd.Function):
    """The sum over processes, whose gradient is summed over processes, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _Sum.forward(ctx, *grads)


def agreed(flag: bool, device: torch.device) -> bool:
    """Whether the flag is up in any process."""
    if join()[1] == 1:
        return flag
    up = torch.tensor(float(flag), device=device)
    dist.all_reduce(up, dist.ReduceOp.MAX)
    return bool(up)


class SharedBatchNorm(_BatchNorm):
    """BatchNorm with the statistics of all processes' rows, of which each has equally many; for
    the CPU, where torch.nn.SyncBatchNorm does not run."""

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        """Rows [n, c] or [n, c, ...], normalised per channel over the rows of all processes."""
        if not self.training:
            return super().forward(input)
        over = [0, *range(2, input.ndim)]
        shape = [1, -1] + [1] * (input.ndim - 2)
        count = input.numel() // input.shape[1] * dist.get_world_size()
        x = input.to(self.weight.dtype)  # under autocast, sums in full precision
        mean = _Sum.apply(x.sum(over)) / count
        centred = x - mean.reshape(shape)
        var = _Sum.apply((centred**2).sum(over)) / count
        self._track(mean, var * (count / (count - 1)))
        out = centred * (var.reshape(shape) + self.eps).rsqrt()
        return (out * self.weight.reshape(shape) + self.bias.reshape(shape)).to(input.dtype)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics; `shared` makes layers that have them and a momentum."""
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None and self.momentum is not None
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)
        self.num_batches_tracked += 1


def parallel(net: Any) -> DistributedDataParallel:
    """The net with the mean of all processes' gradients. Its buffers are not sent around: those
    of BatchNorm over all processes (`shared`) are equal."""
    names = inspect.signature(DistributedDataParallel).parameters
    # The older name of the option, which this release of PyTorch may have alone.
    name = "forward_sync_buffers" if "forward_sync_buffers" in names else "broadcast_buffers"
    options: dict[str, Any] = {name: False}
    return DistributedDataParallel(net, **options)


def shared(net: nn.Module, device: torch.device) -> nn.Module:
    """The net with BatchNorm over all processes."""
    if join()[1] == 1:
        return net
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(net)
    for module in net.modules():
        if isinstance(module, _BatchNorm):
            module.__class__ = SharedBatchNorm  # same parameters and buffers, another forward
    return net
