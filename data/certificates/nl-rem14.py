# Sec. 4, after Lemma 4: with C[f_1] = diag(2, 1) and |V| = 1, V = v e_2^T is stationary, too
from sympy import Matrix, Rational, cos, diag, diff, pi, sin, symbols, zeros

angle = symbols("angle")
C, v = diag(2, 1), Matrix([Rational(3, 5), Rational(4, 5)])  # top eigenvector s = e_1
V = v * Matrix([[cos(angle), sin(angle)]])  # v s^T at angle 0, v e_2^T at pi / 2
velocity = V * C - (V.T * V * C).trace() * V  # Eq. 12, the norm of V held at 1
turning = (diff(V, angle).T * velocity).trace()  # d angle / dt
rests = [velocity.subs(angle, at) for at in (0, pi / 2)]
slopes = [diff(turning, angle).subs(angle, at) for at in (0, pi / 2)]
print("printed: stationary V has the form v s^T; at V = v e_2^T the velocity is", rests[1].tolist())
print("corrected: v s^T is the stable one; slopes of the flow at v s^T, v e_2^T:", slopes)
assert rests == [zeros(2), zeros(2)] and (V * C).subs(angle, 0) != zeros(2)
assert slopes[0] < 0 < slopes[1]
