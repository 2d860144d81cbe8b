"""Random numbers that are a function of (key, position) and of nothing else.

The generator is the output function of splitmix64 applied to `key + position * golden gamma`,
written in int64 tensor operations. There is no hidden state: the same key gives the same numbers
alone, inside `torch.func.vmap`, in any batch of runs, on CPU and on CUDA, before and after a
resume. Keys are int64 tensors; functions take one key (shape `[]`) or many (shape `[...]`, whose
dimensions come first in the result).

Integers and uniforms are the same bits on every device. `normal` passes them through the
device's own `erfinv`, so it agrees between devices to rounding only.
"""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = [
    "bernoulli",
    "bits",
    "choice",
    "fold_in",
    "key",
    "normal",
    "permutation",
    "randint",
    "small_randint",
    "split",
    "uniform",
]

_GAMMA = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15, the golden gamma of splitmix64, as int64
_MIX1 = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_MIX2 = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
_FOLD = 0x2545F4914F6CDD1D  # keeps derived keys apart from the draws of their parent
_SPLIT = 0x5851F42D4C957F2D  # and keeps split apart from fold_in

Shape = int | Sequence[int]


def _require_key(key: Any) -> None:
    if not isinstance(key, Tensor) or key.dtype != torch.int64:
        got = key.dtype if isinstance(key, Tensor) else repr(key)
        raise TypeError(f"key: expected an int64 tensor, got {got}; make one with key(seed)")


def _require_int(name: str, value: Any) -> None:
    """Raise unless a number that is no tensor is a whole one of 64 bits."""
    if isinstance(value, Tensor):
        return
    if not isinstance(value, Integral):
        raise TypeError(f"{name}: expected an int or an int64 tensor, got {value!r}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name}: expected an int of 64 bits, got {value}; take it modulo 2^63")


def _shift(z: Tensor, places: int) -> Tensor:
    """Logical right shift: torch's `>>` on int64 copies the sign, the mask removes the copies."""
    return (z >> places) & ((1 << (64 - places)) - 1)


def _mix(z: Tensor) -> Tensor:
    z = (z ^ _shift(z, 30)) * _MIX1
    z = (z ^ _shift(z, 27)) * _MIX2
    return z ^ _shift(z, 31)


def _dims(shape: Shape) -> tuple[int, ...]:
    dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if any(isinstance(size, float) or size < 0 for size in dims):
        raise ValueError(f"shape: expected whole sizes from 0, got {shape!r}")
    return dims


