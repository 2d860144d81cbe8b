# End of the inner loop, App. C.3: 1 + o(1) needs Assumption 3 for iterates, not for starts alone
import numpy as np

i, D1, D2 = np.indices((4, 4, 2, 2, 2, 2)).reshape(3, 2, -1)  # all cases, alpha = 1/2, d = 2
x, y = D1 * ((i - 1) // 2), D2 * ((i - 1) // 2)  # z = -1, 0, 0, 1: kappa = 1/2; no noise, M = I
b, ratio = np.array([[0.1], [0.01], [0.001]]), []  # b^t; Delta^t_12 = b^2, W^o starts at I
for power in (4, 1):  # b^o = b^4, above Delta^o = 0 at the start; b^o = b, above all iterates'
    w, v = np.array([[1.0, 0.0]] * 3), np.hstack([b**0, b**2]) @ y  # a row of W^o for every b
    for _ in range(50):  # descent on Eq. 13, the row normalised; v - clip(v) is SReLU(v)
        w += (abs(w @ x) > b**power) * (v - np.clip(v, -b, b)) @ x.T / 32
        w /= np.linalg.norm(w, axis=1, keepdims=True)
    ratio.append((w[:, 1] / w[:, 0] / (b[:, 0] ** 2 / 8)).round(4))
print("printed: W_12 / (alpha^2 kappa Delta_12 W_11) = 1 + o(1), but at b = 0.1 ...:", *ratio[0])
print("corrected: it is, if both biases exceed the errors of every iterate:", *ratio[1])
assert (abs(ratio[0] - 2) < 3 * b.T).all() and (abs(ratio[1] - 1) < 2 * b.T).all()
