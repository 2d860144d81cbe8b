# After Eq. 143, App. C.3: the short form of delta_k lacks the factor 1 / (Z^2 (lambda - d_k))
from sympy import Matrix, Rational, diag

b, d, pp = Matrix([1, 1]), [0, 0], Rational(1, 4)  # K = 2, p_0 p_1 = 1/4
values = (diag(*d) + pp * b * b.T).eigenvects()  # V[f_1], Eq. 138
lam, _, (s,) = max(values, key=lambda item: item[0])
s = s.normalized()
Z2 = sum((b[k] / (d[k] - lam)) ** 2 for k in (0, 1))
eq143 = pp / (Z2 * (lam - d[0])) * b[1] ** 2 / (lam - d[1])
direct = pp * s[0] * s[1] * b[1] / b[0]  # from the line before, Eq. 142, with s itself
short = 1 - pp * b[0] ** 2 / (lam - d[0])
print(f"printed: delta_1 = {short}; but Eq. 143 gives {eq143}, the eigenvector itself {direct}")
print(f"corrected: delta_1 = {short / (Z2 * (lam - d[0]))}, with Z^2 = {Z2}, lambda = {lam}")
assert direct == eq143 == short / (Z2 * (lam - d[0])) and short == 4 * eq143
