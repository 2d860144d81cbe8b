# Eq. 15, App. A.1: the negatives' masks are averaged inside the logarithm; d = 2, alpha = 1/2
from itertools import product
from math import comb, e, log

B, rows = 1000, []  # tau = 1; E[S^+] is the same for all W here and left out, as is log B
for q, cos in ((0, 0), (1 / 4, 0), (1 / 2, 1)):  # P(S^- = 1, not 0) if D_1 keeps; <W_1, W_2>
    drawn = [comb(B, n) * q**n * (1 - q) ** (B - n) for n in range(B + 1)]  # of B, n have S^- = 1
    eq8 = sum(drawn[n] * log((y + B - n + n * e) / B) for n in range(B + 1) for y in (1, e)) / 4
    bits = product(range(2), repeat=3)
    eq15 = sum(log(e ** (a * b) + e ** (a * c * cos)) for a, b, c in bits) / 8
    rows.append((eq8 + log(1 + 1 / B) / 2, eq15, log(1 - q + q * e) / 2))  # if D_1 drops: log 1
(a, p, c), (a2, _, c2) = ([r - s for r, s in zip(rows[2], rows[k])] for k in (0, 1))
print(f"printed: from W = I to equal columns Eq. 15 rises by {p:.4f}")
print(f"corrected: by {c:.4f} {c2:.4f} (x' not x, x' any); Eq. 8, B = 1000: {a:.4f} {a2:.4f}")
assert min(abs(a - p), abs(a2 - p)) > 0.006 > 0.0006 > max(abs(a - c), abs(a2 - c2))
