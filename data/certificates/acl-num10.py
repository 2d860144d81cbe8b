# Sec. 4.2: Eq. 37 without constraints can leave all norms bounded, from an open set of starts
from itertools import product

near = [*product((-0.05, 0, 0.05), (1.95, 2, 2.05), (0.05, 0.1, 0.15))]  # L = 2, widths 2-1-1
for name in ("printed", "corrected"):  # X = diag(1, -1)
    rises = grows = 0
    for a, b, v in near:  # W_1 = (a, b) near (0, 2), or with its entries exchanged; W_2 = v
        a, b = (a, b) if name == "printed" else (b, a)
        rises += (a * a - b * b) * v * v > 0  # the energy
        for _ in range(4000):  # steps of 1/200, while |W_1| < 1000
            if a * a + b * b < 1e6:
                a, b, v = a + v * v * a / 200, b - v * v * b / 200, v + v * (a * a - b * b) / 200
        grows += a * a + b * b >= 1e6
    print(f"{name}: energy > 0: {rises}, |W_1| > 1000: {grows} of {len(near)}")
    assert rises == grows == 27 * (name == "corrected")
