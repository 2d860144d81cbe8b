"""Deep nets without biases, and how a pair of outputs pulls at a layer (ddn Sec. 3, App. A).

A net is `weights` = (W_1, ..., W_L), W_l of shape [*b, n_l, n_{l-1}], with pre-activations
pre_l = W_l f_{l-1}, activations f_l = psi(pre_l) below the top and f_L = pre_L at the top, which is
linear; f_0 = x. Leading dimensions are draws; x is [*b, n, n_0] for n samples. Layers count from 1,
as in the paper. A layer may also be a `Residual` block.

Activations here obey psi(u) = gate(u) u and psi'(u) = factor * gate(u): all that the paper's
"reversible" layers need. ReLU's gate at 0 is 0, as is torch's derivative there.

vec(W) stacks the columns of W, so entry W[i, j] of an n_l x n_{l-1} matrix has index j n_l + i, and
vec(A X B) = (B^T kron A) vec(X). Everything called K_l, or a gradient in vec form, uses this order.
All derivatives of r = |f_L(x_1; W_1) - f_L(x_2; W_2)|^2 / 2 are those of the first tower only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Activation:
    """psi(u) = gate(u) u, with derivative factor * gate(u)."""

    name: str
    gate: Callable[[Tensor], Tensor]
    factor: float = 1.0

    def __call__(self, u: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
        """psi(u)."""
        return self.gate(u) * u


LINEAR = Activation("linear", torch.ones_like)
RELU = Activation("relu", lambda u: (u > 0).to(u.dtype))


def leaky_relu(slope: float = 0.05) -> Activation:
    """psi(u) = u above zero and slope * u below."""

    def gate(u: Tensor) -> Tensor:
        return torch.where(u > 0, torch.ones_like(u), torch.full_like(u, slope))

    return Activation("leaky relu", gate)


def power(p: float) -> Activation:
    """psi(u) = u^p (ddn Eq. 18); for a p that is no integer, u must be positive. Errors: p <= 1."""
    if p <= 1:
        raise ValueError(f"expected a power p > 1, got {p}; p = 1 is LINEAR")
    return Activation("power", lambda u: u ** (p - 1), p)


@dataclass(frozen=True)
class Residual:
    """The block pre = f + outer psi(inner f), with inner [*b, h, m] and outer [*b, m, h].

    psi is the block's own; the net's activation follows on the sum, as after any layer.
    """

    inner: Tensor
    outer: Tensor
    activation: Activation = RELU


Layer = Tensor | Residual


@dataclass(frozen=True)
class Trace:
    """What `trace` keeps: pre = (pre_1, ..., pre_L) and post = (f_0, ..., f_L), [*b, n, n_l]."""

    weights: tuple[Layer, ...]
    activation: Activation
    pre: tuple[Tensor, ...]
    post: tuple[Tensor, ...]

    @property
    def output(self) -> Tensor:
        """f_L, [*b, n, n_L]."""
        return self.post[-1]


# ------------------------------------------------------------------------------------- the columns


def vec(W: Float[Tensor, "*b r c"]) -> Float[Tensor, "*b rc"]:
    """The columns of W on top of each other."""
    return W.mT.flatten(-2)


def unvec(v: Float[Tensor, "*b rc"], rows: int) -> Float[Tensor, "*b r c"]:
    """The matrix of `rows` rows that `vec` made v from. Errors: rows do not divide its length."""
    if v.shape[-1] % rows:
        raise ValueError(f"expected a length that {rows} rows divide, got {v.shape[-1]}")
    return v.unflatten(-1, (-1, rows)).mT


# ------------------------------------------------------------------------------------- the forward


def _require_width(layer: int, columns: int, f: Tensor) -> None:
    if f.shape[-1] != columns:
        raise ValueError(
            f"expected {columns} inputs to layer {layer}, as its weights have columns, got "
            f"{f.shape[-1]}; weights are (W_1, ..., W_L), the bottom first, and x is [*b, n, n_0]"
        )


def _apply(number: int, layer: Layer, f: Tensor) -> Tensor:
    if isinstance(layer, Residual):
        _require_width(number, layer.inner.shape[-1], f)
        return f + layer.activation(f @ layer.inner.mT) @ layer.outer.mT
    _require_width(number, layer.shape[-1], f)
    return f @ layer.mT


def trace(
    weights: Sequence[Layer], x: Float[Tensor, "*b n d"], activation: Activation = RELU
) -> Trace:
    """The net's pass over n samples, all layers kept (ddn Sec. 3).

    Errors: no layer; widths that do not fit.
    """
    if not weights:
        raise ValueError("expected at least one layer, got none; weights are (W_1, ..., W_L)")
    pre, post = [], [x]
    for number, layer in enumerate(weights, 1):
        pre.append(_apply(number, layer, post[-1]))
        post.append(pre[-1] if number == len(weights) else activation(pre[-1]))
    return Trace(tuple(weights), activation, tuple(pre), tuple(post))


def unit(f: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """f / |f|, the l2-normalised output (ddn Eq. 28)."""
    return f / f.norm(dim=-1, keepdim=True)


def distance(first: Trace, second: Trace, normalised: bool = False) -> Float[Tensor, "*b n"]:
    """r = |f - f'|^2 / 2 of the outputs of two towers; `normalised`: r_n of ddn Eq. 28."""
    f, g = first.output, second.output
    if normalised:
        f, g = unit(f), unit(g)
    return (f - g).square().sum(-1) / 2


# --------------------------------------------------------------------------------- the way back


