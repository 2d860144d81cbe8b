# App. B.5, after Eq. 108: a local maximum of the energy at a filter w that the augmentation moves
from sympy import Rational, cos, diff, integrate, pi, simplify, sin, symbols

s, t, lat = symbols("s t lat", real=True)  # w = (cos lat cos s, cos lat sin s, sin lat) = R(s) w_0
# x_0 = (r, 0, 0), r = 1 or 2 alike, is rotated by t, uniform on the circle, about the third axis;
# ReLU: h(w^T R(t) x_0) = r cos lat cos(t - s) where that is positive, 0 elsewhere.
b = [integrate(r * cos(lat) * cos(t - s), (t, s - pi / 2, s + pi / 2)) / (2 * pi) for r in (1, 2)]
energy = simplify(Rational(1, 2) * ((b[0] ** 2 + b[1] ** 2) / 2 - ((b[0] + b[1]) / 2) ** 2))
below = simplify(energy.subs(lat, 0) - energy)
print("printed: e_1 moves, so is no local maximum; but energy(e_1) - energy(w) =", below, ">= 0")
print("corrected: e_1 is no isolated one; on its orbit d energy / d s =", simplify(diff(energy, s)))
assert simplify(below - sin(lat) ** 2 / (8 * pi**2)) == 0  # never negative
assert simplify(diff(energy, s)) == 0 and simplify(diff(energy, lat)) != 0
