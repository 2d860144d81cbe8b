# Sec. 3, "without loss of generality": with tied weights the first tower's part is another vector
from sympy import diff, symbols

w, w_1, w_2, x_1, x_2 = symbols("w w_1 w_2 x_1 x_2")
r = (w_1 * x_1 - w_2 * x_2) ** 2 / 2  # one linear neuron: f = w x, K = x
part = diff(r, w_1).subs({w_1: w, w_2: w})  # Eq. 40: the first tower's part
whole = diff(r.subs({w_1: w, w_2: w}), w)  # of the one matrix that both towers have
exchanged = part.subs({x_1: x_2, x_2: x_1}, simultaneous=True)
pair = [g.subs({x_1: 0, x_2: 1}) for g in (whole, part)]
print("printed: x_1 = 0, x_2 = 1: dr/dw = {}, the first tower's part is {}".format(*pair))
print("corrected: dr/dw =", whole.factor(), "= the part + that of the exchanged pair")
assert pair == [w, 0]
assert (whole - (x_1 - x_2) ** 2 * w).expand() == 0 == (whole - part - exchanged).expand()
