"""The settings of the runs behind ncl Figs. 1-18 and Tables 1-4, and how many there are.

A panel is one set of runs: a model and its settings, Pr(sparse) in {0.1, 0.2, 0.3}, some seeds.
Figures and tables with the same settings share a panel; `FIGURES` lists the panels that a figure
needs. Captions that can be read in two ways have a panel for either reading.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from clcore.experiments import sparse_training as st
from clcore.theory.sparse.sparse_coding import warm_std

PRS = (0.1, 0.2, 0.3)
FEW, MANY, SETTLES = 3, 5, 15
"""Runs of a panel: the paper's three or five; fifteen where five leave an order to chance (Figs. 8,
9; sixty are recorded of four panels, where fifteen did), or three whether a curve rises (Figs. 5,
12, 14, 15)."""


def _set(model: str, seeds: int = MANY, prs: Sequence[float] = PRS, **settings: Any) -> dict:
    chosen = {"model": model, "seeds": seeds, "prs": tuple(prs), "protocol": "paper", "pace": 1}
    return chosen | {"first": 0, "signs": 1, "settings": settings}


_ROWS: dict[str, dict[str, Any]] = {
    "fig7": {"warm": warm_std(50, 2), "keep": 0.1, "normalise": "rows"},
    "fig13": {"warm": warm_std(50, 1), "m": 10, "normalise": "rows"},
    "fig14": {"warm": warm_std(20, 1.25), "p": 20, "d": 20, "m": 20, "normalise": "rows"},
    "fig15": {"warm": warm_std(20, 1.25), "p": 20, "d": 20, "m": 20, "normalise": "columns"},
    "fig16": {"warm": warm_std(50, 2), "keep": 0.25, "normalise": "columns"},
}
"""Warm starts with normalised weights. "Probability of random masking" 0.9 keeps 0.1."""


def _row(name: str, **changes: Any) -> dict[str, Any]:
    return _ROWS[name] | changes


_TABLE2 = ("NCL-basic", "CL-basic", "NCL-basic-2L", "CL-linear", "NCL-linear")

PANELS: dict[str, dict] = (
    {"simclr": _set("Simplified-SimCLR", keep=0.1), "simsiam": _set("Simplified-SimSiam", keep=0.1)}
    | {m.lower(): _set(m) for m in _TABLE2}
    | {"ncl-linear-plain": _set("NCL-linear", unit=False)}
    | {
        "warm-0.14": _set("NCL-basic", warm=warm_std(50, 1)),
        "pred-warm": _set("NCL-pred", FEW, warm=warm_std(50, 1)),
        "pred-random": _set("NCL-pred", FEW),
        "fig7": _set("NCL-basic", FEW, **_ROWS["fig7"]),
        "warm-0.02": _set("NCL-basic", warm=0.02),
        "warm-0.002": _set("NCL-basic", warm=0.002),
        "one-hot-ncl": _set("NCL-srelu", prs=(0.1,), latent="one-hot"),
        "one-hot-cl": _set("CL-srelu", prs=(0.1,), latent="one-hot"),
    }
    | {name: _set("NCL-basic", FEW, **_ROWS[name]) for name in ("fig13", "fig14", "fig15", "fig16")}
    | {f"srelu-{loss.lower()}-10": _set(f"{loss}-srelu", SETTLES, m=10) for loss in ("NCL", "CL")}
    | {
        "simclr-drop": _set("Simplified-SimCLR", keep=0.9),
        "simsiam-drop": _set("Simplified-SimSiam", keep=0.9),
        "fig7-drop": _set("NCL-basic", FEW, **_row("fig7", keep=0.9)),
        "fig16-drop": _set("NCL-basic", FEW, **_row("fig16", keep=0.75)),
        "warm-rows": _set("NCL-basic", warm=warm_std(50, 1), normalise="rows"),
        "warm-columns": _set("NCL-basic", warm=warm_std(50, 1), normalise="columns"),
    }
    | {f"{name}-srelu": _set("NCL-srelu", FEW, **settings) for name, settings in _ROWS.items()}
    | {
        f"{name}-pred": _set("NCL-srelu-pred", FEW, **_ROWS[name])
        for name in ("fig13", "fig14", "fig15")
    }
    | {
        f"{name}-srelu-drop": _set("NCL-srelu", FEW, **_row(name, keep=keep))
        for name, keep in (("fig7", 0.9), ("fig16", 0.75))
    }
    | {
        f"fig7-one{net}{masks}": _set(model, FEW, **_row("fig7", warm=warm_std(50, 1), keep=keep))
        for net, model in (("", "NCL-basic"), ("-srelu", "NCL-srelu"))
        for masks, keep in (("", 0.1), ("-drop", 0.9))
    }
    | {f"srelu-{loss.lower()}-50": _set(f"{loss}-srelu", SETTLES) for loss in ("NCL", "CL")}
    | {
        f"one-hot-{loss.lower()}-bn": _set(f"{loss}-basic", prs=(0.1,), latent="one-hot")
        for loss in ("NCL", "CL")
    }
    | {
        f"srelu-{loss.lower()}-10-bn": _set(f"{loss}-basic", SETTLES, m=10)
        for loss in ("NCL", "CL")
    }
    | {
        f"{name}-free": _set("NCL-basic", FEW, **_row(name, normalise="none"))
        for name in ("fig13", "fig14")
    }
    | {f"{m.lower()}-dependent": _set(m, mask="dependent") for m in ("NCL-basic", "CL-basic")}
    | {f"{m.lower()}-masked": _set(m, keep=0.1) for m in _TABLE2}
)
PANELS |= {
    f"{name}-quiet": PANELS[name]
    | {"settings": PANELS[name]["settings"] | {"noise": "none"}}
    | {"seeds": min(PANELS[name]["seeds"], MANY)}
    for name in (
        *("cl-basic", "ncl-basic", "cl-linear", "ncl-linear", "ncl-linear-plain", "ncl-basic-2l"),
        *("simclr", "simsiam", "warm-0.14", "warm-0.02", "warm-0.002", "pred-warm", "pred-random"),
        *("fig7", "fig13", "fig14", "fig15", "fig16", "one-hot-ncl", "one-hot-cl"),
        *("one-hot-ncl-bn", "one-hot-cl-bn", "srelu-ncl-10-bn", "srelu-cl-10-bn"),
        *("srelu-ncl-10", "srelu-cl-10", "warm-rows", "warm-columns", "fig13-free", "fig14-free"),
        *("ncl-basic-dependent", "cl-basic-dependent"),
    )
}
WORDS = (
    {m.lower(): m for m in _TABLE2}
    | {f"{m.lower()}-masked": f"{m}, masks keep a tenth" for m in _TABLE2}
    | {
        f"fig{number}-{reading}": words
        for number in (13, 14, 15)
        for reading, words in (
            ("srelu", "without BatchNorm"),
            ("pred", "with a predictor, without BatchNorm"),
            ("free", "with free weights"),
        )
    }
    | {f"srelu-{loss.lower()}-50": f"{loss}, m = 50" for loss in ("CL", "NCL")}
    | {"warm-0.14": "from c = 1", "warm-0.02": "from c = 2", "warm-0.002": "from noise 0.002"}
    | {"simclr-drop": "masks keep 0.9", "warm-rows": "c = 1, masks keep a half"}
    | {"fig7": "Fig. 7, masks keep 0.1", "fig7-drop": "Fig. 7, masks keep 0.9"}
    | {"fig16": "Fig. 16, masks keep 0.25", "fig16-drop": "Fig. 16, masks keep 0.75"}
    | {"ncl-linear-plain": "outputs as they are"}
)
"""Panel -> what a note calls it beside the row's own panel."""
SIGMAS = (0.025, 0.05, 0.1, 0.15, 0.48)
PANELS |= {
    f"{loss.lower()}-basic-{sigma:g}": _set(f"{loss}-basic", FEW, prs=(0.1,), noise=sigma)
    for loss in ("CL", "NCL")
    for sigma in SIGMAS
}
"""In the order in which they settle the paper's conclusions.

"-drop": the caption's probability read the other way, as that of keeping or of masking (num5).
"-srelu": without BatchNorm, which the captions of Figs. 1, 7, 8, 9 and 13-16 do not mention; Sec.
5.2.2, which discusses Fig. 1, gives it to all its encoders, and so does the program's script
of one-hot latents: "one-hot-*-bn", and "srelu-*-10-bn" for Figs. 8, 9. "fig7-one": from c = 1,
as Sec. 5.2.2 has it. "srelu-*-50": Fig. 8 by its title, overparametrised. "fig13-free",
"fig14-free": their sizes and starts, no norm fixed (Fig. 15 has Fig. 14's); ours, to find the
effect of the norm.
"ncl-linear-plain": the distance of outputs that are not normalised. "-quiet": without noise, as the
program's configuration files have it (sigma0: 0, which its scripts then do not read); numbers:
other standard deviations of the noise, the largest the one with the printed number as its variance
(Sec. 4.2). "-masked": masks that keep a tenth, as in Table 1; Table 2
does not state it. "-pred": with the predictor, and without the BatchNorm, of the program's scripts
for Figs. 13-15. "-released": the program's protocol, see below.
"""

