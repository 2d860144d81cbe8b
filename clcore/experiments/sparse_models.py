"""Encoders and losses of ncl's experiments, for one run: Sec. 4.1, 5.2.2, App. A.2, B.

An encoder is a dict of tensors: W, b, and with BatchNorm gain and shift; a second layer has the
same names with a 2. Views are `N p` or `two N p`; BatchNorm takes its statistics over N, separately
a view. Losses act on cosines: an output that is exactly zero (a view with every coordinate masked,
a sample inside the dead zone of every unit) has no direction, and counts as cosine 0 with
everything, without gradient.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from clcore.losses import infonce_large
from clcore.sweep.configs import Config
from clcore.sweep.optim import Params
from clcore.theory.sparse.sparse_coding import released_symmetric_relu, symmetric_relu

EPS = 1e-5
LEAST = 1e-24
"""Squared norm below which an output has no direction; torch's normalize takes the same floor."""

BOTH = 2
"""The turn in which both networks learn from one batch, each from the other as it was."""


def _plain_relu(u: Tensor, b: Tensor) -> Tensor:
    return torch.relu(u)  # u has its bias already


ACTIVATIONS = {"paper": symmetric_relu, "released": released_symmetric_relu, "plain": _plain_relu}


def activation_of(c: Config) -> str | None:
    """The name in ACTIVATIONS of a configuration's activation; None of a linear encoder."""
    if not c["relu"]:
        return None
    return "plain" if c["plain"] else c["protocol"]


# --------------------------------------------------------------------------------------- encoders


def linear_batch_norm(
    x: Float[Tensor, "*two N p"],
    W: Float[Tensor, "m p"],
    gain: Float[Tensor, "m"],
    shift: Float[Tensor, "m"],
) -> Float[Tensor, "*two N m"]:
    """BatchNorm (training mode, biased variance, eps 1e-5) of W x, without a pass over W x.

    Its mean is W mean(x) and its variance w C w^T with C the covariance of x, so that W, scaled a
    row, does it all. A bias in front of BatchNorm has no effect. A unit of variance 0 gives
    `shift`.
    """
    centred = x - x.mean(-2, keepdim=True)
    C = centred.mT @ centred / x.shape[-2]
    variance = ((W @ C) * W).sum(-1)
    scaled = W * (gain * torch.rsqrt(variance + EPS))[..., None]
    return centred @ scaled.mT + shift


def _layer(net: Params, x: Tensor, suffix: str, activation: str | None) -> Tensor:
    W, b = net["W" + suffix], net["b" + suffix]
    if "gain" + suffix in net:
        u = linear_batch_norm(x, W, net["gain" + suffix], net["shift" + suffix])
    else:
        u = x @ W.mT
        if activation != "paper":  # Eq. 14 takes its bias as a threshold, not as an offset
            u = u + b
    return ACTIVATIONS[activation](u, b) if activation else u


def encode(
    net: Params,
    x: Float[Tensor, "*two N p"],
    activation: str | None = "paper",
) -> Float[Tensor, "*two N m"]:
    """W x + b with BatchNorm if there is a gain and a symmetric ReLU: "paper" is Eq. 14 on W x,
    "released" the program's on W x + b; "plain" is ReLU(W x + b), None is linear. A second layer
    does the same again."""
    h = _layer(net, x, "", activation)
    return _layer(net, h, "2", activation) if "W2" in net else h


def head(h: Float[Tensor, "*b m"], P: Float[Tensor, "k m"], q: Float[Tensor, "k"]) -> Tensor:
    """A linear predictor or projector: P h + q."""
    return h @ P.mT + q


# ----------------------------------------------------------------------------------------- losses


