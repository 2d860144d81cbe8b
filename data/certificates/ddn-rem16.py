# Abstract, Secs. 1 and 4: an update under InfoNCE (large batch) that no PSD operator gives
from itertools import product

from sympy import Rational, exp, simplify

one, both, psd = {}, {}, 1 / (100 + 100 * exp(Rational(1, 50)))  # 1/2 E[xi (x - x')^2]
for shifts in ((1, -1), (0,)):  # f = w x, w = 1; H = tau = 1; samples 1/10, -1/10 and views
    x = [[Rational(s, 10) + k for k in shifts] for s in (1, -1)]
    draws = [d for i in (0, 1) for k in (0, 1) for d in product(x[i], x[i], x[k])]
    rows = [(v * (p - n), (v - n) ** 2 - (v - p) ** 2) for v, p, n in draws]  # x_1, x_+, x_-
    one[len(shifts)] = sum(k / (1 + exp(r / 2)) for k, r in rows) / len(draws)
    both[len(shifts)] = sum(r / (1 + exp(r / 2)) for _, r in rows) / len(draws)
print("printed: w = 1 is not to fall; it moves by", one[2].n(3), "(both:", f"{both[2].n(3)})")
print("corrected:", psd.n(3), "from the PSD part and a residue, which is 0 without augmentation")
assert both[2] < one[2] < 0 < psd and simplify(one[1] - psd) == 0 == simplify(both[1] - 2 * psd)
