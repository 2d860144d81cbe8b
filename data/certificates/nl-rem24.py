# Sec. 3: BatchNorm at a node holds |w| = 1, but Eq. 5 is not what the node then maximises
from math import cos, fsum, hypot, pi, sin

x, found = [(2, 0), (-2, 0), (0, 1), (0, -1)], {}  # alpha = 1, no augmentation; ReLU
for what in ("corrected: of w / |w|", "printed: with BatchNorm"):
    found[what] = []
    for k in range(8):
        w = 3 * cos(k * pi / 8), 3 * sin(k * pi / 8)
        f = [max(a * w[0] + b * w[1], 0) for a, b in x]
        f = [v - fsum(f) / 4 for v in f]
        size = hypot(*f) / 2 if "Batch" in what else hypot(*w)  # the deviation; the norm
        found[what].append(round(fsum(v**2 for v in f) / size**2 / 4, 3))
    print(what, "C[f_k] at eight angles of w:", found[what])
assert set(found.pop(what)) == {1} and found.popitem()[1][:3] == [0.75, 0.579, 0.344]
