# Eq. 78, App. B.4: E|f(x_1) - f(x)|^2 is the variance of the views plus the square of c_0(x)
from itertools import product
from math import exp
from statistics import mean, pstdev, pvariance

rows, four = [], product(range(2), range(2), *[range(4)] * 4)  # outputs are numbers
for a, b, *f in [(0, 0, 1, 1, -1, -1), *four]:  # a of x, b of x', and two views of each
    v, u, c, d = f[:2], f[2:], a - mean(f[:2]), b - mean(f[2:])  # c_0(x) and c_0(x')
    braces = pvariance(v) + pvariance(u) + abs(a - b) * (pstdev(v) + pstdev(u) + abs(c) + abs(d))
    moved = mean(abs((p - q) ** 2 - (a - b) ** 2) for p in v for q in u) / 2  # E|r_- - r_-^0|
    rows.append((moved, braces, braces + c * c + d * d))
left, (_, most, mended) = 1 / 2 - 1 / (1 + exp(2)), rows[0]  # InfoNCE, H = tau = 1; |F'| < 1
print(f"printed: f = 0 at x, x', 1 and -1 at their views: {left:.3f} is at most {most:.0f}")
print(f"corrected: with c_0(x)^2 + c_0(x')^2 in the braces: {left:.3f} is at most {mended:.0f}")
assert left > 0.38 and most == 0 and all(m <= corrected + 1e-9 for m, _, corrected in rows)