PANELS |= {
    f"{name}-half": _set(PANELS[name]["model"], keep=0.5, noise="none")
    for name in ("simclr", "simsiam")
}
"""Table 1 with the masks that are the default of the paper, and without noise."""
FAINT = 0.05
"""Another standard deviation of the noise: Sec. 4.1 gives its order, log d / d, and no factor. Here
it is 0.22; in panels that do not name their noise it is 1, and the deviation 0.23."""

NO_TEMPERATURE = ("simsiam", "ncl-basic", "ncl-linear", "ncl-basic-2l", "one-hot-ncl")
NO_TEMPERATURE = (*NO_TEMPERATURE, "pred-warm", "pred-random", "srelu-ncl-10")
_LOUD = (*NO_TEMPERATURE[:4], *NO_TEMPERATURE[5:])
_AT_HALF = ("simclr", "cl-basic", "cl-linear", "one-hot-cl", "srelu-cl-10")


def _at_noise(name: str, noise: float | str, temperature: float | None = None) -> dict[str, Any]:
    """A panel at another noise, and at another temperature with the rate in proportion to it."""
    changes: dict[str, Any] = {"noise": noise}
    if temperature is not None:
        rate = st.PROTOCOLS["paper"]["lr"] * temperature / st.TEMPERATURE
        changes |= {"temperature": temperature, "lr": rate}
    return PANELS[name] | {"settings": PANELS[name]["settings"] | changes}


