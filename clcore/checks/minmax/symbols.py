"""A batch in symbols: any differentiable phi and psi, any outputs (acl Eqs. 1, 4, 5).

Three samples with outputs in the plane, unless stated otherwise.
"""

from functools import cache
from itertools import permutations
from typing import Any

import sympy
from sympy import Matrix

from clcore.ledger import exact

PHI, PSI = exact.function("phi"), exact.function("psi")
SIZES = "N = 3, n_L = 2"

Views = tuple[list[Matrix], ...]
"""A quantity of every sample's first view, and of its second view."""


class Batch:
    """Outputs z[i], z[i'] and the loss Eq. 1 on them."""

    def __init__(self, views: Views, phi: Any = PHI, psi: Any = PSI):
        self.z, self.z2 = views
        self.n = len(self.z)
        self.phi, self.psi = phi, psi
        self.pairs = list(permutations(range(self.n), 2))

    def intra(self, i: int) -> Any:
        """d_i."""
        return _square(self.z[i] - self.z2[i]) / 2

    def inter(self, i: int, j: int) -> Any:
        """d_ij."""
        return _square(self.z[i] - self.z[j]) / 2

    def xi(self, i: int) -> Any:
        """The argument of phi."""
        others = [j for j in range(self.n) if j != i]
        return sum(self.psi(self.intra(i) - self.inter(i, j)) for j in others)

    def loss(self) -> Any:
        """Eq. 1."""
        return sum(self.phi(self.xi(i)) for i in range(self.n))

    def alpha(self, i: int, j: int) -> Any:
        """Eq. 4."""
        return self.phi.slope(self.xi(i)) * self.psi.slope(self.intra(i) - self.inter(i, j))

    def weights(self) -> Matrix:
        """alpha, with zeros on the diagonal."""
        return Matrix(self.n, self.n, lambda i, j: self.alpha(int(i), int(j)) if i != j else 0)


def _square(v: Matrix) -> Any:
    return sum(x**2 for x in v)


def outputs(n: int = 3, d: int = 2, name: str = "z") -> Views:
    """Free outputs, a symbol each."""
    return tuple([exact.vector(f"{name}{v}{i}", d) for i in range(n)] for v in "ab")


def weights(n: int = 3, name: str = "alpha") -> Matrix:
    """Any weights alpha_ij, zeros on the diagonal."""
    free = exact.matrix(name, n, n)
    return free - sympy.diag(*free.diagonal())


def covariance(alpha: Matrix, a: Views, b: Views, second: int = 1) -> Matrix:
    """C_alpha[a, b], Eq. 5, term by term; `second` is the factor of what the second views add."""
    n = alpha.rows
    total = sympy.zeros(a[0][0].rows, b[0][0].rows)
    for i in range(n):
        beta = sum(alpha[i, j] for j in range(n) if j != i)
        total -= second * beta * (a[0][i] - a[1][i]) * (b[0][i] - b[1][i]).T
        for j in range(n):
            if j != i:
                total += alpha[i, j] * (a[0][i] - a[0][j]) * (b[0][i] - b[0][j]).T
    return total


def energy(alpha: Matrix, z: Views, second: int = 1) -> Any:
    """E_alpha = tr C_alpha[z, z]."""
    return covariance(alpha, z, z, second).trace()


def as_distances(factor: int) -> exact.Shown:
    """Both forms of Eq. 27, the second with this factor."""
    batch, alpha = Batch(outputs()), weights()
    sums = [
        sum(alpha[i, j] * (2 * batch.inter(i, j) - 2 * batch.intra(i)) for i, j in batch.pairs),
        factor * sum(alpha[i, j] * (batch.inter(i, j) - batch.intra(i)) for i, j in batch.pairs),
    ]
    return exact.equal([energy(alpha, (batch.z, batch.z2))] * 2, sums)


def linear(power: int) -> exact.Shown:
    """Whether the energy of r alpha + s alpha' is r times one and s times the other."""
    r, s = sympy.symbols("r s", real=True)
    one, two = weights(), weights(name="gamma")
    raised = (r * one + s * two).applyfunc(lambda a: a**power)
    apart = r * energy(one, outputs()) + s * energy(two, outputs())
    return exact.equal(energy(raised, outputs()), apart)


