# Table 1, MINE and Lifted Structured: the rows are other losses than those of the sources
from math import exp, log, sqrt

mine, mended = [], []  # row minus source, N = 3 on a line, equal views; mended: a log per anchor
for x in ((0, 0, 0), (0, 1, 3)):
    e = [[exp(-((a - b) ** 2) / 2) for j, b in enumerate(x) if j != i] for i, a in enumerate(x)]
    row = sum(log(sum(r)) for r in e)
    mine.append(round(row - 3 * log(sum(map(sum, e)) / 6), 4))  # 3: slope in the second views
    mended.append(round(row - sum(log(sum(r) / 2) for r in e), 4))
lifted = [2 * max(0, log(4) + 1 - d) ** 2 for d in (1, 1.5, 2, 3)]  # N = 2 at distance d, source
roots = [sqrt(v) for v in lifted]  # the row's, factor f: those of 2 f [eps - d^2/2]_+^2
print("printed: MINE row - 3 source:", mine, "Lifted source:", [round(v, 4) for v in lifted])
print("corrected: MINE row - source, one logarithm for each anchor:", mended)
assert mine[0] - mine[1] > 0.1 and mended[0] == mended[1] == round(3 * log(2), 4)
assert lifted[3] == 0 and abs(roots[0] - 2 * roots[1] + roots[2]) < 1e-12  # equal steps, not d^2's
