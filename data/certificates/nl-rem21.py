# Remark after Corollary 3, App. D: lambda - d_k behind BatchNorm is not almost constant
from sympy import Matrix, Rational, sqrt

p, r = Rational(1, 4), (Rational(9, 10), Rational(3, 10))  # p_0 p_1; correlation of f_k with z
for size in (1, 100):  # d_1 of the first field; d_2 = 1; b_k such that the correlations are r_k
    d = (size, 1)
    b = [sqrt(d[k] * r[k] ** 2 / p / (1 - r[k] ** 2)) for k in (0, 1)]
    V = Matrix(2, 2, lambda i, j: d[i] * (i == j) + p * b[i] * b[j])  # V[f_1], Eq. 138
    N = Matrix(2, 2, lambda i, j: V[i, j] / sqrt(V[i, i] * V[j, j]))  # behind BatchNorm
    plain = [max(V.eigenvals()) - d[k] for k in (0, 1)]
    even = [max(N.eigenvals()) - (1 - r[k] ** 2) for k in (0, 1)]
    print(f"d = {d}: lambda - d_k", [v.n(3) for v in plain], "and behind BatchNorm", even)
    assert abs(even[0] / even[1] - r[0] / r[1]) < 1e-12 and (size > 1 or plain[0] == plain[1])
print("printed: the last two are almost constant")
print("corrected: their ratio is at most that of the r_k, here 3, and no size changes them")
