"""The settings of ncl's experiments, Sec. 4.2, and its warm start: what needs no trained run."""

import math
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr

from clcore import random as cr
from clcore.checks.sparse_runs.step import by_hand
from clcore.experiments import sparse_training as st
from clcore.ledger import Trial, check
from clcore.reference import kolmogorov, tensors
from clcore.theory.sparse import sparse_coding as sc


@check("ncl/num2")
def num2(t: Trial) -> None:
    """Warm start: columns of M with noise σ = 0.141 at c = 1, p = 50 (Sec. 5.2.2; App. B.1.4).

    Given   fresh warm starts of every kind, p = m = 50, d = 10, c = 1.
    Claim   sigma = 50^(-1/2) = 0.141; rows of W near columns of M begin at a mean Minimum
            max-cosine of 0.5 or more: half-way between random encoders (0.25) and what the text
            reports (0.7).
    Fails   for p^(-c), random encoders, columns of W as typeset.

    Beyond the row: which columns each kind takes, and its noise.
    """
    part = t.part("sigma", 5e-4).add(abs(sc.warm_std(50, 1) - 0.141))
    part.breaks("p^(-c)", abs(50**-1.0 - 0.141))
    keys = t.keys(max(t.draws, 20))

    def begins(kind: str | None) -> float:
        def one(key: torch.Tensor) -> torch.Tensor:
            atoms, start = cr.split(key)
            M = sc.dictionary(atoms, 50, 10)
            if kind is None:
                W = sc.random_start(start, 50, 50, 10)
            else:
                W = sc.warm_start(start, M, 50, sc.warm_std(50, 1), kind)
            return sc.summary(sc.max_cosine(W, M))["minimum"]

        return float(torch.func.vmap(one)(keys).mean())

    random, columns, rows = begins(None), begins("columns"), begins("rows")
    part = t.part("a point near the optimum", 0.5, ">=", draws=len(keys)).add(rows)
    part.breaks("random encoders", random).breaks("as typeset, columns of W", columns)
    part.says(rows=rows, columns=columns, random=random)
    _warm(t)


def _warm(t: Trial) -> None:
    """Every kind of warm start: which columns of M are taken, how often and in which order, and the
    noise. Controls: weights themselves for the noise, one column more, another order, one order for
    all starts."""
    noise, law = t.defines("noise of a warm start", 3.0), t.defines("columns taken, chances", 6.0)
    counts, M = t.defines("columns taken, counts", 0.0), np.eye(12, 5)
    settings = {"rows": 5, "rows, drawn": 8, "replacement": 5, "balanced": 7, "columns": 12}
    several, d, sigma, (given,) = 600, 5, 0.03, tensors(M)
    for name, m in settings.items():
        kind = name.split(",")[0]
        keys = t.keys(several, f"warm {name}")
        start = partial(sc.warm_start, M=given, m=m, sigma=sigma, kind=kind)
        rows = torch.func.vmap(start)(keys).numpy()
        rows = rows.swapaxes(1, 2) if kind == "columns" else rows
        which = (rows @ M).argmax(-1)  # [several, m]
        rest = (rows - M.T[which]) / sigma
        noise.add(kolmogorov(ndtr(rest).ravel(), 0, 1))
        noise.breaks("weights themselves", kolmogorov(ndtr(rows / sigma).ravel(), 0, 1))
        if name != "rows":  # in units of two standard errors
            along = np.corrcoef(rest[:, 0, 0], which[:, 0])[0, 1]
            noise.add(abs(along) * several**0.5 / 2)
        often = np.eye(d)[which].sum(1)  # [several, d]
        if name == "rows":
            counts.add(np.abs(which - np.arange(d)).max())
            counts.breaks("another order", np.abs(which - np.arange(d)[::-1]).max())
            continue
        if kind == "balanced":
            counts.add(np.abs(np.sort(often, -1) - [1, 1, 1, 2, 2]).max())
            counts.breaks("one column more", np.abs(np.sort(often, -1) - [1, 1, 1, 1, 3]).max())
        error = (several * 0.2 * 0.8) ** 0.5
        places = np.eye(d)[which].sum(0)  # [m, d]
        law.add(np.abs(places - several / d) / error)
        law.breaks("one order for all", np.abs(several * np.eye(d)[which[0]] - several / d) / error)
        if kind != "balanced":
            pairs = (which[:, 1:] == which[:, :-1]).mean(0) - 0.2
            law.add(np.abs(pairs) / (0.16 / several) ** 0.5)


