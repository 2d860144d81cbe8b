# Eq. 12, Sec. 4.2: its maximiser does not maximise the energy of l2-normalised outputs
from sympy import Matrix, Rational, diag, eye, simplify, sqrt

E, corners = [], ((2, 0), (-1, sqrt(3)), (-1, -sqrt(3)))  # a triangle, stretched by 1.1
x = [diag(Rational(11, 10), 1) * Matrix(c) / 2 for c in corners]  # x[i'] = x[i], alpha_ij = 1
X = sum([(a - b) * (a - b).T for a in x for b in x], diag(0, 0))
for W in (diag(1, 0), eye(2) / sqrt(2)):  # L = 1: the maximiser of Eq. 12, and another W
    z = [W * v for v in x]
    both = z, [v / v.norm() for v in z]  # plain outputs, normalised outputs
    E += [simplify(sum((a - b).norm() ** 2 for a in out for b in out)) for out in both]
print("printed: normalised outputs: E =", E[1], "at Eq. 12's maximiser,", E[3].n(5), "at I/sqrt(2)")
print("corrected: plain outputs, as in Eq. 12: E =", E[0].n(5), "and", E[2].n(5))
assert X.is_diagonal() and X[0, 0] > X[1, 1]  # so each maximiser has normalised outputs +-v
assert E[1] == 16 < 17.9 < E[3] and E[0] == X[0, 0] > E[2] == X.trace() / 2
