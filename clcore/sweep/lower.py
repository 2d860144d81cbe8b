"""From a function of tensors to a flat list of tensor operations, run without Python's layers.

`torch.func` composes `vmap` and `grad` anew at every call, at some tens of microseconds per
operation. A training step is the same operations every time, so it is traced once and replayed;
on request the trace is also compiled.
"""

import copy
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._guards import TracingContext, tracing
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx

log = logging.getLogger(__name__)

Flat = Callable[..., list[Tensor]]
T = TypeVar("T")


def keep_freed_memory() -> None:
    """Have glibc keep what is freed, instead of giving it back and fetching it anew every step.

    It gives back what exceeds twice the largest block that was mapped on its own and freed, of at
    most 32 MiB; this frees one such block, whose pages nobody ever touched. Elsewhere it does
    nothing.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8, device="cpu")


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
    _drop_idle(graph, example)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return _called_directly(graph, example)


class _Idle(Interpreter):
    """Runs a graph and lists its nodes that hand on what they get."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.idle: list[Node] = []

    def run_node(self, n: Node) -> Any:
        """What the node gives, as without the list."""
        made = super().run_node(n)
        if n.target in _VIEWS and _same_view(made, self.env[n.all_input_nodes[0]]):
            self.idle.append(n)
        return made


_VIEWS = {
    torch.ops.aten.detach.default,  # left over from autograd
    torch.ops.aten.alias.default,
    torch.ops.aten.view.default,
    torch.ops.aten._unsafe_view.default,
    torch.ops.aten.expand.default,
    torch.ops.aten.permute.default,
    torch.ops.aten.slice.Tensor,
}


def _same_view(a: Tensor, b: Tensor) -> bool:
    place, other = ((t.dtype, t.shape, t.stride(), t.data_ptr()) for t in (a, b))
    return place == other


def _drop_idle(graph: GraphModule, example: list[Tensor]) -> None:
    """Leave out the nodes that hand on what they get: each would cost a call per step."""
    run = _Idle(graph)
    with torch.no_grad():
        run.run(*example)
    for node in run.idle:
        node.replace_all_uses_with(node.all_input_nodes[0])


def _called_directly(graph: GraphModule, example: list[Tensor]) -> GraphModule:
    """The same kernels through functions and methods of PyTorch's front of the same name, where
    there are: a call takes about half the time. The graph itself, unless results are the same bits.
    """
    fast = GraphModule(graph, copy.deepcopy(graph.graph))
    for node in fast.graph.nodes:
        if isinstance(node.target, OpOverload):
            name = node.target._schema.name.split("::")[1]
            name = _OTHER_NAMES.get(name, name)
            if hasattr(torch, name):
                node.target = getattr(torch, name)
            elif hasattr(torch._C.TensorBase, name) and isinstance(node.args[0], Node):
                node.op, node.target = "call_method", name
    try:
        fast.recompile()
        with torch.no_grad():
            pairs = list(zip(fast(*example), graph(*example), strict=True))
    except Exception as error:
        log.info("the step calls operators: %s", _first_line(error))
        return graph
    same = all(a.dtype == b.dtype and torch.equal(_bits(a), _bits(b)) for a, b in pairs)
    return fast if same else graph


_OTHER_NAMES = {"_unsafe_view": "view", "_to_copy": "to"}
"""Operator -> method that does the same; wherever it does not, all operators stay."""


def _bits(t: Tensor) -> Tensor:
    """The bytes of a tensor, by which a NaN is itself."""
    return t.contiguous().reshape(-1).view(torch.uint8)


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
            raise RuntimeError("the compiled and the plain step disagree")


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"
