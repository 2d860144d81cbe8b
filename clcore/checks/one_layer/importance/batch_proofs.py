"""Proofs on nl Sec. 2 and App. A.1, besides the draws: batches of a few samples and laws on a
few points, their values symbols. Every proof begins at Eq. 3, Eq. 1 or a sum over the law."""

from itertools import product

import sympy
from sympy import Matrix, Rational

from clcore.checks.one_layer.importance.limit_proof import averaged
from clcore.ledger import Part, exact

N, D = 3, 2
SIZES = f"n = {N}, d = {D}"
HALF = Rational(1, 2)
TAU = sympy.Symbol("tau", positive=True)
Views = tuple[Matrix, Matrix]
"""Both views of a batch, one sample per row."""


def views(name: str, d: int = D) -> Views:
    """Two views of N samples in d coordinates, all symbols."""
    return exact.matrix(name, N, d), exact.matrix(f"{name}2", N, d)


def contrast(alpha: Matrix, a: Views, b: Views, own: bool = True) -> Matrix:
    """Eq. 3; own: with i = j."""
    n, total = alpha.rows, sympy.zeros(a[0].cols, b[0].cols)
    for i, j in product(range(n), repeat=2):
        if own or i != j:
            inter = (a[0][i, :] - a[0][j, :]).T * (b[0][i, :] - b[0][j, :])
            intra = (a[0][i, :] - a[1][i, :]).T * (b[0][i, :] - b[1][i, :])
            total += alpha[i, j] * (inter - intra) / (2 * n**2)
    return total


def _square(row: Matrix) -> sympy.Expr:
    """Half of the squared norm, as d_ij^2 below nl Eq. 1."""
    return row.dot(row) / 2


ALPHA = exact.matrix("alpha", N, N)  # any importance of pairs


def eq3(part: Part) -> None:
    """alpha = 1 and one view per sample: the sample covariance over N, not N - 1."""
    a, ones = exact.matrix("a", N, D), sympy.ones(N, N)
    centred = a - ones * a / N
    ours = contrast(ones, (a, a), (a, a))
    part.proves(
        exact.equal(ours, centred.T * centred / N),
        breaks={"1/(N-1)": exact.equal(ours, centred.T * centred / (N - 1))},
        at=SIZES,
    )


def eq25(finite: Part, later: Part) -> None:
    """Eq. 3 over j != i is inter minus intra, each by its own sum; and what is taken from inter
    stays where each sample is moved with both of its views."""
    a, move, n = views("a", 1), exact.matrix("s", N, 1), N

    def parts(a: Views) -> tuple[sympy.Expr, sympy.Expr]:
        inter, intra = sympy.Integer(0), sympy.Integer(0)
        for i in range(n):
            others = [j for j in range(n) if j != i]
            own = (a[0][i] - a[1][i]) ** 2
            intra += sum(ALPHA[i, j] for j in others) / n * own / (2 * n)
            inter += sum(ALPHA[i, j] * (a[0][i] - a[0][j]) ** 2 for j in others) / (2 * n**2)
        return inter, intra

    inter, intra = parts(a)
    whole, kept = (contrast(ALPHA, a, a, own)[0] for own in (False, True))
    at = f"n = {n}, d = 1"
    broken = {
        "plus C^intra": exact.equal(whole, inter + intra),
        "i = j kept": exact.equal(kept, inter - intra),
    }
    finite.proves(exact.equal(whole, inter - intra), breaks=broken, at=at)
    there = a[0] + move, a[1] + move
    moved = parts(there)[0]
    later.proves(
        exact.equal(moved - contrast(ALPHA, there, there, False)[0], inter - whole),
        breaks={"the intra part is the inter part": exact.equal(moved, inter)},
        at=at,
    )


