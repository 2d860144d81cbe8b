"""A small convolutional encoder with a projector, for 8x8 images, on plain tensors."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from clcore import random
from clcore.sweep.optim import directions

Params = dict[str, Tensor]

# 3x3 patches of an 8x8 image, their 36 places ordered so that each 2x2 block of places is
# contiguous: the second convolution (2x2, stride 2) is then a reshape and a product, and no
# gradient has to flow through a gather.
_CORNERS = [(2 * r, 2 * c) for r in range(3) for c in range(3)]
_PLACES = [(r + i, c + j) for r, c in _CORNERS for i in (0, 1) for j in (0, 1)]
_PATCHES = [[(r + i) * 8 + c + j for i in range(3) for j in range(3)] for r, c in _PLACES]


def init_small_conv(
    key: Int[Tensor, ""],
    channels: int = 8,
    blocks: int = 16,
    hidden: int = 64,
    out: int = 32,
    dtype: torch.dtype = torch.float32,
) -> Params:
    """Weights [fan_in, fan_out] of conv 3x3, conv 2x2 stride 2, dense, projector; zero biases.

    Normal with variance 2 / fan_in (the projector's 1 / fan_in).

    Examples:
        >>> params = init_small_conv(random.key(0))
        >>> params["conv1"].shape, params["head"].shape
        (torch.Size([9, 8]), torch.Size([64, 32]))
    """
    sizes = {
        "conv1": (9, channels, 2.0),
        "conv2": (4 * channels, blocks, 2.0),
        "dense": (9 * blocks, hidden, 2.0),
        "head": (hidden, out, 1.0),
    }
    params = {}
    for i, (name, (fan_in, fan_out, gain)) in enumerate(sizes.items()):
        draw = random.normal(random.fold_in(key, i), (fan_in, fan_out), dtype=dtype)
        params[name] = draw * (gain / fan_in) ** 0.5
        params[f"{name}_bias"] = torch.zeros(fan_out, dtype=dtype, device=draw.device)
    return params


def features(params: Params, images: Float[Tensor, "n 8 8"]) -> Float[Tensor, "n hidden"]:
    """The representation below the projector.

    Examples:
        >>> features(init_small_conv(random.key(0)), torch.rand(5, 8, 8)).shape
        torch.Size([5, 64])
    """
    patches = images.flatten(1)[:, torch.tensor(_PATCHES, device=images.device)].flatten(0, 1)
    x = F.relu(patches @ params["conv1"] + params["conv1_bias"])
    x = F.relu(x.reshape(-1, params["conv2"].shape[0]) @ params["conv2"] + params["conv2_bias"])
    x = x.reshape(images.shape[0], -1)
    return F.relu(x @ params["dense"] + params["dense_bias"])


def outputs(params: Params, images: Float[Tensor, "n 8 8"]) -> Float[Tensor, "n out"]:
    """What the loss sees: the projection, l2-normalised.

    Examples:
        >>> outputs(init_small_conv(random.key(0)), torch.rand(2, 8, 8)).shape
        torch.Size([2, 32])
    """
    return directions(features(params, images) @ params["head"] + params["head_bias"])
