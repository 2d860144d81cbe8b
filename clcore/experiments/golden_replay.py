"""Our own steps from the start of a golden trace, on its batches: `clcore.sweep.step` compared
with a program.

Names and layouts are translated here, the programs' to ours; everything else is what the chapters
train with: the problems and configurations of `sparse_training` (ncl), `token_sequences` (nl) and
`tree_contrast` (ddn), protocol "released".
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from tabulate import tabulate
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from clcore._files import write_json
from clcore.experiments import golden, sparse_training, token_sequences, tree_contrast
from clcore.sweep import step
from clcore.sweep.configs import Config
from clcore.sweep.optim import Params
from clcore.theory.trees import pattern_net

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Replay:
    """What a run needs besides its golden trace: all of it can be exchanged for a control."""

    config: Config
    start: Params
    batches: Callable[[Tensor, Config], object]
    problem: dict
    translate: Callable[[Arrays], Params]


@dataclass(frozen=True)
class Difference:
    """Largest relative differences of ours from the program's: of a step's loss, and of the final
    weights, entry by entry over the largest entry of its tensor."""

    loss: float
    weights: float


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


# -------------------------------------------------------------------------------------------- ncl

_ENCODERS = {
    ("simplified", False, True): "NCL-srelu",
    ("simplified-pred", False, True): "NCL-srelu-pred",
    ("simplified-pred", True, True): "NCL-pred",
    ("simplified-ml", True, True): "NCL-basic-2L",
    ("simclr", False, True): "CL-srelu",
    ("simclr", True, True): "CL-basic",
    ("simclr", False, False): "CL-linear",
    ("simclr-alter-aug", False, True): "CL-srelu",
    ("simclr-alter-aug", True, True): "CL-basic",
    ("simclr-orig", True, True): "Simplified-SimCLR",
    ("simsiam", True, True): "Simplified-SimSiam",
}
"""The program's model, whether it has BatchNorm, a ReLU -> a name of `sparse_training.MODELS`."""


def _sparse_params(arrays: Arrays, model: str, bn: bool) -> Params:
    if model.startswith("simplified"):
        out = {}
        for suffix, ours in (("", ""), ("_1", "2")):
            names = {"W": "W{}" + suffix + ".weight", "b": "W{}" + suffix + ".bias"}
            names |= {"gain": "bn{}" + suffix + ".weight", "shift": "bn{}" + suffix + ".bias"}
            for name, theirs in names.items():
                pair = [theirs.format(net) for net in "ot"]  # online, target
                if pair[0] in arrays:
                    out[name + ours] = torch.stack([_tensor(arrays[n]) for n in pair])
    else:
        norm = "norm1" if model == "simsiam" else "bn1"
        names = {"W": "Wo.weight", "b": "Wo.bias"}
        if bn:  # the contrastive models own a BatchNorm that they may not use
            names |= {"gain": f"{norm}.weight", "shift": f"{norm}.bias"}
        out = {name: _tensor(arrays[theirs])[None] for name, theirs in names.items()}
    heads = {"P": "Wp.weight", "q": "Wp.bias", "R": "Wproj.weight", "r": "Wproj.bias"}
    heads |= {"gainR": "norm2.weight", "shiftR": "norm2.bias"}
    return out | {n: _tensor(arrays[theirs]) for n, theirs in heads.items() if theirs in arrays}


def _sparse(trace: golden.Golden) -> Replay:
    s = trace.settings
    known = ("m", "p", "d", "n", "batch", "lr", "temperature", "keep", "normalise")
    told = {name: s[name] for name in known}
    mask = "dependent" if s["mask"] == "dependent" else "independent"
    name = _ENCODERS[s["model"], s["bn"], s["relu"]]
    config = sparse_training.configuration(0, name, s["pr"], "released", mask=mask, **told)
    if s["model"] == "simclr-alter-aug":  # ncl's Eq. 8, which "released" does not take
        config["loss_kind"] = "contrastive"
    views = _tensor(trace.batch["views"]).clone()
    online = torch.arange(len(views)) % config["per_epoch"] % 2 == 0
    if s["model"].startswith("simplified") and mask == "independent":
        # The program's online network always has the first view. Ours gives that to the learner:
        # independent views are exchangeable, so this is a choice and not a difference.
        views[~online] = views[~online].flip(1)

    def batches(at: Tensor, c: Config) -> Tensor:
        return views[at][:, : c["rows"]]

    def translate(arrays: Arrays) -> Params:
        return _sparse_params(arrays, s["model"], s["bn"])

    start = translate(trace.start)
    return Replay(config, start, batches, sparse_training.PROBLEM, translate)


# --------------------------------------------------------------------------------------- nl, ddn


def _tokens(trace: golden.Golden) -> Replay:
    s = trace.settings
    activation = {"leakyrelu": "leaky_relu"}.get(s["activation"], s["activation"])
    known = ("lr", "weight_decay", "fields", "tokens", "generators", "fixed", "batch")
    config = token_sequences.configuration(
        0,
        s["P"],
        s["beta"],
        activation,
        s["loss"].lower(),
        "released",
        s["bn"] or "none",
        float(s["zeta"]),
        **{name: s[name] for name in known},
    )
    tokens = _tensor(trace.batch["tokens"].astype(np.int64))

    def translate(arrays: Arrays) -> Params:
        fields = [_tensor(arrays[f"w1.{k}.weight"]) for k in range(s["fields"])]
        return {"W": torch.stack(fields), "V": _tensor(arrays["w2.weight"])}

    start = translate(trace.start)
    return Replay(config, start, lambda at, c: tokens[at], token_sequences.PROBLEM, translate)