def infonce(far: Matrix, near: Matrix, eps: int) -> sympy.Expr:
    """Eq. 1 of the squared distances d_ij^2 and d_i^2."""
    e, own = ((-d / TAU).applyfunc(sympy.exp) for d in (far, near))
    value = sympy.Integer(0)
    for i in range(N):
        others = sum(e[i, k] for k in range(N) if k != i)
        value -= TAU * sympy.log(own[i] / (eps * own[i] + others))
    return value


def rem1(nce: Part, quadratic: Part) -> None:
    """Chain rule: the energy at held alpha is a sum over squared distances, and the loss has the
    slopes of -2 N^2 times that sum in every distance; most controls ask for `one` slope alone."""
    z, at, one = views("z", 1), f"n = {N}, d = 1", slice(N, N + 1)
    near, far = exact.vector("e", N), exact.matrix("d", N, N)
    others = [[j for j in range(N) if j != i] for i in range(N)]
    pairs = [(i, j) for i in range(N) for j in others[i]]
    terms = sum(ALPHA[i, j] * (far[i, j] - near[i]) for i, j in pairs)
    squares = {far[i, j]: _square(z[0][i, :] - z[0][j, :]) for i, j in pairs}
    squares |= {near[i]: _square(z[0][i, :] - z[1][i, :]) for i in range(N)}
    energy = contrast(ALPHA, z, z, own=False).trace() / 2
    kept = contrast(ALPHA, z, z).trace() / 2
    distances = [*near, *(far[p] for p in pairs)]

    def slopes(value: sympy.Expr) -> list[sympy.Expr]:
        return [value.diff(d) for d in distances]

    def softmax(tau: sympy.Expr) -> dict:
        e = (-far / tau).applyfunc(sympy.exp)
        return {ALPHA[i, j]: e[i, j] / sum(e[i, k] for k in others[i]) for i, j in pairs}

    held = slopes(-terms)
    ours = [-2 * N**2 * energy, *slopes(infonce(far, near, 0))]
    sums = [-terms.subs(squares)]
    warm, right = ([v.subs(softmax(tau)) for v in held] for tau in (2 * TAU, TAU))
    nce.proves(
        exact.equal(ours, sums + right),
        breaks={
            "2 tau in alpha": exact.equal(slopes(infonce(far, near, 0))[one], warm[one]),
            "eps = 1 in the loss": exact.equal(slopes(infonce(far, near, 1))[one], right[one]),
            "i = j kept in Eq. 3": exact.equal(-2 * N**2 * kept, sums),
        },
        at=at,
    )
    quadratic_loss = slopes(sum((near[i] - far[i, j] for i, j in pairs), sympy.Integer(0)))
    even = [v.subs(dict.fromkeys(ALPHA.flat(), 1)) for v in held]
    quadratic.proves(
        exact.equal([ours[0], *quadratic_loss], sums + even),
        breaks={"alpha not constant": exact.equal(quadratic_loss[one], held[one])},
        at=at,
    )


def rem25(zero: Part, one: Part) -> None:
    """alpha_ij = -dL/d(d_ij^2) of Eq. 1, by symbols, against the Gaussian of outputs with its rows
    divided by their sums: over j != i for epsilon = 0, over all j for epsilon = 1 and one view."""
    z, at = exact.matrix("z", N, D), SIZES
    near, far = exact.vector("e", N), exact.matrix("d", N, N)
    apart = Matrix(N, N, lambda i, j: _square(z[i, :] - z[j, :]))
    values = dict(zip([*far, *near], [*apart, *sympy.zeros(N, 1)], strict=True))
    kernel, row = (-apart / TAU).applyfunc(sympy.exp), [(0, 1), (0, 2)]

    def alpha(eps: int) -> list[sympy.Expr]:
        loss = infonce(far, near, eps)
        return [-loss.diff(far[p]).subs(values) for p in row]

    raw, all_ = [kernel[p] for p in row], sum(kernel[0, :])
    bare, full = ([k / total for k in raw] for total in (all_ - kernel[0, 0], all_))
    whole = exact.equal(alpha(0)[0], N * raw[0] / (sum(kernel) - kernel.trace()))
    broken = {
        "not normalised": exact.equal(alpha(0)[0], raw[0]),
        "normalised by the whole sum": whole,
        "j = i counted": exact.equal(alpha(0)[0], full[0]),
    }
    zero.proves(exact.equal(alpha(0), bare), breaks=broken, at=f"{at}, one row")
    broken = {"not counted": exact.equal(alpha(1)[0], bare[0])}
    one.proves(exact.equal(alpha(1), full), breaks=broken, at=f"{at}, one row")