def _starts(protocol: str, key: torch.Tensor) -> tuple[float, int]:
    """(How far the first weights of both encoders and of the predictor are from N(0, 1/(pd)), in
    standard errors; how many biases are not 0)."""
    c = st.configuration(0, "NCL-pred", 0.1, protocol)
    params = st.PROBLEM["init"](key, c)
    biases, off = sum(int((params[name] != 0).sum()) for name in ("b", "q")), []
    for W in (*params["W"], params["P"]):
        z = W.double() * math.sqrt(c["p"] * c["d"])
        root = z.numel() ** 0.5
        off += [abs(float(z.mean())) * root, abs(float((z**2).mean()) - 1) * root / 2**0.5]
    return max(off), biases


@check("ncl/def3")
def def3(t: Trial) -> None:
    """Default settings of the experiments (Sec. 4.2).

    Given   the settings of the protocol "paper", its starts, and samples of its data.
    Claim   They are the printed ones; first weights are N(0, 1/(pd)), latents have no empty sample
            and both signs alike, the noise has variance log d/d or that standard deviation; a step
            of every model is that by hand.
    Fails   for the program's settings, starts and latents, all-zero samples, another reading of
            the noise; bits, biases and views exchanged.
    """
    stated = {"n": 1000, "lr": 0.025, "batch": 512, "keep": 0.5, "m": 50, "p": 50, "d": 10}
    readings = [math.log(10) / 10, (math.log(10) / 10) ** 0.5]  # of sigma_0: Sec. 4.1, Sec. 4.2
    begun = {protocol: _starts(protocol, t.keys(1, "starts")[0]) for protocol in st.PROTOCOLS}
    wrong, sigma = {}, {}
    for protocol, (_, biases) in begun.items():
        c = st.configuration(0, "NCL-pred", 0.1, protocol)
        sigma[protocol] = c["sigma"]
        off = sum(c[k] != v for k, v in stated.items()) + (not c["relu"]) + (biases > 0)
        wrong[protocol] = float(off + all(abs(c["sigma"] - s) > 1e-12 for s in readings))
    part = t.part("settings", draws=len(stated) + 4).add(wrong["paper"] + (st.EPOCHS != 8000))
    part.breaks("the program's settings", wrong["released"]).says(sigma=sigma["paper"])
    part = t.part("starts", 6.0, draws=3 * 2500).add(begun["paper"][0])
    part.breaks("the program's", begun["released"][0])
    n = 2000 * min(max(t.draws, 10), 100)
    _latents(t, n)
    _features(t)
    _noise(t, n)
    by_hand(t)
    _as_asked(t)
    _refused(t)
    _every_start(t)
    _single(t, n)


