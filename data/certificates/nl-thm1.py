# Theorem 1, Sec. 3.2: an LME with gap > rho = 0 that the flow of Eq. 7 leaves, as A jumps there
from sympy import Matrix, Rational, diag, ones

near = [Matrix([n * n - 1, 2 * n]) / (n * n + 1) for n in (20, -20, 200, -200)]  # around e_1
for form, off in (("printed: stable if gap > rho", 0), ("corrected: where A is continuous", 1)):
    x = Matrix([[20 + off, -24], [10 * off - 200, -240], [off, 9], [off, -9]]) / 20
    A = []  # leaky ReLU, slope 1/10, h'(0) = 1; alpha = 1; points on x_1 = 0 (A jumps) or off it
    for w in (Matrix([1, 0]), *near):
        gated = diag(*[1 if drive >= 0 else Rational(1, 10) for drive in x * w]) * x
        A.append(gated.T * gated / 4 - gated.T * ones(4) * gated / 16)
    rough = max((B - A[0])[:, 0].norm() for B in A)  # |(A(v) - A(e_1)) e_1|
    back = [(Matrix([[-v[1], v[0]]]) * A[k] * v)[0] * v[1] < 0 for k, v in enumerate(near, 1)]
    print(f"{form}; gap = {A[0][0] - A[0][3]}, rho = {rough}, near v return: {back}")
    assert A[0][1] == rough == 0 < A[0][0] - A[0][3]
    assert all(back) == all(A[0] == B for B in A) == bool(off)
