# Fig. 1, text after Theorem 3: A jumps on the sphere, so that Eq. 11 needs L inside B_gamma only
from cmath import cos, exp, phase

A, x = [], [a + (0.02 + 0.9996**0.5 * 1j) * b for a in (2, -0.5) for b in (2, -0.5)]  # d = 2
for w in (1, *(1j * x[1] * exp(1j * s) for s in (-1e-3, 1e-3, -1e-6, 1e-6))):  # u_1, and where
    on = [(p / 25, z) for p, z in zip((1, 4, 4, 16), x) if (z / w).real > 0]  # w^T x = 0
    m, trace = sum(p * z for p, z in on), sum(p * abs(z * z) for p, z in on)
    A.append((trace - abs(m * m), sum(p * z * z for p, z in on) - m * m))
L = [sum(abs(u - v) for u, v in zip(A[k], A[k + 1])) / 4 / s for k, s in ((1, 1e-3), (3, 1e-6))]
(T, Q), near = A[0], min(abs(z.real / z) for z in x)  # A: trace T, A_11 - A_22 + 2i A_12 = Q
R = (2.4 - 2.4 * (c := abs(cos(phase(Q) / 2)))) ** 0.5 / (1 - 0.2**0.5)  # gamma = 0.2
mu, most = ((1 + v) / (2 * v * v) * ((T - abs(Q)) / (T + abs(Q))) ** 2 for v in (c, c - R))
print(f"printed: L on the sphere is at least {L[0]:.0f}, {L[1]:.0f}, ...; no omega <= gamma < 1")
print(f"corrected: A is constant in B_gamma, radius {R:.3f}: omega <= {most:.3f} < gamma = 0.2")
assert 4 * L[0] / (T + abs(Q)) * mu > 1 and L[1] > 900 * L[0] and most < 0.2 and near > R
