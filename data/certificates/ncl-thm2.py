# Theorem 2, Sec. 5.2.1: a rate far below 1 alone does not put C_1,t in (0, 1); p = d = m = 1
from fractions import Fraction as F

slope, ends = 2 * F(1, 4) * (F(1, 2) + F(1, 4)), []  # 2 alpha^2 (2 p_z + sigma_0^2), c = eta slope
for eta in (F(1, 100), F(1, 10**4), F(1, 10**6)):
    decays = [F(99, 100)] * 3 + [eta / 10] + [F(99, 100)] * 4  # lambda_t
    for rates in ([eta] * 8, [min(eta, decay / slope / 2) for decay in decays]):
        online, target = F(1), F(0)  # W_0^o M, W_0^t M: then C_2 = W_t^t M, C_1 = W_t^o M - C_2
        for c, decay in zip([rate * slope for rate in rates], decays, strict=True):
            online, target = decay * online + c * target, decay * target + c * online
        ends.append((online - target, target))
print(f"printed: C_1,8 = {float(ends[0][0]):.4f} < 0 at eta = 0.01, lambda = 0.99 but once 0.001")
print(f"corrected: {float(ends[1][0]):.5f} with c_t < lambda_t, by a smaller eta_t in that step")
assert all(own < 0 < shared for own, shared in ends[::2])
assert all(0 < own < 1 and shared > 0 for own, shared in ends[1::2])