def _as_asked(t: Trial) -> None:
    """Settings of every model as its name and its protocol have them, and as they are asked for.
    Control: the other protocol's."""
    part = t.defines("settings of every model", 0.0)
    data = {
        "paper": {"n": 1000, "lr": 0.025, "latent": "iid", "sigma": math.log(10) / 10},
        "released": {"n": 3000, "lr": 0.005, "latent": "fixed", "sigma": math.log(10) ** 0.5 / 10},
    }
    plain = {"batch": 512, "m": 50, "p": 50, "d": 10, "pr": 0.3, "keep": 0.5, "temperature": 0.05}
    plain |= {"mask": "independent", "unit": True, "normalise": "none"}
    plain |= {"warm": -1.0, "start": "random", "seed": 3, "updates": "by turns"}
    for (name, model), protocol in product(_models().items(), data):
        c = st.configuration(3, name, 0.3, protocol)
        drops = model["loss_kind"] in ("contrastive", "nt-xent")
        batches = {"paper": 1, "released": 5}[protocol] + (not drops)
        wanted = plain | data[protocol] | model | {"protocol": protocol, "per_epoch": batches}
        if name[:2] == "CL" and protocol == "released":
            wanted["loss_kind"] = "nt-xent"
        part.add(float(c != wanted), abs(st.steps(c, 7) - 7 * batches))
        other = st.configuration(3, name, 0.3, "paper" if protocol == "released" else "released")
        part.breaks("the other protocol's", float(other != wanted))
    part.add(float(set(_models()) != set(st.MODELS)))
    asked = {"mask": "dependent", "latent": "binary", "normalise": "rows", "unit": False}
    asked |= {"keep": 0.25, "m": 7, "p": 6, "d": 4, "n": 20, "batch": 8, "lr": 0.5}
    asked |= {"temperature": 0.7, "warm": 0.0, "updates": "together"}
    for noise, sigma in ((0.7, 0.7), (0.0, 0.0), ("variance", (math.log(4) / 4) ** 0.5)):
        c = st.configuration(
            5, "NCL-pred", 0.2, "released", noise=noise, warm_kind="balanced", **asked
        )
        wanted = _models()["NCL-pred"] | asked | {"sigma": sigma, "start": "balanced"}
        wanted |= {"seed": 5, "pr": 0.2, "protocol": "released", "per_epoch": 3}
        part.add(float(c != wanted))


def _refused(t: Trial) -> None:
    """Names that are unknown and numbers out of their range; ends of the ranges are taken. Control:
    those."""
    part = t.defines("settings that are refused", 0.0)
    small = {"m": 6, "p": 6, "d": 4, "n": 20, "batch": 8}
    wrong = [{name: "another"} for name in ("model", "protocol", "latent", "mask", "noise")]
    wrong += [{name: "another"} for name in ("warm_kind", "normalise", "updates")]
    wrong += [{"noise": v} for v in (-0.1, math.inf)] + [{"pr": v} for v in (0.0, 1.1)]
    wrong += [{"warm": v} for v in (-0.1, math.inf)] + [{"keep": v} for v in (0.0, 2.0**-17, 1.1)]
    wrong += [{"d": 7}, {"m": 0}, {"m": 2.5}, {"batch": 1}, {"batch": 21}, {"temperature": 0.02}]
    wrong += [{"batch": 20}, {"unit": False, "model": "CL-basic"}]
    wrong += [{"updates": "together", "model": "CL-basic"}]
    wrong += [{"warm": 0.1, "m": 3}, {"warm": 0.1, "m": 7, "warm_kind": "columns"}]
    right = [{"batch": 20, "model": "CL-basic"}, {"batch": 2}, {"batch": 19}, {"unit": False}]
    right += [{"pr": 1.0}, {"keep": 1.0}, {"keep": 2.0**-16}, {"temperature": 0.025}, {"d": 6}]
    right += [{"batch": 20, "updates": "together"}, {"updates": "target first"}]
    right += [{"warm": 0.0, "m": 4}, {"noise": 0.0}, {"m": 1, "p": 1, "d": 1}]
    right += [
        {"warm": 0.1, "m": 3, "warm_kind": "replacement"},
        {"warm": 0.1, "warm_kind": "columns"},
    ]

    def taken(changes: dict[str, Any]) -> float:
        try:
            st.configuration(0, **({"model": "NCL-basic"} | small | changes))
        except ValueError:
            return 0.0
        return 1.0

    part.add(*map(taken, wrong), *(1 - taken(some) for some in right))
    part.breaks("ends of the ranges", *map(taken, right))


def _models() -> dict[str, dict[str, Any]]:
    """What the names of ncl's models say."""
    losses = {"NCL": "non-contrastive", "CL": "contrastive"}
    losses |= {"Simplified-SimCLR": "nt-xent", "Simplified-SimSiam": "simsiam"}
    names = [f"NCL-{n}" for n in ("linear", "srelu", "basic", "basic-2L", "srelu-2L", "pred")]
    names += ["NCL-srelu-pred", "CL-linear", "CL-srelu", "CL-basic", *list(losses)[2:]]
    return {
        name: {
            "model": name,
            "loss_kind": losses.get(name) or losses[name.split("-")[0]],
            "bn": "linear" not in name and "srelu" not in name,
            "relu": "linear" not in name,
            "layers": 2 if "2L" in name else 1,
            "head": "pred" in name or "Sim" in name,
        }
        for name in names
    }


