"""Runs of the program of ncl: its data sets, models and training loops, from recorded starts."""

import contextlib
import importlib
import io

import numpy as np
import torch
from recording import copied, in_float64, losses
from stand_ins import seed_all
from torch.utils.data import DataLoader

SIZES = {"m": 10, "p": 12, "d": 5, "n": 54, "batch": 16, "pr": 0.3, "lr": 0.05, "epochs": 4}
BASE = SIZES | {"temperature": 0.05, "keep": 0.5, "mask": "independent", "normalise": "none"}
BASE |= {"bn": False, "relu": True, "warm": None, "seed": 1}

CLASSES = {
    "simplified": "sparse_contrastive_model_reduced.SparseContrastiveModelReduced",
    "simplified-pred": "sparse_contrastive_model.SparseContrastiveModel",
    "simplified-ml": "sparse_contrastive_ml_model.SparseContrastiveMultiLayeredModel",
    "simclr": "simclr.SimCLRModel",
    "simclr-orig": "simclr.SimCLROrigModel",
    "simclr-alter-aug": "simclr_asym.SimCLRAsymmetricModel",
    "simsiam": "simsiam.SimSiamModel",
}
"""The programs' own name of a model (its command line's --model) and the class that it builds."""

# One-network models have no last incomplete batch: their loader drops it.
TRACES = {
    "ncl-simplified": {"model": "simplified"},
    "ncl-simplified-dependent": {"model": "simplified", "mask": "dependent"},
    "ncl-simplified-rows-warm": {"model": "simplified", "normalise": "rows", "warm": 2.0},
    "ncl-simplified-columns": {"model": "simplified", "normalise": "columns"},
    "ncl-simplified-empty-views": {"model": "simplified", "keep": 0.1},
    "ncl-simplified-pred": {"model": "simplified-pred"},
    "ncl-simplified-pred-bn": {"model": "simplified-pred", "bn": True},
    "ncl-simplified-pred-bn-dependent": {
        "model": "simplified-pred",
        "bn": True,
        "mask": "dependent",
    },
    "ncl-simplified-pred-columns-warm": {
        "model": "simplified-pred",
        "normalise": "columns",
        "warm": 1.25,
    },
    "ncl-simplified-ml-bn": {"model": "simplified-ml", "bn": True},
    "ncl-simclr": {"model": "simclr"},
    "ncl-simclr-dependent": {"model": "simclr", "mask": "dependent"},
    "ncl-simclr-bn": {"model": "simclr", "bn": True},
    "ncl-simclr-bn-dependent": {"model": "simclr", "bn": True, "mask": "dependent"},
    "ncl-simclr-linear": {"model": "simclr", "relu": False},
    "ncl-simclr-orig": {"model": "simclr-orig", "bn": True},
    "ncl-simclr-orig-dependent": {"model": "simclr-orig", "bn": True, "mask": "dependent"},
    "ncl-simclr-alter-aug": {"model": "simclr-alter-aug", "mask": "one a batch"},
    "ncl-simclr-alter-aug-bn": {"model": "simclr-alter-aug", "bn": True, "mask": "one a batch"},
    "ncl-simsiam-bn": {"model": "simsiam", "bn": True},
    "ncl-simsiam-bn-keep-0.2": {"model": "simsiam", "bn": True, "keep": 0.2},
}
TRACES = {name: BASE | told for name, told in TRACES.items()}


def _alternates(c: dict) -> bool:
    return c["model"].startswith("simplified")


