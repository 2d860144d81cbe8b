# Fig. 1, text after Theorem 3: A jumps on the sphere, so that Eq. 11 needs L inside B_gamma only
import numpy as np

x = np.array([[2, 2], [2, -0.5], [-0.5, 2], [-0.5, -0.5]]) @ [[1, 0], [0.02, 0.9996**0.5]]
p, A, steps = np.array([1, 4, 4, 16]) / 25, [], np.array([-1e-3, 1e-3, -1e-6, 1e-6])
for angle in (0, *(np.arctan2(x[1, 0], -x[1, 1]) + steps)):  # u_1; both sides of w^T x = 0
    gated = x * (x @ [np.cos(angle), np.sin(angle)] > 0)[:, None]  # d = M = 2, q = 1/5
    A.append(gated.T * p @ gated - np.outer(p @ gated, p @ gated))
L = [np.linalg.norm(A[k] - A[k + 1], 2) / (2 * steps[k]) for k in (1, 3)]
(low, top), ((_, c0), _) = np.linalg.eigh(A[0])
near, R = min(abs(x[:, 0]) / np.hypot(*x.T)), np.sqrt(2.4 - 2.4 * abs(c0)) / (1 - np.sqrt(0.2))
mu, most = ((1 + c) / (2 * c * c) * (low / top) ** 2 for c in (abs(c0), abs(c0) - R))  # gamma = 0.2
print(f"printed: L on the sphere is at least {L[0]:.0f}, {L[1]:.0f}, ...; no omega <= gamma < 1")
print(f"corrected: A is constant in B_gamma, radius {R:.3f}: omega <= {most:.3f} < gamma = 0.2")
assert 2 * L[0] / top * mu > 1 and L[1] > 900 * L[0] and most < 0.2 and near > R
