# Theorem 1 as restated in App. A.2, Eq. 32: a power activation needs V^f in the bracket, not J
from sympy import Piecewise, diff, symbols

u, w = symbols("u w", real=True)
leaky = Piecewise((u, u > 0), (u / 10, True))  # homogeneous of degree 1: Q = I, as in Eq. 17
rows = []
for psi, G, x in ((u**2, u, (1, 0)), (leaky, diff(leaky, u), (4, -3))):  # Eq. 18: Q = 2 I; Eq. 17
    f = [psi.subs(u, z) for z in (w * x[0], x[1])]  # one hidden unit psi(w x), w = 1; top weight 1
    J, V_f = ([V.subs(u, x_i) for x_i in x] for V in (diff(psi, u), G))
    bracket = [x[0] * V[0] - x[1] * V[1] for V in (J, V_f)]  # K^T vec(W), at x_1 less at x_2
    rows.append((diff((f[0] - f[1]) ** 2 / 2, w).subs(w, 1), *(x[0] * J[0] * b for b in bracket)))
print("printed: psi(u) = u^2, x_1 = w = 1, x_2 = 0: dr/dw = {}, Eq. 32 gives {}".format(*rows[0]))
print("corrected: V^f gives", rows[0][2], "(leaky ReLU: dr/dw = {}, Eq. 32 {})".format(*rows[1]))
assert rows[0][1] != rows[0][0] == rows[0][2] and rows[1][0] == rows[1][1] == rows[1][2]
