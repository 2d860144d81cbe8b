# Expansion of W_t^o M, App. C.1: the product of lambda_i - c_i starts at i = j + 1, not at j
from sympy import expand, prod, symbols

A0, B0, lam, c = *symbols("A0 B0"), symbols("lambda:4"), symbols("c:4")
A, B = A0, B0  # A_t = W_t^o M, B_t = W_t^t M
minus, plus = ([x + sign * y for x, y in zip(lam, c, strict=True)] for sign in (-1, 1))
for t in (1, 2, 3, 4):
    A, B = lam[t - 1] * A + c[t - 1] * B, lam[t - 1] * B + c[t - 1] * A
    sums = [[c[j] * prod(minus[j + k : t] + plus[:j]) for j in range(t)] for k in (0, 1)]
    off = [expand(A - prod(minus[:t]) * A0 - sum(terms) * (A0 + B0)) for terms in sums]
    assert off[0] != 0 and off[1] == 0
    if t == 1:
        print("printed: C_2,1 =", *sums[0], "but the step gives W_1^o M =", A)
print("corrected: from j + 1, C_2,1 = c0, and the expansion is right for t = 1, ..., 4")
assert expand(2 * sum(sums[1]) - prod(plus) + prod(minus)) == 0
