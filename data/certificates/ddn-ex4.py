# Sec. 5.1, example 4: a ReLU neuron with a window of two pixels, selective for several patterns
from fractions import Fraction

d, found = 6, {}
for w in ((1, 1), (-1, 2)):  # 01, 10 and 11 are open; 01 and 11 are
    mean = []
    for shift in (1, 2):  # the objects 11 and 101 on a ring of d pixels
        seen = [[(z + k) % d in (0, shift) for z in (0, 1)] for k in range(d)]
        on = [x for x in seen if w[0] * x[0] + w[1] * x[1] > 0]
        mean.append([Fraction(sum(x[k] for x in on), d) for k in (0, 1)])  # E[K | z_0]
    gap = [mean[0][k] - mean[1][k] for k in (0, 1)]
    found[w] = [gap[k] * (gap[0] * w[0] + gap[1] * w[1]) / 4 for k in (0, 1)]  # OP w
    print(f"w = {w}: OP w = {[str(v) for v in found[w]]}; answer to 11: {sum(found[w])}")
print("printed: it grows for several; corrected: unless all that can open do, u_S^T w grows")
assert found[1, 1] == [0, 0] and sum(found[-1, 2]) < 0
