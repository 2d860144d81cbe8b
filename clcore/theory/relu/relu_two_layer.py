"""The two-layer ReLU net of acl Sec. 5, and its flow as a linear flow with sticky weights.

Filter k sees field k: W1 is `*b K d`, W2 `*b o K`, the data `*b n K d`. Leading dimensions are
batches of nets. (`networks.receptive_field` has many filters per field, for one net.)
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clcore.losses import Pair, contrast
from clcore.nets.networks import activate
from clcore.sweep.optim import unit_norm


def output(
    W1: Float[Tensor, "*b K d"],
    W2: Float[Tensor, "*b o K"],
    x: Float[Tensor, "*b n K d"],
    kind: str = "relu",
) -> Float[Tensor, "*b n o"]:
    """ReLU2Layer, z = W2 h(W1 x) with (W1 x)_k = w_k . x_k (acl Sec. 5.1); kind "linear": h = id.

    Errors: an unknown kind.
    """
    hidden = activate((x * W1[..., None, :, :]).sum(-1), kind)
    return hidden @ W2.transpose(-1, -2)


def sticky_gradient(X: Float[Tensor, "*b M M"], w: Float[Tensor, "*b M"]) -> Float[Tensor, "*b M"]:
    """diag(w > 0) X w (acl Eq. 53): minus the gradient of the loss, half that of the energy."""
    return (w > 0) * (X @ w[..., None])[..., 0]


def sticky_step(
    X: Float[Tensor, "*#b M M"],
    w: Float[Tensor, "*#b M"],
    rate: float | Float[Tensor, "*#b 1"],
    sticky: bool = True,
) -> Float[Tensor, "*#b M"]:
    """One Euler step of length `rate` on the unit sphere; with `sticky`, what reaches 0 stays 0.

    Along the sphere X and X + c I have the same flow, and here the same step.
    """
    return _step(X, w, rate, sticky)


def _step(X: Tensor, w: Tensor, rate: float | Tensor, sticky: bool) -> Tensor:
    """`sticky_step` without checks of shapes: flows take tens of thousands of steps."""
    push = (X @ w[..., None])[..., 0]
    push = (w > 0) * push if sticky else push
    w = w + rate * (push - (w * push).sum(-1, keepdim=True) * w)
    w = w.clamp(min=0) if sticky else w
    # A w without positive entries has no direction, and stays 0.
    return w / torch.linalg.vector_norm(w, dim=-1, keepdim=True).clamp(min=1e-300)


def sticky_limit(
    X: Float[Tensor, "*b M M"],
    w: Float[Tensor, "*b M"],
    rate: float = 0.1,
    steps: int = 20_000,
    sticky: bool = True,
) -> Float[Tensor, "*b M"]:
    """Where the flow of fixed X ends: one entry left (`sticky`), or `steps` steps of `rate`/|X|.

    |X| is the Frobenius norm of X minus its mean eigenvalue, which does not move w.
    """
    mean = X.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    level = X - mean * torch.eye(X.shape[-1], dtype=X.dtype, device=X.device)
    size = torch.linalg.matrix_norm(level)[..., None]
    pace = rate / torch.where(size > 0, size, 1.0)
    for t in range(steps):
        w = _step(level, w, pace, sticky)
        if sticky and t % 50 == 0 and bool(((w > 0).sum(-1) <= 1).all()):
            break
    return w


def loss_driven_limit(
    x: Float[Tensor, "*b n M"],
    x2: Float[Tensor, "*b n M"],
    w: Float[Tensor, "*b M"],
    pair: Pair,
    rate: float = 0.1,
    steps: int = 3000,
) -> tuple[Float[Tensor, "*b M"], Float[Tensor, "*b M M"]]:
    """The same flow with alpha = alpha(theta) of `pair`, renewed at every step: (w, last X).

    This is descent on the loss itself over unit w (acl Thm. 1).
    """
    for _ in range(steps):
        X = covariance(x, x2, w, pair)
        size = torch.linalg.matrix_norm(X)[..., None]
        w = _step(X, w, rate / torch.where(size > 0, size, 1.0), True)
    return w, covariance(x, x2, w, pair)


def covariance(
    x: Float[Tensor, "*b n M"], x2: Float[Tensor, "*b n M"], w: Float[Tensor, "*b M"], pair: Pair
) -> Float[Tensor, "*b M M"]:
    """X = C_alpha[x, x] with the alpha that the loss has at a nonnegative w (one hidden node)."""
    alpha = contrast.pairwise_importance(x @ w[..., None], x2 @ w[..., None], pair)
    return contrast.contrastive_covariance(alpha, x, x2, x, x2)


def one_hot(w: Float[Tensor, "*b M"], tol: float = 1e-6) -> Bool[Tensor, "*b"]:
    """Whether w is a unit vector e_m, up to `tol`."""
    return (w.abs().amax(-1) > 1 - tol) & (w.abs().topk(2, -1).values[..., 1] < tol)


def salient(delta: Float[Tensor, "*b K d"]) -> Int[Tensor, "*b K"]:
    """m*_k: in each field the feature of largest |Delta| (acl Sec. 5.3)."""
    return delta.abs().argmax(-1)


def compositional(
    delta: Float[Tensor, "*b K d"],
) -> tuple[Float[Tensor, "*b K d"], Float[Tensor, "*b 1 K"]]:
    """theta_Omega of acl Eq. 68: (W1, W2), the salient feature of every field at once."""
    K, d = delta.shape[-2:]
    chosen = salient(delta)
    W1 = torch.nn.functional.one_hot(chosen, d).to(delta.dtype) / K**0.5
    s = delta.gather(-1, chosen[..., None])[..., 0]
    return W1, unit_norm(s, dim=-1)[..., None, :]


def relay(
    delta: Float[Tensor, "*b K d"], field: int, feature: int
) -> tuple[Float[Tensor, "*b K d"], Float[Tensor, "*b 1 K"]]:
    """theta_m of acl Eq. 69: (W1, W2), one feature of one field only."""
    W1, s = torch.zeros_like(delta), torch.zeros_like(delta[..., 0])
    W1[..., field, feature] = 1
    s[..., field] = 1
    return W1, s[..., None, :]


def trace_energy(
    W1: Float[Tensor, "*b K d"], W2: Float[Tensor, "*b o K"], X: Float[Tensor, "*b Kd Kd"]
) -> Float[Tensor, "*b"]:
    """tr(W2 W1 X W1^T W2^T), W1 block-diagonal with rows w_k (acl Lemma 3, Eq. 64)."""
    rows = (W2[..., None] * W1[..., None, :, :]).flatten(-2)
    return ((rows @ X) * rows).sum((-1, -2))


def ascend(
    X: Float[Tensor, "*b Kd Kd"],
    W1: Float[Tensor, "*b K d"],
    s: Float[Tensor, "*b K"],
    rate: float = 0.3,
    steps: int = 1000,
) -> tuple[Float[Tensor, "*b K d"], Float[Tensor, "*b K"]]:
    """Joint ascent of s^T W1 X W1^T s over filters and top weights, both of unit norm (acl Eq. 13).

    Filters obey the sticky rule (acl Thm. 4), so W1 >= 0 throughout. Steps of `rate`/|X|.
    """
    pace = rate / torch.linalg.matrix_norm(X)[..., None]
    for _ in range(steps):
        push = (X @ (s[..., None] * W1).flatten(-2)[..., None]).reshape(W1.shape)
        up = s[..., None] * push * (W1 > 0)
        s = unit_norm(s + pace * (W1 * push).sum(-1), -1)
        W1 = unit_norm((W1 + pace[..., None] * up).clamp(min=0), (-2, -1))
    return W1, s
