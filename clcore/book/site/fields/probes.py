"""One value of an answer that is a function: what a page can check where no notebook runs."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """at: the arguments, as the page prints them. given: the same, as the function takes them; a
    list is a tensor. value: what it must return, found on paper. within: as for `numeric`."""

    at: str
    given: tuple
    value: float
    within: float = 0.01


PROBES = {
    "ex-six-5": Probe("n = 64", (64,), 6.3),
    "ex-linear-noise": Probe("λ = 4.5", (4.5,), 3),
    "ex-linear-5": Probe("δ = 0.004", (0.004,), 1, within=0.001),
    "ex-linear-6": Probe("n = 6, L = 4", (6, 4), 1 / 6**3),
    "ex-arrival-weights": Probe("a = 2, b = 1", (2, 1), 8 / math.log(7)),
    "ex-relu-cause": Probe("p₁ = 0.25, q₁ = 0.8, q₀ = 0.4", (0.25, 0.8, 0.4), 0.12),
    "ex-relu-3": Probe("a = 1, 2, 3", ([1, 2, 3],), (3 - 2) / (3 - 14 / 18)),
    "ex-relu-5": Probe("a = 2.5", (2.5,), math.atan(2.5) / (math.pi / 2)),
    "ex-relu-6": Probe("a = 1, 2, 3", ([1, 2, 3],), 36 / 14),
    "ex-seven-5": Probe("h = 2, k = 5", (2, 5), 10, within=0),
    "ex-seven-6": Probe("C = 5", (5,), 5**0.5),
    "ex-dual-1": Probe("d = 4", (4,), 1 + 3 / 64, within=0.001),
    "ex-dual-2": Probe("d = 5", (5,), 1 / 200),
    "ex-dual-3": Probe("c = 7, k = 3", (7, 3), 18, within=0),
    "ex-residue-attraction": Probe("a = 3, s = 2", (3, 2), 9 / 4),
    "ex-residue-temperature": Probe("r = 2", (2.0,), 2 / 1.278464543),
    "ex-dual-operator-1": Probe("τ = 1", (1.0,), 1 / (1 + math.e**4) - 1 / (1 + math.e**2)),
    "ex-ddn-images-1": Probe("ratio 0.6, overlap −0.2", (0.6, -0.2), 0.96**0.5),
    "ex-ddn-images-4": Probe("p = 0.2, τ = 0.5, β = −0.5", (0.2, 0.5, -0.5), 1.1),
    "ex-ddn-images-6": Probe("s = 2", (2,), 18, within=0),
    "ex-tree-1": Probe("path 0.5, root 0.6", (0.5, 0.6), 0.16),
    "ex-hltm-nodes": Probe("c = 9, γ = 0.5", (9, 0.5), math.exp(1.5)),
    "ex-hltm-few": Probe("n = 4", (4,), 6, within=0),
    "ex-hltm-depth": Probe("ρ = 0.9", (0.9,), 6, within=0),
    "ex-trained-ceiling": Probe("0.6 and 0.8", (0.6, 0.8), (0.5392 / 0.7696) ** 0.5),
    "ex-onelayer-1": Probe("p_m = 0.1, p_j = 0.3", (0.1, 0.3), 5**0.5 - 2),
    "ex-onelayer-2": Probe("a = 0.5", (0.5,), 3.5 - 9.25**0.5),
    "ex-optima-weights": Probe("τ = 0.5", (0.5,), (1 + 3**-0.5) / 2),
    "ex-onelayer-5": Probe("ε = 1", (1.0,), 2 / 3),
    "ex-two-6": Probe(
        "rate 0.01, decay 0.005, momentum 0.9, 4000 steps",
        (0.01, 0.005, 0.9, 4000),
        math.exp(-2),
        within=0.02,
    ),
    "ex-landscape-2": Probe("α = 0.5, B = 3", (0.5, 3), 7 / 32),
    "ex-landscape-share": Probe("d = 2", (2,), 1 / 16),
    "ex-training-cell": Probe("mean 0.15, n = 4", (0.15, 4), 0.3),
    "ex-training-shared": Probe("α = 0.1, p = 20", (0.1, 20), 0.99**20),
    "ex-dynamics-linear-1": Probe("λ = 0.9, c = 0.2", (0.9, 0.2), 0.9 / (0.1 + 0.91**0.5)),
    "ex-dynamics-warm-1": Probe("α = 0.5, κ = 0.4", (0.5, 0.4), 0.9, within=0.005),
    "ex-dynamics-warm-2": Probe("a = 0.5, c = 0.3, d = 5", (0.5, 0.3, 5), 1 / (1 + 0.3 * 2**0.5)),
    "ex-dynamics-chance": Probe("d = 4", (4,), 3 / 32),
    "ex-starts-warmth": Probe("p = 25, c = 0.5", (25, 0.5), 6**-0.5),
    "ex-starts-rows": Probe("m = 6, d = 3", (6, 3), 64 / 243),
}
"""Exercise -> its probe, at arguments for which none of the judge's wrong answers is right."""
