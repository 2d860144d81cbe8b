# Sec. 1 and 5: Theorem 3's loop recovers the truth without a predictor, by bias and warm start
from itertools import product

one = [(x, y) for x, y in product((-1, 0, 1), repeat=2) if x * y >= 0] + 9 * [(0, 0)]  # of 16
views = [(p + 1j * q, u + 1j * v) for (p, u), (q, v) in product(one, one)]  # alpha = kappa = 1/2
run, a, cold = [], (24 + 7j) / 25, [0.6 + 0.8j, 0.8 - 0.6j] * 2  # rows as complex numbers; M = I
for b, *W in ((0.3, a, a * 1j, 1 / a, 1j / a), (0, a, a * 1j, 1 / a, 1j / a), (0.3, *cold)):
    for k in 9 * (25 * [0, 1] + 25 * [2, 3]):  # Eq. 13: rows 0, 1 of W^o 25 times, then W^t's
        hits = [(x, (y / W[k - 2]).real) for x, y in views if abs((x / W[k]).real) > b]
        w = W[k] + sum(x * (h - min(b, max(-b, h))) for x, h in hits) / 32
        W[k] = w / abs(w)
    run.append(min(max(abs((e / w).real) for w in W[s : s + 2]) for s in (0, 2) for e in (1, 1j)))
print("printed: tied to a predictor; without one the Minimum max-cosine is", round(run[0], 9))
print("corrected: to bias and warm start; no bias, a cold start:", *[round(e, 4) for e in run[1:]])
assert run[0] > 1 - 1e-9 and max(run[1:]) < 0.97
