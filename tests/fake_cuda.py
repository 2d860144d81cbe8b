"""A CUDA device of tensors without numbers: does what should lie on the device lie there?

    python tests/fake_cuda.py GUARD.so

FakeTensorMode follows shapes, types and devices, and refuses an operation on two devices, a value
that is read and a size that depends on one, which a CUDA graph cannot hold either. What it does not
do is the way back through autograd, which asks for a real device: gradients are zeros here. GUARD
is `GUARD` below, compiled: without one PyTorch for the CPU refuses to touch such tensors.

Prints a line of JSON: {name of a case: "" or what went wrong}.
"""

import ctypes
import dataclasses
import json
import sys
import traceback
from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import vmap

from clcore import random as cr
from clcore.experiments import image_fields as fields
from clcore.experiments import sparse_training as st
from clcore.experiments import token_panels as tp
from clcore.experiments import token_sequences as ts
from clcore.experiments import trainer
from clcore.experiments import tree_contrast as tc
from clcore.experiments.image_losses import LOSSES
from clcore.experiments.pretraining import steps
from clcore.experiments.trainer import Settings, Trainer
from clcore.images import augmentations as aug
from clcore.images import digits, photographs
from clcore.losses import minplayer
from clcore.nets import encoders
from clcore.sweep import ahead, engine
from clcore.sweep import step as one_step
from clcore.sweep.ahead import Ahead

GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
using Guard = c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>;
static c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, new Guard());
"""
CUDA = torch.device("cuda", 0)


class Trained(Exception):
    """A step of a sweep was taken, and all that follows is plain."""


def _a_step(loop, part, bar):
    """In place of a sweep's loop: draws, step, loss and metrics, with gradients of zero."""
    turns, drawn = one_step.period(loop.problem, part), Ahead(loop.problem, part)
    for number, turn in enumerate(turns):
        function, state, fixed = one_step.flat_step(loop.problem, part, turn, drawn.at(number))
        _lie_there(function(*state, *fixed))
    found = one_step.losses(loop.problem, part, turns[0], drawn.at(len(turns)))
    _lie_there([found, *one_step.measured(loop.problem, part).values()])
    raise Trained


def _lie_there(tensors):
    away = [str(t.device) for t in tensors if t.device != CUDA]
    assert not away, f"expected all on {CUDA}, got {away}"


def _zeros(loss):
    return lambda params: ({n: torch.zeros_like(p) for n, p in params.items()}, loss(params))


def _momentum(optimizer, params, hyper):
    """As `optim.slots`, which reads a value once a sweep to see whether it needs them."""
    kinds = ("mean", "square") if optimizer.startswith("adam") else ("momentum",)
    return {f"{kind} {name}": torch.zeros_like(p) for name, p in params.items() for kind in kinds}


def prepare():
    """What waits for a real device does not; nothing is traced, which would be a mode in a mode."""
    engine.usable = str
    one_step.Chunk.step = 0  # read once a sweep
    engine._Loop.run, one_step.grad_and_value, one_step.slots = _a_step, _zeros, _momentum
    ahead.trace = lambda function, example: function
    engine.keep_freed_memory = lambda: None
    # A parameter cannot become a fake one elsewhere: nets are made on the device.
    torch.nn.Module.to = lambda module, *_, **__: module
    plain = trainer.network
    trainer.network = lambda *given: _made_there(plain, *given)
    Trainer._optimizer = _still  # a fused one reads its rate once, to see that it is no nonsense
    torch.Tensor.backward = _no_gradients
    torch.cuda.Stream = torch.cuda.current_stream = lambda *_: _Stream()
    torch.cuda.stream = lambda stream: stream
    torch.cuda.get_device_capability = lambda device: (9, 0)


def _still(own):
    optimizer = torch.optim.SGD(own.net.parameters(), own.settings.lr)
    optimizer.step = lambda: None
    return optimizer


class _Stream:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def wait_stream(self, other):
        pass


def _made_there(network, *given):
    with CUDA:
        net = network(*given)
    _owner.append(net)
    return net


_owner = []


def _no_gradients(loss):
    _lie_there([loss])
    for p in _owner[-1].parameters():
        p.grad = torch.zeros_like(p)


# ------------------------------------------------------------------------------------------ cases


def sparse():
    tiny = {"n": 64, "batch": 32, "p": 8, "d": 4, "m": 8}
    cases = {}
    both = ("NCL-basic", "CL-basic", "Simplified-SimCLR", "Simplified-SimSiam")
    given = [(model, "paper") for model in st.MODELS] + [(model, "released") for model in both]
    for model, protocol in given:
        configs = [st.configuration(0, model, protocol=protocol, **tiny)]
        cases[f"sparse {model} {protocol}"] = lambda c=configs: st.run(
            c, 9, device=CUDA, progress=False
        )
    others = {"mask": "dependent", "warm": 0.1, "normalise": "rows", "updates": "together"}
    for name, value in others.items():
        configs = [st.configuration(0, "NCL-basic", **tiny, **{name: value})]
        cases[f"sparse {name}"] = lambda c=configs: st.run(c, 9, device=CUDA, progress=False)
    return cases


def trees():
    kinds = [{"kind": kind, "signs": signs} for kind in tc.LOSSES for signs in (False, True)]
    cases = {}
    for kind in [*kinds, {"shuffled": True, "signed": True}]:
        config = tc.configuration(0, 0.7, 2, 3, **kind)
        cases[f"tree {kind}"] = lambda c=config: tc.run(
            [c], 1, latents=("", "0"), nodes=("0",), samples=64, device=CUDA, progress=False
        )
    return cases


