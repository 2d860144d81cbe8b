# Eqs. 77-80, App. B.3: the factor is C_0^2; with C_0^3 the bound of Eq. 80 fails on a small disc
from sympy import Matrix, Rational, cos, integrate, pi, sin, symbols

r, a = symbols("r a", positive=True)  # polar coordinates
C0, theta = Rational(1, 20), Rational(1, 10)  # w is w_* = e_1 turned by theta towards e_2
density = (1 + r * sin(a) / C0) / (pi * C0**2)  # on the disc of radius C_0, at most 2 / (pi C_0^2)
wedges = [(a, side * pi / 2, side * pi / 2 + theta) for side in (1, -1)]  # Omega_-, Omega_+
vol, moved = pi * C0**2, 2 * sin(theta / 2)  # volume of the disc, |w_* - w|
assert all(integrate(r, (r, 0, C0), wedge) == vol * theta / (2 * pi) for wedge in wedges)  # Eq. 78
x_xw = r**2 * cos(a) * Matrix([cos(a), sin(a)])  # x x^T w_*
minus, plus = ((x_xw * density * r).integrate((r, 0, C0)).integrate(wedge) for wedge in wedges)
left, bound = (minus - plus).norm().n(), (vol / pi * moved * theta * 2 / (pi * C0**2)).n()
print(f"printed: with C_0^3 Eq. 80 reads {left:.3e} <= {C0**3 * bound:.3e}, which is false")
print(f"corrected: with C_0^2, as Eq. 77 has it, {left:.3e} <= {C0**2 * bound:.3e}")
assert C0**3 * bound < 0.6 * left and left < C0**2 * bound
