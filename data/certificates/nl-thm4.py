# Theorem 4, Eq. 14: co-linear gradients of a field's linear filters, with the projection of Eq. 12
from sympy import Matrix, Rational, diag, eye, simplify, sqrt

C, w = diag(2, 1), (Matrix([1, 0]), Matrix([3, 4]) / 5)  # V[x_1]; two unit filters, K = 1
f = Matrix(2, 2, lambda i, j: (w[i].T * C * w[j])[0])  # V[f_1]
top = max(f.eigenvals(), key=lambda value: value.n())
s = Matrix([f[0, 1], top - f[0, 0]]) / sqrt(f[0, 1] ** 2 + (top - f[0, 0]) ** 2)  # V is fast
b = C * (s[0] * w[0] + s[1] * w[1])
free = Matrix.hstack(*(s[m] * b for m in (0, 1)))
held = Matrix.hstack(*(s[m] * (eye(2) - w[m] * w[m].T) * b for m in (0, 1)))  # Eq. 12
print("printed, unit filters: determinant of the two velocities", simplify(held.det()).n(3))
print("corrected, free norms:", free.det().n(3, chop=True), "; velocities", free.n(3).tolist())
assert simplify(free.det()) == 0 and abs(held.det().n()) > Rational(1, 10)
