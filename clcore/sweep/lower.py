"""From a function of tensors to a flat list of tensor operations, run without Python's layers.

`torch.func` composes `vmap` and `grad` anew at every call, at some tens of microseconds per
operation. A training step is the same operations every time, so it is traced once and replayed;
on request the trace is also compiled.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

log = logging.getLogger(__name__)

Flat = Callable[..., list[Tensor]]
T = TypeVar("T")


def trace(function: Flat, example: list[Tensor]) -> Flat:
    """The operations `function` does on tensors like `example`, as a function.

    A function that cannot be traced (it reads the value of a tensor) is returned as it is. The
    tracer writes down the shape of every value, by a mode of fake tensors. Where it finds none it
    makes one for each value, which took half of the time.
    """
    try:
        with tracing(TracingContext(FakeTensorMode(allow_fallback_kernels=True))):
            graph = make_fx(function)(*example)
    except Exception as error:
        log.info("the step runs untraced: %s", _first_line(error))
        return function
    for node in list(graph.graph.nodes):
        # Left over from autograd; each would cost a call per step.
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def tried(make: Callable[[], T], plain: T) -> tuple[T, bool | str]:
    """What `make` compiles and tries out, and True; where that fails, `plain` and the reason why,
    with a warning."""
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # a failure fills pages; its first line is reported below
    try:
        return make(), True
    except Exception as error:
        reason = f"not compiled: {_first_line(error)}"
    finally:
        logging.disable(silenced)
    log.warning("%s; training runs uncompiled", reason)
    return plain, reason


def compiled(step: Flat, example: list[Tensor]) -> tuple[Flat, bool | str]:
    """`step` through torch.compile, and True; or `step` itself and the reason why not.

    On CUDA the compiled step is a CUDA graph, whose results must be copied before the next call.
    """
    on_cuda = example[0].device.type == "cuda"

    def make() -> Flat:
        fast = torch.compile(step, dynamic=False, mode="reduce-overhead" if on_cuda else None)
        for _ in range(3 if on_cuda else 1):  # a CUDA graph is recorded at the second call
            found = [t.clone() for t in fast(*example)]
        _same(found, step(*example))
        if not on_cuda:
            return fast

        def copied(*tensors: Tensor) -> list[Tensor]:
            torch.compiler.cudagraph_mark_step_begin()
            return [t.clone() for t in fast(*tensors)]

        return copied

    return tried(make, step)


def _same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Raise when compiled and plain results differ by more than rounding: compilers have bugs."""
    for a, b in zip(found, expected, strict=True):
        if not b.is_floating_point():
            close = torch.equal(a, b)
        else:
            finite = b.nan_to_num(0.0, 0.0, 0.0)
            slack = torch.finfo(b.dtype).eps ** 0.5 * finite.abs().max()
            close = bool(torch.isclose(a, b, rtol=0.0, atol=float(slack), equal_nan=True).all())
        if not close:
            raise RuntimeError("the compiled step does not give what the plain one gives")


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"
