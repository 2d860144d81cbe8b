# Sec. 4, after Assumption 2: a feature of alpha couples fields that are independent given z
from sympy import Rational, exp, simplify

for form, joint in (("printed: any kernel", 2), ("corrected: product features", 0)):
    # Given z the outputs f_11 = a, f_21 = b are 0 or 1, all four states alike. phi_0 of Lemma 1,
    # tau = 1, is exp(-(a + b)^2 / 2) for g = f_11 + f_21, and a product for g = (f_11, f_21).
    size = {(a, b): a * a + joint * a * b + b * b for a in (0, 1) for b in (0, 1)}
    phi = {state: exp(-Rational(s, 2)) for state, s in size.items()}
    law = {state: weight / sum(phi.values()) for state, weight in phi.items()}  # Def. 2, given z
    both, apart = law[1, 1], (law[1, 0] + law[1, 1]) * (law[0, 1] + law[1, 1])
    equal = simplify(both - apart) == 0
    print(f"{form}; both 1 given z: {both.n(3)}; product {apart.n(3)}; independent: {equal}")
    assert equal if joint == 0 else apart - both > Rational(4, 100)