# ------------------------------------------------------------------------- kernels and their laws


def _features(n: int, levels: int) -> Matrix:
    """phi >= 0 of n points, one point per row."""
    return Matrix(n, levels, lambda i, j: sympy.Symbol(f"phi_{i}_{j}", nonnegative=True))


def def1(part: Part) -> None:
    """A kernel of features is symmetric, positive semi-definite, and has no negative entry."""
    phi, v, at = _features(N, 2), exact.vector("v", N), f"n = {N}, 2 features"
    alpha = phi * phi.T
    rows = Matrix(N, N, lambda i, j: alpha[i, j] / sum(alpha[i, :]))
    part.proves(
        exact.equal(alpha, alpha.T),
        breaks={"rows normalised": exact.equal(rows, rows.T)},
        at=at,
    )
    form = (v.T * alpha * v)[0]
    squares = sum(v.dot(phi[:, k]) ** 2 for k in range(2))
    part.proves(
        exact.nonnegative(form, squares),
        breaks={"one square for two": exact.nonnegative(form, v.dot(phi[:, 0] + phi[:, 1]) ** 2)},
        at=at,
    )
    loops = [phi[i, 0] * phi[j, 0] + phi[i, 1] * phi[j, 1] for i in range(N) for j in range(N)]
    signed = {phi[0, 0]: -phi[0, 0]}
    other = exact.nonnegative(alpha.subs(signed), [x.subs(signed) for x in loops])
    part.proves(exact.nonnegative(alpha, loops), breaks={"a feature below 0": other}, at=at)


def def2(squares: Part) -> None:
    """sum_l z_l^2, with z_l of Def. 2, is the mean of K over two independent points."""
    phi, p = _features(N, 2), exact.vector("p", N)
    z = [phi[:, k].dot(p) for k in range(2)]
    mean = sum(p[i] * p[j] * phi[i, :].dot(phi[j, :]) for i, j in product(range(N), repeat=2))
    squares.proves(
        exact.equal(sum(x**2 for x in z), mean),
        breaks={"not squared": exact.equal(sum(z), mean)},
        at=f"a law on {N} points, 2 features",
    )


def lem1(kernel: Part, least: Part) -> None:
    """Order k of the map gives (y^T y' / tau)^k / k!; the sum of the series is the Gaussian."""
    d, orders, k = 2, 4, sympy.Symbol("k", integer=True, nonnegative=True)
    v = exact.vector("v", d)
    y, y2 = (Matrix([sympy.Symbol(f"{x}_{i}", nonnegative=True) for i in range(d)]) for x in "yb")

    def listed(g: Matrix, order: int) -> list[sympy.Expr]:
        """Eqs. 20 and 22, all ordered products of this order, without the Gaussian in front."""
        scaled = (g - v) / sympy.sqrt(TAU)
        chosen = product(range(d), repeat=order)
        return [
            sympy.Mul(*(scaled[i] for i in c)) / sympy.sqrt(sympy.factorial(order)) for c in chosen
        ]

    def inner(order: int) -> sympy.Expr:
        pairs = zip(listed(v + y, order), listed(v + y2, order), strict=True)
        return sum((a * b for a, b in pairs), sympy.Integer(0))

    u = y.dot(y2) / TAU
    terms, plain = ([u**j / f(j) for j in range(orders)] for f in (sympy.factorial, lambda _: 1))
    x = sympy.Symbol("x", real=True)
    series = sympy.summation(x**k / sympy.factorial(k), (k, 0, sympy.oo)).subs(x, u)
    shell = sympy.exp(-(y.dot(y) + y2.dot(y2)) / (2 * TAU))
    gaussian = sympy.exp(-(y - y2).dot(y - y2) / (2 * TAU))
    left, at = [inner(j) for j in range(orders)], f"d = {d}, orders below {orders} one by one"
    kernel.proves(
        exact.equal([*left, shell * series], [*terms, gaussian]),
        breaks={
            "no 1/k!": exact.equal(left, plain),
            "tau doubled": exact.equal(shell * series, sympy.sqrt(gaussian)),
        },
        at=at,
    )
    map_, form = [x for j in range(orders) for x in listed(v + y, j)], []
    for j in range(orders):
        scale = TAU ** sympy.Rational(j, 2) * sympy.sqrt(sympy.factorial(j))
        form += [sympy.Mul(*(y[i] for i in c)) / scale for c in product(range(d), repeat=j)]
    above = [x for j in range(orders) for x in listed(v - y, j)]
    least.proves(
        exact.nonnegative(map_, form),
        breaks={"v above g": exact.nonnegative(above, form)},
        at=at,
    )


