# Sec. 5, Eqs. 68-69: theta_Omega is a fixed point only if all salient |Delta| are equal
from sympy import Matrix, Rational, diag, ones, sqrt

flows = {}  # K = 2 fields of one feature, p_0 = p_1 = 1/2; W_1 = diag(w), W_2 = s^T
for name, D in {"printed": Matrix([2, 1]), "corrected": Matrix([1, 1])}.items():  # D is Delta
    w, s, flows[name] = ones(2, 1) / sqrt(2), D / D.norm(), []
    for f in (0, Rational(1, 4)):  # weak and strong: D_aug = diag(D_V) + f diag^2(Delta)
        X = D * D.T / 4 - f * diag(D[0] ** 2, D[1] ** 2)
        pulls = (w, diag(*s) * X * diag(*s) * w), (s, diag(*w) * X * diag(*w) * s)
        flows[name] += [list(p - u * u.dot(p)) for u, p in pulls]  # along |w| = |s| = 1
    print(f"{name}: Delta = {list(D)}, flow of W_1, W_2: weak {flows[name][:2]}", end=", ")
    print("strong", flows[name][2:])
assert flows["corrected"] == [[0, 0]] * 4
assert all(any(v != 0 for u in flows["printed"][k : k + 2] for v in u) for k in (0, 2))
