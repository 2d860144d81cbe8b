"""What the generators of Assumption 1 draw: modes, amplitudes, factors, each apart from others.

Distribution functions against those that are meant, in the scale of Kolmogorov's law, and
frequencies in standard errors.
"""

from itertools import combinations, product

import numpy as np

from clcore.ledger import Trial
from clcore.reference import frequency, kolmogorov
from clcore.theory.relu import binary_latent, orthogonal_mixture

N = 8000
EVEN = 3.0  # of `kolmogorov`
FIRMLY = 5.0  # standard errors


def fields(t: Trial) -> None:
    """One field of many samples. Controls: half the range; as many modes more; the amplitude for
    the factor."""
    even = t.defines("amplitudes and factors", EVEN)
    chances = t.defines("how often a mode, or none", FIRMLY)
    apart = t.defines("modes, amplitudes and factors apart", FIRMLY)
    modes = 4
    x, x2 = (v.numpy() for v in orthogonal_mixture.draw(t.keys(1, "one field")[0], N, modes))
    shown = x.any(-1)
    mode, size = x.argmax(-1), x.max(-1)
    factor = x2.max(-1)[shown] / size[shown]
    for values, low, high in ((size[shown], 0.5, 1.5), (factor, 0.6, 1.4)):
        even.add(kolmogorov(values, low, high))
        even.breaks("half the range", kolmogorov(values, low, (low + high) / 2))
    chances.add(frequency(~shown[modes:], 0.1), float((mode[:modes] != np.arange(modes)).sum()))
    for k in range(modes):
        chances.add(frequency(mode[shown] == k, 1 / modes))
        chances.breaks("a mode more", frequency(mode[shown] == k, 1 / (modes + 1)))
        of_mode = (mode == k)[shown]
        for values in (size[shown], factor):
            apart.add(np.sqrt(N) * abs(np.corrcoef(of_mode, values)[0, 1]))
    apart.add(np.sqrt(N) * abs(np.corrcoef(size[shown], factor)[0, 1]))
    apart.breaks("one for both", np.sqrt(N) * abs(np.corrcoef(factor, factor)[0, 1]))
    own = orthogonal_mixture.draw_fields(t.keys(1, "own")[0], N, 2, modes, shared=False)
    here = [(v.numpy() > 0).any(-1) for v in own]
    both = here[0].all(-1)
    sizes = own[0].numpy().max(-1)[both]
    factors = own[1].numpy().max(-1)[both] / sizes
    for values in (sizes, factors, own[0].numpy().argmax(-1)[both]):
        apart.add(np.sqrt(N) * abs(np.corrcoef(values.T)[0, 1]))
    one = orthogonal_mixture.draw_fields(t.keys(1, "own")[0], N, 2, modes)
    same = one[1].numpy().max(-1)[both] / one[0].numpy().max(-1)[both]
    even.add(kolmogorov(same[:, 0], 0.6, 1.4), np.abs(same[:, 0] - same[:, 1]).max())
    _sample_by_sample(t)


def _sample_by_sample(t: Trial) -> None:
    """Of many small batches each sample: the first show a mode each, where all are to be covered,
    and every other one is as free as without cover. Controls: two modes more; a sample that always
    shows one; half the range."""
    chances = t.defines("sample by sample: how often a mode, or none", FIRMLY)
    ranges = t.defines("sample by sample: amplitudes and factors", EVEN)
    modes, n, count, empty = 3, 6, 2000, 0.35
    how = {"amplitudes": (2.0, 3.0), "gamma": (0.3, 0.8), "empty": empty}
    for cover in (True, False):
        keys = t.keys(count, f"small batches {cover}")
        views = orthogonal_mixture.draw(keys, n, modes, cover=cover, **how)
        x, x2 = (v.numpy() for v in views)
        shown, mode = x.any(-1), x.argmax(-1)
        first = modes if cover else 0
        chances.add(float((mode[:, :first] != np.arange(first)).sum() + (~shown[:, :first]).sum()))
        for k in range(first, n):
            here = shown[:, k]
            chances.add(frequency(~here, empty))
            chances.breaks("always one", frequency(~here & False, empty))
            chances.add(*(frequency(mode[here, k] == m, 1 / modes) for m in range(modes)))
            chances.breaks("two modes more", frequency(mode[here, k] == 0, 1 / (modes + 2)))
        size, factor = x.max(-1)[shown], x2.max(-1)[shown] / x.max(-1)[shown]
        for values, (low, high) in ((size, how["amplitudes"]), (factor, how["gamma"])):
            ranges.add(kolmogorov(values, low, high))
            ranges.breaks("half the range", kolmogorov(values, low, (low + high) / 2))


