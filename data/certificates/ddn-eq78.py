# Eq. 78, App. B.4: E|f(x_1) - f(x)|^2 is the variance of the views plus the square of c_0(x)
import numpy as np

F, rows = lambda r: 1 / (1 + np.exp(r)), []  # InfoNCE, H = tau = 1, at r_- = r, r_+ = 0; |F'| < 1
for a, b, *f in [(0, 0, 1, 1, -1, -1), *np.ndindex(2, 2, 4, 4, 4, 4)]:
    v, u = np.array(f).reshape(2, 2)  # outputs are numbers: a of x, b of x', and two views of each
    c_0, braces = np.array([a - v.mean(), b - u.mean()]), v.var() + u.var()
    braces += abs(a - b) * (v.std() + u.std() + np.abs(c_0).sum())  # as printed
    moved = np.abs((v[:, None] - u) ** 2 - (a - b) ** 2).mean() / 2  # E|r_- - r_-^0|
    rows.append((moved, braces, braces + (c_0**2).sum()))
left, printed, mended = F(0) - F(2), *rows[0][1:]  # f = 0 at x and x', one view each, 1 and -1
print(f"printed: f = 0 at x, x', 1 and -1 at their views: {left:.3f} is at most {printed:.0f}")
print(f"corrected: with c_0(x)^2 + c_0(x')^2 in the braces: {left:.3f} is at most {mended:.0f}")
assert left > 0.38 and printed == 0
assert all(moved <= corrected + 1e-9 for moved, _, corrected in rows)
