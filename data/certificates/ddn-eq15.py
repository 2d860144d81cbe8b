# Eq. 15, Sec. 6.1.2: one update multiplies a lucky node's a . w by 1 + alpha o_mu |a|^2 > 1
from fractions import Fraction as F

w, J, a = [F(1), F(3)], [1, -1], F(1, 2)  # f = relu(w_1 x_1) - relu(w_2 x_2); alpha = 1, J J = 1
x = [(0, 0), (1, 1)]  # both leaves show the fair root: rho = 1, s_k = a_k = 1/2
mean = [sum(j * max(0, v * leaf) for j, v, leaf in zip(J, w, leaves)) for leaves in x]
gap = (mean[1] - mean[0]) / 2  # of the output
new = w[0] + gap * J[0] * (x[1][0] - x[0][0]) / 2  # OP_l vec(W_l) = Cov_{z_0}[K_1, f], Theorem 3
o = 1  # rho_0mu^2 (1 - rho_0^2); that of Theorem 6 as printed would be 0 here
other = J[0] * J[1] * w[1] * a  # the other group of the level: J_mu^T J_nu W_nu a_nu
printed = (1 + o * a**2) * a * w[0]
print("a . w before:", a * w[0], "after:", a * new)
print("printed:", printed, "with the other group:", printed + a**2 * other)
assert a * new == printed + a**2 * other < a * w[0] < printed