def rows_of_pixels(t: Trial) -> None:
    """Rows of pixels: amplitudes, factors, periods and where they begin. Controls: half the range,
    a period more."""
    even = t.defines("rows of pixels: amplitudes and factors", EVEN)
    chances = t.defines("rows of pixels: periods and starts", FIRMLY)
    field, length = 3, 13
    x, x2 = (
        v.numpy() for v in orthogonal_mixture.draw_line(t.keys(1, "a row")[0], N, length, field)
    )
    on = x > 0
    first = on.argmax(1)
    period = (on & (np.arange(length) > first[:, None])).argmax(1) - first
    factor = np.array([v2[k] / v[k] for v, v2, k in zip(x, x2, first, strict=True)])
    for values, low, high in ((x[np.arange(N), first], 0.5, 1.5), (factor, 0.6, 1.4)):
        even.add(kolmogorov(values, low, high))
        even.breaks("half the range", kolmogorov(values, low, (low + high) / 2))
    even.add(1e9 * np.abs(x2 - factor[:, None] * x).max())
    second = x[np.arange(N), first + period]
    chances.add(np.sqrt(N) * abs(np.corrcoef(x[np.arange(N), first], second)[0, 1]))
    for gap in range(3):
        chances.add(frequency(period == field + gap, 1 / 3), frequency(first == gap, 1 / field))
        chances.breaks("a period more", frequency(period == field + gap, 1 / 4))
    chances.add(float(((period < field) | (period >= field + 3) | (first >= field)).sum()))
    chances.add(np.sqrt(N) * abs(np.corrcoef(period, first)[0, 1]))
    apart = t.defines("rows of pixels: drawn apart, number by number", FIRMLY)
    shown = on.ravel()[:N]  # amplitudes in the order of pixels, the others in that of rows
    for values in (period, first, factor):
        found = np.corrcoef(values[shown], x.ravel()[:N][shown])[0, 1]
        apart.add(np.sqrt(shown.sum()) * abs(found))
    apart.breaks("one for both", np.sqrt(shown.sum()) * abs(np.corrcoef(factor, factor)[0, 1]))


def models(t: Trial) -> None:
    """Binary latent models: laws of states uniform on their simplex, amplitudes, chances of y, and
    the mode that a field shows twice. Controls: half the range, one for both."""
    even = t.defines("random models", EVEN)
    apart = t.defines("random models, drawn apart", FIRMLY)
    model = binary_latent.draw(t.keys(N, "models"), 2, 3)
    law, size = model.table.numpy(), model.values.numpy().max(-1)
    # Where five chances are uniform on their simplex, P(one > s) = (1 - s)^4.
    for c, k in product(range(2), range(2)):
        even.add(kolmogorov((1 - law[:, c, k, 0]) ** 4, 0, 1))
    even.breaks("each as likely in between", kolmogorov(law[:, 0, 0, 0], 0, 1))
    p1, sizes = model.p1.numpy(), [size[:, 0, 0], size[:, 1, 0], size[:, 0, 3]]
    for values, low, high in ((p1, 0.05, 0.95), *((v, 0.5, 1.5) for v in sizes)):
        even.add(kolmogorov(values, low, high))
        even.breaks("half the range", kolmogorov(values, low, (low + high) / 2))
    again = model.values.numpy()[:, :, 3].argmax(-1)
    for k in range(3):
        apart.add(frequency(again[:, 0] == k, 1 / 3), frequency(again[:, 1] == k, 1 / 3))
        apart.breaks("a mode more", frequency(again[:, 0] == k, 1 / 4))
    every = [p1, *sizes, *again.T, *law[:, :, :, 0].reshape(N, -1).T]
    for a, b in combinations(every, 2):
        apart.add(np.sqrt(N) * abs(np.corrcoef(a, b)[0, 1]))
    apart.breaks("one for both", np.sqrt(N) * abs(np.corrcoef(p1, p1)[0, 1]))
