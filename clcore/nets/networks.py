"""Networks as plain functions of a dict of weights, for one run."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random as cr

# Homogeneous activations: h(u) = h'(u) u, up to the exponent of a monomial (nl Sec. 3).
ACTIVATIONS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "linear": lambda u, slope: u,
    "relu": lambda u, slope: u.relu(),
    "leaky_relu": lambda u, slope: torch.where(u > 0, u, slope * u),
    "quadratic": lambda u, slope: u * u,
    "cubic": lambda u, slope: u * u * u,
}


def activate(u: Float[Tensor, "..."], kind: str, slope: float = 0.05) -> Float[Tensor, "..."]:
    """A homogeneous activation by name; `slope` is that of the leaky ReLU below zero.

    Examples:
        >>> activate(torch.tensor([-1.0, 2.0]), "leaky_relu", slope=0.1)
        tensor([-0.1000,  2.0000])
    """
    if kind not in ACTIVATIONS:
        raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {kind!r}")
    return ACTIVATIONS[kind](u, slope)


def receptive_field_init(
    key: Int[Tensor, ""], fields: int, filters: int, inputs: int, outputs: int
) -> dict[str, Tensor]:
    """Weights W `K M d` of the fields and V `n K*M` of the top layer, uniform within
    +-1/sqrt(fan-in) as torch's linear layers are; no bias (nl Sec. 4).

    Examples:
        >>> params = receptive_field_init(random.key(0), fields=4, filters=3, inputs=2, outputs=5)
        >>> params["W"].shape, params["V"].shape
        (torch.Size([4, 3, 2]), torch.Size([5, 12]))
    """
    lower, top = cr.split(key)
    a, b = inputs**-0.5, (fields * filters) ** -0.5
    return {
        "W": cr.uniform(lower, (fields, filters, inputs), -a, a),
        "V": cr.uniform(top, (outputs, fields * filters), -b, b),
    }


def embed(tokens: Int[Tensor, "N K"], embedding: Float[Tensor, "T d"]) -> Float[Tensor, "N K d"]:
    """The input of a receptive-field net, `embedding[tokens]`.

    It lies in memory as K N d: stacked over runs, the fields then multiply it without a copy.

    Examples:
        >>> embed(torch.tensor([[0, 2]]), torch.eye(3))  # one sample of two tokens
        tensor([[[1., 0., 0.],
                 [0., 0., 1.]]])
    """
    return torch.nn.functional.embedding(tokens.T.contiguous(), embedding).transpose(0, 1)


def fields(
    W: Float[Tensor, "K M d"], x: Float[Tensor, "N K d"], kind: str, slope: float = 0.05
) -> Float[Tensor, "N K M"]:
    """Outputs of the lower layer: field k's filters see x's k-th part only (nl Sec. 4)."""
    # The product is laid out as K M N, whose N (K M) view the top layer takes without a copy.
    u = torch.bmm(W, x.permute(1, 2, 0))
    return activate(u, kind, slope).permute(2, 0, 1)


def receptive_field(
    params: dict[str, Tensor], x: Float[Tensor, "N K d"], kind: str, slope: float = 0.05
) -> Float[Tensor, "N n"]:
    """Two-layer net with K disjoint receptive fields: V h(W_k x_k), k = 1..K (nl Sec. 4).

    Examples:
        >>> params = receptive_field_init(random.key(0), fields=4, filters=3, inputs=2, outputs=5)
        >>> receptive_field(params, torch.ones(7, 4, 2), "relu").shape
        torch.Size([7, 5])
    """
    return fields(params["W"], x, kind, slope).flatten(1) @ params["V"].T


def mlp_init(key: Int[Tensor, ""], sizes: Sequence[int]) -> dict[str, Tensor]:
    """Weights W1 to WL of shapes `sizes[l+1] sizes[l]`, normal with variance 1/fan-in.

    Examples:
        >>> {name: list(w.shape) for name, w in mlp_init(random.key(0), (5, 8, 2)).items()}
        {'W1': [8, 5], 'W2': [2, 8]}
    """
    if len(sizes) < 2:
        raise ValueError(f"sizes: expected an input and an output size at least, got {list(sizes)}")
    if any(size < 1 for size in sizes):
        raise ValueError(f"sizes: expected each to be at least 1, got {list(sizes)}")
    keys = cr.split(key, len(sizes) - 1)
    return {
        f"W{i + 1}": cr.normal(keys[i], (sizes[i + 1], sizes[i])) * sizes[i] ** -0.5
        for i in range(len(sizes) - 1)
    }


def mlp(
    params: dict[str, Tensor], x: Float[Tensor, "N d"], kind: str, slope: float = 0.05
) -> Float[Tensor, "N n"]:
    """Layers W1 to WL in order, with the activation between them: none after the last.

    Examples:
        >>> params = mlp_init(random.key(0), (5, 8, 2))
        >>> mlp(params, torch.ones(3, 5), "relu").shape
        torch.Size([3, 2])
    """
    for layer in range(1, len(params)):
        x = activate(x @ params[f"W{layer}"].T, kind, slope)
    return x @ params[f"W{len(params)}"].T
