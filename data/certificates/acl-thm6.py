# Theorem 6, Sec. 5.3: the weak half allows a tie, the strong half needs p_0 p_1 diag^2(Delta)
from fractions import Fraction as Q
from itertools import product

E = {}  # K = d = 2, p_0 = p_1 = 1/2, D_aug = diag(D_V) + f diag^2(D), where D is Delta
for f, D in product((0, 1, Q(1, 4)), product((Q(1, 3), Q(1, 2), Q(1)), repeat=4)):
    top = [max(k, k + 1, key=D.__getitem__) for k in (0, 2)]  # X_ij = D_i D_j (1/4 - f [i = j])
    omega = sum((D[i] * D[j]) ** 2 * (Q(1, 4) - f * (i == j)) for i in top for j in top) / 2
    E[f, D] = omega / sum(D[i] ** 2 for i in top), max(d**2 * (Q(1, 4) - f) for d in D)
weak, strong, mended = ([str(e) for e in E[f, (1, Q(1, 2)) * 2]] for f in (0, 1, Q(1, 4)))
print("printed: E(theta_Omega), best E(theta_m): weak", *weak, "(tie), strong", *strong, "(less)")
print("corrected: weak: unequal salient |Delta|; strong with p_0 p_1 diag^2(Delta):", *mended)
assert weak == ["1/4", "1/4"] and strong == ["-1/4", "-3/16"]
assert all(o > m for (f, _), (o, m) in E.items() if f == Q(1, 4))
assert all((o < m) == (max(D[:2]) != max(D[2:])) for (f, D), (o, m) in E.items() if f == 0)
