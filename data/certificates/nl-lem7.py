# Lemma 7, App. G: 1 - d_t <= mu_t (1 - c_t), where c_t > 0 and lambda_1(t) > 0
from itertools import product
from math import sqrt

over = {}  # A = diag(1, l_2, l_3), w = (c, s, s): 1 - d and mu (1 - c)
for c, second, third in product((0.1, 0.5, 0.9, 0.99), range(10), range(-9, 10)):
    s, l2, l3 = sqrt((1 - c**2) / 2), second / 9, third / 9
    d = c / sqrt(c**2 + (l2 * s) ** 2 + (l3 * s) ** 2)
    over[c, second, third] = 1 - d, (1 + c) / (2 * c**2) * l2**2 * (1 - c)
for what, at in (("printed", (0.9, 0, -9)), ("corrected, |l_3| <= l_2", (0.9, 9, -9))):
    low, high = over[at]
    print(f"{what}: at {at[1] / 9:.0f}, {at[2] / 9:.0f}, c = {at[0]}: {low:.3f} <= {high:.3f}")
assert over[0.9, 0, -9][0] > 0.05 and over[0.9, 0, -9][1] == 0
assert all(a <= b + 1e-12 for (_, l2, l3), (a, b) in over.items() if abs(l3) <= l2)
