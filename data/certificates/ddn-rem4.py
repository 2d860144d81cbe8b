# Sec. 4.1: tangent kernels have full rank on distinct samples; the nets of Sec. 3 have no biases
from random import Random

rng, samples = Random(0), [(1, 2, -1), (2, 4, -2)]  # f(2x) = 2 f(x) for all weights
for bias in (0, 1):
    net = [([rng.randint(-9, 9) for _ in range(4)], rng.randint(-9, 9)) for _ in range(50)]
    K = [[0, 0], [0, 0]]
    for i, k in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x, y = ((*samples[j], bias) for j in (i, k))
        for w, v in net:  # f = sum v relu(w . x): slopes relu(w . x) by v, v x by w
            a, b = (max(0, sum(p * q for p, q in zip(w, u))) for u in (x, y))
            K[i][k] += a * b + (v * v * sum(p * q for p, q in zip(x, y)) if a and b else 0)
    det = K[0][0] * K[1][1] - K[0][1] * K[1][0]
    print("det of the kernel of x and 2x,", "with biases:" if bias else "without:", det)
    assert det > 0 if bias else det == 0 < K[0][0]
