"""What findings tell of ncl's runs at settings that the print leaves open is what was recorded."""

import re

import numpy as np
import pandas as pd
import pytest

from clcore import _paths
from clcore.experiments import sparse_map
from clcore.experiments import sparse_panels as sp
from clcore.experiments import sparse_tables as rt
from clcore.experiments.sparse_settings import SETTLES
from clcore.ledger import findings
from clcore.theory.sparse.sparse_coding import noise_std

NETS = {"SimCLR": "simclr", "SimSiam": "simsiam", "the two-layer net": "ncl-basic-2l"}
NETS |= {n: n.lower() for n in ("CL-basic", "NCL-basic", "CL-linear", "NCL-linear")}
NETS |= {n: f"srelu-{n.lower()}-10" for n in ("CL", "NCL")}  # of Figures 8 and 9 alone
NUMBER = r"(\d\.\d+)"
ENDS = re.compile(
    rf"\b({'|'.join(sorted(NETS, key=len, reverse=True))})(?:,| alone)?(?: ends?(?: as high as "
    rf"printed)?,?)? (?:at |\(){NUMBER}(?:, {NUMBER})?(?: (and|to) {NUMBER}| (or more))?"
)
"""Such as "SimCLR ends at 0.89, 0.88 and 0.66", "NCL-basic (0.45 to 0.51)"."""
CELLS = re.compile(r"(\d+)(?: of (\d+))? (?:cells )?agree|(\d+) of (\d+) cells")

MASKED = "with masks that mask a tenth"
NOISES = {"0.23": "", "0.05": "-faint", "0.48": "-loud"}
TEMPERATURES = {"0.05": "", "0.2": "-t0.2", "0.2, rate in proportion": "-t0.2"}
TEMPERATURES |= {"0.5, rate in proportion": "-t0.5"}
PLAIN = {"noise 0.23, temperature 0.05": "-relu"}
PLAIN |= {"noise 0.05, temperature 0.5, rate in proportion": "-relu-faint-t0.5"}
STARTS = {
    ("Nothing", "the reference (see Runs)"): ("",),
    ("Neurons", "twenty"): ("-narrow",),
    ("Neurons", "twenty, and the target first"): ("-narrow-target-first",),
    ("Neurons", "twenty, and every column of $M$ equally often"): ("-narrow-balanced",),
    ("Neurons", "twenty, and Pr(sparse) of each sign"): ("-narrow-each-sign",),
    ("Neurons", "twenty, at noise 0.48 and 0.05"): ("-narrow-loud", "-narrow-faint"),
    ("Noise", "0.48"): ("-loud",),
    ("Noise", "0.05"): ("-faint",),
    ("Columns of $M$", "every one equally often"): ("-balanced",),
    ("Pr(sparse)", "of each sign"): ("-each-sign",),
    ("Order of turns", "the target first"): ("-target-first",),
    ("Noise 0.48, every column equally often, each sign", "two of them together"): (
        *("-loud-balanced", "-loud-each-sign", "-balanced-each-sign"),
    ),
    ("Noise 0.48, every column equally often, each sign", "all three"): (
        "-loud-balanced-each-sign",
    ),
}
"""What Table 4's row varies -> suffixes of the panels' names."""


@pytest.fixture(scope="module")
def runs():
    folder = _paths.root() / "data" / "recorded"
    table = pd.concat(
        pd.read_csv(folder / chapter / "runs.csv") for chapter in ("6-landscape", "6-dynamics")
    )
    mapped = pd.read_csv(folder / "6-landscape" / "map.csv")
    table = pd.concat([table, sparse_map.as_panels(mapped, table)])
    return pd.concat([table, sp.beside(table)])


def suffix(outer, inner):
    """Of the panels that a setting names; None of one that is told by other means."""
    if found := re.match(rf"Temperature, ({MASKED}, )?at noise (\d\.\d+)", outer):
        at, masks = TEMPERATURES.get(inner), "-drop" if found[1] else ""
        return None if at is None else masks + NOISES[found[2]] + at
    return PLAIN.get(inner) if "plain ReLU" in outer else None


def test_by_eq_6_to_the_letter_weights_of_a_linear_encoder_grow():
    """ncl/rem10: 2 - 2 E<u, v> of outputs as they are, by SGD on both networks in turn; with biases
    a millionfold after 500 epochs of two batches, and more slowly without."""
    p, m, d, size = 50, 50, 10, 512
    for biases in (True, False):
        rng = np.random.default_rng(0)
        z = rng.choice([-1, 0, 1], (1000, d), p=[0.05, 0.9, 0.05])
        M = np.linalg.qr(rng.standard_normal((p, d)))[0]
        x = z @ M.T + noise_std(d, "std") * rng.standard_normal((1000, p))
        W, b = rng.standard_normal((2, m, p)) / (p * d) ** 0.5, np.zeros((2, m))
        start = np.linalg.norm(W, axis=(1, 2))
        for step in range(1000):
            batch = x[rng.permutation(1000)[:size]]
            seen, other = rng.integers(0, 2, (2, size, p)) * batch
            own, target = step % 2, 1 - step % 2
            v = other @ W[target].T + b[target]
            W[own] += 0.025 * 2 * v.T @ seen / size
            b[own] += biases * 0.025 * 2 * v.mean(0)
        grown = np.linalg.norm(W, axis=(1, 2)) / start
        assert (grown > 1e6).all() if biases else (grown > 1.2).all()


