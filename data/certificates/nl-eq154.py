# Eqs. 152-154, App. C.3: the event with a constant epsilon_1 against the critical times, Eq. 150
import numpy as np

b, c, grid = 1.2, 1.0, (np.arange(400) + 0.5) / 400
y1, y2 = np.meshgrid(grid, grid)  # positive starts; b_1 = b + c, b_2 = b
first = np.log1p((b + c) / y1) / (b + c) < np.log1p(b / y2) / b  # u_1 is the first to blow up
wrong = [np.mean((y1 + epsilon >= y2) != first) for epsilon in np.arange(200) / 200]
own = b / ((1 + (b + c) / grid) ** (b / (b + c)) - 1)  # Y_1 + epsilon_1(Y_1)
errors, own_epsilon = np.sum((own >= y2) != first), own - grid
print(f"printed: epsilon_1 constant; every one errs on {min(wrong):.3f} of the starts or more")
print(f"corrected: epsilon_1(Y_1), {own_epsilon[0]:.3f} at {grid[0]:.3f}, errs on {errors} starts")
assert min(wrong) > 0.03 and errors == 0 and own_epsilon[0] < own_epsilon[-1] / 10