def _faint(name: str, temperature: float | None = None) -> dict[str, Any]:
    """A panel at FAINT; FEW runs, but for Table 1 and Figs. 8, 9 as many as it has."""
    seeds = PANELS[name]["seeds"] if name.startswith(("sim", "srelu")) else FEW
    return _at_noise(name, FAINT, temperature) | {"seeds": seeds}


PANELS |= {f"{name}-faint": _faint(name) for name in NO_TEMPERATURE}
PANELS |= {f"{name}-faint-t0.5": _faint(name, 0.5) for name in _AT_HALF}
PANELS |= {f"srelu-cl-10-t{t:g}": _at_noise("srelu-cl-10", "std", t) for t in (0.2, 0.5)}
_LOWER: dict[str, float | None] = {"": None, "-t0.2": 0.2}
PANELS |= {
    f"{name}-faint{suffix}": _faint(name, temperature)
    for name in ("cl-linear", "simclr", "srelu-cl-10")
    for suffix, temperature in _LOWER.items()
}
PANELS |= {
    f"{name}-loud{suffix}": _at_noise(name, "variance", temperature)
    for name in ("cl-basic", "cl-linear", "simclr", "srelu-cl-10")
    for suffix, temperature in (_LOWER | {"-t0.5": 0.5}).items()
}
PANELS |= {f"{name}-loud": _at_noise(name, "variance") for name in _LOUD}
_MASK_A_TENTH = ("simclr-drop", "simsiam-drop")
PANELS |= {f"{name}-faint": _faint(name) for name in _MASK_A_TENTH}
PANELS |= {f"{name}-loud": _at_noise(name, "variance") for name in _MASK_A_TENTH}
for _t in (0.2, 0.5):
    PANELS[f"simclr-drop-faint-t{_t:g}"] = _faint("simclr-drop", _t)
    PANELS[f"simclr-drop-loud-t{_t:g}"] = _at_noise("simclr-drop", "variance", _t)
