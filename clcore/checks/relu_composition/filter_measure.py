"""Total variation of filters, the measure of acl Eq. 18: by hand, and what it distinguishes."""

from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from clcore import reference as ref
from clcore.images.filter_variation import total_variation
from clcore.ledger import Trial, check, typical, worst


def _by_loops(w: np.ndarray, kind: str = "length") -> np.ndarray:
    """Eq. 18 of each filter, `f c h w`, pixel by pixel; kind: a version of it that is wrong."""
    out = np.zeros(len(w))
    for f, filter_ in enumerate(w):
        h, v = filter_.shape[1:]
        for y in range(h):
            for x in range(v):
                right = (
                    filter_[:, y, x + 1] - filter_[:, y, x] if x + 1 < v else 0 * filter_[:, 0, 0]
                )
                down = (
                    filter_[:, y + 1, x] - filter_[:, y, x] if y + 1 < h else 0 * filter_[:, 0, 0]
                )
                if kind == "length":
                    out[f] += np.sqrt(right**2 + down**2).sum()
                elif kind == "sum of sides":
                    out[f] += (np.abs(right) + np.abs(down)).sum()
                elif kind == "channels inside the root":
                    out[f] += np.sqrt((right**2 + down**2).sum())
                else:
                    out[f] += (right**2 + down**2).sum()
    return out


def _edges(rng: np.random.Generator, count: int, steps: bool = False) -> np.ndarray:
    """Edge detectors at random angles, one colour each: a sine under a Gaussian (Gabor, odd), with
    a period of 3.5 to 7 pixels; or bare steps through the middle."""
    at = np.arange(7) - 3
    angle = rng.uniform(0, 2 * np.pi, count)[:, None, None]
    across = np.cos(angle) * at + np.sin(angle) * at[:, None]
    period = rng.uniform(3.5, 7, count)[:, None, None]
    wave = np.sign(across + 1e-3) if steps else np.sin(2 * np.pi * across / period) * _spot()
    return wave[:, None] * rng.normal(size=(count, 3, 1, 1))


def _spot() -> np.ndarray:
    """A Gaussian spot in the middle of a 7 x 7 filter."""
    at = np.arange(7) - 3
    return np.exp(-(at**2 + at[:, None] ** 2) / 8)


def _spots(w: np.ndarray) -> np.ndarray:
    """A spot in every channel of filters `f c h w`, of the channel's norm."""
    return _spot() * np.sqrt((w**2).sum((2, 3), keepdims=True) / (_spot() ** 2).sum())


