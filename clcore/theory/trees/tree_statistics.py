"""A tree-shaped net's information on latents: correlations, covariance operators (ddn Sec. 7).

Correlations are population values, by enumeration of the leaves below a latent, not estimates.
The operator needs the Jacobian of the output, which all leaves enter: it is estimated.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore.theory.trees import leaf_patterns, pattern_net
from clcore.theory.trees.pattern_net import Params

ENUMERATED = 4  # greatest height at which groups are tabulated: 16 leaves, 65536 patterns


def place(path: str, depth: int) -> tuple[int, int]:
    """(depth, number from the left) of the latent at the end of a path of 0 (left) and 1 (right)
    from the root. Errors: other characters, a leaf or deeper."""
    if set(path) - {"0", "1"} or len(path) >= depth:
        raise ValueError(
            f"path: expected at most {depth - 1} characters 0 or 1 in a tree of depth {depth}, "
            f"got {path!r}; 's101' of the paper is '101', the root is ''"
        )
    return len(path), int(path or "0", 2)


def _below(path: str, params: Params, polarity: Tensor) -> tuple[Params, Tensor]:
    """The net and the tree below one latent, as a separate net and tree."""
    depth = len(params) // 2
    at, number = place(path, depth)
    net, rho = {}, []
    for d in range(at, depth):
        width = 2 ** (d - at)
        groups = slice(number * width, (number + 1) * width)
        net |= {f"{n}{d - at}": params[f"{n}{d}"][groups] for n in "wb"}
        rho.append(polarity[2 ** (d + 1) - 2 :][2 * number * width : 2 * (number + 1) * width])
    return net, torch.cat(rho)


def _moments(values: Tensor, law: Tensor) -> tuple[Tensor, Tensor]:
    """E[values | z], E[values^2 | z] [g, 2, N] from values [g, A, N] and P(a | z) [g, 2, A]."""
    return law @ values, law @ values.square()


def correlations(
    params: Params, polarity: Float[Tensor, "edges"], path: str = "", signed: bool = False
) -> Float[Tensor, "N"]:
    """Correlation of a latent with the pre-activations of its group, exact, z_0 fair; 0 where a
    pre-activation is constant, as above children that have died.

    The paper's measure (Tables 4, 6) is the largest absolute one, there over 64000 samples.
    Errors: `place`; a latent with more than 32 leaves below it, too many to enumerate.
    """
    net, rho = _below(path, params, polarity)
    height = len(net) // 2
    if height > ENUMERATED + 1:
        raise ValueError(
            f"path: expected a latent at most {ENUMERATED + 1} layers above the leaves, "
            f"got {path!r}, {height} layers above them"
        )
    net = {name: t.double() for name, t in net.items()}
    if height == 1:
        values, law = (
            pattern_net.tables(net, signed, 0)[-1],
            leaf_patterns.pattern_law(rho.double(), 0),
        )
        mean, square = _moments(values, law)
        spread = square - mean.square()
    else:
        values = torch.relu(pattern_net.tables(net, signed, 1)[-1])
        parts = values @ pattern_net.sides(net["w0"], values.shape[-1])
        law = leaf_patterns.pattern_law(rho.double(), 1)
        law = leaf_patterns.given_parent(rho.double(), 1) @ law
        mean, square = _moments(parts, law)
        # Given the latent its two children's parts are independent.
        mean, spread = mean.sum(0, True), (square - mean.square()).sum(0, True)
    mean, spread = mean[0], spread[0]
    half = (mean[1] - mean[0]) / 2  # cov(z, f) = half / 2, the variance of z is 1 / 4
    total = spread.mean(0) + half.square()
    alive = total > 1e-14 * mean.square().amax(0)  # less is rounding of a constant
    return torch.where(alive, half / torch.where(alive, total, 1.0).sqrt(), 0.0)


def operator_norms(
    params: Params,
    tables: Mapping,
    key: Int[Tensor, ""],
    paths: Sequence[str],
    samples: int = 1024,
    signed: bool = False,
) -> dict[str, dict[str, Float[Tensor, ""]]]:
    """Frobenius norms, for groups mu, of what survives the augmentation, V_{z_0}[E[. | z_0]], of

    "own": the group's activations f_mu; "cov": its children's, as in ddn Theorem 6; "op": the
    connection K_mu = f_children (x) J_mu^T, with the Jacobian J_mu of the output f_L with respect
    to the group's pre-activations (ddn Definition 1, Theorem 3, remark after Theorem 6); "unit":
    the same with the l2-normalised output's (Eqs. 41, 56). z_0 fair.

    tables: `leaf_patterns.sampler`. Means over `samples` views a root value, in two independent
    halves A, B: with D the difference of the two roots' means the operator is D D^T / 4, whose
    norm is that of D^T D / 4, and D_A^T D_B has no bias from the noise. Errors: `place`.
    """
    depth = len(params) // 2
    roots = torch.arange(4, device=key.device).repeat_interleave(samples // 2) // 2
    patterns = leaf_patterns.draw(key, tables, roots)
    leaf = leaf_patterns.leaves(patterns, depth).to(params["w0"].dtype)
    leaf = 2 * leaf - 1 if signed else leaf
    values = pattern_net.by_sample(params, leaf)
    f = values[0][0]
    norm = torch.linalg.vector_norm(f, dim=-1, keepdim=True)
    y = f / norm
    eye = torch.eye(f.shape[-1], dtype=f.dtype, device=f.device)
    top = (eye - y[:, :, None] * y[:, None, :]) / norm[:, :, None]
    found = {}
    for path in paths:
        place(path, depth)
        slope, number = eye.expand(len(f), -1, -1), 0
        for d, side in enumerate(map(int, path)):
            w = pattern_net.sides(params[f"w{d}"][number : number + 1], f.shape[-1])[side]
            number = 2 * number + side
            slope = slope @ w.mT * (values[d + 1][number] > 0)[:, None, :]
        d, children = len(path) + 1, slice(2 * number, 2 * number + 2)
        if d == depth:
            below = leaf[:, children]
        else:
            below = torch.relu(values[d][children]).movedim(0, 1).flatten(1)
        below, slope, unit = (t.unflatten(0, (4, -1)) for t in (below, slope, top @ slope))
        plain, normed = (
            torch.einsum("qbi,qbon->qino", below, J).flatten(1, 2) / (samples // 2)
            for J in (slope, unit)
        )
        own = torch.relu(values[d - 1][number]).unflatten(0, (4, -1))
        found[path] = {
            "own": _norm(own.mean(1)[..., None]),
            "cov": _norm(below.mean(1)[..., None]),
            "op": _norm(plain),
            "unit": _norm(normed),
        }
    return found


def _norm(mean: Tensor) -> Tensor:
    """||D D^T||_F / 4 from means [4, rows, columns] of root 0 twice and root 1 twice."""
    first, second = mean[2] - mean[0], mean[3] - mean[1]
    return torch.linalg.matrix_norm(first.mT @ second) / 4
