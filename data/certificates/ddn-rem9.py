# Remark after Eq. 165, App. C.4: leaves are selective by definition, |s_k| = 1
from fractions import Fraction

up = Fraction(9, 10)  # P(z_k = z_mu) of a leaf k below mu
for low in (0, -1):  # leaves that show z_k in {0, 1}, as in Sec. 6.1, or 2 z_k - 1 in {-1, 1}
    v = (low, 1)  # E[v_k | z_k]
    s = Fraction(v[1] - v[0], 2)
    mean = [up * v[z] + (1 - up) * v[1 - z] for z in (0, 1)]  # E[v_k | z_mu]
    assert (mean[1] - mean[0]) / 2 == (2 * up - 1) * s  # a_k = rho_mu,k s_k of Eq. 121
    print(f"leaves in {v}: s_k = {s}, u >= 0 of Eq. 147 is", low >= 0)
    assert s == (Fraction(1, 2) if low >= 0 else 1)
