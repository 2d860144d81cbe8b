"""Net, views and update of contrastive pretraining on images: acl Sec. 6, ddn Sec. 7."""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from clcore import random as cr
from clcore.experiments.image_losses import loss, require_loss
from clcore.images import augmentations as aug
from clcore.images import processes
from clcore.nets.resnet import Projector, ResNet
from clcore.sweep.lower import tried

FULL_RATE = 10  # epochs before the released program's schedule begins


@dataclass(frozen=True)
class Settings:
    """One run.

    loss: a name of image_losses.LOSSES; tau, eta: None for the loss's own. noise: where gradient
    noise enters, "gradient" (eta times Xavier noise added to every gradient, the paper's words) or
    "weights" (the released program: once an epoch W becomes (1 - eta) W + eta Xavier).
    momentum: of SGD, or Adam's first beta. schedule: "constant", or "released", which falls as a
    cosine over as many epochs as there are batches, after the tenth. recipe: of
    augmentations.RECIPES, or one of your own. images: how many of the training images, None for
    all. mixed: bfloat16 where it is safe. channels_last, compile: the same numbers up to rounding,
    faster on GPUs; where nothing can be compiled, a warning says why.
    """

    loss: str = "infonce"
    seed: int = 0
    epochs: int = 100
    batch: int = 128
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = 1e-2
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["constant", "released"] = "constant"
    stem: Literal["standard", "small"] = "standard"
    width: int = 64
    hidden: int = 512
    out: int = 128
    tau: float | None = None
    eta: float | None = None
    noise: Literal["gradient", "weights"] = "gradient"
    recipe: str | aug.Recipe = "cifar10"
    images: int | None = None
    mixed: bool = False
    channels_last: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        require_loss(self.loss)
        for name, allowed in (
            ("optimizer", ("adam", "sgd")),
            ("schedule", ("constant", "released")),
            ("noise", ("gradient", "weights")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}"
                )
        if isinstance(self.recipe, str) and self.recipe not in aug.RECIPES:
            raise ValueError(
                f"recipe: expected one of {', '.join(aug.RECIPES)} or an augmentations.Recipe, "
                f"got {self.recipe!r}"
            )
        for name, least in (("epochs", 1), ("batch", 2), ("hidden", 1), ("out", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr: expected a finite number above 0, got {self.lr}")

    @property
    def augmentation(self) -> aug.Recipe:
        """The recipe, that of its name if it is given by name."""
        return aug.RECIPES[self.recipe] if isinstance(self.recipe, str) else self.recipe

    @property
    def noise_size(self) -> float:
        """The factor on the Xavier noise: `eta`, or the loss's own unless that is given."""
        return require_loss(self.loss).eta if self.eta is None else self.eta


def network(settings: Settings, channels: int) -> nn.Sequential:
    """The net of a run at its start, on the CPU: `backbone` (ResNet) and `projector`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        backbone = ResNet(settings.stem, settings.width, channels)
        projector = Projector(backbone.out_features, settings.hidden, settings.out)
    net = nn.Sequential()
    net.add_module("backbone", backbone)
    net.add_module("projector", projector)
    return net


def views(
    key: Int[Tensor, ""],
    x: Float[Tensor, "n c h w"],
    recipe: aug.Recipe,
    share: slice = slice(None),
) -> Float[Tensor, "m c {recipe.size} {recipe.size}"]:
    """Two random views of the images, one after the other; of a `share` of the images only, if
    given, and then those that this share would have among all."""
    n = len(x)
    params = aug.draw(key, 2 * n, *x.shape[-2:], recipe)
    if share != slice(None):
        at = torch.arange(2 * n, device=x.device).reshape(2, n)[:, share].flatten()
        params = {k: p.index_select(-1 if k == "factors" else 0, at) for k, p in params.items()}
    return aug.apply(x[share].repeat(2, 1, 1, 1), params, recipe)


@contextmanager
def _statistics_kept(net: nn.Module) -> Generator[None, None, None]:
    """BatchNorm with the batch's statistics, but its running ones left as they are."""
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum


NARROW = 16
"""With fewer channels than one of its blocks holds (8, or 16 with AVX-512), channels last, oneDNN's
1x1 convolutions of stride 2 write past their memory on the way back (its issue 6035)."""


class Trainer:
    """Net, optimiser and the step from a batch of pixels to new weights.

    Raises ValueError for a narrow net with channels_last on the CPU (`NARROW`).
    """

    def __init__(self, settings: Settings, channels: int, device: torch.device) -> None:
        if settings.channels_last and device.type == "cpu" and settings.width < NARROW:
            raise ValueError(
                f"channels_last on the CPU: expected a width of at least {NARROW}, got "
                f"{settings.width}; leave channels_last off (fast: no) or widen the net"
            )
        self.settings, self.device = settings, device
        self.rank, self.world = processes.join()
        self.keys = cr.split(cr.key(settings.seed, device), 3)  # order, views, noise
        layout = torch.channels_last if settings.channels_last else torch.contiguous_format
        # torch's stubs leave memory_format out.
        net = network(settings, channels).to(device, memory_format=layout)  # ty: ignore[no-matching-overload]
        self.net = processes.shared(net, device)
        self.forward = self.net
        if settings.compile:
            self.forward = tried(lambda: self._compiled(channels), self.net)[0]
        if self.world > 1:
            self.forward = DistributedDataParallel(self.forward, forward_sync_buffers=False)
        self.optimizer = self._optimizer()

    def _compiled(self, channels: int) -> Callable[[Tensor], Tensor]:
        """The net through torch.compile, tried on a batch of views there and back: a graph for
        these, and later one for plain images, both of fixed size."""
        fast = torch.compile(self.net, dynamic=False)
        settings = self.settings
        side = settings.augmentation.size
        shape = (2 * (settings.batch // self.world), channels, side, side)
        statistics = [(b, b.clone()) for b in self.net.buffers()]
        try:
            z = self._outputs(fast, torch.zeros(shape, device=self.device))
            torch.autograd.grad(z.sum(), list(self.net.parameters()))
        finally:
            with torch.no_grad():
                for now, before in statistics:
                    now.copy_(before)
        return fast

    def _optimizer(self) -> torch.optim.Optimizer:
        s, fused = self.settings, self.device.type == "cuda"
        parameters = self.net.parameters()
        if s.optimizer == "adam":
            betas = (s.momentum, 0.999)
            return torch.optim.Adam(
                parameters, s.lr, betas, weight_decay=s.weight_decay, fused=fused
            )
        return torch.optim.SGD(
            parameters, s.lr, s.momentum, weight_decay=s.weight_decay, fused=fused
        )

    @property
    def backbone(self) -> ResNet:
        """The net without its projector."""
        return cast(ResNet, self.net.get_submodule("backbone"))

    @property
    def order(self) -> Int[Tensor, ""]:
        """The key that the order of the images is drawn from."""
        return self.keys[0]

    def share(self, n: int) -> slice:
        """The part of a batch of n that is this process's."""
        if self.world == 1:
            return slice(None)
        each = n // self.world
        return slice(self.rank * each, (self.rank + 1) * each)

    def outputs(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Normalised outputs, in float32 whatever the net computes in."""
        return self._outputs(self.forward, x)

    def _outputs(self, forward: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if self.settings.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        mixed = self.settings.mixed
        with torch.autocast(self.device.type, torch.bfloat16) if mixed else nullcontext():
            return forward(x)

    def loss(self, pixels: UInt8[Tensor, "n c h w"], step: int) -> Float[Tensor, ""]:
        """The loss of a whole batch, over the outputs of all processes."""
        s, share = self.settings, self.share(len(pixels))
        x = pixels.float() / 255
        key = cr.fold_in(self.keys[1], step)
        z = self.outputs(views(key, x, s.augmentation, share))
        z, z2 = (processes.gathered(part) for part in z.chunk(2))
        plain = None
        if require_loss(s.loss).unaugmented:
            with torch.no_grad(), _statistics_kept(self.net):
                plain = processes.gathered(self.outputs(x[share]))
        return loss(s.loss, z, z2, plain, **({} if s.tau is None else {"tau": s.tau}))

    def step(self, pixels: UInt8[Tensor, "n c h w"], step: int, epoch: int, each: int) -> Tensor:
        """One update, number `step`, in epoch `epoch` (both from 0) of `each` steps; the loss."""
        self.net.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.lr * self._rate(epoch, each)
        if self.settings.noise == "weights" and step % each == 0:
            self._perturb_weights(step)
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(pixels, step)
        value.backward()
        if self.settings.noise == "gradient":
            self._perturb_gradients(step)
        self.optimizer.step()
        return value.detach()

    def _rate(self, epoch: int, each: int) -> float:
        if self.settings.schedule == "constant":
            return 1.0
        return (1 + math.cos(math.pi * max(0, epoch - FULL_RATE) / each)) / 2

    def _xavier(self, step: int) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Every weight of two or more dimensions, and Xavier (uniform) noise of its shape."""
        weights = [p for p in self.net.parameters() if p.ndim >= 2]
        keys = cr.split(cr.fold_in(self.keys[2], step), len(weights))
        for p, key in zip(weights, keys, strict=True):
            bound = math.sqrt(6 / ((p.shape[0] + p.shape[1]) * p[0, 0].numel()))
            yield p, cr.uniform(key, p.shape, -bound, bound)

    @torch.no_grad()
    def _perturb_gradients(self, step: int) -> None:
        if eta := self.settings.noise_size:
            for p, noise in self._xavier(step):
                assert p.grad is not None  # every weight takes part in the loss
                p.grad += eta * noise

    @torch.no_grad()
    def _perturb_weights(self, step: int) -> None:
        if eta := self.settings.noise_size:
            for p, noise in self._xavier(step):
                p.lerp_(noise, eta)
