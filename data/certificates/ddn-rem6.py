# Sec. 5, display after Assumption 1: views that keep z_0 but do not redraw z' given z_0
from fractions import Fraction as Q

import numpy as np

d, tr = 8, {}  # Eq. 11: a ring, z_0 and z' uniform; arrays are [z_0, z', entry of K]
x = np.array([[[Q(i in (z, (z + k) % d)) for i in range(d)] for z in range(d)] for k in (1, 2)])
relu = x[..., :2].min(2, keepdims=True) * np.array([1, 1])  # behind a window, open to 11 alone
for form, moves in (("printed: z' moves by one", (1, -1)), ("corrected: z' is redrawn", range(d))):
    tr[form[:7]] = []  # of V_x[K_bar] and of V_z0[K_bar], linear and ReLU
    for K in (x, relu):
        for K_bar in (sum(np.roll(K, m, 1) for m in moves) / len(moves), K.mean(1, keepdims=True)):
            tr[form[:7]].append(str(((K_bar - K_bar.mean((0, 1))) ** 2).mean((0, 1)).sum()))
    print(form + ": tr V_x = tr V_z0? {}, {} (linear), {}, {} (ReLU)".format(*tr[form[:7]]))
assert list(tr.values()) == [["3/4", "0", "7/128", "1/128"], ["0", "0", "1/128", "1/128"]]
