"""Batches that are spread over processes (`torch.distributed`), as one."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    """The rows of all processes; the gradient of this one's rows is summed over processes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group, ctx.rows = group, len(x)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x, group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        first = dist.get_rank(ctx.group) * ctx.rows
        return total[first : first + ctx.rows], None


def gather(x: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """The rows of all processes, in order of rank: `[n, *s]` here, `[processes n, *s]` there.

    `criterion(gather(z), gather(z2))` is any loss of the whole batch, where each process has its
    part: the negatives of an anchor are those of all. Every process has to call it, with equally
    many rows, and to differentiate the same loss; the gradient of a row is then the sum over
    processes, so that `DistributedDataParallel`, which averages gradients over them, takes the step
    of one process with the whole batch. Labels are gathered in the same way. First derivatives
    only. Without a process group, or with one process in it, this is x itself.

    group: of the processes; all if None.

    Raises:
        ValueError: in every process, where one has more rows than another, or rows of other shapes.

    Examples:
        >>> z = torch.randn(8, 3)
        >>> gather(z) is z  # in one process
        True
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size(group) == 1:
        return x
    x = x.contiguous()
    _require_equal_shapes(x, group)
    return _Gather.apply(x, group)


def _require_equal_shapes(x: Tensor, group: dist.ProcessGroup | None) -> None:
    """Raise ValueError unless all processes have one shape: else a gathering waits for ever, or
    mixes rows."""
    sizes = [*x.shape, *[-1] * (8 - x.ndim)]  # each process sends equally much
    own = torch.tensor(sizes, device=x.device)
    parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, own, group)
    shapes = [[size for size in part if size >= 0] for part in torch.stack(parts).tolist()]
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError(
            f"expected outputs of one shape in all processes, got {', '.join(map(str, shapes))} in "
            "order of rank; give each process equally many samples, with drop_last=True for the "
            "last batch of an epoch"
        )
