"""Two one-dimensional objects on a ring, and one neuron that looks at them (ddn Sec. 5.1).

Object 0 is 11 and object 1 is 101, at every position z' = 0..d-1 of a ring of d pixels, all 2 d
images equally likely; a view redraws the position and keeps the object (ddn Eq. 11). So the average
of a connection over views is an average over positions, and the covariance operator is a covariance
over two objects. Nothing here is sampled.

A neuron is w [*b, k], its output psi(w . x), its connection factor * gate(w . x) x; the update is
w + rate * OP w, that of the loss r_+ - r_- in the first tower (ddn Thm. 3). Patterns of a window of
two pixels are in the order of `PATTERNS`.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore import random
from clcore.theory.operator.connection import RELU, Activation

PATTERNS = ("00", "01", "10", "11")
_SIGNS = (1.0, -1.0, -1.0, 1.0)  # how many more windows of object 0 than of object 1 show them


def images(d: int) -> Float[Tensor, "2 d d"]:
    """All images: object, position, pixel (ddn Eq. 11). Errors: d < 4, where 101 and 11 are one."""
    if d < 4:
        raise ValueError(
            f"expected a ring of d >= 4 pixels, got d={d}; on smaller rings 11 and 101 coincide or "
            "overlap themselves"
        )
    eye = torch.eye(d, dtype=torch.float64)
    return torch.stack([eye + eye.roll(gap, 1) for gap in (1, 2)])


def window(x: Float[Tensor, "*b d"], width: int = 2) -> Float[Tensor, "*b k"]:
    """What a receptive field sees; by symmetry it may be the first `width` pixels."""
    return x[..., :width]


def with_bias(x: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k1"]:
    """x with a 1 appended, so that the last weight is a bias."""
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def patterns(bias: bool = False) -> Float[Tensor, "4 k"]:
    """The four patterns of a window of two as vectors, in the order of `PATTERNS`."""
    x = torch.tensor([[int(c) for c in p] for p in PATTERNS], dtype=torch.float64)
    return with_bias(x) if bias else x


def pattern_counts(d: int) -> Int[Tensor, "2 4"]:
    """At how many of the d positions an object shows each pattern (ddn Sec. 5.1). Errors: d < 4."""
    if d < 4:
        raise ValueError(f"expected a ring of d >= 4 pixels, got d={d}")
    return torch.tensor([[d - 3, 1, 1, 1], [d - 4, 2, 2, 0]])


# ------------------------------------------------------------------------------------- the operator


def connections(
    w: Float[Tensor, "*b k"], x: Float[Tensor, "o v k"], activation: Activation = RELU
) -> Float[Tensor, "*b o v k"]:
    """K(x) = psi'(w . x) x of a single neuron, for o objects with v equally likely views each."""
    drive = torch.einsum("...k,ovk->...ov", w, x)
    return activation.factor * activation.gate(drive)[..., None] * x


def operator(
    w: Float[Tensor, "*b k"], x: Float[Tensor, "o v k"], activation: Activation = RELU
) -> Float[Tensor, "*b k k"]:
    """OP = V_{z_0}[E_{z'}[K]], o equally likely objects (ddn Sec. 5)."""
    mean = connections(w, x, activation).mean(-2)
    spread = mean - mean.mean(-2, keepdim=True)
    return spread.mT @ spread / x.shape[0]


def step(
    w: Float[Tensor, "*b k"], x: Float[Tensor, "o v k"], rate: float, activation: Activation = RELU
) -> Float[Tensor, "*b k"]:
    """w + rate * OP(w) w (ddn Eq. 3)."""
    return w + rate * (operator(w, x, activation) @ w[..., None])[..., 0]


def path(
    w: Float[Tensor, "*b k"],
    x: Float[Tensor, "o v k"],
    rate: float,
    steps: int,
    activation: Activation = RELU,
) -> Float[Tensor, "t *b k"]:
    """w after 0, 1, ..., `steps` updates."""
    points = [w]
    for _ in range(steps):
        points.append(step(points[-1], x, rate, activation))
    return torch.stack(points)


# ------------------------------------------------------------------------------------ closed forms


def selected(w: Float[Tensor, "*b k"]) -> Bool[Tensor, "*b 4"]:
    """Which patterns open the neuron's gate; w has two entries, or three with a bias."""
    if w.shape[-1] not in (2, 3):
        raise ValueError(f"expected 2 weights, or 3 with a bias, got {w.shape[-1]}")
    return w @ patterns(w.shape[-1] == 3).T > 0


def axis(open_: Bool[Tensor, "*b 4"], bias: bool = False) -> Float[Tensor, "*b k"]:
    """u_S = x_11 + x_00 - x_01 - x_10 over the open patterns S alone.

    A ReLU neuron with window 2 has OP = u_S u_S^T / (4 d^2); a linear one is open to all (Eq. 12).
    """
    x = patterns(bias)
    signs = torch.tensor(_SIGNS, dtype=x.dtype)
    return (open_.to(x.dtype) * signs) @ x


def closed_operator(w: Float[Tensor, "*b k"], d: int) -> Float[Tensor, "*b k k"]:
    """u_S u_S^T / (4 d^2), the ReLU neuron's operator from the patterns that open it."""
    u = axis(selected(w), w.shape[-1] == 3)
    return u[..., :, None] * u[..., None, :] / (4 * d * d)


# ----------------------------------------------------------------------------- a nuisance subspace


def scramble(
    key: Int[Tensor, ""], x: Float[Tensor, "n d"], basis: Float[Tensor, "d m"], views: int
) -> Float[Tensor, "v n d"]:
    """Views of x whose part in the span of `basis` is multiplied by a random Gaussian matrix.

    basis: orthonormal columns; the m x m matrix is drawn anew for every view of every sample, with
    variance 1 / m; the orthogonal complement is kept as it is (ddn Sec. 5.1).
    """
    m = basis.shape[1]
    part = x @ basis
    G = random.normal(key, (views, x.shape[0], m, m), x.dtype) * m**-0.5
    mixed = (G @ part[..., None])[..., 0]
    return x + (mixed - part) @ basis.T
