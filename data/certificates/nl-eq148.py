# Eq. 148, App. C.3: with the projection of Eq. 15 the least critical time is not the only winner
from math import cos, log1p, pi, sin

starts = [(0.6, 0.8), *((cos(k * pi / 400), sin(k * pi / 400)) for k in range(1, 200, 2))]
for b, d in ((1.2, 1.2), (1.7, 1.2)):  # b_1, b_2: without modulation, and with that of u_1
    times = [(log1p(b / x) / b, log1p(d / y) / d) for x, y in starts]  # t* of Eq. 150
    least, wins = [t < s for t, s in times], []
    for x, y in starts:
        while 0.01 < x < 0.99:  # Eq. 146 in steps of 1/100, then back to the sphere
            x, y = x + (x + b) * x / 100, y + (y + d) * y / 100
            x, y = x / (x * x + y * y) ** 0.5, y / (x * x + y * y) ** 0.5
        wins.append(x > y)
    assert wins == least if b == d else wins[0] and sum(least) < sum(wins) < 101
print("printed: the least t*; at (0.6, 0.8)", *(round(t, 3) for t in times[0]), "but u_1 wins")
print(f"corrected: of 101 starts u_1 wins the {sum(least)} with t_1* least, {sum(wins)} in all")
