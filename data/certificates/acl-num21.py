# "Why total variation?", Sec. 6.2: Eq. 18 tells an edge from a spot at equal norm in one envelope
from math import exp, hypot, pi, sin, sqrt

at = range(-3, 4)  # 7 x 7 pixels
spot = {(x, y): exp(-(x * x + y * y) / 8) for x in at for y in at}
edge = {(x, y): sin(2 * pi * x / 5) * v for (x, y), v in spot.items()}
norm = {name: sqrt(sum(v * v for v in w.values())) for name, w in (("spot", spot), ("edge", edge))}
for said, share in (("printed, at a quarter of the norm", 0.25), ("corrected, at equal norm", 1)):
    tv = []
    for w, size in ((edge, norm["edge"] / share), (spot, norm["spot"])):
        step = [(w.get((x + 1, y), v) - v, w.get((x, y + 1), v) - v) for (x, y), v in w.items()]
        tv.append(sum(hypot(*s) for s in step) / size)
    print(f"{said}: the edge detector has TV {tv[0]:.3f}, the spot {tv[1]:.3f}")
    assert (tv[0] > tv[1]) == (share == 1)
