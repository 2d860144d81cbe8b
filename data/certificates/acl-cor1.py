# Corollary 1, Sec. 3.2: who descends L_phi,psi need not climb the value of the max-min game
from sympy import Rational, Symbol, diff, exp, expand_log, log, simplify

w, u = Symbol("w", positive=True), Symbol("u", positive=True)
tau = Rational(1, 2)
# Two points at distance w on a line, both views equal: d_12 = d_21 = w^2/2, d_1 = d_2 = 0.
xi = exp(-(w**2) / (2 * tau))  # psi = exp(x/tau)
for said, phi in (("printed: phi(x) = x", u), ("corrected: phi(x) = tau log x", tau * log(u))):
    alpha = xi * diff(phi, u).subs(u, xi) / tau  # one weight per row: A has this alpha alone
    V = 2 * (2 * alpha * w**2 / 2 + 2 * tau * alpha * log(alpha))  # E_alpha - R_H
    ratio = simplify(expand_log(diff(V, w) / diff(2 * phi.subs(u, xi), w), force=True))
    verb = "lowers" if ratio > 0 else "raises"
    print(f"{said}: dV/dw over dL/dw is {ratio}, so descending L {verb} V")
    assert (ratio > 0) == (phi == u) and ratio in (log(4), -2)