# --------------------------------------------------------------------- large batches, App. A.1


class World:
    """Points x_0 of a finite law, two views each, features phi of the kernel: a scalar g of every
    view, all symbols. The views of a point have the chances q and 1 - q.

    phi_l p is written z_l times the law of Def. 2, which sums to 1, so that all is polynomial.
    """

    n, levels = 2, 2
    at = "a law on 2 points, 2 views each, 2 features, d = 1"

    def __init__(self) -> None:
        self.phi, self.z = exact.matrix("phi", self.n, self.levels), exact.vector("z", self.levels)
        share = exact.vector("s", self.levels).T
        self.laws = share.col_join(sympy.ones(1, self.levels) - share)
        self.mass = self.laws * sympy.diag(*self.z)  # phi_l p at every point
        self.g, q = exact.matrix("g", self.n, 2), exact.vector("q", self.n)
        self.views = q.row_join(sympy.ones(self.n, 1) - q)

    def pairs(self, within: bool = False, tied: bool = False) -> sympy.Expr:
        """Half the mean of K (g - g')^2 over two samples and a view of each; within: over both
        views of a sample, K summed over the other one; tied: one view twice."""
        total = sympy.Integer(0)
        for i, j, a, b in product(range(self.n), range(self.n), (0, 1), (0, 1)):
            k = i if within else j
            mass = self.mass[i, :].dot(self.mass[j, :]) * self.views[i, a]  # K_ij p_i p_j first
            mass *= int(a == b) if tied else self.views[k, b]
            total += HALF * mass * (self.g[i, a] - self.g[k, b]) ** 2
        return total

    def moments(self, power: int) -> list[sympy.Expr]:
        """E[g^power | x_0] of every point."""
        return [self.views[i, :].dot(self.g[i, :].applyfunc(lambda v: v**power)) for i in (0, 1)]

    def by_levels(self, of: str, power: int = 2) -> sympy.Expr:
        """sum_l z_l^power times a variance under the law of level l, Def. 2: of "g", of "mean"
        E[g | x_0], or the mean variance "within" x_0."""
        means, squares = self.moments(1), self.moments(2)
        raw = [m**2 for m in means] if of == "mean" else squares
        total = sympy.Integer(0)
        columns = [self.laws[:, k] for k in range(self.levels)]
        for law, z in zip(columns, self.z.flat(), strict=True):
            whole = law.dot(raw)
            less = law.dot([m**2 for m in means]) if of == "within" else law.dot(means) ** 2
            total += z**power * (whole - less)
        return total