def inverse_norm(square: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """1 / norm from a squared norm, 0 (and no gradient) where there is no direction."""
    return torch.rsqrt(square.clamp(min=LEAST)) * (square > LEAST)


def cosine(u: Float[Tensor, "*b m"], v: Float[Tensor, "*b m"]) -> Float[Tensor, "*b"]:
    """Cosines of rows; 0 where either is zero."""
    return (u * v).sum(-1) * inverse_norm((u * u).sum(-1)) * inverse_norm((v * v).sum(-1))


def directions(u: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
    """Rows of norm 1; zero rows stay zero, without gradient."""
    return u * inverse_norm((u * u).sum(-1, keepdim=True))


def non_contrastive(
    u: Float[Tensor, "N m"],
    v: Float[Tensor, "N m"],
    unit: bool = True,
) -> Float[Tensor, ""]:
    """Mean squared distance of the outputs of learner u and teacher v, which gets no gradient.

    unit: of their directions, 2 - 2 cos (ncl Eq. 4, 5); else of the outputs themselves.
    """
    v = v.detach()
    each = 2 - 2 * cosine(u, v) if unit else (u - v).square().sum(-1)
    return each.mean()


def sim_siam(
    p: Float[Tensor, "two N m"],
    z: Float[Tensor, "two N m"],
) -> Float[Tensor, ""]:
    """-(cos(p_1, z_2) + cos(p_2, z_1)) / 2, mean over samples, no gradient through z."""
    return -cosine(p, z.flip(0).detach()).mean()


def contrastive(
    a: Float[Tensor, "N m"], b: Float[Tensor, "N m"], temperature: float = 0.05
) -> Float[Tensor, ""]:
    """ncl Eq. 8 on cosines: the anchor is a first view, its negatives the second views of the other
    N - 1 samples; ncl's tau is 1 / temperature. Errors: temperature < 0.025."""
    return infonce_large.other_views(directions(a), directions(b), temperature)


def nt_xent(
    a: Float[Tensor, "N m"], b: Float[Tensor, "N m"], temperature: float = 0.05
) -> Float[Tensor, ""]:
    """NT-Xent: 2N anchors, each with its other view against that and 2N - 2 negatives. Errors:
    temperature < 0.025."""
    return infonce_large.all_views(directions(a), directions(b), temperature)


# ------------------------------------------------------------------------------ a run's own loss


def loss_of(params: Params, views: Float[Tensor, "two N p"], c: Config) -> Float[Tensor, ""]:
    """The loss of one run of `sparse_training` with configuration c and the step's `turn`: ncl
    Eq. 4-6, 8. Encoder tensors have the networks on their first axis. Where BOTH learn, the sum of
    their two losses."""
    activation = activation_of(c)
    encoder = {n: t for n, t in params.items() if n not in ("P", "q", "R", "r", "gainR", "shiftR")}
    if c["loss_kind"] == "non-contrastive":
        turn = c["turn"]
        if turn == BOTH:  # of one batch, of which the online network sees the first view
            own = c | {"mask": "dependent"}
            one, other = (loss_of(params, views, own | {"turn": at}) for at in (0, 1))
            return one + other
        learner = {n: t[turn] for n, t in encoder.items()}
        teacher = {n: t[1 - turn].detach() for n, t in encoder.items()}
        # Independent views are exchangeable; of others the online network always sees the first.
        mine, theirs = views.flip(0) if turn and c["mask"] == "dependent" else views
        u, v = encode(learner, mine, activation), encode(teacher, theirs, activation)
        u = head(u, params["P"], params["q"]) if c["head"] else u
        return non_contrastive(u, v, c["unit"])
    h = encode({n: t[0] for n, t in encoder.items()}, views, activation)
    if c["loss_kind"] == "simsiam":
        return _sim_siam(params, h, activation)
    if c["head"]:
        h = head(h, params["P"], params["q"])
    loss = nt_xent if c["loss_kind"] == "nt-xent" else contrastive
    return loss(h[0], h[1], c["temperature"])


def _sim_siam(params: Params, h: Tensor, activation: str | None) -> Tensor:
    if "R" in params:
        names = {"R": "W", "r": "b", "gainR": "gain", "shiftR": "shift"}
        h = encode({names[n]: params[n] for n in names}, h, activation)
    return sim_siam(head(h, params["P"], params["q"]), h)