def gradient(value: Any, by: Any) -> Matrix:
    """d value / d by, a column."""
    return Matrix([sympy.diff(value, x) for x in by])


def held(batch: Batch) -> dict[Any, Any]:
    """The weights alpha of this batch, by the symbols that stand for held ones."""
    pairs = zip(weights(batch.n).flat(), batch.weights().flat(), strict=True)
    return {symbol: value for symbol, value in pairs if symbol != 0}


def theorem1(factor: Any) -> exact.Shown:
    """Whether dL/dz = -factor dE_alpha/dz for the outputs of either view, with alpha held; by the
    chain rule, for any parameter of any network, too. By symmetry one sample's outputs are enough.
    """
    batch = Batch(outputs())
    by = [*batch.z[0], *batch.z2[0]]
    right = gradient(energy(weights(), (batch.z, batch.z2)), by).xreplace(held(batch))
    return exact.equal(gradient(batch.loss(), by), -factor * right)


@cache
def lemma5(sign: int = 1, scalar: bool = False) -> exact.Shown:
    """Lemma 5 for one vector A in the plane per sample, or for a row A (its second form)."""
    z, a = outputs(), outputs(name="a")
    batch, left = Batch(z), sympy.zeros(2, 2)
    for of_z, of_a in zip([*z[0], *z[1]], [*a[0], *a[1]], strict=True):
        left += gradient(batch.loss(), of_z) * of_a.T
    right = covariance(weights(), *((a, z) if scalar else (z, a))).xreplace(held(batch))
    if scalar:
        left, right = left.trace(), right.trace()
    return exact.equal(left, -sign * right)


def energy_slope(factor: int) -> exact.Shown:
    """Whether dE_alpha along a change of the outputs, alpha held, is factor C_alpha[change, z]."""
    z, change, alpha = outputs(), outputs(name="a"), weights()
    steps = zip([*z[0], *z[1]], [*change[0], *change[1]], strict=True)
    total = sum(gradient(energy(alpha, z), at).dot(step) for at, step in steps)
    return exact.equal(total, factor * covariance(alpha, change, z).trace())


def commutes(d: int) -> exact.Shown:
    """Whether C_alpha[x, y] = C_alpha[y, x] for quantities of d entries."""
    x, y = outputs(d=d), outputs(d=d, name="y")
    return exact.equal(covariance(weights(), x, y), covariance(weights(), y, x))


def diagonal(counted: bool) -> exact.Shown:
    """Whether C_alpha over all pairs, i = j among them, is that of i unlike j; counted: alpha_ii
    counted in beta."""
    z, a, full = outputs(), outputs(name="a"), exact.matrix("alpha", 3, 3)
    total = sympy.zeros(2, 2)
    for i in range(3):
        beta = sum(full[i, j] for j in range(3) if counted or j != i)
        total -= beta * (z[0][i] - z[1][i]) * (a[0][i] - a[1][i]).T
        for j in range(3):
            total += full[i, j] * (z[0][i] - z[0][j]) * (a[0][i] - a[0][j]).T
    return exact.equal(total, covariance(full - sympy.diag(*full.diagonal()), z, a))


def gradients(view: int, back: int = 1, sign: int = 1) -> exact.Shown:
    """Eq. 88 (view 0) or 89 (view 1) for one sample; `back` is the factor of the terms with
    alpha_ji."""
    batch, alpha = Batch(outputs()), Batch(outputs()).weights()
    others = range(1, batch.n)
    if view:
        closed = sum((alpha[0, j] * (batch.z2[0] - batch.z[0]) for j in others), sympy.zeros(2, 1))
        by = batch.z2[0]
    else:
        closed = sympy.zeros(2, 1)
        for j in others:
            closed += alpha[0, j] * (batch.z[j] - batch.z2[0])
            closed += back * alpha[j, 0] * (batch.z[j] - batch.z[0])
        by = batch.z[0]
    return exact.equal(gradient(batch.loss(), by), sign * closed)


