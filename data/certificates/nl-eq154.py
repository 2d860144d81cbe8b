# Eqs. 152-154, App. C.3: a constant epsilon_1 against the flow of Eq. 15, with the projection
from math import cos, hypot, pi, sin

ends, plane = [], [(cos(k * pi / 400), sin(k * pi / 400), 0) for k in range(2, 200, 4)]
for c in (0.3, 1.5):  # b_1 = b + c, b = 1.2; one start with d = 3, the others with d = 2
    for y in ((1e-6, 0.1, -(0.99**0.5)), (0.6, 0.8, 0), *plane):
        for _ in range(900):  # Eq. 146 in steps of 1/20, then back to the sphere
            y = [v + (v + 1.2 + (c, 0, 0)[k]) * v / 20 for k, v in enumerate(y)]
            y = [v / hypot(*y) for v in y]
        ends.append(y.index(max(y)) + 1)
one, two, *rest = ends
errors = sum((x + 0.3 < y) != (end == 2) for (x, y, _), end in zip(plane, rest))
print(f"printed: a constant; one start, where u_{one} wins, asks for less than 0.1, one for 0.2")
print(f"corrected: d = 2, epsilon_1 = c errs on {errors} of 50 starts; c > 1: u_1 always wins")
assert one == 2 and two == 1 and errors == 0 and set(rest[50:]) == {1}
