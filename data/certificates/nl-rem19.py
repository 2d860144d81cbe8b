# Bullets after Eq. 155, App. C.3: P[E_l] >= epsilon_l / 2 holds up to epsilon_l = 1 only
from sympy import Min, Rational, integrate, symbols

y = symbols("y")
for eps in (Rational(0), Rational(1, 2), Rational(1), Rational(3, 2)):
    for d in (2, 5, 20):
        edge = max(0, 1 - eps)  # F(y + eps) is (1 + y + eps) / 2 below it, 1 above it
        P = (integrate(((1 + y + eps) / 2) ** (d - 1), (y, 0, edge)) + 1 - edge) / 2  # Eq. 154
        assert eps > 0 or d * P == 1 - Rational(1, 2) ** d  # no modulation
        assert eps > 1 or eps / 2 <= P
        assert Min(eps, 1) / 2 <= P
print(f"printed: P[E_l] >= epsilon_l / 2; for epsilon_l = {eps} that is {P} >= {eps / 2}, false")
print(f"corrected: P[E_l] >= min(epsilon_l, 1) / 2, here {P} >= {Min(eps, 1) / 2}")
print("printed, negative: at epsilon_l = -4, d = 3 P[E_l] = 0 <=", low := Rational(1 - 2) ** 3 / 3)
assert eps / 2 > P and low < 0
