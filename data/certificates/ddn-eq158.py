# Eqs. 155-159, App. C.4: units of one latent are not independent given z_mu
from fractions import Fraction as Q
from itertools import product

rho, V, eq_158, mended = Q(1, 2), {}, {}, {}  # sigma_w^2 = 2/3; two units f_k = z_nu(k), s_k = 1/2
law = ((1, (1 + rho) / 2), (0, (1 - rho) / 2))  # of z_nu given z_mu = 1; both weights 1, the most
for n, nu in ((1, (0, 1)), (2, (0, 0))):  # n units per latent
    draws = [((z, y)[nu[0]] + (z, y)[nu[1]], p * q) for (z, p), (y, q) in product(law, law)]
    V[n] = sum(p * f * f for f, p in draws) - sum(p * f for f, p in draws) ** 2
    eq_158[n] = 3 * Q(2, 3) * sum((1 - rho**2) / 4 for k in nu) / 2
    mended[n] = 3 * Q(2, 3) * sum(nu.count(k) * (1 - rho**2) / 4 for k in nu) / 2
print(f"printed: two units of one latent: V[f_j | z_mu] = {V[2]} <= {eq_158[2]}")
print(f"corrected: each term |N_nu| times: {V[2]} <= {mended[2]}; one each: {V[1]} <= {mended[1]}")
assert V[2] > eq_158[2] and V[1] == eq_158[1]
assert all(V[n] == mended[n] for n in (1, 2))
