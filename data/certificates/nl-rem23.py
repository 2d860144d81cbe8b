# Sec. 5.1: optima of a ReLU node under Gaussian alpha and under alpha = 1, nine points of Fig. 8
import numpy as np

data = np.pi / 30 * np.array([-24, -15, -12, -5, 0, 6, 12, 18, 24])
turn = (np.arange(1440)[:, None] + 0.5) * np.pi / 720 - data  # w at 1440 angles
out = (np.cos(turn) > 0) * np.array([np.cos(turn), -np.sin(turn)])  # h(w^T x), its derivative
(apart, rate), found = out[..., None] - out[..., None, :], []
for alpha in (apart * 0 + 1, np.exp(-(apart**2) / 0.1)):  # tau = 1/20; both of mean one
    speed = np.tile((alpha * apart * rate).mean((1, 2)) / alpha.mean((1, 2)) / 2, 2)
    climb = np.add.reduceat(speed, np.flatnonzero(np.diff(speed > 0)) + 1) * np.pi / 720
    top = max((alpha * apart**2).mean((1, 2)) / alpha.mean((1, 2))) / 4  # the highest energy
    found.append(((len(climb) + 1) // 4, d := max(np.minimum(climb[:-1], -climb[1:])), d / top))
print("printed: more and deeper optima; alpha = 1 and Gaussian:", np.round(found, 3).tolist())
print("corrected: it can give more; their depth is less, but over the highest energy it is more")
assert found[1][0] > found[0][0] and found[1][1] < found[0][1] / 3 and found[1][2] > 2 * found[0][2]