def tokens():
    given = [{"activation": a} for a in tp.ACTIVATIONS]
    given += [{"kind": kind, "protocol": p} for kind in ts.LOSSES for p in ts.RATES]
    given += [{"protocol": p} for p in ts.READINGS if p not in ts.RATES]
    given += [{"norm": norm, "zeta": 2.0} for norm in ts.NORMALISATIONS]
    configs = {f"tokens {some}": ts.configuration(0, 3, 2, batch=8, **some) for some in given}
    return {
        name: lambda c=config: ts.run([c], 9, device=CUDA, progress=False)
        for name, config in configs.items()
    }


def quarters():
    pixels = torch.zeros(20, 8, 8, dtype=torch.uint8, device=CUDA)
    patches = torch.zeros(5, 4, 16, device=CUDA)

    def trained(arm):
        config = fields.configuration(0, 2, batch=8, **fields.ARMS[arm])
        parts = fields.problem(pixels, patches)
        engine.train([config], **parts, steps=9, device=CUDA, progress=False)

    return {f"image fields {arm}": lambda a=arm: trained(a) for arm in fields.ARMS}


def chapters():
    """The trainings that chapters 1.1 and 3.2 write out, by the functions that they call."""
    images = torch.zeros(40, 8, 8, device=CUDA)

    def trained(variant):
        def batch(key, step, c):
            some = images[cr.randint(key, (8,), 0, 40)]
            return torch.cat([digits.augment(cr.fold_in(key, v), some) for v in (1, 2)])

        def loss(params, views, c):
            z = encoders.outputs(params, views)
            return minplayer.variant_loss(z[:8], z[8:], c["variant"])

        engine.train(
            [{"variant": variant, "seed": 0, "lr": 0.1}],
            lambda key, c: encoders.init_small_conv(key),
            batch,
            loss,
            9,
            optimizer="adam",
            device=CUDA,
            progress=False,
        )

    def features():
        _lie_there([encoders.features(encoders.init_small_conv(cr.key(0, CUDA)), images)])

    def patches():
        photos = torch.zeros(2, 3, 30, 40, device=CUDA)
        level = torch.ones((), device=CUDA)
        _lie_there([photographs.views(cr.key(0, CUDA), photos, 4, 16, level, level)])

    cases = {f"digits {v}": lambda v=v: trained(v) for v in minplayer.VARIANTS}
    return cases | {"digits features": features, "photographs": patches}


def pretraining():
    """Draws of a block, then a whole step but for the way back, as a CUDA graph records it."""

    def stepped(settings, side):
        own = Trainer(settings, 3, CUDA)
        pixels = torch.zeros(16, 3, side, side, dtype=torch.uint8, device=CUDA)
        total = torch.zeros((), dtype=torch.float64, device=CUDA)
        taken = steps.Ahead(own, pixels, total, 2)
        taken.take(0, 0, 2)
        _lie_there([taken.total, taken.place, taken.number, *taken.drawn.values()])

    small = {"batch": 8, "width": 4, "hidden": 8, "out": 8}
    # What a released program changes besides is a constant.
    given = {n: Settings(loss=n, **small) for n in LOSSES if not n.startswith("beta+")}
    plain = Settings(**small)
    given["stl10"] = dataclasses.replace(plain, recipe="stl10")
    given["mnist's recipe"] = dataclasses.replace(plain, recipe="mnist")
    given["mixed"] = dataclasses.replace(plain, mixed=True, channels_last=True)
    given["noise"] = dataclasses.replace(plain, noise="weights", eta=0.1, optimizer="sgd")
    sizes = {"stl10": 24}
    recipe = dataclasses.replace(aug.RECIPES["stl10"], size=24)
    given["stl10"] = dataclasses.replace(given["stl10"], recipe=recipe)
    return {
        f"pretraining {n}": lambda n=n, s=s: stepped(s, sizes.get(n, 32)) for n, s in given.items()
    }


def controls():
    """Faults of each kind: that they are found is the test of this script."""
    here = torch.arange(8)

    def misplaced(key, step, c):
        return torch.arange(8, device="cpu").float()

    def swept():
        engine.train(
            [{"seed": 0, "lr": 0.1}],
            lambda key, c: {"w": torch.ones(8)},
            misplaced,
            lambda params, x, c: (params["w"] * x).sum(),
            9,
            device=CUDA,
            progress=False,
        )

    def draws():
        keys = cr.fold_in(cr.key(0), here)  # on the CPU
        _lie_there([vmap(lambda key: cr.uniform(key, 3))(keys)])

    return {
        "control: data of a sweep on the CPU": swept,
        "control: draws on the CPU": draws,
        "control: an index of values": lambda: torch.ones(8, device=CUDA)[
            torch.ones(8, device=CUDA) > 0
        ],
        "control: a value is read": lambda: float(torch.ones((), device=CUDA)),
        "control: no device named": lambda: torch.ones(8, device=CUDA) + torch.ones(8),
    }


def found(case: Callable) -> str:
    """What goes wrong in a case; "" for nothing."""
    try:
        case()
    except Trained:
        return ""
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)
        own = [f"{p.filename.split('/')[-1]}:{p.lineno}" for p in place if "clcore" in p.filename]
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} {own}"
    return ""


def main(guard: str) -> None:
    """Run all cases under the mode."""
    ctypes.CDLL(guard)
    prepare()
    told = {}
    with FakeTensorMode(), torch.no_grad():
        torch.empty(1, device=CUDA)
        for group in (sparse, trees, tokens, quarters, chapters, controls):
            told |= {name: found(case) for name, case in group().items()}
    with FakeTensorMode():
        told |= {name: found(case) for name, case in pretraining().items()}
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
