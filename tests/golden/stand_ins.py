"""Stand-ins for packages that the authors' programs import and that a recorded run never uses."""

import importlib
import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import torch


def _module(name: str, **members: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


def _instantiate(config: SimpleNamespace, *args: object, **more: object) -> object:
    """What hydra's does: call the function or class that `_target_` names with the other fields."""
    fields = {k: v for k, v in vars(config).items() if k != "_target_"}
    module, name = config._target_.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(*args, **fields | more)


def _unchanged(*_: object, **__: object):
    """In place of a decorator with arguments."""
    return lambda function: function


def install() -> None:
    """Before the programs are imported; a package that is here is replaced as well, so that the
    numbers do not depend on it."""
    _module("hydra", main=_unchanged, utils=SimpleNamespace(instantiate=_instantiate))
    _module("omegaconf", OmegaConf=object)
    _module("torchvision", transforms=None, datasets=None)
    _module("wandb", Image=None)
    _module("seaborn")
    # One module deep: log_metrics asks for matplotlib.pyplot.
    _module("matplotlib", pyplot=_module("matplotlib.pyplot"))


def seed_all(seed: int) -> None:
    """All generators that the programs draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def common_utils(stats: Path) -> ModuleType:
    """The helper package of the second repository: its own correlations, read from `stats`, and
    nothing for its logs and sweeps."""
    spec = importlib.util.spec_from_file_location("common_utils_stats", stats)
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)

    class Counter:
        def __init__(self, *_: object) -> None:
            pass

        def reset(self) -> None:
            pass

        def __getitem__(self, _: str) -> SimpleNamespace:
            return SimpleNamespace(feed=lambda value: None)

        def summary(self, _: int) -> str:
            return ""

    def nothing(*_: object) -> str:
        return ""

    return _module(
        "common_utils",
        corr_summary=found.corr_summary,
        StatsCorr=found.StatsCorr,
        MultiCounter=Counter,
        MultiRunUtil=type("MultiRunUtil", (), {}),
        set_all_seeds=seed_all,
        get_git_hash=nothing,
        get_git_diffs=nothing,
        print_info=nothing,
    )
