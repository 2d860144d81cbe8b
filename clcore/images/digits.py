"""The small digits inside scikit-learn, and a light augmentation of grey images on the device.

All data sets: `image_sets`; the papers' augmentations: `augmentations`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from clcore import random
from clcore._extras import extra


def digits(
    device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[Float[Tensor, "n 8 8"], Int[Tensor, "n"]]:
    """scikit-learn's handwritten digits: 1797 images with values in [0, 1], and their labels.

    Examples:
        >>> images, labels = digits()
        >>> images.shape, labels[:4]
        (torch.Size([1797, 8, 8]), tensor([0, 1, 2, 3]))
    """
    with extra("images"):
        from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = torch.as_tensor(images / 16, dtype=dtype, device=device).reshape(-1, 8, 8)
    return images, torch.as_tensor(labels, dtype=torch.int64, device=device)


def augment(
    key: Int[Tensor, ""], images: Float[Tensor, "n h w"], strength: float | Tensor = 1.0
) -> Float[Tensor, "n h w"]:
    """A random view of each image: rotation, zoom, shift, contrast and pixel noise.

    At strength 1: within 20 degrees, 20 per cent, an eighth of the width, 30 per cent, and noise of
    standard deviation 0.05. Strength 0 changes nothing. Bilinear, zero outside the image.

    Examples:
        >>> images, _ = digits()
        >>> augment(random.key(0), images[:5]).shape
        torch.Size([5, 8, 8])
    """
    if images.ndim != 3:
        raise ValueError(
            f"images: expected shape [n, h, w], got {list(images.shape)}; flatten views, not images"
        )
    n, height, width = images.shape
    draw = random.uniform(key, (5, n), -1.0, 1.0, dtype=images.dtype) * strength
    angle, zoom = draw[0] * torch.pi / 9, 1 + 0.2 * draw[1]
    cos, sin = zoom * angle.cos(), zoom * angle.sin()
    ones = torch.ones_like(cos)
    # Rows map output coordinates (x, y, 1) in [-1, 1] to those of the input.
    maps = torch.stack(
        [
            torch.stack([cos, -sin, 0.25 * draw[2] * ones], -1),
            torch.stack([sin, cos, 0.25 * draw[3] * ones], -1),
        ],
        -2,
    )
    grid = (_coordinates(height, width, images) @ maps.transpose(-1, -2)).reshape(
        n, height, width, 2
    )
    moved = F.grid_sample(images[:, None], grid, align_corners=False)[:, 0]
    noise = random.normal(random.fold_in(key, 1), tuple(images.shape), dtype=images.dtype)
    return moved * (1 + 0.3 * draw[4])[:, None, None] + 0.05 * strength * noise


def _coordinates(height: int, width: int, like: Tensor) -> Float[Tensor, "hw 3"]:
    """(x, y, 1) of every pixel's centre, with the image spanning [-1, 1] both ways."""
    y = (torch.arange(height, device=like.device, dtype=like.dtype) + 0.5) * 2 / height - 1
    x = (torch.arange(width, device=like.device, dtype=like.dtype) + 0.5) * 2 / width - 1
    y, x = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([x, y, torch.ones_like(x)], -1).reshape(-1, 3)
