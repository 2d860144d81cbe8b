# Theorem 6, Sec. 5.3: the strong half needs p_0 p_1 diag^2(Delta); against theta_m* it does not
from fractions import Fraction as Q
from itertools import product

E = {}  # K = d = 2, p_0 = p_1 = 1/2, eta = 0, D_aug = diag(D_V) + f diag^2(D), where D is Delta
for f, D in product((1, Q(1, 4)), product((Q(1, 3), Q(1, 2), Q(1)), repeat=4)):
    top = [max(k, k + 1, key=D.__getitem__) for k in (0, 2)]  # X_ij = D_i D_j (1/4 - f [i = j])
    omega = sum((D[i] * D[j]) ** 2 * (Q(1, 4) - f * (i == j)) for i in top for j in top) / 2
    E[f, D] = omega / sum(D[i] ** 2 for i in top), [d**2 * (Q(1, 4) - f) for d in D]
for name, f in ("printed", 1), ("corrected, with p_0 p_1", Q(1, 4)):
    omega, single = E[f, (Q(1), Q(1, 2)) * 2]
    print(f"{name}: E(theta_Omega) {omega}, E(theta_1) {single[0]}, E(theta_2) {single[1]}")
assert E[1, (Q(1), Q(1, 2)) * 2] == (Q(-1, 4), [Q(-3, 4), Q(-3, 16)] * 2)
assert all(omega > min(single) for (f, _), (omega, single) in E.items() if f == 1)  # theta_m*
assert all(omega > max(single) for (f, _), (omega, single) in E.items() if f == Q(1, 4))