def told():
    """(claim, suffix, sentence) of every setting whose panels have one suffix."""
    for claim, row in findings.known().items():
        for outer, inner in (row.get("open") or {}).get("varied", {}).items():
            for name, said in inner.items() if claim.startswith("ncl/") else ():
                if (found := suffix(outer, name)) is not None:
                    yield claim, found, said


def test_ends_are_the_recorded_ones(runs):
    checked = 0
    for claim, of, said in told():
        for found in ENDS.finditer(said):
            net, first, second, word, last, more = found.groups()
            ours = rt.means(runs, NETS[net] + of)["mean"].round(2).to_numpy()
            printed = [float(n) for n in (first, second, last) if n]
            if word == "to":
                ours = np.array([ours.min(), ours.max()])
            elif more:
                ours = ours.min(keepdims=True)
            elif len(printed) == 1:  # of all, or of the least Pr(sparse) where that alone was run
                ours = ours[:1] if claim == "ncl/num1" else np.unique(ours)
            assert np.allclose(ours, printed), (claim, of, found[0], ours)
            checked += 1
    assert checked > 100


def test_cells_that_agree_are_counted_from_the_record(runs):
    checked = 0
    counted = [one for one in told() if one[0] in ("ncl/tab1", "ncl/tab2", "ncl/tab3")]
    for claim, of, said in counted:
        for found in CELLS.finditer(said):
            n, cells, *other = found.groups()
            n, cells = (n, cells) if n else other
            table = rt.beside(runs, claim, of)
            assert int(n) == table.agrees.sum(), (claim, of, said)
            assert cells is None or int(cells) == len(table), (claim, of, said)
            checked += 1
    assert checked > 20


def test_cells_of_the_warm_starts_are_counted_from_the_record(runs):
    varied = findings.known()["ncl/tab4"]["open"]["varied"]
    for (outer, inner), panels in STARTS.items():
        said = varied[outer][inner].split(".")[0]
        counts = [int(n) for n in re.findall(r"\b\d+\b", said.split("agree")[0]) if n != "27"]
        assert counts == [rt.beside(runs, "ncl/tab4", of).agrees.sum() for of in panels], said


@pytest.mark.parametrize("claim", ["ncl/fig14", "ncl/fig15"])
def test_the_noise_of_free_weights_is_that_of_twenty_features(claim):
    settings = sp.PANELS["fig14-free"]["settings"]
    assert "noise" not in settings and settings["d"] == 20
    (noise,) = re.findall(r"At noise (\d\.\d+) free", findings.known()[claim]["in_short"])
    assert float(noise) == round(noise_std(20, "std"), 2)


def test_free_weights_rise_from_the_starts_of_figures_13_and_14(runs):
    varied = findings.known()["ncl/rem6"]["open"]["varied"]
    sizes = varied["Sizes and noise, with normalised weights"]
    (said,) = (words for name, words in sizes.items() if "Figs. 13" in name)
    told = [float(n) for n in re.findall(r"0\.\d+", said)]
    for panel, (start, least) in (("fig13-free", told[:2]), ("fig14-free", told[2:])):
        began, ended = (rt.means(runs, panel, last=last)["mean"].round(2) for last in (False, True))
        assert (began == start).all() and ended.min() == pytest.approx(least), panel
        assert rt.rises(runs, panel, 1)[0] < 0.05


def test_cells_that_are_nearer_with_a_tenth_kept_are_counted_from_the_record(runs):
    """By a count of its own: the mean of the last epoch of each panel, against the printed cell."""
    last = runs[runs.epoch == runs.groupby("panel", observed=True).epoch.transform("max")]
    table = rt.printed("ncl/tab1")
    table["panel"] = table.apply(rt.panel_of, axis=1)

    def nearer(of_clr, of_siam):
        count = 0
        for cell in table.itertuples():
            suffix = of_clr if cell.panel == "simclr" else of_siam
            off = []
            for masks in ("", "-drop"):
                own = last[
                    (last.panel == cell.panel + masks + suffix) & np.isclose(last.pr, cell.pr)
                ]
                assert len(own) == 5
                off.append(abs(own[cell.metric].mean() - cell.paper))
            count += off[0] < off[1]
        return count

    told = findings.known()["ncl/num5"]["open"]["varied"][
        "Temperature and noise, five runs per panel"
    ]
    words = {"Sixteen": 16, "Nine": 9}
    colder = {"0.05": "", "0.2": "-t0.2", "0.5": "-t0.5"}
    for setting, text in told.items():
        temperatures, noise = setting.split(", at noise ")
        first = text.split()[0]
        said = words.get(first) or int(first)
        for one in re.findall(r"[\d.]+\d", temperatures):
            siam = NOISES[noise]
            assert nearer(siam + colder[one], siam) == said, (setting, one)


@pytest.mark.parametrize(
    ("high", "low"),
    [("srelu-cl-10-t0.5", "srelu-ncl-10"), ("srelu-cl-10-loud-t0.2", "srelu-ncl-10-loud")],
)
def test_the_last_runs_of_figures_8_and_9_alone_show_the_order(runs, high, low):
    """ncl/fig8, fig9: in the two settings that fifteen runs left to chance, 45 fresh ones."""
    first, fresh = runs[runs.seed < SETTLES], runs[runs.seed >= SETTLES]
    assert {len(rt.at(fresh, panel)) for panel in (high, low)} == {3 * 45}
    assert rt.ahead(fresh, high, low)[0] < 1e-4 and rt.ahead(first, high, low)[0] > 0.05
