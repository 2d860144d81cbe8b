"""One training run over several processes, each with its share of every batch (torchrun).

All functions are the identity, and cost nothing, where there is one process."""

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather, all_reduce
from torch.nn.modules.batchnorm import _BatchNorm


def join() -> tuple[int, int]:
    """(rank, number of processes); joins the group that torchrun's variables describe, once."""
    if dist.is_available() and not dist.is_initialized() and "TORCHELASTIC_RUN_ID" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def gathered(x: Tensor) -> Tensor:
    """The rows of all processes in order of rank, with gradient."""
    return x if join()[1] == 1 else torch.cat(all_gather(x))


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

    def _check_input_dim(self, x: Tensor) -> None:
        pass

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        over = [0, *range(2, x.ndim)]
        shape = [1, -1] + [1] * (x.ndim - 2)
        count = x.numel() // x.shape[1] * dist.get_world_size()
        mean = all_reduce(x.sum(over)) / count
        centred = x - mean.reshape(shape)
        var = all_reduce((centred**2).sum(over)) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * (count / (count - 1)), self.momentum)
            self.num_batches_tracked += 1
        out = centred * (var.reshape(shape) + self.eps).rsqrt()
        return out * self.weight.reshape(shape) + self.bias.reshape(shape)


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
