# Theorem 6, Sec. 6.1.2: o_mu in V_{z_0}[E[f | z_0]] = o_mu a a^T; the chain z_0 -> z_mu -> z_nu = f
from itertools import product

root, upper, lower = 0.0, 0.9, 0.5  # rho_0, rho_0mu, rho_mu nu: polarities
mean = [0.0, 0.0]  # E[f | z_0]
for z0, zm, f in product((0, 1), repeat=3):
    chance = (1 + upper * (1 if zm == z0 else -1)) / 2 * (1 + lower * (1 if f == zm else -1)) / 2
    mean[z0] += chance * f
p = (1 + root) / 2  # P(z_0 = 1)
variance = p * (1 - p) * (mean[1] - mean[0]) ** 2
a = lower * 0.5  # rho_mu nu s, s = (v(1) - v(0)) / 2
print(f"enumerated: {variance:.6f}")
print(f"printed, 1 - rho_0mu^2: {(wrong := upper**2 * (1 - upper**2) * a**2):.6f}")
print(f"corrected, 1 - rho_0^2: {(right := upper**2 * (1 - root**2) * a**2):.6f}")
assert abs(right - variance) < 1e-12 and abs(variance / wrong - 1 / 0.19) < 1e-9
