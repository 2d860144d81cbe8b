# Theorem 1 in App. A.2 (Eq. 32) for reversible nets; f = v (w x)^p, a power (Eq. 18), Q = p
from fractions import Fraction as F

w, v, x1, x2 = F(1), F(1), F(1), F(0)
for p in (1, 2, 3):  # p = 1 is a linear net, with Q = 1
    gap = v * (w * x1) ** p - v * (w * x2) ** p  # f(x_1) - f(x_2)
    slope = gap * v * p * (w * x1) ** (p - 1) * x1  # dr/dw, r = gap^2 / 2
    K1, K2 = (x * v * p * (w * x) ** (p - 1) for x in (x1, x2))  # f_0 (x) J^T
    eq32 = K1 * (K1 * w - K2 * w)
    forward = [x * v * (w * x) ** (p - 1) for x in (x1, x2)]  # f_0 (x) V^f
    right = K1 * (forward[0] * w - forward[1] * w)
    print(f"p = {p}: dr/dw = {slope}, printed {eq32}, corrected (V^f in the bracket) {right}")
    assert right == slope and eq32 == p * slope
