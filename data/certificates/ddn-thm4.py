# Theorem 4, Sec. 4 and App. B.4: with one view each, sigma_aug = 0, and the residue is not 0
from sympy import Matrix, Rational, exp, sqrt, zeros

theta, F = [], lambda r: 1 / (1 + exp(r))  # InfoNCE, H = tau = 1: -dL/dr_- where r_+ = 0
e, ratio = Matrix([0, 1]), []  # f = x, K = x (x) I; samples e, -e; views v, -v
for v in [Matrix([1, 1])] + [Matrix([0, 1 + Rational(1, 2**n)]) for n in range(12)]:
    theta.append(zeros(2))  # E[F K(x_1) (K(x_+) - K(x_-))^T] - 1/2 V^xi[K_bar(x) - K_bar(x')]
    for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        gap, far = (a - b) * v, (a - b) * e
        term = F(gap.dot(gap) / 2) * a * v - F(far.dot(far) / 2) * gap / 2
        theta[-1] += term * gap.T / 4
    ratio.append(theta[-1].norm() / ((v - e).norm() / sqrt(2) + (v - e).norm() ** 2))
print("printed: v = (1, 1): O(0), but theta =", theta[0][0].n(3), "v v^T (x) I")
print("corrected: |theta| / E[sqrt(r) c_0 + c_0^2], as v -> e:", *(q.n(3) for q in ratio[1::4]))
assert theta[0][0] < -0.1 and ratio[-1] > 0.59 and max(ratio) < 0.6
