# Sec. 4.2: Eq. 37 without constraints can leave all norms bounded, from an open set of starts
import numpy as np

rng, X = np.random.default_rng(0), np.diag([1.0, -1.0])  # L = 2, widths 2-1-1
near = np.array([0, 2, 0.1]) + np.r_[np.zeros((1, 3)), rng.uniform(-0.05, 0.05, (99, 3))]
for name, v in ("printed", near), ("corrected", near[:, [1, 0, 2]]):  # W_1 = (0, 2) or (2, 0)
    W1, W2 = v[:, :2].copy(), v[:, 2:].copy()
    start, most = ((W1 @ X) * W1).sum(1) * W2[:, 0] ** 2, np.zeros(len(v))  # the energy
    for _ in range(4000):  # steps of 1/200
        push = W1 @ X
        W1, W2 = W1 + W2**2 * push / 200, W2 + W2 * (push * W1).sum(1, keepdims=True) / 200
        W1, W2 = (np.clip(w, -1e9, 1e9) for w in (W1, W2))
        most = np.maximum(most, np.linalg.norm(W1, axis=1))
    print(f"{name}: energy > 0: {(start > 0).sum()}, |W_1| > 1000: {(most > 1e3).sum()} of 100")
    assert (start > 0).sum() == (most > 1e3).sum() == 100 * (name == "corrected")
