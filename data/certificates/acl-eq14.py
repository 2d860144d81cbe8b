# Eq. 14, Sec. 5.3: D_aug of one augmentation factor for all fields is not diagonal
from fractions import Fraction as Q
from itertools import product

D_aug = {}  # K = 2 fields of one feature, x = (1, 1), x' = (g_1, g_2), alpha_ij = 1/2N(N-1)
for name, factors in {
    "printed": [(Q(1, 2), Q(1, 2)), (Q(3, 2), Q(3, 2))],  # one gamma[i] for both fields
    "corrected": list(product((Q(1, 2), Q(3, 2)), repeat=2)),  # independent, of mean 1
}.items():
    gaps, beta = [(1 - a, 1 - b) for a, b in factors], Q(1, 2 * len(factors))
    D_aug[name] = [[str(sum(beta * g[k] * g[m] for g in gaps)) for m in (0, 1)] for k in (0, 1)]
    kind = "one factor for all fields" if name == "printed" else "a factor of its own for each"
    print(f"{name}: {kind}: sum_i beta_i (x - x')(x - x')^T =", D_aug[name])
assert D_aug["printed"] == [["1/8", "1/8"], ["1/8", "1/8"]]
assert D_aug["corrected"] == [["1/8", "0"], ["0", "1/8"]]
