"""Patches of the two photographs that ship inside scikit-learn, augmented by shift and colour."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clcore import random
from clcore._extras import extra

Scalar = float | Tensor


def load(device: torch.device | str = "cpu") -> Float[Tensor, "2 3 427 640"]:
    """A temple and a flower, values in [-1, 1].

    Examples:
        >>> load().shape
        torch.Size([2, 3, 427, 640])
    """
    import numpy as np

    with extra("images"):
        from sklearn.datasets import load_sample_images

    pixels = np.stack(load_sample_images().images)
    return torch.as_tensor(pixels, device=device).permute(0, 3, 1, 2).float() / 127.5 - 1


def crops(
    images: Float[Tensor, "m c H W"],
    which: Int[Tensor, "n"],
    top: Int[Tensor, "n"],
    left: Int[Tensor, "n"],
    size: int,
) -> Float[Tensor, "n c {size} {size}"]:
    """Square patches of `size` pixels, by image and upper left corner.

    Examples:
        >>> which, top, left = torch.tensor([0, 1]), torch.tensor([5, 9]), torch.tensor([0, 3])
        >>> crops(load(), which, top, left, size=16).shape
        torch.Size([2, 3, 16, 16])
    """
    _, c, H, W = images.shape
    step = torch.arange(size, device=images.device)
    place = (top[:, None] + step)[:, None, :, None] * W + (left[:, None] + step)[:, None, None, :]
    channel = torch.arange(c, device=images.device)[None, :, None, None]
    return images.reshape(-1)[(which[:, None, None, None] * c + channel) * H * W + place]


def recolour(
    key: Int[Tensor, ""], x: Float[Tensor, "n c h w"], strength: Scalar, gray: Scalar
) -> Float[Tensor, "n c h w"]:
    """Colour jitter, then grey with probability `gray`; one draw per patch.

    At strength 1 each channel's gain lies within 1 +- 0.8 and its offset within +- 0.5, of which
    half is common to the channels. Strength 0 and gray 0 change nothing.

    Examples:
        >>> x = torch.ones(2, 3, 4, 4)
        >>> torch.equal(recolour(random.key(0), x, strength=0.0, gray=0.0), x)
        True
    """
    n, c = x.shape[:2]
    draw = random.uniform(random.fold_in(key, 0), (2, n, c), -1.0, 1.0, dtype=x.dtype)
    common = random.uniform(random.fold_in(key, 1), (2, n, 1), -1.0, 1.0, dtype=x.dtype)
    gain, offset = (draw + common) / 2 * strength
    x = x * (1 + 0.8 * gain)[..., None, None] + 0.5 * offset[..., None, None]
    grey = random.bernoulli(random.fold_in(key, 2), gray, (n,))[:, None, None, None]
    return torch.where(grey, x.mean(1, keepdim=True).expand_as(x), x)


def views(
    key: Int[Tensor, ""],
    images: Float[Tensor, "m c H W"],
    n: int,
    size: int,
    strength: Scalar,
    gray: Scalar,
    shift: int = 2,
) -> Float[Tensor, "two_n c {size} {size}"]:
    """Two views of n random patches, one after the other: shifted up to `shift`, recoloured.

    Examples:
        >>> views(random.key(0), load(), n=5, size=16, strength=1.0, gray=0.2).shape
        torch.Size([10, 3, 16, 16])
    """
    m, _, H, W = images.shape
    which = random.randint(random.fold_in(key, 0), (n,), 0, m)
    top = random.randint(random.fold_in(key, 1), (n,), shift, H - size - shift + 1)
    left = random.randint(random.fold_in(key, 2), (n,), shift, W - size - shift + 1)
    parts = []
    for view in (3, 4):
        own = random.fold_in(key, view)
        move = random.randint(own, (2, n), -shift, shift + 1)
        patch = crops(images, which, top + move[0], left + move[1], size)
        parts.append(recolour(random.fold_in(own, 1), patch, strength, gray))
    return torch.cat(parts)
