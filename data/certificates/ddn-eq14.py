# Sec. 6.1: where rho = 0 the posterior of z_0 given x "can only be uniform"; z_0 -> x, one leaf
from fractions import Fraction

found = {}
for rho_0 in (Fraction(3, 5), Fraction(0)):  # P(z_0 = 1) - P(z_0 = 0)
    one = (1 + rho_0) / 2  # P(z_0 = 1)
    for x in (0, 1):
        joint = [p * Fraction(1, 2) for p in (1 - one, one)]  # P(z_0, x): rho = 0, P(x | z_0) = 1/2
        found[rho_0, x] = joint[1] / sum(joint)
print("printed: 1/2; at P(z_0 = 1) = 4/5 it is", found[Fraction(3, 5), 0], "for x = 0 and x = 1")
print("corrected: at a fair root", found[0, 0], "; in general the prior")
assert found[Fraction(3, 5), 0] == found[Fraction(3, 5), 1] == Fraction(4, 5) != found[0, 1]
