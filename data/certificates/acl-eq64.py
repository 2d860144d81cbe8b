# Eq. 64, App. A.3: W_2 of a critical point has rank 1 only where the eigenvalue is simple
from sympy import Matrix, diag, eye, ones, sqrt

W1, W2 = eye(3) / sqrt(3), Matrix([[sqrt(3), -sqrt(3), 0], [1, 1, -2]]) / sqrt(12)  # K = 3, d = 1
X = ones(3) / 4 - eye(3)  # p_0 = p_1 = 1/2, Delta = (1, 1, 1), strong half of Theorem 6, eta = 0
F, D = W1 * X * W1.T, Matrix([1, 1, 2])
E = (W2 * F * W2.T).trace()
pull = [*(W2.T * W2 * W1 * X - E * W1).diagonal(), *(W2 * F - E * W2)]  # Eq. 40 on Theta
simple = {v: len(w) for v, _, w in (W1 * (D * D.T / 4 - diag(1, 1, 4)) * W1.T).eigenvects()}
print("printed: W_2 of rank", W2.rank(), "is critical: the sides of Eq. 40 differ by", *pull)
print("corrected: W_2 F = E W_2 puts the rows of W_2 in one eigenspace, of dimension", end=" ")
print(len((F - E * eye(3)).nullspace()), "here; for Delta = (1, 1, 2) of", *simple.values())
assert W2.rank() == 2 and W1.norm() == W2.norm() == 1 and not any(pull)
assert len((F - E * eye(3)).nullspace()) == 2 and list(simple.values()) == [1, 1, 1]
