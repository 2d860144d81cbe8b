# Definition 4, Sec. 3.3: omega << 1 near any locally maximal eigenvector (LME) of power iteration
from math import sqrt


def omega(second, L, c):  # Eq. 10 with lambda_1 = 1
    gap = 1 - second
    mu, kappa = 0.5 * (1 + c) / c**2 * (1 - gap) ** 2, 8 / gap**2
    return mu + 2 * kappa * L**2 * (1 + mu * c) + 2 * L / gap * sqrt(mu * (1 + mu * c))


print("A(w) = diag(1, 0.9), L = 0, at its LME (1, 0): omega =", round(at := omega(0.9, 0, 1), 12))
grid = [omega(0.005 * i, 0.0005 * k, 1 - 1e-6) for i in range(41) for k in range(31)]
print(f"corrected, lambda_2 <= 0.2 lambda_1 and L <= 0.015 lambda_1: omega <= {max(grid):.3f}")
assert abs(at - 0.81) < 1e-12 and max(grid) < 0.1
