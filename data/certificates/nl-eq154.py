# Eqs. 152-154, App. C.3: a constant epsilon_1 against the flow of Eq. 15, with the projection
import numpy as np

turn = (np.arange(400) + 0.5) * np.pi / 800  # starts with d = 2, and two with d = 3
ends, y0 = [], np.stack([np.cos(turn), np.sin(turn), 0 * turn], 1)
for c in (0.3, 1.5):  # b = 1.2, b_1 = b + c
    b, y = np.array([1.2 + c, 1.2, 1.2]), np.array([[1e-6, 0.1, -(0.99**0.5)], [0.6, 0.8, 0], *y0])
    for _ in range(8000):
        y = y + 0.01 * (y + b) * y  # Eq. 146, then back to the sphere
        y /= np.linalg.norm(y, axis=1, keepdims=True)
    ends.append(y.argmax(1) + 1)
errors, (one, two) = np.sum((y0[:, 0] + 0.3 < y0[:, 1]) != (ends[0][2:] == 2)), ends[0][:2]
print(f"printed: a constant; one start, where u_{one} wins, asks for less than 0.1, one for 0.2")
print(f"corrected: d = 2, epsilon_1 = c errs on {errors} of 400 starts; c > 1: u_1 always wins")
assert one == 2 and two == 1 and errors == 0 and all(ends[1] == 1)
