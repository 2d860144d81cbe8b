# Sec. 5.1, example 4, "initial selectivity for more than one pattern": what a step does to x_p^T w
from fractions import Fraction as Q

d, gain, patterns = 8, {}, ((0, 1), (1, 0), (1, 1))  # ring of Eq. 11, window of two, no bias
ring = [[(int(z in (0, -k % d)), int(z in (1, (1 - k) % d))) for z in range(d)] for k in (1, 2)]
for w in [(i, k) for i in range(-4, 5) for k in range(-4, 5)]:
    S = [p for p in patterns if w[0] * p[0] + w[1] * p[1] > 0]  # open; K_1 = psi'(w^T x) x
    K_bar = [[Q(sum(p[i] for p in seen if p in S), d) for i in (0, 1)] for seen in ring]
    k = [(K_bar[0][i] - K_bar[1][i]) / 2 for i in (0, 1)]  # OP = V_{z_0}[K_bar] = k k^T
    gain[w] = [str((k[0] * w[0] + k[1] * w[1]) * (k[0] * p[0] + k[1] * p[1])) for p in S]
    u_S = [sum(p[i] if p == (1, 1) else -p[i] for p in S) for i in (0, 1)]
    assert [a * b for a in k for b in k] == [Q(a * b, 4 * d * d) for a in u_S for b in u_S]
print("printed: all grow; 01, 10, 11 do by", *gain[1, 1], "and 01, 11 by", *gain[-1, 2])
print("corrected: OP = u_S u_S^T / (4 d^2), at each of", len(gain), "weights w")
assert (gain[1, 1], gain[-1, 2]) == (["0", "0", "0"], ["0", "-1/256"])