def _under(value: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Append one unit dimension per entry of `dims`, so that `value` broadcasts over draws."""
    return value.reshape((*value.shape, *(1 for _ in dims)))


def key(
    seed: int | Int[Tensor, "..."], device: torch.device | str | None = None
) -> Int[Tensor, "..."]:
    """The key of a seed (an int, or an int64 tensor of seeds). Errors: a seed that is not whole, or
    has more than 64 bits.

    Examples:
        >>> key(0)
        tensor(-7696910208926366575)
        >>> key(torch.arange(3)).shape  # a key each
        torch.Size([3])
    """
    _require_int("seed", seed)
    return _mix(torch.as_tensor(seed, dtype=torch.int64, device=device) * _GAMMA + _FOLD)


def fold_in(key: Int[Tensor, "..."], data: int | Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A new key from a key and a number, for instance the step of a training run. Errors: a number
    that is not whole.

    Examples:
        >>> fold_in(key(0), 7) == fold_in(key(0), 8)
        tensor(False)
    """
    _require_key(key)
    _require_int("data", data)
    if isinstance(data, Tensor):
        data = data.to(key.device, torch.int64)
    else:  # filled on the device: a copy from the host would make it wait
        data = torch.full((), data, dtype=torch.int64, device=key.device)
    return _mix(_mix(key ^ _FOLD) + data * _GAMMA)


def split(key: Int[Tensor, "..."], num: int = 2) -> Int[Tensor, "... num"]:
    """`num` new keys, independent of the parent's draws and of `fold_in(key, i)`.

    Examples:
        >>> first, second = split(key(0))
        >>> uniform(first), uniform(second)
        (tensor(0.3136), tensor(0.4128))
    """
    _require_key(key)
    return bits(_mix(key ^ _SPLIT), num)


def bits(key: Int[Tensor, "..."], shape: Shape = ()) -> Int[Tensor, "..."]:
    """64 random bits per entry, as int64 of either sign: `[*key.shape, *shape]`.

    Errors, of this and of all that draw: a key that is no int64 tensor, as `key` makes them; sizes
    that are negative or not whole.

    Examples:
        >>> bits(key(0), 2) & 1
        tensor([1, 0])
    """
    _require_key(key)
    dims = _dims(shape)
    count = 1
    for size in dims:
        count *= size
    # ~i = -(i + 1). Written as arange(1, ...) * gamma, the product would be folded by
    # torch.compile in unbounded integers, which then do not fit.
    places = ~torch.arange(count, device=key.device) * -_GAMMA
    return _mix(_under(key, dims) + places.reshape(dims))


def _leading(key: Tensor, shape: Shape, places: int) -> Tensor:
    """The leading `places` bits of each draw, as a nonnegative int64."""
    return _shift(bits(key, shape), 64 - places)


def _mantissa(dtype: torch.dtype) -> int:
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype: expected torch.float32 or torch.float64, got {dtype}")
    return 24 if dtype == torch.float32 else 53


def uniform(
    key: Int[Tensor, "..."],
    shape: Shape = (),
    low: float | Tensor = 0.0,
    high: float | Tensor = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "..."]:
    """Uniform on `[low, high)`: 24 random bits per float32, 53 per float64.

    The float32 draw is the float64 draw of the same key cut to 24 bits.

    Examples:
        >>> uniform(key(0), 3)
        tensor([0.6362, 0.5895, 0.7452])
        >>> uniform(key(0), 2, low=-1.0, high=1.0)
        tensor([0.2725, 0.1791])
    """
    places = _mantissa(dtype)
    unit = _leading(key, shape, places).to(dtype) * 2.0**-places
    if isinstance(low, Tensor) or isinstance(high, Tensor) or (low, high) != (0.0, 1.0):
        return unit * (high - low) + low
    return unit


def normal(
    key: Int[Tensor, "..."], shape: Shape = (), dtype: torch.dtype = torch.float32
) -> Float[Tensor, "..."]:
    """Standard normal, by the inverse distribution function at the mid-points of a 2^-24
    (float64: 2^-53) grid: symmetric about zero, never infinite.

    Examples:
        >>> normal(key(0), (2, 2))
        tensor([[0.3484, 0.2263],
                [0.6595, 2.9259]])
    """
    places = _mantissa(dtype)
    # 2k + 1 - 2^places is odd and below 2^places in size, hence exact in this dtype.
    odd = 2 * _leading(key, shape, places) + (1 - (1 << places))
    return torch.erfinv(odd.to(dtype) * 2.0**-places) * 2**0.5


def bernoulli(
    key: Int[Tensor, "..."], p: float | Float[Tensor, "..."] = 0.5, shape: Shape = ()
) -> Bool[Tensor, "..."]:
    """True with probability `p` (rounded to a multiple of 2^-53): `[*key.shape, *shape]`.

    Examples:
        >>> bernoulli(key(0), 0.7, (4,))
        tensor([ True,  True, False, False])
    """
    return uniform(key, shape, dtype=torch.float64) < p


def randint(
    key: Int[Tensor, "..."],
    shape: Shape,
    low: int | Int[Tensor, "..."],
    high: int | Int[Tensor, "..."],
) -> Int[Tensor, "..."]:
    """Integers of `[low, high)`, by multiply and shift of 32 random bits.

    A value's probability is off by at most 2^-32; the range must lie below 2^31.

    Examples:
        >>> randint(key(0), (4,), 0, 10)
        tensor([6, 5, 7, 9])
    """
    if isinstance(low, int) and isinstance(high, int) and not 0 < high - low < 2**31:
        raise ValueError(f"randint: expected 0 < high - low < 2^31, got low={low}, high={high}")
    return ((_leading(key, shape, 32) * (high - low)) >> 32) + low


def small_randint(key: Int[Tensor, "..."], shape: Shape, high: int) -> Int[Tensor, "..."]:
    """Integers of `[0, high)` for small ranges, three per draw: a third of the cost of `randint`.

    Each takes 21 bits, so that a value's probability is off by at most 2^-21. Errors: high < 1 or
    above 2^16.

    Examples:
        >>> small_randint(key(0), (4,), 10)
        tensor([1, 5, 4, 9])
    """
    if not 0 < high <= 2**16:
        raise ValueError(f"small_randint: expected 1 <= high <= 2^16, got {high}; use randint")
    dims = _dims(shape)
    count = math.prod(dims)
    z = bits(key, -(-count // 3))
    parts = torch.cat([_shift(z, places) & 0x1FFFFF for places in (1, 22, 43)], -1)
    return ((parts[..., :count] * high) >> 21).reshape(*key.shape, *dims)


def permutation(key: Int[Tensor, "..."], n: int, shape: Shape = ()) -> Int[Tensor, "... n"]:
    """Random orders of 0..n-1, one per entry: `[*key.shape, *shape, n]`.

    Examples:
        >>> permutation(key(0), 5)
        tensor([1, 0, 2, 3, 4])
    """
    return bits(key, (*_dims(shape), n)).argsort(dim=-1, stable=True)


def choice(key: Int[Tensor, "..."], n: int, k: int, shape: Shape = ()) -> Int[Tensor, "... k"]:
    """`k` different numbers of 0..n-1 in random order, one set per entry.

    Examples:
        >>> choice(key(0), 100, 3)  # no number twice
        tensor([29, 64, 86])
    """
    if not 0 <= k <= n:
        raise ValueError(f"choice: expected 0 <= k <= n, got k={k}, n={n}")
    return permutation(key, n, shape)[..., :k]
