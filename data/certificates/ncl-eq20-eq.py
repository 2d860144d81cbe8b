# After Eq. 20, App. A.1: with g as printed no W attains the bound; d = 2, alpha = 1/2, tau = 1
from itertools import product

from sympy import Matrix, Max, exp, log

four, eq16 = list(product((0, 1), repeat=4)), []  # masks keep or drop; below of D_1^i, D_2^i
traces = sum(log(1 + exp(-(a + b) * (c + f))) for a, b, c, f in four) / 8  # i = 1 and 2 alike
entries = sum(log(1 + exp(-a * c)) for a, _, c, _ in four) / 8
for w in ((5, 0, 0, 5), (0, 5, 5, 0), (4, 3, 3, 4), (4, -3, 3, 4), (5, 0, 0, -5)):
    R = Matrix(2, 2, w).applyfunc(lambda x: Max(x, 0)) / 5  # W has unit columns
    G = R.T * R  # b: D_1^i and c: D_2^i keep i; f: D_2^j keeps j
    eq16.append(sum(log(1 + exp(b * (f * G[0, 1] - c * G[i, i]))) for i, b, c, f in four) / 8)
print("printed: the bound is", traces.evalf(5), "but Eq. 16 is at least", eq16[0].evalf(5))
print("corrected: with entries (i, i) it is", entries, "= Eq. 16 at permutations")
assert traces < entries == eq16[0] == eq16[1] < min(eq16[2:])