def _every_start(t: Trial) -> None:
    """All parameters before training, against the law of their protocol in Kolmogorov's scale, and
    one against the other in standard errors. Controls: the law of other sizes, one key for two."""
    fixed, law = t.defines("gains, shifts and biases", 0.0), t.defines("laws of the starts", 3.0)
    apart = t.defines("starts drawn apart", 6.0)
    sizes = {"m": 200, "p": 30, "d": 5, "n": 20, "batch": 8}
    models = ("NCL-basic-2L", "NCL-pred", "Simplified-SimSiam", "CL-srelu")
    settings = list(product(models, st.PROTOCOLS))
    for key, (model, protocol) in zip(t.keys(len(settings), "every"), settings, strict=True):
        c = st.configuration(0, model, 0.1, protocol, **sizes)
        params = {n: w.double().numpy() for n, w in st.PROBLEM["init"](key, c).items()}
        drawn = []
        for name, value in params.items():
            if (
                name[:4] == "gain"
                or name[:5] == "shift"
                or (name[0] in "bq" and protocol == "paper")
            ):
                fixed.add(np.abs(value - (name[:4] == "gain")).max())
                fixed.breaks("1 for 0, 0 for 1", np.abs(value - (name[:4] != "gain")).max())
                continue
            fan_in = 30 if name in ("W", "b") else 200
            if name[0] == "W" or protocol == "paper":
                of = {"W2": 200 * 5}.get(name, 30 * 5)
                even, wrong = (ndtr(value * np.sqrt(k)) for k in (of, 3 * of))
            else:
                even, wrong = ((1 + value * np.sqrt(k)) / 2 for k in (fan_in, fan_in / 9))
                fixed.add(max(0.0, np.abs(even - 0.5).max() - 0.5 - 1e-6))
            law.add(kolmogorov(even.ravel(), 0, 1))
            law.breaks("other sizes", kolmogorov(wrong.ravel(), 0, 1))
            drawn += [v.ravel() for v in (value if name[0] in "Wb" else [value])]
        for a, b in combinations(drawn, 2):
            count = min(len(a), len(b))
            apart.add(abs(np.corrcoef(a[:count], b[:count])[0, 1]) * np.sqrt(count))
        apart.breaks("one key", np.sqrt(len(drawn[0])) * np.corrcoef(drawn[0], drawn[0])[0, 1])


def _latents(t: Trial, n: int) -> None:
    """Signs of the samples that are drawn, none of them empty."""
    key = t.keys(1, "latents")[0]
    z = {k: sc.latents(key, n, 10, 0.1, k) for k in ("iid", "iid-zeros", "fixed")}
    nominal = 0.1 / (1 - 0.9**10)
    spread = (nominal * (1 - nominal) / (10 * n)) ** 0.5

    def off(latent: torch.Tensor) -> float:
        """Empty samples, and the two signs' frequencies in standard errors."""
        signs = [float((latent == s).double().mean()) - nominal / 2 for s in (-1, 1)]
        return max(abs(s) for s in signs) / spread + 100 * float((latent == 0).all(1).any())

    part = t.part("latents", 5.0, draws=n).add(off(z["iid"]))
    part.breaks("all-zero samples allowed", off(z["iid-zeros"]))
    part.breaks("the program's", off(z["fixed"])).says(nominal=nominal)