def _member(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def entry(c: dict) -> list[str]:
    """What of the program is run: the loop, and the class of the model."""
    loop = "alternate_train" if _alternates(c) else "train"
    loop = "augment_and_train" if c["model"] == "simclr-alter-aug" else loop
    return [f"functions.train.{loop}", f"models.{CLASSES[c['model']]}"]


def _model(c: dict, dictionary: np.ndarray) -> torch.nn.Module:
    starts = _member("data_model.gen_sparse_coding_data", "gen_Winit")
    m, p, d = c["m"], c["p"], c["d"]
    told = {"m": m, "p": p, "d": d, "device": "cpu"}
    names = ("Wo_init", "Wt_init") if _alternates(c) else ("Wo_init",)
    told |= {name: starts(dictionary, c=c["warm"], m=m, d=d, p=p) for name in names}
    if c["model"] == "simplified-ml":
        deeper = ("Wo1_init", "Wt1_init")
        told |= {name: starts(dictionary, c=None, m=m, d=d, p=m) for name in deeper}
    if c["model"] == "simplified-pred":
        told["use_pred"] = True
    if _alternates(c):
        told["normalize_rep"] = True
    if c["model"] != "simclr-orig":  # which always has it
        told["use_bn"] = c["bn"]
    if c["model"].startswith("simclr"):
        told |= {"batch_size": c["batch"], "temperature": c["temperature"]}
    told |= {"has_online_ReLU": c["relu"], "has_target_ReLU": c["relu"]}
    if c["model"] == "simsiam":
        told["batch_norm"] = None
    module, name = CLASSES[c["model"]].rsplit(".", 1)
    return _member(f"models.{module}", name)(**told)


def _loader(c: dict, x: np.ndarray, z: np.ndarray) -> DataLoader:
    if c["mask"] == "dependent":
        made = _member("dataset.dep_mask_contrastive_dataset", "DependentMaskContrastiveDataset")
        data = made(x, z)
    elif c["mask"] == "independent":
        made = _member("dataset.masked_sparse_contr_dataset", "MaskedSparseContrastiveDataset")
        data = made(x, z, prob_ones=c["keep"])
    else:
        data = _member("dataset.simple_contrastive_dataset", "SimpleContrastiveDataset")(x, z)
    drop = c["model"].startswith("simclr")
    return DataLoader(data, batch_size=c["batch"], shuffle=True, drop_last=drop)


def drive(c: dict) -> dict[str, dict[str, object]]:
    """Groups of arrays: start and end (the state of the model), batch, loss, more."""
    np.float, np.int = float, int  # the program was written for a numpy that had them
    draws = importlib.import_module("data_model.gen_sparse_coding_data")
    loop = _member(*entry(c)[0].rsplit(".", 1))
    seed_all(c["seed"])
    views: list[tuple] = []
    with contextlib.redirect_stdout(io.StringIO()), in_float64(), losses() as found:
        dictionary = draws.gen_M(p=c["p"], d=c["d"])
        z = draws.gen_z(n=c["n"], d=c["d"], prob=c["pr"])
        x = (dictionary @ z + draws.gen_epsilon(n=c["n"], p=c["p"], d=c["d"])).T
        loader = _loader(c, x, z.T)
        model = _model(c, dictionary).double()
        start = copied(dict(model.named_parameters()))
        model.register_forward_pre_hook(lambda _, given: views.append((given[0], given[1])))
        rates = [torch.optim.SGD(list(model.parameters()), lr=c["lr"]) for _ in range(2)]
        told = {"train_loader": loader, "max_epochs": c["epochs"], "M": dictionary}
        if c["model"] == "simclr-alter-aug":
            told |= {"prob_ones": c["keep"]}
        else:
            told |= {"col_norm": c["normalise"] == "columns", "row_norm": c["normalise"] == "rows"}
        if _alternates(c):
            told |= {"online_optimizer": rates[0], "target_optimizer": rates[1]}
        else:
            told |= {"optimizer": rates[0]}
        score = loop(model, **told)["final_metric"][:3]
    after = copied(dict(model.named_parameters(remove_duplicate=False)))
    rows = [len(a) for a, _ in views]
    batch = np.zeros((len(views), 2, c["batch"], c["p"]))
    for step, pair in enumerate(views):
        for side, view in enumerate(pair):
            assert view.dtype == torch.float64, view.dtype
            batch[step, side, : rows[step]] = view.numpy()
    return {
        "start": start,
        # One model names its biases a second time once it has been called.
        "end": {n: t for n, t in after.items() if n in start},
        "batch": {"views": batch, "rows": np.array(rows)},
        "loss": {"": np.array(found)},
        "more": {"dictionary": dictionary, "score": np.array(score)},
    }
