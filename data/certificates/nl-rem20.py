# App. D: delta_k (printed beta_k) falls with d_k, through 1/(lambda - d_k)
from sympy import Matrix, Rational, diag, re

p, d, found = Rational(1, 4), (1, Rational(1, 9), Rational(1, 100)), []  # p_0 p_1; d_k
for what, b in (("printed, b_k as the sizes:", (1, 1 / 3, 1 / 10)), ("corrected:", (1, 1, 1))):
    top = max(re(v.n()) for v in (diag(*d) + p * Matrix(b) * Matrix(b).T).eigenvals())  # Eq. 134
    gap = [top - d[k] for k in range(3)]
    x = [b[k] ** 2 / gap[k] for k in range(3)]
    Z2 = sum(x[k] / gap[k] for k in range(3))
    s2 = [x[k] / gap[k] / Z2 for k in range(3)]  # Eq. 139
    found.append([p * x[k] * (sum(x) - x[k]) / b[k] ** 2 / Z2 for k in range(3)])  # Eq. 143
    print(what, "s_k^2", [v.round(3) for v in s2], "delta_k", [v.round(3) for v in found[-1]])
assert found[0][1] > 5 * found[0][0] and found[1][0] > found[1][1] > found[1][2]
