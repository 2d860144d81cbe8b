# Eq. 148, App. C.3: with the projection of Eq. 15 the least critical time is not the only winner
import numpy as np

angle = np.append(np.arctan2(0.8, 0.6), (np.arange(200) + 0.5) * np.pi / 400)
for c in (0.0, 0.5):  # b_1 = 1.7 with modulation of u_1
    b, y = np.array([1.2 + c, 1.2]), np.stack([np.cos(angle), np.sin(angle)], 1)
    times = np.log1p(b / y) / b  # t* of Eq. 150
    for _ in range(5000):
        y = y + 0.01 * (y + b) * y  # Eq. 146, then back to the sphere
        y /= np.linalg.norm(y, axis=1, keepdims=True)
    least, wins = times[:, 0] < times[:, 1], y[:, 0] > y[:, 1]
    assert wins[least].all() and (201 > wins.sum() > least.sum() if c else (wins == least).all())
print("printed: the least t* wins; t* =", *times[0].round(3), "at (0.6, 0.8), but w goes to u_1")
print(f"corrected: of 201 starts u_1 wins the {least.sum()} with t_1* least, {wins.sum()} in all")
assert times[0, 0] > times[0, 1] + 0.02 and y[0, 0] > 0.999
