"""Net, views and update of contrastive pretraining on images: acl Sec. 6, ddn Sec. 7."""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from clcore import random as cr
from clcore._device import require_bfloat16
from clcore.experiments.image_losses import loss, require_loss
from clcore.images import augmentations as aug
from clcore.images import processes
from clcore.losses import gather
from clcore.nets.resnet import Projector, ResNet
from clcore.sweep.lower import tried

Step = int | Int[Tensor, ""]

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
    all. mixed: bfloat16 where it is safe. channels_last, compile (of augmentation, net and loss):
    the same numbers up to rounding, faster on GPUs; if nothing can be compiled, a warning explains
    why.
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


def drawn(
    key: Int[Tensor, ""],
    shape: Sequence[int],
    recipe: aug.Recipe,
    share: slice = slice(None),
) -> aug.Params:
    """Parameters of two views of images of shape `n c h w`; of a `share` of them only, if given,
    and then those that this share would have among all."""
    n, height, width = shape[0], *shape[-2:]
    params = aug.draw(key, 2 * n, height, width, recipe)
    if share != slice(None):
        at = torch.arange(2 * n, device=key.device).reshape(2, n)[:, share].flatten()
        params = {k: p.index_select(-1 if k == "factors" else 0, at) for k, p in params.items()}
    return params


