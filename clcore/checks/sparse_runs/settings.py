"""The settings of ncl's experiments, Sec. 4.2, and its warm start: what needs no trained run."""

import math
from typing import Any

import numpy as np
import torch

from clcore import random as cr
from clcore.experiments import sparse_training as st
from clcore.ledger import Trial, check
from clcore.theory.sparse import sparse_coding as sc

STATED = {"n": 1000, "lr": 0.025, "batch": 512, "keep": 0.5, "m": 50, "p": 50, "d": 10}
"""Printed settings of Sec. 4.2, besides 8000 epochs, symmetric ReLU, biases 0 and the noise."""


@check("ncl/num2")
def num2(t: Trial) -> None:
    """Warm start: columns of M with noise σ = 0.141 at c = 1, p = 50 (Sec. 5.2.2; App. B.1.4).

    Given   fresh warm starts, p = m = 50, d = 10, c = 1.
    Claim   sigma = 50^(-1/2) = 0.141; rows of W near columns of M begin at a mean Minimum
            max-cosine of 0.5 or more: half-way between random encoders (0.25) and what the text
            reports (0.7).
    Fails   for p^(-c), random encoders, columns of W as typeset.
    """
    # The noise is sigma = p^(-c/2), to the three digits that are printed.
    sigma = t.part("sigma", 5e-4).add(abs(sc.warm_std(50, 1) - 0.141))
    sigma.breaks("p^(-c)", abs(50**-1.0 - 0.141))

    # Rows that start near columns of M are near all of them.
    keys = t.keys(max(t.draws, 20))
    random, columns, rows = (_begins(keys, kind) for kind in (None, "columns", "rows"))
    near = t.part("a point near the optimum", 0.5, ">=", draws=len(keys)).add(rows)
    near.breaks("random encoders", random).breaks("as typeset, columns of W", columns)
    near.says(rows=rows, columns=columns, random=random)


def _begins(keys: torch.Tensor, kind: str | None) -> float:
    """The mean Minimum max-cosine of warm starts of a kind, or of random ones (None)."""

    def one(key: torch.Tensor) -> torch.Tensor:
        atoms, start = cr.split(key)
        M = sc.dictionary(atoms, 50, 10)
        if kind is None:
            W = sc.random_start(start, 50, 50, 10)
        else:
            W = sc.warm_start(start, M, 50, sc.warm_std(50, 1), kind)
        return sc.summary(sc.max_cosine(W, M))["minimum"]

    return float(torch.func.vmap(one)(keys).mean())


@check("ncl/def3")
def def3(t: Trial) -> None:
    """Default settings of the experiments (Sec. 4.2).

    Given   the settings of the protocol "paper", its starts, and samples of its data.
    Claim   They are the printed ones; first weights are N(0, 1/(pd)), latents have no empty sample
            and both signs alike, the noise has variance log d/d or that standard deviation.
    Fails   for the program's settings, starts and latents, all-zero samples, another reading of
            the noise.
    """
    paper, program = (st.configuration(0, "NCL-pred", 0.1, name) for name in ("paper", "released"))
    first, programs = (st.PROBLEM["init"](t.keys(1, "starts")[0], c) for c in (paper, program))

    # Every setting is the printed one.
    settings = t.part("settings", draws=len(STATED) + 4)
    settings.add(_unlike(paper, first) + (st.EPOCHS != 8000))
    settings.breaks("the program's settings", _unlike(program, programs))
    settings.says(sigma=paper["sigma"])

    # First weights have the mean and the variance of N(0, 1/(pd)).
    starts = t.part("starts", 6.0, draws=3 * 2500).add(_off_normal(paper, first))
    starts.breaks("the program's", _off_normal(program, programs))

    # A latent is 1 as often as -1, and no sample is empty.
    samples = 2000 * min(max(t.draws, 10), 100)
    nominal = 0.1 / (1 - 0.9**10)
    iid, zeros, fixed = (
        _off_even(sc.latents(t.keys(1, "latents")[0], samples, 10, 0.1, kind), nominal)
        for kind in ("iid", "iid-zeros", "fixed")
    )
    latents = t.part("latents", 5.0, draws=samples).add(iid)
    latents.breaks("all-zero samples allowed", zeros)
    latents.breaks("the program's", fixed).says(nominal=nominal)

    # Noise of one of the two printed sizes has the variance log d / d.
    stated, normal = np.log(10) / 10, cr.normal(t.keys(1, "noise")[0], (samples, 10))
    variance, std, released = (
        abs(float((sc.noise_std(10, kind) * normal).var()) - stated)
        / (stated * (2 / (10 * samples)) ** 0.5)
        for kind in ("variance", "std", "released")
    )
    noise = t.part("noise of variance log d / d", 5.0, draws=samples).add(variance)
    noise.breaks("std", std).breaks("released", released)
    noise.says(ratio=50 * stated, latents=1 / (1 - 0.9**10))


def _unlike(c: dict[str, Any], params: dict[str, torch.Tensor]) -> float:
    """How many settings are not the printed ones, among them biases 0 and one of two noises."""
    readings = [math.log(10) / 10, (math.log(10) / 10) ** 0.5]  # of sigma_0: Sec. 4.1, Sec. 4.2
    biased = any(bool((params[name] != 0).any()) for name in ("b", "q"))
    noisy = all(abs(c["sigma"] - sigma) > 1e-12 for sigma in readings)
    return float(sum(c[k] != v for k, v in STATED.items()) + (not c["relu"]) + biased + noisy)


def _off_normal(c: dict[str, Any], params: dict[str, torch.Tensor]) -> float:
    """How far weights of both encoders and of the predictor are from N(0, 1/(pd)): the worst mean
    or variance, in standard errors."""
    off = []
    for W in (*params["W"], params["P"]):
        z = W.double() * math.sqrt(c["p"] * c["d"])
        root = z.numel() ** 0.5
        off += [abs(float(z.mean())) * root, abs(float((z**2).mean()) - 1) * root / 2**0.5]
    return max(off)


def _off_even(latent: torch.Tensor, nominal: float) -> float:
    """Empty samples, and the two signs' frequencies in standard errors."""
    spread = (nominal * (1 - nominal) / latent.numel()) ** 0.5
    signs = [float((latent == s).double().mean()) - nominal / 2 for s in (-1, 1)]
    return max(abs(s) for s in signs) / spread + 100 * float((latent == 0).all(1).any())
