# Abstract, Sec. 4.3: ascent of Eq. 12 from random starts can end at local maxima with E = 0
import numpy as np

ends, rng = {}, np.random.default_rng(1)  # 200 starts of a net 6-2-4-2; X has eigenvalues 1, *low
for name, low in {"printed": -0.3 * np.r_[1:6], "corrected": 0.3 * np.r_[-1:3, 0]}.items():
    W, X = [rng.standard_normal((200, *s)) for s in ((2, 6), (4, 2), (2, 4))], np.diag([1, *low])
    for _ in range(1000):
        W = [w / np.linalg.norm(w, axis=(1, 2), keepdims=True) for w in W]
        F, H = W[0] @ X @ W[0].mT, W[2] @ W[1]  # E = tr(H F H^T), where H = W_{>1}
        pulls = H.mT @ H @ W[0] @ X, W[2].mT @ H @ F, H @ F @ W[1].mT
        E, W = (H @ F * H).sum((1, 2)), [w + p / 2 for w, p in zip(W, pulls, strict=True)]
    traps = (abs(E) < 1e-3) & (np.linalg.eigvalsh(F)[:, -1] < -1e-3)  # F < 0: E <= 0 all around
    ends[name] = int((E > 0.999).sum()), int(traps.sum())
    print(f"{name}: {sum(low < 0)} negative eigenvalues: ends at E = 1, E = 0:", *ends[name])
assert sum(ends["printed"]) == 200 and ends["printed"][1] > 20 and ends["corrected"] == (200, 0)
