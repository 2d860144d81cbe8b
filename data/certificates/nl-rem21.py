# Remark after Corollary 3, App. D: lambda - d_k behind BatchNorm is not almost constant
from sympy import Matrix, Rational, diag, sqrt

p, r = Rational(1, 4), (Rational(9, 10), Rational(3, 10))  # p_0 p_1; correlation of f_k with z
for d in ((1, 1), (100, 1)):  # d_1 and d_2; b_k such that the correlations are r_k
    b = Matrix([sqrt(d[k] * r[k] ** 2 / p / (1 - r[k] ** 2)) for k in (0, 1)])
    V = diag(*d) + p * b * b.T  # V[f_1], Eq. 138
    N = diag(*(1 / sqrt(V[k, k]) for k in (0, 1)))
    bn = N * V * N  # behind BatchNorm
    plain = [max(V.eigenvals()) - d[k] for k in (0, 1)]
    even = [max(bn.eigenvals()) - (1 - r[k] ** 2) for k in (0, 1)]
    print(f"d = {d}: lambda - d_k", [v.n(3) for v in plain], "and behind BatchNorm", even)
    assert even[0] / even[1] == r[0] / r[1] and (d[0] > 1 or plain[0] == plain[1])
print("printed: the last two are almost constant")
print("corrected: their ratio is at most that of the r_k, here 3, and no size changes them")
