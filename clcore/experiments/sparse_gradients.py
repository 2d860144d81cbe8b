"""Losses of `sparse_training` and their gradients, written out for all runs at once.

`sparse_models` and autograd define them; here are the same numbers, up to rounding, in the fewest
passes over memory. Tensors are `runs V features samples`, V the two networks or the two views of
one; the samples come last, so that products are fast and statistics of a unit are sums of
neighbours. A layer goes forth to its output and a dict of what its way back needs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.experiments.sparse_models import BOTH, EPS, activation_of, inverse_norm
from clcore.losses import infonce_large
from clcore.sweep.configs import Config
from clcore.sweep.optim import Params

Kept = dict[str, Tensor]

_THRESHOLDS: dict[tuple[str, bool], tuple[int, int | None]] = {
    ("paper", False): (-1, -1),
    ("paper", True): (-1, -1),
    ("released", False): (1, 1),
    ("released", True): (0, 2),
    ("plain", False): (1, None),
    ("plain", True): (0, None),
}
"""(activation, BatchNorm) -> k, l of ReLU(z + k b) - ReLU(-z + l b), which both symmetric ReLUs
are; z is W x, after BatchNorm if there is one. The plain ReLU is the first term alone."""


def _kept_where(slope: Tensor, positive: Tensor) -> Tensor:
    """`slope` where the other is above 0, else 0; faster than a mask of booleans."""
    return torch.ops.aten.threshold_backward(slope, positive, 0)


# ----------------------------------------------------------------------------------------- layers


def _layer(net: Params, x: Tensor, suffix: str, activation: str | None) -> tuple[Tensor, Kept]:
    W, b = net["W" + suffix], net["b" + suffix][..., None]
    norm, kept = "gain" + suffix in net, {"x": x}
    u = W @ x
    shift: Tensor | None = None
    if norm:
        u -= u.mean(-1, keepdim=True)
        spread = torch.rsqrt((u * u).mean(-1, keepdim=True) + EPS)
        scale, shift = net["gain" + suffix][..., None] * spread, net["shift" + suffix][..., None]
        kept |= {"u": u, "spread": spread, "scale": scale}
    if activation is None:
        return (u.add_(b) if shift is None else torch.addcmul(shift, u, scale)), kept
    k, low = _THRESHOLDS[activation, norm]
    if shift is None:
        over = torch.add(u, b, alpha=k)
    else:
        over = torch.addcmul(torch.add(shift, b, alpha=k), u, scale)
    kept["over"] = over.relu_()
    if low is None:
        return over, kept
    if shift is None:
        under = torch.sub(low * b, u)
    else:
        under = torch.addcmul(torch.sub(low * b, shift), u, -scale)
    kept["under"] = under.relu_()
    return over - under, kept


def _layer_back(
    net: Params, kept: Kept, slope: Tensor, suffix: str, activation: str | None, deeper: bool
) -> tuple[Params, Tensor | None]:
    """Gradients of a layer's parameters from the slope of the loss in its output; and, if there is
    a layer before it, the slope in its input."""
    W, norm, grads = net["W" + suffix], "gain" + suffix in net, {}
    if activation is None:
        both = slope.sum(-1)
        grads["b"] = torch.zeros_like(both) if norm else both
    else:
        k, low = _THRESHOLDS[activation, norm]
        above = _kept_where(slope, kept["over"])
        both = above.sum(-1)
        grads["b"] = k * both
        if low is not None:
            below = _kept_where(slope, kept["under"])
            other = below.sum(-1)
            grads["b"], both = torch.sub(grads["b"], other, alpha=low), both + other
            above = above.add_(below)
        slope = above
    if norm:
        u, n = kept["u"], slope.shape[-1]
        along = (slope * u).sum(-1, keepdim=True)
        grads |= {"gain": (along * kept["spread"])[..., 0], "shift": both}
        mean = both[..., None] / n
        slope = slope - mean if activation is None else slope.sub_(mean)  # what came is not ours
        slope.addcmul_(u, along * kept["spread"].square() / -n)
    into_W = slope @ kept["x"].mT
    grads["W"] = into_W * kept["scale"] if norm else into_W
    back = ((W * kept["scale"] if norm else W).mT @ slope) if deeper else None
    return {name + suffix: _of(g, net[name + suffix]) for name, g in grads.items()}, back


def _of(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The gradient of a parameter that both views share is the sum of theirs."""
    if parameter.shape[1] == gradient.shape[1]:
        return gradient
    return gradient.sum(1, keepdim=True)


def _encode(net: Params, x: Tensor, activation: str | None) -> tuple[Tensor, list[Kept]]:
    h, first = _layer(net, x, "", activation)
    if "W2" not in net:
        return h, [first]
    h, second = _layer(net, h, "2", activation)
    return h, [first, second]


def _encode_back(net: Params, kept: list[Kept], slope: Tensor, activation: str | None) -> Params:
    grads: Params = {}
    if len(kept) == 2:
        grads, before = _layer_back(net, kept[1], slope, "2", activation, deeper=True)
        assert before is not None
        slope = before
    return grads | _layer_back(net, kept[0], slope, "", activation, deeper=False)[0]


