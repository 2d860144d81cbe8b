# Eq. 15, App. A.1: the negatives' masks are averaged inside the logarithm; d = 2, alpha = 1/2
from math import comb, e, log

import numpy as np

B, rows = 1000, []  # tau = 1; E[S^+] is the same for all W here and left out, as is log B
for q, cos in ((0, 0), (1 / 4, 0), (1 / 2, 1)):  # P(S^- = 1, not 0) if D_1 keeps; <W_1, W_2>
    drawn = [comb(B, n) * q**n * (1 - q) ** (B - n) for n in range(B + 1)]  # of B, n have S^- = 1
    eq8 = sum(drawn[n] * log((y + B - n + n * e) / B) for n in range(B + 1) for y in (1, e)) / 4
    eq15 = sum(log(e ** (a * b) + e ** (a * c * cos)) for a, b, c in np.ndindex(2, 2, 2)) / 8
    rows.append([eq8 + log(1 + 1 / B) / 2, eq15, log(1 - q + q * e) / 2])  # if D_1 drops: log 1
exact, printed, corrected = (rows[2] - np.array(rows[:2])).T  # rises from W = I: no constant counts
print("printed: from W = I to equal columns Eq. 15 rises by", printed[0].round(4))
print("corrected: by", *corrected.round(4), "(x' not x, x' any); Eq. 8, B = 1000:", *exact.round(4))
assert min(abs(exact - printed)) > 0.006 > 0.0006 > max(abs(exact - corrected))