# ------------------------------------------------------------------------ with free distances


class Distances:
    """Three samples whose distances d_i and d_ij are free: the loss and its alpha by definition."""

    def __init__(self, phi: Any = PHI, psi: Any = PSI):
        self.intra = sympy.symbols("d:3", positive=True)
        self.inter = exact.matrix("d", 3, 3, positive=True)
        self.phi, self.psi = phi, psi

    def loss(self) -> Any:
        """Eq. 1."""
        return sum(self.phi(self.xi(i)) for i in range(3))

    def xi(self, i: int) -> Any:
        """The argument of phi."""
        return sum(self.psi(self.intra[i] - self.inter[i, j]) for j in range(3) if j != i)

    def slopes(self) -> list[Any]:
        """-dL/dd_ij of the first sample with both others, which Eq. 4 calls alpha_ij."""
        return [-sympy.diff(self.loss(), self.inter[0, j]) for j in (1, 2)]


def importance(outer: bool = True) -> exact.Shown:
    """Eq. 4 against -dL/dd_ij; outer: with phi'."""
    d = Distances()
    printed = [
        (PHI.slope(d.xi(0)) if outer else 1) * PSI.slope(d.intra[0] - d.inter[0, j]) for j in (1, 2)
    ]
    return exact.equal(d.slopes(), printed)


def row_sum(transposed: bool = False) -> exact.Shown:
    """beta_i against dL/dd_i."""
    d = Distances()
    pairs = [(1, 0), (2, 0)] if transposed else [(0, 1), (0, 2)]
    beta = sum(-sympy.diff(d.loss(), d.inter[pair]) for pair in pairs)
    return exact.equal(sympy.diff(d.loss(), d.intra[0]), beta)


TAU, EPS = sympy.symbols("tau epsilon", positive=True)


def infonce(eps: Any = 0) -> Distances:
    """phi = tau log(eps + x), psi = exp(x / tau)."""
    return Distances(lambda x: TAU * sympy.log(eps + x), lambda x: sympy.exp(x / TAU))


def softmax(eps: Any, near: bool, scale: Any = 1) -> exact.Shown:
    """alpha of InfoNCE against Eq. 33: its first form, or, near, its second; scale: of eps."""
    d = infonce(eps)
    own = d.intra[0] if not near else 0
    far = [sympy.exp((own - d.inter[0, j]) / TAU) for j in (1, 2)]
    rest = scale * eps * (sympy.exp(-d.intra[0] / TAU) if near else 1)
    return exact.equal(d.slopes(), [f / (rest + sum(far)) for f in far])


def masses(eps: Any, scale: Any = 1) -> exact.Shown:
    """Row sums of InfoNCE's alpha against xi / (xi + eps)."""
    d = infonce(eps)
    return exact.equal(sum(d.slopes()), d.xi(0) / (d.xi(0) + scale * eps))


def separated(eps: Any) -> exact.Shown:
    """The row sum of alpha falls as d_ij grows and as d_i falls, at all distances."""
    d, mass = infonce(eps), sum(infonce(eps).slopes())
    xi = d.xi(0)
    moved = [-sympy.diff(mass, d.inter[0, 1]), sympy.diff(mass, d.intra[0])]
    pull = sympy.exp((d.intra[0] - d.inter[0, 1]) / TAU)
    return exact.positive(moved, [eps * e / TAU / (xi + eps) ** 2 for e in (pull, xi)])


def constant(power: int) -> exact.Shown:
    """alpha against a b, where psi = b x and phi = a x^power."""
    a, b = sympy.symbols("a b", positive=True)
    return exact.equal(Distances(lambda x: a * x**power, lambda x: b * x).slopes(), [a * b] * 2)


def difference(own: int) -> exact.Shown:
    """The loss with linear phi and psi against a b sum (d_i - d_ij); own: the factor of d_i."""
    a, b = sympy.symbols("a b", positive=True)
    d = Distances(lambda x: a * x, lambda x: b * x)
    gap = sum(own * d.intra[i] - d.inter[i, j] for i, j in permutations(range(3), 2))
    return exact.equal(d.loss(), a * b * gap)