def views(
    key: Int[Tensor, ""],
    x: Float[Tensor, "n c h w"],
    recipe: aug.Recipe,
    share: slice = slice(None),
) -> Float[Tensor, "m c {recipe.size} {recipe.size}"]:
    """Two random views of the images, or of a `share` of them, one after the other."""
    return aug.apply(x[share].repeat(2, 1, 1, 1), drawn(key, x.shape, recipe, share), recipe)


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

    Raises ValueError for a narrow net with channels_last on the CPU (`NARROW`), and for `mixed` on
    a GPU without bfloat16.
    """

    def __init__(self, settings: Settings, channels: int, device: torch.device) -> None:
        if settings.channels_last and device.type == "cpu" and settings.width < NARROW:
            raise ValueError(
                f"channels_last on the CPU: expected a width of at least {NARROW}, got "
                f"{settings.width}; leave channels_last off (fast: no) or widen the net"
            )
        if settings.mixed:
            require_bfloat16(device)
        self.settings, self.device = settings, device
        self.rank, self.world = processes.join()
        self.keys = cr.split(cr.key(settings.seed, device), 3)  # order, views, noise
        layout = torch.channels_last if settings.channels_last else torch.contiguous_format
        # torch's stubs leave memory_format out.
        net = network(settings, channels).to(device, memory_format=layout)  # ty: ignore[no-matching-overload]
        self.net = processes.shared(net, device)
        self.forward, self._augment, self._value = self.net, aug.apply, self._of_outputs
        if settings.compile:
            plain = self.forward, self._augment, self._value
            self.forward, self._augment, self._value = tried(
                lambda: self._compiled(channels), plain
            )[0]
        if self.world > 1:
            self.forward = processes.parallel(self.forward)
        self.optimizer = self._optimizer()

    def _compiled(self, channels: int) -> tuple[Callable, Callable, Callable]:
        """Net, augmentation and loss through torch.compile, tried on a batch of views there and
        back: a graph for these, and later one for plain images, all of fixed size."""
        parts = self.net, self._augment, self._value
        net, augment, value = (torch.compile(part, dynamic=False) for part in parts)
        n, recipe = self.settings.batch // self.world, self.settings.augmentation
        shape = (n, channels, recipe.size, recipe.size)
        params = drawn(cr.key(0, self.device), shape, recipe)
        statistics = [(b, b.clone()) for b in self.net.buffers()]
        try:
            x = augment(torch.zeros(2 * n, *shape[1:], device=self.device), params, recipe)
            z, z2 = (t.repeat(self.world, 1) for t in self._outputs(net, x).chunk(2))
            plain = z.detach() if require_loss(self.settings.loss).unaugmented else None
            torch.autograd.grad(value(z, z2, plain), list(self.net.parameters()))
        finally:
            with torch.no_grad():
                for now, before in statistics:
                    now.copy_(before)
        return net, augment, value

    def _optimizer(self) -> torch.optim.Optimizer:
        s, on_cuda = self.settings, self.device.type == "cuda"
        parameters = self.net.parameters()
        # Rate and step of a CUDA graph are read where they lie, on the device.
        rate = torch.full((), s.lr, device=self.device) if on_cuda else s.lr
        options: dict[str, Any] = {"weight_decay": s.weight_decay, "fused": on_cuda}
        if s.optimizer == "adam":
            betas = (s.momentum, 0.999)
            return torch.optim.Adam(parameters, rate, betas, capturable=on_cuda, **options)
        return torch.optim.SGD(parameters, rate, s.momentum, **options)

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
        # Every weight is cast once a pass: its copy is kept for nobody, nor by a CUDA graph.
        if not self.settings.mixed:
            return forward(x)
        with torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False):
            return forward(x)

    def drawn(self, step: Step, shape: Sequence[int]) -> aug.Params:
        """What one step's views of a batch of shape `n c h w` draw; this process's share of it."""
        key = cr.fold_in(self.keys[1], step)
        return drawn(key, shape, self.settings.augmentation, self.share(shape[0]))

    def loss(
        self, pixels: UInt8[Tensor, "n c h w"], step: Step, params: aug.Params | None = None
    ) -> Float[Tensor, ""]:
        """The loss of a whole batch, over the outputs of all processes; params: `drawn` before."""
        s, share = self.settings, self.share(len(pixels))
        x = pixels.float() / 255
        params = self.drawn(step, x.shape) if params is None else params
        z = self.outputs(self._augment(x[share].repeat(2, 1, 1, 1), params, s.augmentation))
        z, z2 = (gather(part) for part in z.chunk(2))
        plain = None
        if require_loss(s.loss).unaugmented:
            with torch.no_grad(), _statistics_kept(self.net):
                plain = gather(self.outputs(x[share]))
        return self._value(z, z2, plain)

    def _of_outputs(self, z: Tensor, z2: Tensor, plain: Tensor | None) -> Tensor:
        tau = self.settings.tau
        return loss(self.settings.loss, z, z2, plain, **({} if tau is None else {"tau": tau}))

    def step(self, pixels: UInt8[Tensor, "n c h w"], step: int, epoch: int, each: int) -> Tensor:
        """One update, number `step`, in epoch `epoch` (both from 0) of `each` steps; the loss."""
        self.begin(step, epoch, each)
        return self.update(pixels, step)

    def begin(self, step: int, epoch: int, each: int) -> None:
        """What precedes an update and changes once an epoch only: mode, rate, noise on weights."""
        self.net.train()
        rate = self.settings.lr * self._rate(epoch, each)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self.settings.noise == "weights" and step % each == 0:
            self._perturb_weights(step)

    def update(
        self, pixels: UInt8[Tensor, "n c h w"], step: Step, params: aug.Params | None = None
    ) -> Tensor:
        """The update itself; the loss. With `step` and `params` on the device it is the same
        operations every time and waits for none of them, so that a CUDA graph can hold it."""
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(pixels, step, params)
        value.backward()
        if self.settings.noise == "gradient":
            self._perturb_gradients(step)
        self.optimizer.step()
        return value.detach()

    def _rate(self, epoch: int, each: int) -> float:
        if self.settings.schedule == "constant":
            return 1.0
        return (1 + math.cos(math.pi * max(0, epoch - FULL_RATE) / each)) / 2

    def _xavier(self, step: Step) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Every weight of two or more dimensions, and Xavier (uniform) noise of its shape."""
        weights = [p for p in self.net.parameters() if p.ndim >= 2]
        keys = cr.split(cr.fold_in(self.keys[2], step), len(weights))
        for p, key in zip(weights, keys, strict=True):
            bound = math.sqrt(6 / ((p.shape[0] + p.shape[1]) * p[0, 0].numel()))
            yield p, cr.uniform(key, p.shape, -bound, bound)

    @torch.no_grad()
    def _perturb_gradients(self, step: Step) -> None:
        if eta := self.settings.noise_size:
            for p, noise in self._xavier(step):
                assert p.grad is not None  # every weight takes part in the loss
                p.grad += eta * noise

    @torch.no_grad()
    def _perturb_weights(self, step: int) -> None:
        if eta := self.settings.noise_size:
            for p, noise in self._xavier(step):
                p.lerp_(noise, eta)