def _blurred(w: np.ndarray) -> np.ndarray:
    """Means over 3 x 3 neighbours (the border repeated), scaled back to the filter's norm."""
    padded = np.pad(w, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    h, v = w.shape[-2:]
    mean: Any = sum(padded[..., y : y + h, x : x + v] for y in range(3) for x in range(3)) / 9
    norm = np.sqrt((w**2).sum((1, 2, 3)) / (mean**2).sum((1, 2, 3)))
    return mean * norm[:, None, None, None]


_unit = partial(ref.unit, axis=(1, 2, 3))
"""Filters `f c h w` at norm 1."""


def _tv(w: np.ndarray, scheme: Literal["forward", "central"] = "forward") -> np.ndarray:
    return total_variation(torch.from_numpy(w), scheme).numpy()


@check("acl/eq18")
def eq18(t: Trial) -> None:
    """Total variation of a spatial filter (Eq. 18).

    Given   random filters of 3 x 7 x 7 and 64 x 3 x 3; edge detectors (odd Gabor filters), steps
            from -1 to 1.
    Claim   (1) TV(w), the length of the gradient (forward differences) summed over channels and
            pixels: the library against loops. (2) TV is 0 for a constant filter. (3) TV(s w) = |s|
            TV(w). (4) At equal norm an edge detector has more TV than its blurred copy, and more
            than a Gaussian spot.
    Fails   (1) for |dx| + |dy| as the length (sum of sides), for one root over all channels, for
            squared lengths; (2) for a slope of 0.01 per pixel; (3) for TV(s w) = TV(w), as if TV
            saw only what a BatchNorm behind the filter puts out; (4) for steps in place of edge
            detectors.
    """
    count = min(t.draws, 30)
    filters = [t.rng.normal(size=(count, 3, 7, 7)), t.rng.normal(size=(count, 64, 3, 3))]
    # (1) The library's sum is that of loops.
    length = t.part("sum over channels and pixels of the gradient's length", 1e-12)
    for w in filters:
        length.add(ref.relative(_tv(w), _by_loops(w)))
        for kind in ("sum of sides", "channels inside the root", "squares"):
            length.breaks(kind, ref.relative(_tv(w), _by_loops(w, kind)))
    stem, inner = (_tv(w, "central") / _tv(w) for w in filters)
    length.says(stem=stem.mean(), inner=inner.mean(), stem_std=stem.std(), inner_std=inner.std())

    # (2) TV = 0 for a constant filter.
    flat = t.rng.normal(size=(count, 3, 1, 1)) * np.ones((7, 7))
    constant = t.part("nothing for a constant filter", 0.0, draws=count)
    constant.add(*(_tv(flat, scheme) for scheme in ("forward", "central")))
    constant.breaks("a slope of a hundredth", _tv(flat + 0.01 * np.arange(7)))

    # (3) TV(s w) = |s| TV(w).
    scale = t.rng.uniform(-3, 3, count)[:, None, None, None]
    grows = t.part("grows in proportion to the filter", 1e-12, controls=typical)
    for w in filters:
        grows.add(ref.relative(_tv(scale * w), np.abs(scale[:, 0, 0, 0]) * _tv(w)))
        same = ref.relative(_tv(scale * w), _tv(w))
        grows.breaks("no change, as the output of a BatchNorm behind it", same)

    # (4) Edge detectors over their blurred copies and a spot; 200, since a quarter of the steps has
    # more than its copy, the median less.
    edges, steps = _edges(t.rng, 200), _edges(t.rng, 200, steps=True)
    edge, step = (_tv(w) / _tv(_blurred(w)) for w in (edges, steps))
    spot = _tv(edges) / _tv(_spots(edges))
    name = "an edge detector has more than its blurred copy, and than a spot, of equal norm"
    part = t.part(name, 1.02, ">=", controls=typical)
    part.add(edge, spot).breaks("steps in place of edge detectors", step)
    part.says(least=edge.min(), most=edge.max(), step=step.mean())
    part.says(spot_least=spot.min(), spot_most=spot.max())


SHARP = "an edge detector has more than a spot"


@check("acl/num21")
def num21(t: Trial) -> None:
    """Total variation tells sharp composite filters from blurry ones (Sec. 6.2).

    Given   odd Gabor filters for edge detectors, a Gaussian spot of the same colour for a blurry
            filter, of any norm.
    Claim   (1) the edge detectors have more variation than the spot; (2) the finer they are, the
            more.
    Fails   (1) where norms differ, for the measure grows in proportion to the filter; corrected:
            at equal norm in each colour, in the spot's envelope, steps too. Controls: edge
            detectors of an eighth of the norm; bare steps across the whole filter; a spot in three
            colours beside a coarse edge in one. (2) in another order.
    """
    count = max(20, min(t.draws, 30))
    edges, steps = _unit(_edges(t.rng, count)), _edges(t.rng, count, steps=True)
    noise = t.rng.normal(size=edges.shape)
    norms = 16 ** t.rng.permutation(np.linspace(-1, 1, count))
    at = np.arange(7) - 3
    angle = t.rng.uniform(0, 2 * np.pi, count)[:, None, None]
    across = np.cos(angle) * at + np.sin(angle) * at[:, None]
    waves = [np.sin(2 * np.pi * across / period) * _spot() for period in (14, 10, 7, 5, 4)]

    # (1) Variation over that of the spot: at norms of their own; at one norm, in its envelope.
    free = edges * norms[:, None, None, None]
    printed, equal = both = t.both(SHARP, 1.02, ">=", controls=typical)
    printed.add(_tv(free) / _tv(_spots(edges)))
    printed.fails_by(_by_loops(free) / _by_loops(_spots(edges)))
    equal.add(*(_tv(w) / _tv(_spots(w)) for w in (edges, steps * _spot())))
    small = _tv(edges / 8) / _tv(_spots(edges))
    both.breaks("edge detectors of an eighth of the norm", small)
    # Of 200, since a third of such steps has more than the spot, and the median of thirty may.
    whole, coarse = _edges(t.rng, 200, steps=True), _unit(waves[0][:, None])
    bare = _tv(whole) / _tv(_spots(whole))
    grey = _unit(np.ones((3, 1, 1)) * _spot()[None, None])
    equal.breaks("bare steps across the whole filter", bare)
    equal.breaks("a spot in three colours, a coarse edge in one", _tv(coarse) / _tv(grey))
    equal.says(steps=bare.mean(), noise=_tv(_unit(noise)).mean() / _tv(edges).mean())

    # (2) Rises from one period to the next.
    found = np.stack([_tv(_unit(w[:, None])) for w in waves])
    part = t.part("the finer the edge, the more", 1e-3, ">=", draws=count, controls=worst)
    part.add(np.diff(found, axis=0))
    part.breaks("in another order", np.diff(found[[1, 0, 3, 2, 4]], axis=0))
