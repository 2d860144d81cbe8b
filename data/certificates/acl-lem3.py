# Sec. 5.1 with Lemma 3, and Theorem 5: on |w| = 1 the negative weights of a ReLU node are not inert
from math import cos, hypot, pi, sin

# x[i] = e_i, x[i'] = g e_i, i = 1, 2, alpha_ij = 1: X_alpha = 2 [[1, -1], [-1, 1]] - (g - 1)^2 I
grid = [(cos(k * pi / 200), sin(k * pi / 200)) for k in range(101)]
best = max(2 * (a - b) ** 2 - 4 * (a * a + b * b) for a, b in grid)  # g = 3
print("printed: of w >= 0 the best has E =", round(best, 3), "but (-1, 0), with outputs 0, has 0")
for g, said in ((3, "printed: E < 0"), (1, "corrected: E > 0")):
    a, b = 0.8, -0.6  # b < 0 is read as 0 and gets no gradient; then back to norm 1
    E = (2 - (g - 1) ** 2) * a * a
    for _ in range(5000):
        a += 0.01 * (2 - (g - 1) ** 2) * a
        a, b = a / hypot(a, b), b / hypot(a, b)
    print(said, "at (0.8, -0.6), which ends at", (round(a, 3), round(b, 3) + 0.0))
    assert best < 0 and (a > 0.999) == (b > -0.001) == (E > 0) == (g == 1)
