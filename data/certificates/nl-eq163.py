# Eqs. 162-163, App. C.4: exchanging two linear filters does not keep b_k = 0, their mean does
from sympy import Matrix, Rational, expand, symbols

c = symbols("c")
s = Matrix([[4, 3]]) / 5  # V fixed; K = d = 1, C_alpha[x] = 1: b = s_1 w_1 + s_2 w_2 (Eq. 14)
w, exchanged = Matrix([3, -4]), Matrix([-4, 3])
mean = (s * w)[0] / sum(s) * Matrix([1, 1])  # both filters at (s_1 w_1 + s_2 w_2) / (s_1 + s_2)
printed, corrected = (expand((s * (c * w + (1 - c) * end))[0]) for end in (exchanged, mean))
print(f"printed: b_k = 0 along the path from w; it is {printed}, exchanged {(s * exchanged)[0]}")
print(f"corrected: b_k = {corrected} from w on to both filters at the weighted mean {mean[0]}")
assert (s * w)[0] == 0 and printed.subs(c, Rational(1, 2)) == Rational(-7, 10)
assert corrected == 0 and mean[0] == mean[1]
