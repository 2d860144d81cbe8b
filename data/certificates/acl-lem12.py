# Lemma 12, its proof after Eq. 124: a row across v' is critical in Eq. 123, and is not zero
from sympy import Matrix, cos, diff, eye, pi, sin, sqrt, symbols

a, b = symbols("a b", real=True)
v = Matrix([1, 0])
W = Matrix([[cos(a), sin(a)], [cos(b), sin(b)]]) / sqrt(2)  # rows of norm 1/sqrt(2)
J2 = (W * v).dot(W * v)
at = {a: 0, b: pi / 2}
found, Lambda = W.subs(at), Matrix([[1, 0], [0, 0]])
slopes = [diff(J2, s).subs(at) for s in (a, b)]
print("at rows", found.tolist(), "the slopes of |Wv|^2 are", slopes, "and Lambda is diag(1, 0)")
print("in b the second derivative there is", diff(J2, b, 2).subs(at), "> 0: no maximum")
assert slopes == [0, 0] and found * v * v.T == Lambda * found and found.row(1).norm() > 0
assert diff(J2, b, 2).subs(at) > 0
assert [W.subs({a: 0, b: s}) * v * v.T - W.subs({a: 0, b: s}) for s in (0, pi)] == [0 * eye(2)] * 2