def _require_layer(net: Trace, layer: int) -> None:
    if not 1 <= layer <= len(net.weights):
        raise ValueError(f"expected a layer from 1 to {len(net.weights)}, got {layer}")


def gate(net: Trace, layer: int) -> Float[Tensor, "*b n m"]:
    """The diagonal of D_l with f_l = D_l pre_l; ones for l = 0 and l = L. Errors: no such layer."""
    if layer == 0 or layer == len(net.weights):
        return torch.ones_like(net.post[layer])
    _require_layer(net, layer)
    return net.activation.gate(net.pre[layer - 1])


def reversible(net: Trace, layer: int) -> tuple[Float[Tensor, "*b n m k"], Float[Tensor, "m m"]]:
    """(G_l, Q_l) with pre_l = G_l pre_{l-1} and dr/dpre_{l-1} = G_l^T Q_l^T dr/dpre_l.

    G_l = W_l D_{l-1} and Q_l = factor * I (ddn Eqs. 16-18); for a residual block, I + outer D inner
    takes the place of W_l. Layer 1 has pre_0 = x and Q_1 = I.
    Errors: no such layer; a residual block with an activation that is not piecewise linear.
    """
    _require_layer(net, layer)
    W, psi, f = net.weights[layer - 1], net.activation, net.post[layer - 1]
    if isinstance(W, Residual):
        if W.activation.factor != 1:
            raise ValueError(
                "expected a piecewise linear activation inside a residual block, got "
                f"{W.activation.name!r}; only there is the block's Jacobian the matrix that it "
                "multiplies its input by"
            )
        gates = W.activation.gate(f @ W.inner.mT)
        move = W.outer.unsqueeze(-3) @ (gates[..., None] * W.inner.unsqueeze(-3))
        W = move + torch.eye(f.shape[-1], dtype=f.dtype, device=f.device)
    else:
        W = W.unsqueeze(-3)
    scale = psi.factor if layer > 1 else 1.0
    eye = torch.eye(W.shape[-2], dtype=f.dtype, device=f.device)
    return W * gate(net, layer - 1).unsqueeze(-2), scale * eye


def transitions(
    net: Trace, layer: int
) -> tuple[Float[Tensor, "*b n k m"], Float[Tensor, "*b n k m"]]:
    """(V^f_l, V^b_l), [n_L, n_l] a sample: f_L = V^f_l pre_l and df_L/dpre_l = V^b_l.

    ddn Lemma 1; l = 0 is the input. Errors: no such layer.
    """
    if layer:
        _require_layer(net, layer)
    f = net.output
    eye = torch.eye(f.shape[-1], dtype=f.dtype, device=f.device)
    forward = backward = eye.expand(*f.shape, f.shape[-1])
    for number in range(len(net.weights), layer, -1):
        G, Q = reversible(net, number)
        forward, backward = forward @ G, backward @ Q @ G
    return forward, backward


def jacobian(net: Trace, layer: int) -> Float[Tensor, "*b n k m"]:
    """J_l = df_L/dpre_l, [n_L, n_l] a sample (ddn Sec. 3). Errors: no such layer."""
    return transitions(net, layer)[1]


def _matrix(net: Trace, layer: int) -> Tensor:
    _require_layer(net, layer)
    weight = net.weights[layer - 1]
    if isinstance(weight, Residual):
        raise ValueError(
            f"expected layer {layer} to be a weight matrix, got a residual block; a connection "
            "belongs to one matrix"
        )
    return weight


def connection(net: Trace, layer: int) -> Float[Tensor, "*b n w k"]:
    """K_l = f_{l-1} kron J_l^T, [n_l n_{l-1}, n_L] a sample (ddn Def. 1).

    It is the transposed Jacobian of f_L by vec(W_l). Errors: no such layer; a residual block.
    """
    _matrix(net, layer)
    f, J = net.post[layer - 1], jacobian(net, layer)
    return (f[..., :, None, None] * J.mT.unsqueeze(-3)).flatten(-3, -2)


def normalised_connection(net: Trace, layer: int) -> Float[Tensor, "*b n w k"]:
    """K^n_l = K_l / |f_L| (ddn Eq. 41). Errors: as `connection`."""
    return connection(net, layer) / net.output.norm(dim=-1)[..., None, None]


def projector(f: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d d"]:
    """P = I - f f^T / |f|^2, onto what is orthogonal to f (ddn Eq. 42)."""
    u = unit(f)
    eye = torch.eye(f.shape[-1], dtype=f.dtype, device=f.device)
    return eye - u[..., :, None] * u[..., None, :]


def distance_gradient(
    first: Trace, second: Trace, layer: int, normalised: bool = False
) -> Float[Tensor, "*b n w"]:
    """vec of dr/dW_{1,l} for each pair of samples, by Theorem 1 (ddn Eq. 1), never by autograd.

    K_1 [K_1^T vec(W_1) - K_2^T vec(W_2)]; `normalised`: of r_n, K_1^n P [...] (ddn Eq. 41). True
    where factor = 1: linear, ReLU and leaky ReLU. Errors: other activations; as `connection`.
    """
    if first.activation.factor != 1 or second.activation.factor != 1:
        raise ValueError(
            f"expected activations whose derivative is their gate, got {first.activation.name!r} "
            f"and {second.activation.name!r}; Theorem 1 needs Q = I"
        )
    of = normalised_connection if normalised else connection
    K1, K2 = of(first, layer), of(second, layer)
    w1, w2 = (vec(_matrix(net, layer))[..., None, :, None] for net in (first, second))
    gap = K1.mT @ w1 - K2.mT @ w2
    if normalised:
        gap = projector(first.output) @ gap
    return (K1 @ gap)[..., 0]
