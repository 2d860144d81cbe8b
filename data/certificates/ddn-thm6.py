# Theorem 6, Sec. 6.1.2 and App. C.5: o_mu has the root's polarity rho_0, as in Eq. 179
from fractions import Fraction as Q
from itertools import product

V, size = {}, lambda r, to_mu, a: to_mu**2 * (1 - r**2) * a**2  # o_mu a_mu^2
for rho_0, to_mu, rho in product([Q(k, 4) for k in range(-4, 5)], repeat=3):  # to_mu: rho_0mu
    up = [(1 - to_mu) / 2, (1 + to_mu) / 2]  # P(z_mu = 1) given z_0 = 0, given z_0 = 1
    mean = [p * (1 + rho) / 2 + (1 - p) * (1 - rho) / 2 for p in up]  # of a leaf f_k = z_nu
    V[rho_0, to_mu, rho] = (1 - rho_0) / 2 * (1 + rho_0) / 2 * (mean[1] - mean[0]) ** 2
for form, r in (("printed: rho_0mu in o_mu", 1), ("corrected: rho_0 in o_mu", 0)):
    sides = [str(v) for k in (1, Q(1, 2)) for v in (V[0, k, 1], size(k * r, k, Q(1, 2)))]
    print(form + "; V, o_mu a_mu^2, rho_0 = 0, rho_0mu = 1: {}, {}; 1/2: {}, {}".format(*sides))
    assert (sides[::2] == sides[1::2]) == (r == 0)
assert all(v == size(k[0], k[1], k[2] / 2) for k, v in V.items())  # s_k = 1/2
