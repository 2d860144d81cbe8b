# Abstract, Sec. 4: "the answer is yes": an update under InfoNCE need not amplify; f = w x at w = 1
from itertools import product
from math import exp

views = [[s + off for off in (-1.0, 1.0)] for s in (0.1, -0.1)]  # two samples, two views each
move, simple, count = 0.0, 0.0, 0  # -dL/dw by the first tower's w, H = tau = 1
for i, j in product((0, 1), repeat=2):  # the anchor's sample, the negative's
    for x, plus, minus in product(views[i], views[i], views[j]):
        F = 1 / (1 + exp(((x - minus) ** 2 - (x - plus) ** 2) / 2))  # -dL/dr_- = dL/dr_+
        move += F * (x * (x - minus) - x * (x - plus))
        simple += x * (x - minus) - x * (x - plus)  # L_simp: F = 1
        count += 1
print(f"printed: w grows; it moves by {move / count:.3f} under InfoNCE")
print(f"corrected: that is but for theta; under L_simp, without theta, by {simple / count:.3f}")
assert move < 0 < simple