def _head(params: Params, h: Tensor) -> Tensor:
    return (params["P"][:, None] @ h).add_(params["q"][:, None, :, None])


def _head_back(params: Params, h: Tensor, slope: Tensor) -> tuple[Params, Tensor]:
    grads = {"P": (slope @ h.mT).sum(1), "q": slope.sum(-1).sum(1)}
    return grads, params["P"][:, None].mT @ slope


# ----------------------------------------------------------------------------------------- losses


def _cosine(u: Tensor, v: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Cosines of samples, and `factor` times their slope in u: v / |u||v| - cos u / |u|^2."""
    of_u, of_v = (inverse_norm((w * w).sum(-2, keepdim=True)) for w in (u, v))
    both = of_u * of_v
    cos = (u * v).sum(-2, keepdim=True) * both
    return cos.squeeze(-2), (u * (cos * of_u.square() * -factor)).addcmul_(v, both * factor)


def _non_contrastive(params: Params, views: Tensor, c: Config) -> tuple[Tensor, Params]:
    activation, turn = activation_of(c), c["turn"]
    if turn == BOTH:  # the online network sees the first view
        own = c | {"mask": "dependent"}
        one, other = (_non_contrastive(params, views, own | {"turn": at}) for at in (0, 1))
        return one[0] + other[0], {n: g + other[1][n] for n, g in one[1].items()}
    nets = {n: t for n, t in params.items() if n not in ("P", "q")}
    # Independent views are exchangeable, and the learner takes the first: networks in its order.
    at = 0
    if c["mask"] == "dependent":
        at = turn
    elif turn:
        nets = {n: t.flip(1) for n, t in nets.items()}
    h, kept = _encode(nets, views, activation)
    hidden, v = h[:, at : at + 1], h[:, 1 - at : 2 - at]
    u = _head(params, hidden) if c["head"] else hidden
    n = u.shape[-1]
    if c["unit"]:
        cos, slope = _cosine(u, v, -2 / n)
        losses = 2 - 2 * cos.mean((1, 2))
    else:
        apart = u - v
        losses, slope = apart.square().sum((1, 2, 3)) / n, apart * (2 / n)
    grads: Params = {}
    if c["head"]:
        grads, slope = _head_back(params, hidden, slope)
    mine = [{n: t[:, at : at + 1] for n, t in layer.items()} for layer in kept]
    net = {n: t[:, at : at + 1] for n, t in nets.items()}
    for name, g in _encode_back(net, mine, slope, activation).items():
        beside = (turn, 1 - turn)  # zeros for the other network, on its side
        grads[name] = torch.nn.functional.pad(g, (0, 0) * (g.ndim - 2) + beside)
    return losses, grads


def _sim_siam(params: Params, views: Tensor, c: Config) -> tuple[Tensor, Params]:
    activation = activation_of(c)
    z, kept = _encode(params, views, activation)
    between: Params = {}
    if "R" in params:  # the projector is a layer, and shared by both views
        names = {"W": "R", "b": "r", "gain": "gainR", "shift": "shiftR"}
        between = {ours: params[theirs][:, None] for ours, theirs in names.items()}
        z, above = _layer(between, z, "", activation)
    p = _head(params, z)
    cos, slope = _cosine(p, z.flip(1), -0.5 / z.shape[-1])
    grads, slope = _head_back(params, z, slope)
    if between:
        own, slope = _layer_back(between, above, slope, "", activation, deeper=True)
        grads |= {names[name]: g[:, 0] for name, g in own.items()}
        assert slope is not None
    return -cos.mean((1, 2)), grads | _encode_back(params, kept, slope, activation)


def _contrastive(params: Params, views: Tensor, c: Config) -> tuple[Tensor, Params]:
    activation = activation_of(c)
    hidden, kept = _encode(params, views, activation)
    h = _head(params, hidden) if c["head"] else hidden
    inverse = inverse_norm((h * h).sum(-2, keepdim=True))
    z, temperature = h * inverse, c["temperature"]
    if c["loss_kind"] == "nt-xent":
        losses, slope = infonce_large.all_columns(z, temperature)
    else:
        losses, slope = infonce_large.other_columns(z, temperature)
    slope = slope.addcmul_(z, -(slope * z).sum(-2, keepdim=True)).mul_(inverse)
    grads: Params = {}
    if c["head"]:
        grads, slope = _head_back(params, hidden, slope)
    return losses, grads | _encode_back(params, kept, slope, activation)


_LOSSES = {"non-contrastive": _non_contrastive, "simsiam": _sim_siam}
_LOSSES |= {"contrastive": _contrastive, "nt-xent": _contrastive}


def gradient(
    params: Params, views: Float[Tensor, "runs two N p"], c: Config
) -> tuple[Float[Tensor, "runs"], Params]:
    """Losses of all runs, and their gradients under the names of the parameters: those of
    `sparse_training`, ncl Eq. 4-6, 8. c: settings that all runs share, with the step's `turn`."""
    return _LOSSES[c["loss_kind"]](params, views.mT, c)
