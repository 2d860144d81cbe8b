# Theorem 3, Sec. 3.3: power iteration (PI) with an indefinite A = C_alpha[x] does not converge
from fractions import Fraction

x, off = [(2, 0, 0), (-2, 0, 0)], (0, 0, 3)  # two samples, each view `off` away; alpha = 1, linear
A = [[Fraction(0)] * 3 for _ in range(3)]  # Eq. 3; constant, so that L = 0 and omega = mu
for a, b in ((x[i], x[j]) for i in (0, 1) for j in (0, 1)):
    for p, q in ((p, q) for p in range(3) for q in range(3)):
        A[p][q] += Fraction((a[p] - b[p]) * (a[q] - b[q]) - off[p] * off[q], 8)
mu, w, hat = (A[1][1] / A[0][0]) ** 2, [3, 0, 1], [3, 0, 1]  # mu is 0 for every w, so gamma -> 0
for _ in range(4):
    w, hat = [A[k][k] * w[k] for k in range(3)], [(A[k][k] - A[2][2]) * hat[k] for k in range(3)]
    print("w ~ (1, 0,", f"{float(w[2] / w[0]):.2f});", "A - lambda_min I:", hat[2] / hat[0])
assert mu == A[1][1] == 0 < A[0][0] < -A[2][2]
assert abs(w[2] / w[0]) > Fraction(1, 2) and hat[2] == 0
