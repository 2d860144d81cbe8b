# After Theorem 6, Sec. 6.1.2: larger operators at the top, hence faster training there
from fractions import Fraction
from itertools import product

p = (Fraction(1, 10), Fraction(9, 10))  # P(child = 1 | parent); z_0 -> 2 latents -> 2 leaves each
for W in ([[2, 3], [2, -1], [-1, 3]], [[1, 1], [1, 1], [1, 1]]):  # of the root, of both latents
    pairs = [(x, y, p[x] * p[y] - p[-1 - x] * p[-1 - y]) for x, y in product((0, 1), repeat=2)]
    live = [[(x, y, q) for x, y, q in pairs if a * x + b * y > 0] for a, b in W]  # open gates
    e = [[sum(q * (x, y)[k] for x, y, q in live[m]) for k in (0, 1)] for m in (1, 2)]
    gap = [W[m][0] * e[m - 1][0] + W[m][1] * e[m - 1][1] for m in (1, 2)]  # E[f_m|1] - E[f_m|0]
    D = (p[1] - p[0]) ** 2 * (W[0][0] * gap[0] + W[0][1] * gap[1]) / 4
    step = [[D * g for g in gap], *([D * W[0][m] * s for s in e[m]] for m in (0, 1))]
    grown = [sum(w * s for w, s in zip(W[m], step[m])) for m in range(3)]  # vec(W) . OP vec(W)
    print("W", W, "growth of levels:", grown[0], grown[1] + grown[2], "groups:", *map(str, grown))
    assert grown[0] == grown[1] + grown[2] > 0 and grown[0] > max(grown[1:])
