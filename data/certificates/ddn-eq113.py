# App. C.3, line after Eq. 122: y_0^T M_y y_0, and the tail bound of Lemma 8 that it enters
from mpmath import erfc, exp, inf, pi, quad, sqrt
from sympy import Matrix, Rational, simplify, symbols

k, g = symbols("k gamma", positive=True)  # k = sqrt(c)
form = simplify((Matrix([[k, 0]]) * Matrix([[1, -g], [-g, 1]]).inv() * Matrix([k, 0]))[0])
# c = 9, gamma = 1/2: Mills ratio r, kappa_1 and kappa_2, P(y_+ >= 3, y_- >= 0)
r, kappa = lambda y: sqrt(pi / 2) * exp(y * y / 2) * erfc(y / sqrt(2)), (sqrt(12), sqrt(3))
P = quad(lambda t: exp(-t * t / 2) * erfc(t / sqrt(6)) / sqrt(8 * pi), [3, 5, 8, inf])
R = max(r(a) * r(b + (1 / r(a) - a) / 2) for a, b in (kappa, kappa[::-1]))  # Eq. 121
bound = [exp(-q / 2) * sqrt(0.75) * R / (2 * pi) for q in (9, 12)]
print(f"printed: y_0^T M_y y_0 = c = 9; P(y >= y_0) = {float(P):.3e} >= {float(bound[0]):.3e}")
print(f"corrected: c / (1 - gamma^2) = 12; P(y >= y_0) = {float(P):.3e} >= {float(bound[1]):.3e}")
assert form.subs({k: 3, g: Rational(1, 2)}) == 12 and simplify(form - k**2 / (1 - g**2)) == 0
assert bound[1] < P < bound[0] / 4