def _features(t: Trial) -> None:
    """How many features a sample shows, and which, against the law that each kind of latent names,
    in standard errors. Controls: another share of features."""
    part, n, d, beta = t.defines("how many features a sample shows", 6.0), 20_000, 6, 0.3
    binomial = np.array([math.comb(d, k) * beta**k * (1 - beta) ** (d - k) for k in range(d + 1)])
    given = binomial * (np.arange(d + 1) > 0) / (1 - binomial[0])
    exactly = np.eye(d + 1)
    laws = {
        "iid": (given, 0.5),
        "iid-zeros": (binomial, 0.5),
        "binary": (binomial, 0.0),
        "one-hot": (exactly[1], 0.0),
        "fixed": (exactly[2], 0.5),  # ceil(0.9) of -1, ceil(1.8) in all
    }
    for key, (kind, (law, minus)) in zip(t.keys(len(laws), "features"), laws.items(), strict=True):
        z = sc.latents(key, n, d, beta, kind).numpy()
        counts = np.bincount((z != 0).sum(1), minlength=d + 1) / n
        mean = (law * np.arange(d + 1)).sum() / d
        part.add(np.abs(counts - law) / np.sqrt(law * (1 - law) / n + 1e-9))
        error = np.sqrt(mean * (1 - mean) / n)
        for sign, share in ((1, 1 - minus), (-1, minus)):
            part.add(np.abs((z == sign).mean(0) - share * mean) / error)
        wrong = np.abs(counts - np.roll(law, 1)) / np.sqrt(law * (1 - law) / n + 1e-9)
        part.breaks("a feature more", wrong.max())
    program = t.defines("signs of the program's samples", 0.0)
    for d, tenths in ((10, 1), (10, 3), (6, 6), (4, 10)):
        z = sc.latents(t.keys(1, "fixed")[0], 50, d, tenths / 10, "fixed").numpy()
        minus, both = (-(-d * tenths // k) for k in (20, 10))  # rounded up
        meant = minus, min(max(both, minus + 1), d) - minus
        found = [(z == sign).sum(1) for sign in (-1, 1)]
        program.add(*(np.abs(n - m) for n, m in zip(found, meant, strict=True)))
        program.breaks("one more of -1", np.abs(found[0] - meant[0] - 1))


def _single(t: Trial, n: int) -> None:
    """One-hots with a sign, and latents whose entries all show. Control: no sign."""
    part, d = t.defines("signed one-hots", 6.0), 5
    z = sc.latents(t.keys(1, "signed")[0], n, d, 0.3, "signed-one-hot").numpy()
    often = np.stack([(z == s).mean(0) for s in (1, -1)])  # each with a chance of 1/10
    error = np.sqrt(0.1 * 0.9 / n)
    part.add(np.abs(often - 0.1) / error, 100.0 * np.abs((z != 0).sum(1) - 1).max())
    bare = sc.latents(t.keys(1, "signed")[0], n, d, 0.3, "one-hot").numpy()
    part.breaks("no sign", np.abs((bare == 1).mean(0) - 0.1) / error)
    full = sc.latents(t.keys(1, "full")[0], n, d, 1.0, "iid").numpy()
    part.add(100.0 * (full == 0).sum(), np.abs((full == 1).mean(0) - 0.5) / np.sqrt(0.25 / n))


def _noise(t: Trial, n: int) -> None:
    """Its variance against log d / d, in standard errors."""
    stated, draws = np.log(10) / 10, cr.normal(t.keys(1, "noise")[0], (n, 10))

    def error(kind: str) -> float:
        variance = float((sc.noise_std(10, kind) * draws).var())
        return abs(variance - stated) / (stated * (2 / (10 * n)) ** 0.5)

    part = t.part("noise of variance log d / d", 5.0, draws=n).add(error("variance"))
    part.breaks("std", error("std")).breaks("released", error("released"))
    part.says(ratio=50 * stated, latents=1 / (1 - 0.9**10))
    part = t.defines("readings of sigma_0", 1e-15)
    for d in (2, 10, 50):
        log = np.log(d)
        meant = {"std": log / d, "variance": np.sqrt(log / d), "released": np.sqrt(log) / d}
        part.add(*(abs(sc.noise_std(d, k) - v) for k, v in meant.items()), sc.noise_std(d, "none"))
        part.breaks("another reading", abs(sc.noise_std(d, "std") - meant["released"]))
