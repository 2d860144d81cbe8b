"""Settings of every model as its name and its protocol have them; the ends of what is taken; the
law of every parameter before training."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import ndtr

from clcore import random as cr
from clcore.experiments import sparse_training as st
from clcore.reference import kolmogorov

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = {"m": 6, "p": 6, "d": 4, "n": 20, "batch": 8}
PLAIN = {"batch": 512, "m": 50, "p": 50, "d": 10, "pr": 0.3, "keep": 0.5, "temperature": 0.05}
PLAIN |= {"mask": "independent", "unit": True, "normalise": "none"}
PLAIN |= {"warm": -1.0, "start": "random", "seed": 3, "updates": "by turns"}
DATA = {
    "paper": {"n": 1000, "lr": 0.025, "latent": "iid", "sigma": math.log(10) / 10},
    "released": {"n": 3000, "lr": 0.005, "latent": "fixed", "sigma": math.log(10) ** 0.5 / 10},
}
NAMES = [f"NCL-{n}" for n in ("linear", "srelu", "basic", "basic-2L", "srelu-2L", "pred")]
NAMES += ["NCL-srelu-pred", "CL-linear", "CL-srelu", "CL-basic"]
NAMES += ["Simplified-SimCLR", "Simplified-SimSiam"]


def model(name):
    """What the name of a model says of it."""
    losses = {"NCL": "non-contrastive", "CL": "contrastive"}
    losses |= {"Simplified-SimCLR": "nt-xent", "Simplified-SimSiam": "simsiam"}
    return {
        "model": name,
        "loss_kind": losses.get(name) or losses[name.split("-")[0]],
        "bn": "linear" not in name and "srelu" not in name,
        "relu": "linear" not in name,
        "plain": False,
        "layers": 2 if "2L" in name else 1,
        "head": "pred" in name or "Sim" in name,
    }


def test_the_models_are_those_of_the_paper():
    assert set(st.MODELS) == set(NAMES)


@pytest.mark.parametrize("protocol", DATA)
@pytest.mark.parametrize("name", NAMES)
def test_settings_are_those_of_the_model_and_its_protocol(name, protocol):
    c = st.configuration(3, name, 0.3, protocol)
    drops = model(name)["loss_kind"] in ("contrastive", "nt-xent")
    batches = {"paper": 1, "released": 5}[protocol] + (not drops)
    wanted = PLAIN | DATA[protocol] | model(name) | {"protocol": protocol, "per_epoch": batches}
    if name[:2] == "CL" and protocol == "released":
        wanted["loss_kind"] = "nt-xent"
    assert c == wanted
    assert st.steps(c, 7) == 7 * batches


@pytest.mark.parametrize(
    ("noise", "sigma"), [(0.7, 0.7), (0.0, 0.0), ("variance", (math.log(4) / 4) ** 0.5)]
)
def test_settings_are_those_asked_for(noise, sigma):
    asked = {"mask": "dependent", "latent": "binary", "normalise": "rows", "unit": False}
    asked |= {"keep": 0.25, "m": 7, "p": 6, "d": 4, "n": 20, "batch": 8, "lr": 0.5}
    asked |= {"temperature": 0.7, "warm": 0.0, "updates": "together", "plain": True}
    c = st.configuration(5, "NCL-pred", 0.2, "released", noise=noise, warm_kind="balanced", **asked)
    wanted = model("NCL-pred") | asked | {"sigma": sigma, "start": "balanced", "seed": 5}
    assert c == wanted | {"pr": 0.2, "protocol": "released", "per_epoch": 3}


@pytest.mark.parametrize(
    "changes",
    [
        *({name: "another"} for name in ("model", "protocol", "latent", "mask", "noise")),
        *({name: "another"} for name in ("warm_kind", "normalise", "updates")),
        *({"noise": v} for v in (-0.1, math.inf)),
        *({"pr": v} for v in (0.0, 1.1)),
        *({"warm": v} for v in (-0.1, math.inf)),
        *({"keep": v} for v in (0.0, 2.0**-17, 1.1)),
        *({"d": 7}, {"m": 0}, {"batch": 1}, {"batch": 21}, {"temperature": 0.02}),
        *({"batch": 20}, {"unit": False, "model": "CL-basic"}),
        {"plain": True, "model": "NCL-linear"},
        {"updates": "together", "model": "CL-basic"},
        {"warm": 0.1, "m": 3},
        {"warm": 0.1, "m": 7, "warm_kind": "columns"},
    ],
)
def test_what_is_beyond_a_range_is_refused(changes):
    with pytest.raises(ValueError, match=r"expected|needs|would never|is contrastive|is for"):
        st.configuration(0, **({"model": "NCL-basic"} | SMALL | changes))


@pytest.mark.usefixtures("unchecked_shapes")
def test_sizes_are_whole_numbers():
    with pytest.raises(ValueError, match=r"m: expected an int >= 1, got 2\.5"):
        st.configuration(0, "NCL-basic", **(SMALL | {"m": 2.5}))


@pytest.mark.parametrize(
    "changes",
    [
        *({"batch": 20, "model": "CL-basic"}, {"batch": 2}, {"batch": 19}, {"unit": False}),
        *({"pr": 1.0}, {"keep": 1.0}, {"keep": 2.0**-16}, {"temperature": 0.025}, {"d": 6}),
        *({"batch": 20, "updates": "together"}, {"updates": "target first"}),
        *({"warm": 0.0, "m": 4}, {"noise": 0.0}, {"m": 1, "p": 1, "d": 1}),
        {"warm": 0.1, "m": 3, "warm_kind": "replacement"},
        {"warm": 0.1, "warm_kind": "columns"},
    ],
)
def test_the_ends_of_the_ranges_are_taken(changes):
    c = st.configuration(0, **({"model": "NCL-basic"} | SMALL | changes))
    kept = {name: value for name, value in changes.items() if name in c}
    assert {name: c[name] for name in kept} == kept


@pytest.mark.parametrize(
    ("updates", "learns"),
    [("by turns", [0, 1, 0]), ("target first", [1, 0, 1]), ("together", [2, 2, 2])],
)
def test_which_network_learns_in_which_minibatch(updates, learns):
    c = st.configuration(0, "NCL-basic", n=11, batch=4, m=5, p=5, d=3, updates=updates)
    assert [turn["turn"] for turn in st.turns(c)] == learns


MODELS = ("NCL-basic-2L", "NCL-pred", "Simplified-SimSiam", "CL-srelu")


@pytest.mark.parametrize(("name", "protocol"), list(product(MODELS, st.PROTOCOLS)))
def test_every_parameter_starts_with_the_law_of_its_protocol_and_apart(name, protocol):
    """Kolmogorov's statistic of a sample times its root is above 3 with a chance of 3e-8."""
    c = st.configuration(0, name, 0.1, protocol, **{"m": 200, "p": 30, "d": 5, "n": 20, "batch": 8})
    key = cr.fold_in(cr.key(11), MODELS.index(name))
    params = {n: w.double().numpy() for n, w in st.PROBLEM["init"](key, c).items()}
    drawn = []
    for which, value in params.items():
        if (
            which[:4] == "gain"
            or which[:5] == "shift"
            or (which[0] in "bq" and protocol == "paper")
        ):
            assert (value == (which[:4] == "gain")).all(), which
            continue
        if which[0] == "W" or protocol == "paper":
            size = {"W2": 200 * 5}.get(which, 30 * 5)
            even = ndtr(value * np.sqrt(size))
        else:
            even = (1 + value * np.sqrt(30 if which == "b" else 200)) / 2
            assert np.abs(even - 0.5).max() <= 0.5 + 1e-6, which
        assert kolmogorov(even.ravel(), 0, 1) < 3, which
        drawn += [v.ravel() for v in (value if which[0] in "Wb" else [value])]
    for a, b in combinations(drawn, 2):
        count = min(len(a), len(b))
        assert abs(np.corrcoef(a[:count], b[:count])[0, 1]) * np.sqrt(count) < 6
