# Eq. 64, App. A.3: W_2 of a critical point has rank 1 only where the eigenvalue is simple
from sympy import GramSchmidt, Matrix, Rational, diag, zeros

D, w = Matrix([20, 10, 7]) / 10, Matrix([6, 5, 3])  # K = 3, d = 1, Delta; W_1 = diag(w)
W1, X = diag(*w) / w.norm(), Rational(1, 4) * D * D.T  # weak half of Theorem 6, p_0 = p_1 = 1/2
a = W1 * D
rows = GramSchmidt([Matrix([a[1], -a[0], 0]), Matrix([a[2], 0, -a[0]])], True)  # orthogonal to a
W2, F = Matrix.hstack(*rows).T / 2 ** Rational(1, 2), W1 * X * W1.T
E = (W2 * F * W2.T).trace().simplify()
pull = [*(W2.T * W2 * W1 * X - E * W1).diagonal(), *(W2 * F - E * W2)]  # Eq. 40 on Theta
size = {v: len(space) for v, _, space in F.eigenvects()}  # W_2 F = E W_2: rows in one eigenspace
print("printed: W_2 of rank", W2.rank(), "is critical: E and the sides of Eq. 40:", E, *pull)
print("corrected: eigenvalues of W_1 X W_1^T:", *size, "of multiplicity", *size.values())
assert W2.rank() == 2 and (W2 * W2.T).trace() == 1 and W2 * a == zeros(2, 1) and not any(pull)
assert list(size.values()) == [2, 1] and E == 0