def tree_params(arrays: Arrays, depth: int) -> Params:
    """The program's groups s, s0, s1, ... as `pattern_net` has them: one tensor a depth."""
    out = {}
    for d in range(depth):
        groups = ["s" + (format(i, f"0{d}b") if d else "") for i in range(2**d)]
        for name, theirs in (("w", "weight"), ("b", "bias")):
            out[f"{name}{d}"] = torch.stack([_tensor(arrays[f"{g}.{theirs}"]) for g in groups])
    return out


def _tree(trace: golden.Golden) -> Replay:
    s = trace.settings
    config = tree_contrast.configuration(
        0, s["low"], s["width"], s["depth"], "released", signs=True
    )
    config["lr"] = s["lr"]
    blocks = 2 ** pattern_net.block_depth(s["depth"])
    leaves = _tensor(trace.batch["leaves"].astype(np.int64))
    bits = leaves.flatten(1, 2).unflatten(-1, (blocks, -1))  # steps, views, blocks, leaves of one
    powers = 2 ** torch.arange(bits.shape[-1] - 1, -1, -1)
    patterns = (bits * powers).sum(-1).mT

    def translate(arrays: Arrays) -> Params:
        return tree_params(arrays, s["depth"])

    start = translate(trace.start)
    return Replay(config, start, lambda at, c: patterns[at], tree_contrast.PROBLEM, translate)


# -------------------------------------------------------------------------------------------- runs

_FAMILIES = {"ncl": _sparse, "nl": _tokens, "ddn": _tree}


def prepare(trace: golden.Golden) -> Replay:
    """Configuration, start and batches of a trace in our terms. Errors: a trace that trains
    nothing (ddn-metric-...)."""
    if not len(trace.loss):
        raise ValueError(f"{trace.name}: expected a trace of a training, this one has no step")
    return _FAMILIES[trace.family](trace)


def run(replay: Replay, steps: int, **changes: object) -> tuple[np.ndarray, Params]:
    """Loss of every step [steps] and final weights of `step.flat_step`, in float64. changes: fields
    of the configuration that a control sets otherwise."""
    given, made = replay.problem, replay.config | changes

    def batch(key: Tensor, at: Tensor, c: Config) -> object:
        return replay.batches(at, c)

    problem = step.Problem(
        lambda key, c: {name: tensor.clone() for name, tensor in replay.start.items()},
        batch,
        given["loss"],
        None,
        given.get("project"),
        given["setup"],
        None,
        "sgd",
        given["static"],
        torch.device("cpu"),
        torch.float64,
        given.get("gradient"),
        given.get("turns"),
    )
    losses = []
    with torch.no_grad():
        part = step.start(problem, [0], [made])
        turns = [step.flat_step(problem, part, turn) for turn in step.period(problem, part)]
        _, state, fixed = turns[0]
        shape = tree_flatten(part.state)[1]
        for at in range(steps):
            *state, value = turns[at % len(turns)][0](*state, *fixed)
            losses.append(float(value[0]))
    params = tree_unflatten(state, shape)["params"]
    return np.array(losses), {name: tensor[0] for name, tensor in params.items()}


def difference(trace: golden.Golden, replay: Replay | None = None, **changes: object) -> Difference:
    """How far ours ends from the program's. replay: `prepare`d and then changed, for a control."""
    replay = replay or prepare(trace)
    losses, ours = run(replay, len(trace.loss), **changes)
    theirs = replay.translate(trace.end)
    weights = max(float((ours[n] - theirs[n]).abs().max() / theirs[n].abs().max()) for n in theirs)
    return Difference(float(np.max(np.abs(losses - trace.loss) / np.abs(trace.loss))), weights)


def compare(names: list[str]) -> dict[str, dict]:
    """By trace, its steps and the largest relative differences of loss and weights."""
    found = {}
    for trace in map(golden.load, names):
        if len(trace.loss):
            far = difference(trace)
            found[trace.name] = {"steps": len(trace.loss), "loss": far.loss, "weights": far.weights}
    return found


def command(write: bool) -> bool:
    """Compare ours with every trace, print a table, and keep it as measured.json if `write`. False
    if a trace is farther off than its tolerance."""
    torch.set_num_threads(1)  # tiny tensors
    found = compare(golden.names())
    table = [
        [name, r["steps"], *(f"{r[n]:.1e}" for n in ("loss", "weights")), golden.tolerance(name)]
        for name, r in found.items()
    ]
    head = ["trace", "steps", "loss", "weights", "tolerance"]
    print(tabulate(table, head, disable_numparse=True))
    print("\nLargest relative differences of ours from the program's, by paper:")
    for row in golden.by_family(found):
        print(
            f"{row['family']}: {row['traces']} traces, {row['steps']} steps, loss "
            f"{row['loss']:.1e}, weights {row['weights']:.1e}"
        )
    far = [n for n, r in found.items() if not max(r["loss"], r["weights"]) <= golden.tolerance(n)]
    for name in far:
        print(f"{name}: farther from the program than {golden.tolerance(name)}")
    if write and not far:
        write_json(golden.folder() / "measured.json", found)
    return not far
