# Lemma 7, App. B: J obeys the backward rule and annihilates x, so y is not J(x) x
from sympy import Matrix, eye, ones, simplify, symbols, zeros

x, found = Matrix(symbols("x1:4", real=True)), {}
for name, P in {"LayerNorm": eye(3) - ones(3) / 3, "l2": eye(3)}.items():
    c = P * x  # P_1^perp takes the mean away
    y, J = c / c.norm(), (P - c * c.T / c.norm() ** 2) / c.norm()
    at = dict(zip(x, (1, 0, -1), strict=True))
    found[name] = [list((J * x).subs(at)), list(y.subs(at))]
    found[name] += [simplify(y.jacobian(x) - J.T), simplify(J * x)]
print("printed: y = J(x) x; at x = (1, 0, -1) J(x) x and y are", *found["LayerNorm"][:2])
print("corrected: dy/dx = J(x)^T, J(x) x = 0 for all x; y = P_1^perp x / |P_1^perp x|, or x / |x|")
assert all(f[0] == [0, 0, 0] != f[1] for f in found.values())
assert all(f[2:] == [zeros(3), zeros(3, 1)] for f in found.values())
