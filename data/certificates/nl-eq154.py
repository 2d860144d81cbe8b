# Eqs. 152-154, App. C.3: the event with a constant epsilon_1 against the critical times, Eq. 150
import numpy as np

b, c, grid = 1.2, 1.0, (np.arange(400) + 0.5) / 400
y1, y2 = np.meshgrid(grid, grid)  # positive starts; b_1 = b + c, b_2 = b
first = np.log1p((b + c) / y1) / (b + c) < np.log1p(b / y2) / b  # u_1 is the first to blow up
wrong = [np.mean((y1 + epsilon >= y2) != first) for epsilon in np.arange(200) / 200]
print(f"printed: a constant epsilon errs on {min(wrong):.3f} of these starts at the least")
own = b / ((1 + (b + c) / grid) ** (b / (b + c)) - 1)  # Y_1 + epsilon_1(Y_1)
errors = np.sum((own >= y2) != first)
print(f"corrected: epsilon_1(Y_1) errs on {errors}; it is", *(own - grid)[[0, 40, 399]].round(3))
t = [np.log1p(2.2 / 1e-4) / 2.2, np.log1p(1.2 / 0.2) / 1.2]  # at y = (0.0001, 0.2)
print("  at Y_1 = 0.00125, 0.10125, 0.99875; Y = (0.0001, 0.2) has t* =", np.round(t, 2))
assert min(wrong) > 0.03 and errors == 0 and t[0] > t[1] + 2
