# Theorem 5, Sec. 5.2: with modes that no sample shows, w_1 need not end at one e_m
import numpy as np

w = {name: np.array([0.7, 0.5, 0.4]) for name in ("printed", "corrected")}  # M = 3 modes
for name, shown in {"printed": (1, 1, 1), "corrected": (1, 2, 3)}.items():  # by samples 1, 2, 3
    x = np.eye(3)[np.array(shown) - 1]  # and x[i'] = 3 x[i]; alpha_ij = 1, so beta_i = 2
    gaps = (x[:, None] - x[None]).reshape(-1, 3)
    X = gaps.T @ gaps - 2 * (x - 3 * x).T @ (x - 3 * x)
    for _ in range(10000):  # Eq. 53 with |w| = 1, a weight that reaches 0 stays 0
        w[name] = np.maximum(w[name] + 1e-3 * (w[name] > 0) * (X @ w[name]), 0)
        w[name] /= np.linalg.norm(w[name])
    print(f"{name}: samples show modes {shown}, w_1 ends at", (w[name].round(4) + 0).tolist())
assert np.allclose(w["printed"], np.array([0, 0.5, 0.4]) / 0.41**0.5, atol=1e-9)
assert w["corrected"].tolist() == [1, 0, 0]
