# "Almost all local maxima are global", Sec. 4.3: the others can fill more dimensions than these do
from math import cos, sin
from random import gauss, seed

seed(0)  # widths 3-2-2-1, X_alpha = diag(1, -1, -1); E is up to the norms, which are positive
for said, far in (("E = 0 on it", 0), ("E < 0 near it", 0.1)):
    E = []
    for _ in range(3000):  # W_3 = (cos c, sin c), W_2 = (-sin c, cos c)^T (cos b, sin b)
        b, c, W1 = gauss(0, 9), gauss(0, 9), [0.1 * gauss(0, 1) + (k in (1, 5)) for k in range(6)]
        W2 = [s * t + far * gauss(0, 1) for s in (-sin(c), cos(c)) for t in (cos(b), sin(b))]
        h = [cos(c) * W2[k] + sin(c) * W2[2 + k] for k in (0, 1)]  # W_3 W_2
        E.append(sum((j < 1 or -1) * (h[0] * W1[j] + h[1] * W1[3 + j]) ** 2 for j in (0, 1, 2)))
    assert max(E) < 0 if far else max(map(abs, E)) < 1e-28
    print("printed:", said, "at 3000 points of a set of 7 dimensions: b, c and W_1")
print("corrected: E = 1 where W_l = v_l v_{l-1}^T, v_0 = e_1: 2 dimensions, v_1 and v_2")