"""At the noise that Sec. 4.2 prints, log d / d as its variance (0.48), and at FAINT, at the
program's temperature and at others. Losses without a temperature have one panel each."""
PANELS |= {
    f"{name}-{noise}": _at_noise(name, value)
    for name in (*_ROWS, "warm-rows", "warm-columns")
    for noise, value in (("loud", "variance"), ("faint", FAINT))
}
"""Normalised weights at both noises."""

PANELS |= {
    f"{name}-relu{suffix}": own | {"settings": own["settings"] | {"plain": True}}
    for name, suffix in (
        ("simclr", ""),
        ("simsiam", ""),
        ("simclr", "-faint-t0.5"),
        ("simsiam", "-faint"),
    )
    for own in (PANELS[name + suffix],)
}
"""With the ReLU that Sec. 5.2.2 names behind SimCLR's encoder and SimSiam's; the symmetric one is
Sec. 4.2's, for all."""

_OPEN_STARTS: dict[str, dict[str, Any]] = {
    "-faint": {"noise": FAINT},
    "-loud": {"noise": "variance"},
    "-balanced": {"warm_kind": "balanced"},
    "-by-columns": {"warm_kind": "columns"},
    "-target-first": {"updates": "target first"},
    "-together": {"updates": "together"},
    "-each-sign": {},
    "-narrow": {"m": 20},
}
_SEVERAL = ("-loud-balanced", "-loud-each-sign", "-balanced-each-sign", "-loud-balanced-each-sign")
_SEVERAL += ("-loud-balanced-each-sign-together",)
_SEVERAL += ("-narrow-balanced", "-narrow-each-sign", "-narrow-loud", "-narrow-faint")
_SEVERAL += ("-narrow-target-first",)
_STARTS = ("warm-0.14", "warm-0.02", "warm-0.002")
for _name, _suffix in product(_STARTS, (*_OPEN_STARTS, *_SEVERAL)):
    _changes = {
        k: v for one in _OPEN_STARTS if one in _suffix for k, v in _OPEN_STARTS[one].items()
    }
    _settings = PANELS[_name]["settings"] | _changes
    _own = {"settings": _settings, "signs": 2 if "-each-sign" in _suffix else 1}
    PANELS[_name + _suffix] = PANELS[_name] | _own
"""Table 4 with what its text leaves open: the noise at that deviation, or at the printed log d / d
as its variance (0.48); every column of M equally often among the rows; columns of W, as the text
has it, not rows, that begin at columns of M; the target network before the online one; Pr(sparse)
as the probability of each sign: `signs` is the factor from it to the probability that an entry is
not 0; twenty neurons, for the table calls its encoder overparametrised and prints no size. Some of
them together. "-together" is against the print, whose networks alternate."""

MORE = "-more"
PANELS |= {
    f"{name}{MORE}{noise}": PANELS[name + noise] | {"first": MANY, "seeds": 15}
    for name, noise in (*product(_STARTS, ("",)), (_STARTS[0], "-loud"), (_STARTS[0], "-faint"))
}
"""Fifteen further runs of each warm start, of the least warm one at three noises: five do not
settle whether a curve falls (Figs. 4, 11) or whether a warmer start helps (App. B.1.4)."""

# Which of the two changes does it?
PANELS |= {"simclr-half-noise": _set("Simplified-SimCLR", FEW, (0.1,), keep=0.5)}

FIGURES: dict[str, tuple[str, ...]] = {
    "tab1": ("simclr", "simsiam"),
    "tab2": ("ncl-linear", "cl-linear", "ncl-basic", "ncl-basic-2l", "cl-basic"),
    "tab3": ("simclr", "simsiam"),
    "tab4": _STARTS,
    "fig1": ("one-hot-ncl", "one-hot-cl"),
    "fig2": ("ncl-basic", "cl-basic"),
    "fig3": ("ncl-basic-2l", "cl-basic"),
    "fig4": ("warm-0.14",),
    "fig5": ("pred-warm",),
    "fig6": ("pred-random", "pred-warm"),
    "fig7": ("fig7",),
    "fig8": ("srelu-ncl-10", "srelu-cl-10"),
    "fig9": ("srelu-ncl-10", "srelu-cl-10"),
    "fig10": ("ncl-basic-2l", "cl-basic"),
    "fig11": ("warm-0.14",),
    "fig12": ("pred-warm",),
    "fig13": ("fig13",),
    "fig14": ("fig14",),
    "fig15": ("fig15",),
    "fig16": ("fig16",),
    "fig17": ("simclr",),
    "fig18": ("simsiam",),
}

