# Theorem 5 (sketch), Sec. 6.1.1: the threshold, with Eq. 130's bracket, in one child's s_k^2
from sympy import Rational, diff, expand, symbols

s, q, (c,) = symbols("s:2"), symbols("q:2"), symbols("c,")  # s_k^2, rho_k^2; |N^ch| = 2
bracket = 3 * sum(s[k] * ((c + 6) * q[k] / 6 - 1) for k in (0, 1)) / 2  # sigma_w = 1, sigma_l = 0
at = {q[0]: 1, q[1]: Rational(1, 100), c: 9, s[0]: Rational(1, 4)}  # rho = (1, 1/10)
before, after = (bracket.subs({**at, s[1]: Rational(v, 20) ** 2}) for v in (10, 11))
print("printed: rises in |s_k|; at s = (0.5, 0.5), (0.5, 0.55):", before.n(4), after.n(4))
print("corrected: its slope in s_k^2 > 0 where q = rho_k^2 > 6/(c + 6):", diff(bracket, s[1]))
assert before == Rational(63, 320) and after < before * Rational(2, 3)
assert expand(diff(bracket, s[1]) - ((c + 6) * q[1] - 6) / 4) == 0
assert expand(diff(bracket, q[1]) - s[1] * (c + 6) / 4) == 0  # the others are never negative
assert expand(diff(bracket, c) - (s[0] * q[0] + s[1] * q[1]) / 4) == 0
