# Eq. 9, Sec. 5: a row of norm 1 that recovers the latent need not have c = 1 where p > d
from fractions import Fraction

M, W = (1, 0), (Fraction(3, 5), Fraction(4, 5))  # p = 2, d = 1: M's one column; W^o, one row
norm = sum(w * w for w in W)
h = [max(0, sum(w * m * z for w, m in zip(W, M, strict=True))) for z in (0, 1)]  # ReLU(W^o M z)
print("printed: the row has norm", norm, "and ReLU(W^o x) = c z with c =", h[1])
inside = [sum(w * m for w, m in zip(W, M, strict=True)) * m for m in M]  # its part along M
unit = [v / inside[0] for v in inside]
c = sum(w * m for w, m in zip(unit, M, strict=True))
print("corrected: a row in the span of M, here", tuple(map(int, unit)), "has c =", c)
assert norm == 1 and h == [0, Fraction(3, 5)] and c == 1