_SLOW = ("contrastive", "nt-xent")
"""Losses whose runs under the program's protocol take five minutes each: three runs, not five."""


def _few(model: str) -> int:
    return FEW if st.MODELS[model]["loss"] in _SLOW else MANY


PANELS |= {
    f"{name}-released": PANELS[name]
    | {"protocol": "released"}
    | {"seeds": min(PANELS[name]["seeds"], _few(PANELS[name]["model"]))}
    for name in (
        *dict.fromkeys(panel for panels in FIGURES.values() for panel in panels),
        *("one-hot-ncl-bn", "one-hot-cl-bn"),
    )
}
"""Every panel of a figure or table once more: the model and masks of its caption, all else as the
authors' program has it."""
PANELS |= {
    f"{name}-quiet": PANELS[name]
    | {"seeds": seeds, "prs": (0.1,), "settings": PANELS[name]["settings"] | {"noise": "none"}}
    for name, seeds in (
        ("cl-basic-released", FEW),
        ("ncl-basic-released", MANY),
        ("simclr-released", 1),
    )
}
"""The program with its noise turned off."""

PACE = 5
"""How much faster than the program's scripts "-script" panels go: its rate 0.005 times 5, for a
fifth of its epochs."""


def _script(model: str, seeds: int = MANY, prs: Sequence[float] = PRS, **settings: Any) -> dict:
    quick = {"lr": PACE * st.PROTOCOLS["released"]["lr"]} | settings
    return _set(model, seeds, prs, **quick) | {"protocol": "released", "pace": PACE}


PANELS |= {
    "cl-basic-script": _script("CL-basic", mask="dependent"),
    "cl-linear-script": _script("CL-linear", mask="dependent"),
    "simclr-script": _script("Simplified-SimCLR", mask="dependent"),
    "one-hot-cl-script": _script("CL-basic", prs=(0.1,), mask="dependent", latent="one-hot"),
    "one-hot-ncl-script": _script("NCL-srelu", prs=(0.1,), latent="one-hot"),
    "ncl-basic-script": _script("NCL-srelu"),
    "ncl-linear-script": _script("NCL-linear"),
    "ncl-basic-2l-script": _script("NCL-basic-2L"),
    "ncl-basic-2l-script-plain": _script("NCL-srelu-2L"),
    "simsiam-script": _script("Simplified-SimSiam"),
}
PANELS |= {
    f"{name}-script-keep-{keep:g}": PANELS[f"{name}-script"]
    | {"seeds": FEW, "settings": PANELS[f"{name}-script"]["settings"] | {"keep": keep}}
    for name in ("simsiam", "ncl-basic-2l")
    for keep in (0.1, 0.25, 0.75)
}
PANELS["cl-basic-script-slow"] = _set("CL-basic", FEW, (0.1,), mask="dependent") | {
    "protocol": "released"
}
"""What the program's own entry points train, defaults included.

Those of contrastive nets have the dependent masks of ncl Eq. 2 whatever keeping probability is
given, those of non-contrastive ones and SimSiam independent masks. The net without a predictor
("ncl-basic-script") takes the option of BatchNorm and does not read it; the two-layer net reads it,
and "-plain" is without. "-keep-*": the other probabilities of its default list. No entry point
builds NCL-linear, nor a command of its scripts SimCLR with a predictor, SimSiam or two layers; what
stands here for those has the defaults. "-slow": at the program's own rate, for all its epochs; the
other panels go PACE times as fast for as much shorter, and count epochs times rate as it does.
"""

for _name, _noise in product(("pred-warm", "fig14", "fig15"), ("", "-loud", "-faint")):
    PANELS[_name + _noise] = PANELS[_name + _noise] | {"seeds": SETTLES}
"""At noises that the print allows; without noise and by the program as many as the figure has."""