def eq32(part: Part) -> None:
    """C^inter over all pairs of samples and views is sum_l z_l^2 V_l[g]."""
    world = World()
    inter = world.pairs()
    part.proves(
        exact.equal(inter, world.by_levels("g")),
        breaks={
            "z_l for z_l^2": exact.equal(inter, world.by_levels("g", 1)),
            "variance of the mean only": exact.equal(inter, world.by_levels("mean")),
        },
        at=world.at,
    )
    averaged(part)


def eq41(sums: Part, pairs: Part, intra: Part, total: Part) -> None:
    """Row sums, pairs of views, C^intra, and the law of total variance for what is left."""
    world = World()
    n, g, q, at = world.n, world.g, world.views, world.at
    columns = [sum(world.mass[:, k]) for k in range(world.levels)]  # sum_j phi_l(j) p_j
    rows = [world.phi[i, :].dot(columns) for i in range(n)]  # sum_j K_ij p_j
    levels, bare = ([world.phi[i, :].dot(z) for i in range(n)] for z in (world.z, [1, 1]))
    broken = {"z_l left out": exact.equal(rows, bare)}
    sums.proves(exact.equal(rows, levels), breaks=broken, at=at)
    twice = [
        sum(q[i, a] * q[i, b] * (g[i, a] - g[i, b]) ** 2 for a, b in product((0, 1), repeat=2))
        for i in range(n)
    ]
    moments = zip(world.moments(1), world.moments(2), strict=True)
    variance = [square - mean**2 for mean, square in moments]
    broken = {"no factor 2": exact.equal(twice, variance)}
    pairs.proves(exact.equal(twice, [2 * v for v in variance]), breaks=broken, at=at)
    within, between = world.by_levels("within"), world.by_levels("mean")
    broken = {
        "one view twice": exact.equal(world.pairs(within=True, tied=True), within),
        "z_l for z_l^2": exact.equal(world.pairs(within=True), world.by_levels("within", 1)),
    }
    intra.proves(exact.equal(world.pairs(within=True), within), breaks=broken, at=at)
    averaged(intra)
    broken = {"sum for difference": exact.equal(world.by_levels("g") + within, between)}
    shown = exact.equal(world.by_levels("g") - within, between)
    total.proves(shown, breaks=broken, at=at)


def cor1(kernel: Part, uniform: Part) -> None:
    """One view a sample: C_alpha over all pairs of samples, by the features and for alpha = 1."""
    world, n = World(), World.n
    one = {world.g[i, 1]: world.g[i, 0] for i in range(n)}
    pairs = world.pairs().subs(one)
    levels = world.by_levels("g").subs(one)
    squares = world.g[:, 0].applyfunc(lambda v: v**2)
    moments = sum(world.z[k] ** 2 * world.laws[:, k].dot(squares) for k in range(world.levels))
    at = "a law on 2 points, 2 features, d = 1"
    broken = {"not centred": exact.equal(pairs, moments)}
    kernel.proves(exact.equal(pairs, levels), breaks=broken, at=at)
    # phi = 1 alone: z_0 = 1, and the adjusted law is p itself
    even, p = {world.z[0]: 1, world.z[1]: 0}, world.laws[:, 0]
    pairs, points = pairs.subs(even), world.g[:, 0]
    plain = sum(p[i] * (points[i] - p.dot(points)) ** 2 for i in range(n))
    moment = sum(p[i] * points[i] ** 2 for i in range(n))
    broken = {"not centred": exact.equal(pairs, moment)}
    uniform.proves(exact.equal(pairs, plain), breaks=broken, at="a law on 2 points, d = 1")
    averaged(kernel)
    averaged(uniform)


def eq105(part: Part) -> None:
    """C_alpha of a node's outputs over all pairs of samples and views, by the mean response b."""
    world = World()
    whole = world.pairs() - world.pairs(within=True)
    part.proves(
        exact.equal(whole, world.by_levels("mean")),
        breaks={
            "V of h": exact.equal(whole, world.by_levels("g")),
            "z_l": exact.equal(whole, world.by_levels("mean", 1)),
        },
        at=world.at,
    )
    averaged(part)
