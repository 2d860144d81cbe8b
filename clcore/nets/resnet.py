"""ResNet-18 (He et al., 2016) of any width, with a stem for photographs or for small images, and
the projector that contrastive learning puts on top. Initialisation is torchvision's."""

from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clcore.sweep.optim import directions

STEMS = ("standard", "small")
BLOCKS = (2, 2, 2, 2)


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, which is 1 x 1 where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        """ReLU of the two convolutions plus the shortcut; h and w divided by the stride."""
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)).add_(self.shortcut(x)), inplace=True)


class ResNet(nn.Module):
    """ResNet-18 without its classifier.

    stem: "standard", a 7 x 7 convolution of stride 2 and max pooling, as for ImageNet; "small", a
    3 x 3 convolution of stride 1 without pooling, common for 32-pixel images. width: channels of
    the first stage, doubled three times; 64 is ResNet-18. Errors: an unknown stem.

    Examples:
        >>> net = ResNet("small", width=8)
        >>> net(torch.zeros(2, 3, 32, 32)).shape, net.out_features
        (torch.Size([2, 64]), 64)
    """

    def __init__(
        self, stem: Literal["standard", "small"] = "standard", width: int = 64, channels: int = 3
    ) -> None:
        super().__init__()
        if stem not in STEMS:
            raise ValueError(f"stem: expected one of {', '.join(STEMS)}, got {stem!r}")
        if width < 1:
            raise ValueError(f"width: expected at least 1 channel, got {width}; ResNet-18 has 64")
        small = stem == "small"
        self.conv1 = nn.Conv2d(channels, width, *((3, 1, 1) if small else (7, 2, 3)), bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        inside = width
        for stage, count in enumerate(BLOCKS):
            outside, stride = width * 2**stage, 1 if stage == 0 else 2
            blocks = [Block(inside, outside, stride)]
            blocks += [Block(outside, outside, 1) for _ in range(count - 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
            inside = outside
        self.out_features = inside
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """The last stage averaged over places: d = 8 * width. Images of any size."""
        x = self.pool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        for stage in range(len(BLOCKS)):
            x = getattr(self, f"layer{stage + 1}")(x)
        return x.mean((-2, -1))

    forward = features


class Projector(nn.Sequential):
    """Linear, BatchNorm, ReLU, Linear; outputs of norm 1, in the weights' precision also under
    autocast.

    Examples:
        >>> Projector(64, 32, 16)(torch.randn(4, 64)).shape  # rows of norm 1
        torch.Size([4, 16])
    """

    def __init__(self, inside: int, hidden: int, out: int) -> None:
        super().__init__(
            nn.Linear(inside, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, out),
        )

    def forward(self, input: Float[Tensor, "n d"]) -> Float[Tensor, "n {self[3].out_features}"]:
        """Rows of norm 1."""
        return directions(super().forward(input).to(self[3].weight.dtype))


def first_convolutions(net: ResNet) -> dict[str, Float[Tensor, "out in h w"]]:
    """The weights that acl Fig. 7 looks at: "conv1", and the first convolution of each of the eight
    residual blocks, "layer1.0" ... "layer4.1"."""
    found = {"conv1": net.conv1.weight.detach()}
    for stage in range(1, len(BLOCKS) + 1):
        for number, block in enumerate(getattr(net, f"layer{stage}")):
            found[f"layer{stage}.{number}"] = block.conv1.weight.detach()
    return found
