# Sec. 5.1: optima of a ReLU node under Gaussian alpha and under alpha = 1, nine points of Fig. 8
import numpy as np

data = np.pi / 30 * np.array([-24, -15, -12, -5, 0, 6, 12, 18, 24])
turn = (np.arange(1440)[:, None] + 0.5) * np.pi / 720 - data  # w at 1440 angles
out = (np.cos(turn) > 0) * np.array([np.cos(turn), -np.sin(turn)])  # h(w^T x), its derivative
(apart, rate), found = out[..., None] - out[..., None, :], []
alpha = np.exp(-(apart**2) / 0.1)  # tau = 1/20
for axes in ((), (1, 2), 2):  # alpha = 1; Gaussian alpha of mean one; its rows of mean one
    speed = np.tile((alpha / alpha.mean(axes, keepdims=True) * apart * rate).mean((1, 2)) / 2, 2)
    climb = np.add.reduceat(speed, np.flatnonzero(np.diff(speed > 0)) + 1) * np.pi / 720
    found.append([(len(climb) + 1) // 4, round(float(max(np.minimum(climb[:-1], -climb[1:]))), 4)])
print("printed: Gaussian alpha, more and deeper optima; number and greatest depth:", *found[1:])
print("corrected: it can give more, and they are shallower; alpha = 1 has", found[0])
assert all(n > found[0][0] and depth < found[0][1] / 3 for n, depth in found[1:])
