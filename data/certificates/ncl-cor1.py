# Corollary 1, Sec. 5.2.1: for p > d weights off the dictionary decay faster, and cosines rise
from fractions import Fraction as F

start = [1, 2, 3]  # W_0^o = W_0^t, m = 1; M: coordinates 1 and 2 of p = 3; all combinations alike
decay, eta, alpha, moment = F(99, 100), F(1, 25), F(1, 2), (F(1, 2), F(1, 2), 0)  # sigma_0 = 0
W = [F(w) for w in start]
for _ in range(100):  # the same step for both networks; E[x x^T] = 2 p_z M M^T, p_z = 1/4
    W = [decay * w + 2 * eta * alpha**2 * w * second for w, second in zip(W, moment, strict=True)]
before, projected, after = (
    [weights[j] ** 2 / F(sum(w**2 for w in weights)) for j in (0, 1)]
    for weights in (start, [*start[:2], 0], W)
)
print("printed: cos^2 at most", *before, "but at t = 100", *(round(float(v), 4) for v in after))
print("corrected: at most", *projected, "which the start has, projected on the span of M")
assert all(u + F(1, 20) < v < w for u, v, w in zip(before, after, projected, strict=True))
