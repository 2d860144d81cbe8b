# Sec. 3.1 after Eq. 2: SimCLR's loss is not Eq. 2 with epsilon = 0; on first views it has 1
from sympy import Matrix, exp, log, simplify

simclr, first, eps_0, eps_1 = [], [], [], []  # N = 2, tau = 1, z[i'] = z[i] of unit norm
for a, b in ((Matrix([1, 0]), Matrix(v)) for v in ([1, 0], [0, 1], [-1, 0])):
    for negatives, losses in ((2, simclr), (1, first)):  # views of the other sample
        losses.append(-2 * log(exp(1) / (exp(1) + negatives * exp(a.dot(b)))))
    for epsilon, losses in ((0, eps_0), (1, eps_1)):  # d_i = 0, d_12 = |a - b|^2 / 2
        losses.append(-2 * log(1 / (epsilon + exp(-((a - b).norm() ** 2) / 2))))
falls = [simplify(f[k] - f[k + 1]) for f in (eps_0, simclr) for k in (0, 1)]
print("printed: turning z[2] twice lowers Eq. 2 by", *falls[:2], end=", NT-Xent by ")
print(*(f.n(4) for f in falls[2:]))
print("corrected: first views minus Eq. 2, epsilon 1:", *simplify(Matrix(first) - Matrix(eps_1)))
assert falls[0] == falls[1] == 2 and falls[2] - falls[3] > 0.4
assert simplify(Matrix(first) - Matrix(eps_1)).is_zero_matrix
