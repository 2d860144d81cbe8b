# Eq. 71, App. B.4: the signs of the derivatives of F = -dL/dr_-, InfoNCE with H = 1
from sympy import Rational, diff, exp, log, simplify, symbols

plus, minus, tau = symbols("r_+ r_- tau", positive=True)
loss = -log(exp(-plus / tau) / (exp(-plus / tau) + exp(-minus / tau)))
F = -diff(loss, minus)  # Eq. 70
rise = F * (1 / tau - F)
at = {plus: 1, minus: 1, tau: 1}
print("at r_+ = r_-, tau = 1: F =", F.subs(at), "; printed dF/dr_+ =", -rise.subs(at))
print("corrected dF/dr_+ =", diff(F, plus).subs(at), ", dF/dr_- =", diff(F, minus).subs(at))
assert simplify(diff(F, plus) - rise) == 0 == simplify(diff(F, minus) + rise)
assert rise.subs(at) == Rational(1, 4)
